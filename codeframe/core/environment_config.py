"""What can be configured: the keys, their defaults, how a value is read, and what may be wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from codeframe.core.budget import SCOPES
from codeframe.core.durations import parse_duration
from codeframe.core.engine_definition import EngineDefinition, problem_in
from codeframe.core.errors import UsageError

ALIAS = "default_engine"  # of `engine`
GATES_EXAMPLE = "[{name: unit, command: pytest -q, timeout: 10m}]"
BUDGET_EXAMPLE = "{run: {tokens: 500000}, workspace: {cost: 20}}"
ENGINES_EXAMPLE = '{my-agent: {command: [my-agent, run, "{prompt_file}"]}}'
ARGUMENTS_EXAMPLE = "{my-agent: [--effort, high]}"
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass
class EnvironmentConfig:
    """What a person configured; `validate` says what is wrong with it.

    Durations stay as they were typed (`900`, "15m"; see durations.py). `gates` is None when they
    are to be found, else a list of {"name": str, "command": str or list of str, and, if
    wanted, "timeout": duration}. `engines` maps the name of a declared engine to its definition (see
    engine_definition.py), `engine_args` that of an engine to arguments for its command line, `budget` "run", "task" or
    "workspace" to {"tokens": int, "cost": US dollars}, both optional. `unknown` keeps keys that have no meaning
    here, to report them.
    """

    engine: str | None = None
    model: str | None = None
    engines: dict[str, dict[str, Any]] | None = None
    engine_args: dict[str, list[str]] | None = None
    gates: list[dict[str, Any]] | None = None
    require_gates: bool = False
    strict: bool = False
    integrity: str = "report"
    timeout: str | int | float | None = None
    stall_timeout: str | int | float | None = None
    max_corrections: int = 3
    stall_action: str = "blocker"
    autonomy: str = "workspace"
    network: str = "on"
    fallback: list[str] | None = None
    wait_for_quota: str | int | float | None = None
    budget: dict[str, dict[str, Any]] | None = None
    tech_stack: str | None = None
    unknown: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def timeout_s(self) -> float | None:
        """`timeout` in seconds."""
        return None if self.timeout is None else parse_duration(self.timeout)

    @property
    def stall_timeout_s(self) -> float | None:
        """`stall_timeout` in seconds."""
        return None if self.stall_timeout is None else parse_duration(self.stall_timeout)

    @property
    def wait_for_quota_s(self) -> float | None:
        """`wait_for_quota` in seconds."""
        return None if self.wait_for_quota is None else parse_duration(self.wait_for_quota)

    def limits(self, scope: str) -> Mapping[str, Any]:
        """What `budget` says of a scope."""
        return (self.budget or {}).get(scope) or {}

    def declared_engines(self) -> dict[str, EngineDefinition]:
        """What `engines` declares, by name. For a configuration that `validate` found nothing wrong with."""
        return {name: EngineDefinition.of(name, data) for name, data in (self.engines or {}).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EnvironmentConfig:
        """The configuration in `data`, whatever its values are; None stands for the default.

        `default_engine` counts as `engine`.
        """
        config = cls()
        for key, value in data.items():
            if key == ALIAS and (value is None or data.get("engine") in (None, value)):
                key = "engine"
            if key not in KEYS:
                config.unknown[str(key)] = value
            elif value is not None:
                setattr(config, key, _CONVERT[key](value) if key in _CONVERT else value)
        return config

    def to_dict(self) -> dict[str, Any]:
        """What differs from the defaults, as `from_dict` reads it."""
        changed = {key: getattr(self, key) for key in KEYS if getattr(self, key) != DEFAULTS[key]}
        return changed | self.unknown

    def validate(self) -> list[str]:
        """One sentence for each thing that is wrong; empty when all is well."""
        sentences = []
        for key in KEYS:
            value = getattr(self, key)
            if value is not None or DEFAULTS[key] is not None:
                problem = _CHECK[key](value)
                if problem:
                    instead = f", not {_shown(value)}" if problem.startswith("has to be") else ""
                    sentences.append(f"`{key}` {problem}{instead}.")
        for key, value in self.unknown.items():
            if key == ALIAS:
                sentences.append(
                    f"`engine` ({_shown(self.engine)}) and `{ALIAS}` ({_shown(value)}) are the same"
                    " key and differ."
                )
            else:
                sentences.append(f"`{key}` is not a key of the configuration.{nearest(key)}")
        return sentences


KEYS = tuple(f.name for f in fields(EnvironmentConfig) if f.name != "unknown")
DEFAULTS = {f.name: f.default for f in fields(EnvironmentConfig) if f.default is not MISSING}


# How values are read. `yes` and `off` reach us as text from our own loader, as booleans from others.


def to_bool(value: Any) -> Any:
    """The boolean that `value` is, or is a word for; anything else as it is."""
    if isinstance(value, str) and value.lower() in _TRUE + _FALSE:
        return value.lower() in _TRUE
    return value


def _to_switch(value: Any) -> Any:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _to_names(value: Any) -> Any:
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


_CONVERT: Mapping[str, Callable[[Any], Any]] = {
    "fallback": _to_names,
    "require_gates": to_bool,
    "strict": to_bool,
    "network": _to_switch,
}


# What is wrong with a value, as the end of the sentence "`key` ..., not VALUE."; "" when nothing is.


def _text(value: Any) -> str:
    return "" if isinstance(value, str) and value.strip() else "has to be text (put it in quotes)"


def _boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else "has to be true or false"


def _whole_number(value: Any) -> str:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1000
    return "" if good else "has to be a whole number from 0 to 1000"


def _duration(value: Any) -> str:
    try:
        if isinstance(value, str | int | float):
            parse_duration(value)
            return ""
    except UsageError:
        pass
    return "has to be a duration like 90, 90s, 15m or 2h"


def _one_of(*words: str) -> Callable[[Any], str]:
    return lambda value: "" if value in words else f"has to be {' or '.join(words)}"


def _gates(value: Any) -> str:
    problem = f"has to be a list like {GATES_EXAMPLE}, where timeout is optional"
    if not isinstance(value, list):
        return problem
    for at, gate in enumerate(value, start=1):
        if lacks := _lacks(gate):
            named = f"`{name}`" if (name := _name_of(gate)) else f"number {at}"
            return f"has to give gate {named} {lacks}, like {GATES_EXAMPLE}"
    names = [gate["name"] for gate in value]
    if not all(map(_good_gate_name, names)):
        return (
            "has to give each gate a name of one line and at most 60 characters, without two spaces or “: ”"
        )
    return "has to give each gate a name of its own" if len(set(names)) < len(names) else ""


def _names(value: Any) -> str:
    if not isinstance(value, list):
        return "has to be a list of engines like [one, another]"
    if not value or any(map(_text, value)):
        return "has to name engines, like [one, another]"
    return "" if len(set(value)) == len(value) else "has to name each engine once"


def _budget(value: Any) -> str:
    problem = f"has to be a mapping like {BUDGET_EXAMPLE}, of run, task and workspace, each with tokens, cost or both"
    if not isinstance(value, dict):
        return problem
    if not value or not set(value) <= set(SCOPES):
        return f"has to name run, task or workspace, like {BUDGET_EXAMPLE}"
    for limits in value.values():
        if not isinstance(limits, dict) or not limits or not set(limits) <= {"tokens", "cost"}:
            return f"has to give each of them tokens, cost or both, like {BUDGET_EXAMPLE}"
        if not all(is_amount(limit, whole=key == "tokens") for key, limit in limits.items()):
            return "has to give amounts above 0: whole numbers for tokens, US dollars for cost"
    return ""


def is_amount(value: Any, *, whole: bool) -> bool:
    """Whether it is a number above 0 and finite."""
    kinds = int if whole else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and 0 < value < 1e15


def _engines(value: Any) -> str:
    if not isinstance(value, dict):
        return f"has to be a mapping like {ENGINES_EXAMPLE}"
    found = next(filter(None, (problem_in(name, data) for name, data in value.items())), "")
    return f"has to give {found}" if found else ""


def _arguments(value: Any) -> str:
    good = isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(words, list) and all(isinstance(w, str) and w for w in words)
        for name, words in value.items()
    )
    if good and not any("\0" in word for words in value.values() for word in words):
        return ""
    return f"has to be a mapping of engines to lists of texts (numbers in quotes), like {ARGUMENTS_EXAMPLE}"


def _good_gate_name(name: Any) -> bool:
    """Whether the text can stand in a list without being taken for more than a name (rule 9.1)."""
    return len(name) <= 60 and name.isprintable() and "  " not in name and ": " not in name


def _name_of(gate: Any) -> str:
    """The name of a gate that is declared wrongly, where it has one that can be shown."""
    name = gate.get("name") if isinstance(gate, dict) else None
    return name if isinstance(name, str) and name.strip() and _good_gate_name(name) else ""


def _lacks(gate: Any) -> str:
    """What a declared gate has to be given; "" for nothing."""
    if not isinstance(gate, dict):
        return "a name and a command"
    if _text(gate.get("name")):
        return "a name"
    command = gate.get("command")
    words: Iterable[Any] = command if isinstance(command, list) else [command]
    if not command or not all(isinstance(word, str) and word.strip() for word in words):
        return "a command"
    if "timeout" in gate and _duration(gate["timeout"]):
        return "a timeout that is a duration"
    return "" if set(gate) <= {"name", "command", "timeout"} else "nothing but name, command and timeout"


_CHECK: Mapping[str, Callable[[Any], str]] = {
    "engine": _text,
    "model": _text,
    "engines": _engines,
    "engine_args": _arguments,
    "gates": _gates,
    "require_gates": _boolean,
    "strict": _boolean,
    "integrity": _one_of("report", "block"),
    "timeout": _duration,
    "stall_timeout": _duration,
    "max_corrections": _whole_number,
    "stall_action": _one_of("retry", "blocker", "fail"),
    "autonomy": _one_of("workspace", "full"),
    "network": _one_of("on", "off"),
    "fallback": _names,
    "wait_for_quota": _duration,
    "budget": _budget,
    "tech_stack": _text,
}


def _shown(value: Any) -> str:
    """A value for an error: whole where it is a short scalar, never a structure of unknown size."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(key: str) -> str:
    """A sentence that names the key somebody may have meant by `key`; "" for none."""
    import difflib

    close = difflib.get_close_matches(key, KEYS, n=1)
    return f" Did you mean `{close[0]}`?" if close else ""
