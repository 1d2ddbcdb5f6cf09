"""Coarse events: what happened to tasks and runs, a few lines per run. Fine ones are in transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from codeframe.core.models import utc_now
from codeframe.core.store.database import Database, clean, stamp, to_json


class Event(NamedTuple):
    """One line of history. `seq` grows and is never used twice."""

    seq: int
    type: str
    message: str
    run_id: str | None
    task_id: str | None
    metadata: Mapping[str, Any]
    created_at: datetime


class EventStore:
    """Events can be added and read, never changed; they go with their task."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(
        self,
        type: str,
        message: str,
        *,
        run_id: str | None = None,
        task_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Event:
        """Append an event; `metadata` is JSON-ready."""
        now = utc_now()
        with self._db.write() as connection:
            seq = connection.execute(
                "INSERT INTO events (run_id, task_id, type, message, metadata, created_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (run_id, task_id, type, clean(message), to_json(metadata or {}), stamp(now)),
            ).lastrowid
        assert seq is not None
        return Event(seq, type, clean(message), run_id, task_id, dict(metadata or {}), now)

    def list(
        self,
        run_id: str | None = None,
        *,
        task_id: str | None = None,
        after: int = 0,
        limit: int | None = None,
        newest: int | None = None,
    ) -> list[Event]:
        """Events with `seq` > `after`, oldest first, of one run or task or of all: all of them, the first
        `limit`, or the last `newest`."""
        conditions = ["seq > ?"]
        args: list[Any] = [after]
        for column, value in (("run_id", run_id), ("task_id", task_id)):
            if value is not None:
                conditions.append(f"{column} = ?")
                args.append(value)
        most = newest if newest is not None else limit
        events = self._db.models(
            "events",
            Event,
            "SELECT seq, type, message, run_id, task_id, metadata, created_at FROM events"
            f" WHERE {' AND '.join(conditions)} ORDER BY seq {'DESC' if newest is not None else ''} LIMIT ?",
            [*args, -1 if most is None else most],
        )
        return events[::-1] if newest is not None else events
