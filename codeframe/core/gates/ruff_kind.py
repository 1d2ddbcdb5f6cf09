"""The ruff gate: `ruff check`, read from its JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from codeframe.core.gates.commands import tool_index, with_options
from codeframe.core.gates.counts import fingerprint
from codeframe.core.gates.kind import Missing, Reading, Tool
from codeframe.core.gates.model import Failure, Gate, GateOutcome
from codeframe.core.gates.project import Project, own_tool
from codeframe.core.gates.signs import sign_of
from codeframe.core.gates.text import clip, normalise, one_line
from codeframe.core.gates.tree import python_files, tail_of
from codeframe.core.safe_read import read_regular

_NAMES = frozenset({"ruff"})
_MAX_REPORT_BYTES = 256 * 1024 * 1024
_MAX_MESSAGE = 2000
# Options of a declared command that would change what we read, or that may be given only once.
_FLAGS = frozenset({"--no-cache", "-n", "--statistics", "--silent", "-s"})
_VALUED = ("--output-format", "--output-file", "-o")


class RuffKind:
    """Runs `ruff check` of the project, or of PATH, or the one that ships with CodeFrame."""

    name = "ruff"
    reruns = False  # the same tree gives the same findings

    def find(self, root: Path) -> Gate | None:
        """Found where there are Python files and the project asks for ruff: a linter it does not use is no
        rule of its (rule 6.1)."""
        why = sign_of(root, "ruff", ("ruff.toml", ".ruff.toml"))
        if not why or next(python_files(root), None) is None:
            return None
        return Gate("ruff", ("ruff", "check"), self.name, why=why)

    def hint(self, root: Path) -> str:
        """How to turn it on, for a project with Python files."""
        if next(python_files(root), None) is None:
            return ""
        return (
            "ruff: not a gate, as nothing here asks for it; to turn it on, add [tool.ruff] to pyproject.toml or "
            "ruff to the development dependencies"
        )

    def recognises(self, argv: tuple[str, ...]) -> bool:
        """`ruff check ...` however it is started; `ruff format` is a command like any other."""
        at = tool_index(argv, _NAMES)
        return at is not None and argv[at + 1 : at + 2] == ("check",)

    def tool(self, gate: Gate, project: Project) -> Tool | Missing:
        """ruff needs no project environment, so that one is never missing when it was found."""
        if gate.declared and gate.command[0] != "ruff":
            program = project.which(gate.command[0])
            if program is None:
                return Missing(f"{gate.command[0]} is not there")
            return Tool(_stripped((program, *gate.command[1:])), "as declared")
        probe = project.probe(project.python, ("ruff",)) if project.via != "PATH" else None
        if probe is not None and probe.modules["ruff"]:
            argv: tuple[str, ...] = (*project.python, "-m", "ruff")
            identity = f"ruff of python {probe.version}"
        elif program := project.which("ruff"):
            argv, identity = (program,), "ruff of PATH"
        else:
            from importlib.metadata import version

            argv, identity = own_tool("ruff"), f"ruff {version('ruff')} of CodeFrame"
        return Tool(_stripped((*argv, *gate.command[1:])), identity)

    def shown(self, gate: Gate, project: Project) -> tuple[str, ...]:
        """Whose ruff it is, only the project's python could tell."""
        return gate.command

    def argv(self, tool: Tool, scratch: Path) -> tuple[str, ...]:
        """JSON into a file of ours, no cache in the tree."""
        report = str(scratch / "ruff.json")
        return with_options(tool.argv, ("--no-cache", "--output-format", "json", "--output-file", report))

    def rerun_argv(
        self, tool: Tool, scratch: Path, failures: tuple[Failure, ...], root: Path
    ) -> tuple[str, ...] | None:
        """Never: see `reruns`."""
        return None

    def read(self, exit_code: int, scratch: Path, output: Path, root: Path) -> Reading:
        """0 is clean, 1 has findings, anything else is ruff's own trouble (ruff's manual, "Exit codes")."""
        if exit_code == 0:
            return Reading(GateOutcome.PASSED)
        tail = tail_of(output)
        if exit_code != 1:
            how = f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with status {exit_code}"
            failure = Failure(f"broke {exit_code}", f"ruff {how}", tail)
            return Reading(GateOutcome.FAILED, (failure,), comparable=False)
        failures = _findings(scratch / "ruff.json", root)
        if not failures:
            words, counts = fingerprint(tail, root)
            failures = (Failure(f"exit 1: {words}", "ruff failed without a finding", tail, counts=counts),)
        return Reading(GateOutcome.FAILED, failures)


def _findings(report: Path, root: Path) -> tuple[Failure, ...]:
    """The findings in ruff's JSON, () when it is not that."""
    try:
        rows = json.loads(read_regular(report, _MAX_REPORT_BYTES).decode("utf-8", "replace"))
        return tuple(_finding(row, root.resolve()) for row in rows)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()


def _finding(row: dict[str, Any], root: Path) -> Failure:
    file = one_line(str(row["filename"]), 1000)
    if os.path.isabs(file):
        file = os.path.relpath(file, root)
    code = one_line(str(row.get("code") or "invalid-syntax"), 80)
    message = one_line(str(row["message"]), _MAX_MESSAGE)
    place = row.get("location") or {}
    return Failure(
        key=f"{code} {file}: {normalise(message, root)}",
        title=f"{code} {file}",
        detail=clip(message),
        location=f"{file}:{int(place.get('row', 0))}",
    )


def _stripped(argv: tuple[str, ...]) -> tuple[str, ...]:
    """`argv` without the options that `argv()` sets itself."""
    kept: list[str] = []
    words = iter(argv)
    for word in words:
        if word in _VALUED:
            next(words, None)
        elif word not in _FLAGS and not word.startswith(tuple(f"{option}=" for option in _VALUED)):
            kept.append(word)
    return tuple(kept)
