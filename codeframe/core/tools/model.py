"""What a tool is: its words for the model, the check of what the model gives it, what comes back."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class ToolError(Exception):
    """A tool cannot do what was asked; the text tells the model why and what to do instead."""


class ToolResult(NamedTuple):
    """What a tool answers. `change` is (path relative to the workspace, "created" or "modified")."""

    text: str
    is_error: bool = False
    change: tuple[str, str] | None = None


@dataclass(frozen=True)
class Surroundings:
    """Where tools work.

    `workspace` is absolute. `env` is the whole environment of commands, `marker` begins the markers of
    their processes. `cancel` ends a command at once, `left_s()` is the time left in seconds. `checks` are
    the lines that describe the project's gates ("name: command"). `survivors` fills with what commands left
    running, a line for each process that was ended.
    """

    workspace: Path
    env: Mapping[str, str]
    marker: str
    cancel: threading.Event
    left_s: Callable[[], float]
    checks: Sequence[str] = ()
    survivors: list[str] = field(default_factory=list, compare=False)
    _launches: Iterator[int] = field(default_factory=lambda: itertools.count(1), compare=False)

    def next_marker(self) -> str:
        """A marker no other process has."""
        return f"{self.marker}-{next(self._launches)}"


class Tool(NamedTuple):
    """`parameters` maps a name to its JSON schema; `run` gets the checked input. `telling` is the parameter
    that says in a word what a call is about."""

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]
    run: Callable[[Mapping[str, Any]], ToolResult]
    telling: str = ""

    @property
    def spec(self) -> dict[str, Any]:
        """The tool as the model is told of it."""
        schema = {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.parameters.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }
        return {"name": self.name, "description": self.description, "input_schema": schema}


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
}


def wrong_input(schema: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    """What is wrong with `given` by `schema`, as a sentence; None when nothing is.

    Knows what our tools use: an object of strings, integers (with minimum and maximum), booleans, enums
    and lists of strings.
    """
    known: Mapping[str, Mapping[str, Any]] = schema["properties"]
    if missing := [name for name in schema.get("required", ()) if name not in given]:
        return f"{missing[0]!r} is missing. Parameters: {', '.join(known)}."
    for name, value in given.items():
        if name not in known:
            if schema.get("additionalProperties", True):
                continue
            return f"there is no parameter {name!r}. Parameters: {', '.join(known)}."
        if problem := _wrong_value(known[name], value):
            return f"{name!r} {problem}."
    return None


def _wrong_value(schema: Mapping[str, Any], value: object) -> str | None:
    kind = schema["type"]
    is_kind = isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not is_kind:
        return f"must be of type {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(schema['enum'])}"
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        return "must hold strings only"
    if isinstance(value, int) and kind == "integer":
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            return f"must be between {low} and {high}" if high != value else f"must be at least {low}"
    return None
