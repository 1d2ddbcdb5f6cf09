"""Which gates a project has: what is found in it, or what its configuration declares (rule 6.1)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codeframe.core.errors import UsageError
from codeframe.core.gates.command_kind import CommandKind
from codeframe.core.gates.commands import ASSIGNMENT
from codeframe.core.gates.kind import Kind
from codeframe.core.gates.model import DEFAULT_TIMEOUT_S, Gate
from codeframe.core.gates.pytest_kind import PytestKind
from codeframe.core.gates.ruff_kind import RuffKind

# In the order they run and are asked; the last takes what no other recognises.
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (RuffKind(), PytestKind(), CommandKind())}

_FIELDS = frozenset({"name", "command", "timeout"})
_SHELL_WORDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1"})
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def find_gates(root: Path) -> list[Gate]:
    """The gates the project at `root` (the workspace root) shows by itself."""
    return [gate for kind in KINDS.values() if (gate := kind.find(root))]


def hints(root: Path) -> list[str]:
    """A line for each kind of gate the project at `root` does not show although it could: how to turn it on."""
    return [hint for kind in KINDS.values() if kind.find(root) is None and (hint := kind.hint(root))]


def declared_gates(config: Sequence[Mapping[str, Any]]) -> list[Gate]:
    """The gates in the configuration's `gates:` list.

    An entry has `name`, `command` (a string split like a shell would, or a list of strings) and
    perhaps `timeout` (seconds, or "90s", "15m", "2h"). Raises UsageError naming the bad entry.
    """
    if isinstance(config, str | Mapping) or not isinstance(config, Sequence):
        raise UsageError("`gates` is not a list.", "Write one `- name: ...` with a `command: ...` per gate.")
    gates: list[Gate] = []
    for number, entry in enumerate(config, 1):
        gate = _declared(number, entry)
        if any(gate.name == other.name for other in gates):
            raise UsageError(f"Two gates are named {gate.name!r}.", "Give each gate its own name.")
        gates.append(gate)
    return gates


def _declared(number: int, entry: object) -> Gate:
    if not isinstance(entry, Mapping):
        raise UsageError(f"Gate {number} is not a mapping.", "Give it a `name` and a `command`.")
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"Gate {number} has no name.", "Give it a `name`, for example `name: tests`.")
    label = f"Gate {name!r}"
    if unknown := sorted(str(key) for key in entry.keys() - _FIELDS):
        raise UsageError(f"{label} has an unknown key {unknown[0]!r}.", "Known are name, command, timeout.")
    argv = _argv(label, entry.get("command"))
    timeout_s = _seconds(label, entry.get("timeout", DEFAULT_TIMEOUT_S))
    kind = next(kind.name for kind in KINDS.values() if kind.recognises(argv))
    return Gate(name.strip(), argv, kind, timeout_s, declared=True)


def _argv(label: str, command: object) -> tuple[str, ...]:
    if isinstance(command, str):
        try:
            argv = tuple(shlex.split(command))
        except ValueError as error:
            raise UsageError(
                f"{label}: the command cannot be split: {error}.", "Check its quotes."
            ) from error
        if _SHELL_WORDS.intersection(argv):
            hint = f"Write it as a list: {['sh', '-c', command]}"
            raise UsageError(f"{label}: the command needs a shell, and gates run without one.", hint)
        if argv and ASSIGNMENT.match(argv[0]):
            raise UsageError(f"{label}: the command starts with a variable.", f"Write `env {command}`.")
    elif isinstance(command, Sequence) and all(isinstance(word, str) for word in command):
        argv = tuple(command)
    else:
        argv = ()
    if not argv or not argv[0]:
        raise UsageError(
            f"{label} has no command.", "Give it a `command`, for example `command: pytest -x tests`."
        )
    return argv


def _seconds(label: str, value: object) -> float:
    seconds = 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        seconds = float(match[1]) * _SECONDS[match[2]]
    if not 0 < seconds < float("inf"):
        raise UsageError(f"{label}: {value!r} is not a timeout.", "Write seconds, or 90s, 15m, 2h.")
    return seconds
