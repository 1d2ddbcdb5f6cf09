"""An engine somebody declares (`engines:` in the configuration): which command it is and what its words mean."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from codeframe.core.durations import parse_duration
from codeframe.core.errors import UsageError
from codeframe.core.models import ErrorClass

# A word of a command, or several that stand or fall together.
Word = str | list[str]

PLACEHOLDERS = ("prompt_file", "workspace", "model", "session", "scratch")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDER = re.compile(rf"\{{({'|'.join(PLACEHOLDERS)})\}}")
_USAGE = ("input", "output", "cost", "model")
COMMAND_EXAMPLE = '[my-agent, run, [--model, "{model}"], "{prompt_file}"]'


class EngineDefinition(NamedTuple):
    """One entry of `engines:`; what each key means is in docs/engines/custom.md.

    `events` holds paths into JSON objects (`a.b.c`) and conditions on them ({path: value}). `data` is all
    of it as it was written.
    """

    name: str
    data: Mapping[str, Any]
    command: tuple[Word, ...]
    resume_command: tuple[Word, ...] = ()
    output: str = "text"
    report: str = "fenced"
    prompt_prefix: str = ""
    env: Mapping[str, str] = {}
    stall_timeout: str | int | float | None = None
    first_event_timeout: str | int | float | None = None
    errors: Mapping[str, str] = {}
    events: Mapping[str, Any] = {}
    project_config: tuple[str, ...] = ()
    description: str = ""
    install: str = ""
    login: str = ""
    tested: str = ""

    @classmethod
    def of(cls, name: str, data: Mapping[str, Any]) -> EngineDefinition:
        """The definition in `data`, which `problem_in` found nothing wrong with."""
        given: dict[str, Any] = {
            key: tuple(v) if isinstance(v, list) else v for key, v in data.items() if v is not None
        }
        return cls(name, data, **given)

    def shown(self) -> str:
        """All of it in one line, for who has to trust it."""
        return json.dumps(self.data, ensure_ascii=False)

    def uses(self, placeholder: str) -> bool:
        """Whether the command has `{placeholder}` in it."""
        return says(self.command, placeholder)


def says(words: Iterable[Any], placeholder: str) -> bool:
    """Whether `{placeholder}` is in one of the words."""
    return any(
        f"{{{placeholder}}}" in part for word in words for part in ([word] if isinstance(word, str) else word)
    )


def filled(words: tuple[Word, ...], values: Mapping[str, str | None]) -> tuple[str, ...]:
    """The arguments that `words` come to. One with a placeholder that has no value is left out, and so is a
    group of which one is left out. Nothing is ever split, and what a value holds is not looked into."""
    argv: list[str] = []
    for word in words:
        group = [word] if isinstance(word, str) else word
        if all(values.get(name) is not None for part in group for name in _PLACEHOLDER.findall(part)):
            argv += [_PLACEHOLDER.sub(lambda found: values[found[1]] or "", part) for part in group]
    return tuple(argv)


def problem_in(name: object, data: object) -> str:
    """What is wrong with an entry, as the end of the sentence "`engines` has to give ..."; "" for nothing."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return "each engine a name of at most 40 small letters, digits, dots and hyphens"
    if not isinstance(data, dict) or "command" not in data:
        return f"`{name}` a command, like {{command: {COMMAND_EXAMPLE}}}"
    for key, value in data.items():
        if key not in _CHECK:
            import difflib

            near = difflib.get_close_matches(str(key), _CHECK, n=1)
            return f"`{name}` keys it knows: there is no `{key}`" + (
                f" (did you mean `{near[0]}`?)" * bool(near)
            )
        if value is not None and (wanted := _CHECK[key](value)):
            return f"`{name}.{key}` as {wanted}"
    session = (data.get("events") or {}).get("session") or says(data["command"], "session")
    if data.get("resume_command") and not session:
        return f"`{name}.resume_command` a session: `events.session`, or {{session}} in `command`"
    return ""


