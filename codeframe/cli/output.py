"""How things are printed: plain columns, JSON, and text that can never act on the terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

# Control characters and bidirectional overrides: a title or an engine's output must never move the
# cursor, recolour the screen or reorder what is read (rule 10.3).
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
_ESCAPE = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, the cursor
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # the window's title, links
    r"|\x1b.?"
)
_SURROGATE = r"[\ud800-\udfff]"

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "bold": "1"}
_NARROWEST = 20  # columns that the last cell of a row always gets
STATUS_COLOURS = {
    "DONE": "green", "COMPLETED": "green", "passed": "green", "IN_PROGRESS": "blue", "RUNNING": "blue",
    "BLOCKED": "yellow", "STOPPED": "yellow", "OPEN": "yellow", "FAILED": "red", "TIMEOUT": "red",
}  # fmt: skip
# What begins a line about a run: ours, the engine's words, a command, a file, an error; "." for anything else.
MARKS = {"cf": "=", "output": ">", "command_run": "$", "file_changed": "~", "error": "!"}


def clean(text: str, *, lines: bool = False) -> str:
    """`text` without escapes and control characters; newlines and tabs stay only with `lines`."""
    if text.isprintable():  # as nearly every text is: none of the characters in question
        return text
    text = re.sub(_SURROGATE, "\ufffd", re.sub(_CONTROL, "", re.sub(_ESCAPE, "", text)))
    return text if lines else text.replace("\n", " ").replace("\t", " ")


def say(text: str = "", colour: str = "") -> None:
    """A result line, on stdout."""
    print(_painted(clean(text, lines=True), colour))


def note(text: str) -> None:
    """A progress line, on stderr (rule 10.2). That nobody reads it any more is no reason to end.

    What was printed before stands before it, where both go to one file.
    """
    with suppress(OSError, ValueError):  # what stdout has is told at its own next line, or at the end
        sys.stdout.flush()
    try:
        print(clean(text, lines=True), file=sys.stderr, flush=True)
    except OSError:
        # Elsewhere from now on, so that the interpreter's own flush at exit does not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def verbatim(data: bytes, *, patch: bool = False) -> None:
    """Text that others wrote, on stdout: exactly these bytes, but cleaned (a `patch` coloured) on a terminal."""
    if not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    marks = {"+": "green", "-": "red", "@": "cyan"} if patch else {}
    for line in data.decode("utf-8", "replace").removesuffix("\n").split("\n"):
        say(line, marks.get(line[:1], ""))


def somebody_reads() -> bool:
    """Whether stdout still has a reader, for commands that may have nothing to print for long."""
    import select

    asked = select.poll()
    asked.register(sys.stdout.fileno(), 0)
    return not any(state & (select.POLLERR | select.POLLHUP) for _, state in asked.poll(0))


def columns(rows: Iterable[Sequence[str]], header: Sequence[str] | None = None) -> None:
    """Rows as aligned plain columns on stdout, two spaces apart, the last one unpadded.

    On a terminal states are coloured and a row that is too long is cut to one line.
    """
    table = [[clean(cell) for cell in row] for row in rows]
    if header is not None:
        table.insert(0, [h.upper() for h in header])
    if not table:
        return
    import shutil

    widths = [max(_width(row[i]) for row in table) for i in range(len(table[0]) - 1)]
    room = max(shutil.get_terminal_size().columns - sum(widths) - 2 * len(widths), _NARROWEST)
    on_terminal = sys.stdout.isatty()  # asked once: there may be many rows
    for row in table:
        cells = [
            (_painted(c, STATUS_COLOURS.get(c, "")) if on_terminal else c) + " " * (w - _width(c))
            for c, w in zip(row[:-1], widths, strict=True)
        ]
        last = _cut(row[-1], room) if on_terminal else row[-1]
        print("  ".join([*cells, last]).rstrip())


def emit_json(value: Any) -> None:
    """`value` as JSON on stdout; datetimes as ISO 8601 UTC, enums as their values."""
    import json

    print(json.dumps(value, indent=2, default=_plain, ensure_ascii=True))


def ago(moment: datetime) -> str:
    """How long ago, in one word: 42s, 5m, 3h, 2d. Never negative (the clock may have been set back)."""
    from codeframe.core.models import utc_now

    seconds = max(0, int((utc_now() - moment).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset | set | tuple):
        return list(value)
    raise TypeError(f"not JSON: {type(value).__name__}")


def _painted(text: str, colour: str) -> str:
    """`text` in a colour where stdout is a terminal that wants colours, else unchanged."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colour and text and not plain else text


def _width(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    import unicodedata

    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    taken = 0
    for at, character in enumerate(text):
        taken += _cells(character)
        if taken > width - 1:
            return text[:at] + "…"
    return text
