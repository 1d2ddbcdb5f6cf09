"""What each column may hold, what it is in a model, and what a rescue puts in place of a damaged value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from codeframe.core.models import (
    BlockerStatus,
    ErrorClass,
    Leftover,
    RunKind,
    RunStatus,
    TaskStatus,
    TokenUsage,
    utc_now,
)

LARGEST_PRIORITY = 1_000_000
_HEX = re.compile(r"[0-9a-f]+").fullmatch


class Garbled(str):
    """Text of the database that is not UTF-8, as far as it can be read."""


def decode(data: bytes) -> str:
    """SQLite's text as ours: `Garbled` where it is damaged, so that the rest of the row can still be read."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Garbled(data.decode("utf-8", "replace"))


class Column(NamedTuple):
    """`read` turns what is stored into a part of a model; it raises ValueError or TypeError for what CodeFrame
    never stores. `mend` turns such a value into one to go on with; without it the row is of no use."""

    read: Callable[[Any], Any]
    mend: Callable[[Any], Any] | None = None

    def check(self, value: Any) -> Any:
        """What `read` makes of it; ValueError or TypeError for garbled text too."""
        if isinstance(value, Garbled):
            raise ValueError("not UTF-8")
        return self.read(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _readable(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _id(value: Any) -> str:
    if not _HEX(value):
        raise ValueError("no id")
    return value  # type: ignore[no-any-return]


def _other_id(value: Any) -> str:
    """The same for the same damaged id."""
    import hashlib

    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError("no count")
    return value


def _priority(value: Any) -> int:
    if not isinstance(value, int) or abs(value) > LARGEST_PRIORITY:
        raise ValueError("no priority")
    return value


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.utcoffset() is None:
        raise ValueError("no time in UTC")
    return moment


def _object(value: Any) -> dict[str, Any]:
    found = json.loads(value)
    if not isinstance(found, dict):
        raise TypeError("no JSON object")
    return found


def _usage(value: Any) -> TokenUsage:
    usage = TokenUsage(**_object(value))
    usage + TokenUsage()  # TypeError unless all are numbers
    return usage


def _blob(value: Any) -> str:
    import zlib

    try:
        return zlib.decompress(value).decode()
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _or_none(column: Column) -> Column:
    read = column.read
    return Column(lambda value: None if value is None else read(value), lambda value: None)


_TEXT = Column(_text, _readable)
_NOTE = _or_none(_TEXT)._replace(mend=_readable)
_ID = Column(_id, _other_id)
_NO_ID = _or_none(_ID)
_COUNT = Column(_count, lambda value: 0)
_WHEN = Column(_moment, lambda value: utc_now().isoformat(timespec="microseconds"))
_JSON = Column(_object, lambda value: "{}")

COLUMNS: Mapping[str, Mapping[str, Column]] = {
    "tasks": {
        "id": _ID, "title": _TEXT, "description": _TEXT, "engine": _or_none(_TEXT),
        "status": Column(TaskStatus, lambda value: TaskStatus.BACKLOG),
        "priority": Column(_priority, lambda value: 0),
        "depends_on": Column(lambda value: tuple(value.split(",")) if value else ()),  # of another table
        "created_at": _WHEN, "updated_at": _WHEN,
    },
    "dependencies": {"position": _COUNT, "task_id": _ID, "depends_on": _ID},
    "runs": {
        "id": _ID, "task_id": _ID, "engine": _TEXT, "previous_run_id": _NO_ID, "engine_why": _TEXT,
        "status": Column(RunStatus, lambda value: RunStatus.FAILED),
        "kind": Column(RunKind, lambda value: RunKind.START),
        "attempt": Column(_count),
        "model": _or_none(_TEXT), "session_id": _or_none(_TEXT), "rounds": _COUNT,
        "base": _NO_ID, "end": _NO_ID,
        "leftover": Column(Leftover, lambda value: Leftover.PENDING),  # there may be some
        "verification": _or_none(_TEXT), "error_class": _or_none(Column(ErrorClass)), "error": _NOTE,
        "summary": _TEXT, "usage": Column(_usage, lambda value: "{}"), "duration_ms": _COUNT,
        "options": _JSON, "evidence": _JSON, "process": _JSON,
        "stop_requested_at": _or_none(_WHEN), "started_at": _WHEN, "ended_at": _or_none(_WHEN),
    },
    "rounds": {"run_id": _ID, "round": Column(_count), "record": Column(_object)},
    "blockers": {
        "id": _ID, "task_id": _ID, "run_id": _NO_ID, "question": _TEXT, "kind": _TEXT,
        "status": Column(BlockerStatus, lambda value: BlockerStatus.OPEN), "answer": _NOTE,
        "created_at": _WHEN, "answered_at": _or_none(_WHEN),
    },
    "events": {
        "seq": _COUNT, "run_id": _NO_ID, "task_id": _NO_ID, "type": _TEXT, "message": _TEXT,
        "metadata": _JSON, "created_at": _WHEN,
    },
    "prds": {"position": _COUNT, "id": _ID, "title": _TEXT, "content": _TEXT, "created_at": _WHEN},
    "baselines": {"key": Column(_text), "result": Column(_blob)},
}  # fmt: skip


def damaged(table: str, row: Mapping[str, Any]) -> list[str]:
    """The columns of a row whose values CodeFrame never stored."""
    found = []
    for name, value in row.items():
        try:
            COLUMNS[table][name].check(value)
        except (KeyError, TypeError, ValueError):  # a damaged schema changes names
            found.append(name)
    return found


def mended(table: str, row: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """The row with something to go on with in place of what is damaged, and which columns that was; None for a
    row that is of no use without them."""
    lost = damaged(table, row)
    values = dict(row)
    for name in lost:
        mend = COLUMNS[table][name].mend
        if mend is None:
            return None, lost
        values[name] = mend(row[name])
    return values, lost