# What a value has to be, in words; "" when it is that.


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _text(value: object) -> str:
    return "" if _is_text(value) else "text (put it in quotes)"


def _prefix(value: object) -> str:
    return "" if isinstance(value, str) and "\0" not in value else "text (put it in quotes)"


def _command(value: object) -> str:
    good = isinstance(value, list) and bool(value) and isinstance(value[0], str)
    good = good and all(_is_text(w) or (isinstance(w, list) and w and all(map(_is_text, w))) for w in value)  # type: ignore[attr-defined]
    return "" if good else f"a list of words like {COMMAND_EXAMPLE}"


def _resume(value: object) -> str:
    if wanted := _command(value):
        return wanted
    return (
        ""
        if isinstance(value, list) and says(value, "session")
        else "a list of words with {session} in one of them"
    )


def _texts(value: object) -> str:
    return "" if isinstance(value, list) and all(map(_is_text, value)) else "a list of texts"


def _env(value: object) -> str:
    good = isinstance(value, dict) and all(
        isinstance(k, str) and _VARIABLE.fullmatch(k) and not k.startswith("CODEFRAME_") and _prefix(v) == ""
        for k, v in value.items()
    )
    return "" if good else "a mapping like {NAME: text}, without names that begin with CODEFRAME_"


def _duration(value: object) -> str:
    try:
        if isinstance(value, str | int | float):
            parse_duration(value)
            return ""
    except UsageError:
        pass
    return "a duration like 90, 90s, 15m or 2h"


def _one_of(*words: str) -> Callable[[object], str]:
    return lambda value: "" if value in words else " or ".join(words)


def _errors(value: object) -> str:
    try:
        if isinstance(value, dict) and all(map(_is_text, value.values())):
            for name, pattern in value.items():
                ErrorClass(name)
                re.compile(pattern)
            return ""
    except (ValueError, re.error):
        pass
    return f"a mapping of classes to patterns; classes are {', '.join(ErrorClass)}"


def _condition(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) and _condition(one) for one in value)
    return (
        isinstance(value, dict)
        and bool(value)
        and all(_is_text(path) and isinstance(wanted, str | int | float) for path, wanted in value.items())
    )


def _events(value: object) -> str:
    if not isinstance(value, dict):
        return f"a mapping of some of {', '.join(_EVENTS)}"
    for key, given in value.items():
        if key not in _EVENTS:
            return f"a mapping of some of {', '.join(_EVENTS)}; there is no `{key}`"
        if not _EVENTS[key](given):
            return f"a mapping whose `{key}` is {_SHAPES[_EVENTS[key]]}"
    if ("request" in value) != ("answer" in value):
        return "a mapping with both of `request` and `answer`, or neither"
    return ""


def _usage(value: object) -> bool:
    return isinstance(value, dict) and set(value) <= set(_USAGE) and all(map(_is_text, value.values()))


_EVENTS: Mapping[str, Callable[[object], bool]] = {
    "text": _is_text,
    "session": _is_text,
    "usage": _usage,
    "success": _condition,
    "failure": _condition,
    "error": _is_text,
    "request": _condition,
    "answer": _condition,
}
_SHAPES: Mapping[Callable[[object], bool], str] = {
    _is_text: "a path like a.b.c",
    _usage: f"a mapping of some of {', '.join(_USAGE)} to paths like a.b.c",
    _condition: "a mapping of paths to values, like {type: done}, or a list of such",
}

_CHECK: Mapping[str, Callable[[object], str]] = {
    "command": _command,
    "resume_command": _resume,
    "output": _one_of("text", "jsonl"),
    "report": _one_of("fenced", "line"),
    "prompt_prefix": _prefix,
    "env": _env,
    "stall_timeout": _duration,
    "first_event_timeout": _duration,
    "errors": _errors,
    "events": _events,
    "project_config": _texts,
    "description": _text,
    "install": _text,
    "login": _text,
    "tested": _text,
}
