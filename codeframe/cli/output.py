"""How things are printed: plain columns, JSON, and text that can never act on the terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

# Control characters and bidirectional overrides: a title or an engine's output must never move the
# cursor, recolour the screen or reorder what is read (rule 10.3).
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def clean(text: str, *, lines: bool = False) -> str:
    """`text` without escapes and control characters; newlines and tabs stay only with `lines`."""
    text = _SURROGATE.sub("\ufffd", _CONTROL.sub("", _ESCAPE.sub("", text)))
    return text if lines else text.replace("\n", " ").replace("\t", " ")


def say(text: str = "") -> None:
    """A result line, on stdout."""
    print(clean(text, lines=True))


def note(text: str) -> None:
    """A progress line, on stderr (rule 10.2). That nobody reads it any more is no reason to end."""
    try:
        print(clean(text, lines=True), file=sys.stderr, flush=True)
    except OSError:
        # Elsewhere from now on, so that the interpreter's own flush at exit does not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def colour(text: str, name: str) -> str:
    """`text` in a colour where stdout is a terminal that wants colours, else unchanged."""
    codes = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "dim": "2", "bold": "1"}
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{codes[name]}m{text}\x1b[0m"


def columns(rows: Iterable[Sequence[str]], header: Sequence[str] | None = None) -> None:
    """Rows as aligned plain columns on stdout, two spaces apart, the last one unpadded."""
    table = [[clean(cell) for cell in row] for row in rows]
    if header is not None:
        table.insert(0, [h.upper() for h in header])
    if not table:
        return
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    out = []
    for row in table:
        out.append("  ".join(c.ljust(w) for c, w in zip(row[:-1], widths[:-1], strict=True)))
        out[-1] = (out[-1] + "  " + row[-1] if len(row) > 1 else row[-1]).rstrip()
    print("\n".join(out))


def emit_json(value: Any) -> None:
    """`value` as JSON on stdout; datetimes as ISO 8601 UTC, enums as their values."""
    print(json.dumps(value, indent=2, default=_plain, ensure_ascii=True))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, frozenset | set | tuple):
        return list(value)
    raise TypeError(f"not JSON: {type(value).__name__}")


def ago(moment: datetime) -> str:
    """How long ago, in one word: 42s, 5m, 3h, 2d. Never negative (the clock may have been set back)."""
    from codeframe.core.models import utc_now

    seconds = max(0, int((utc_now() - moment).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
