"""Runs: attempts at a task, claimed and finished together with it, and their rounds."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import Any

from codeframe.core import state_machine
from codeframe.core.errors import CodeFrameError, UsageError
from codeframe.core.models import (
    Run,
    RunKind,
    RunStatus,
    TaskStatus,
    TokenUsage,
    utc_now,
)
from codeframe.core.store.blockers import BlockerStore
from codeframe.core.store.database import Database, clean, new_id, stamp, to_json
from codeframe.core.store.events import EventStore
from codeframe.core.store.tasks import TaskStore

_FIELDS = Run._fields
_COLUMNS = ", ".join(f'"{name}"' for name in _FIELDS)  # quoted: `end` is a word of SQL
_SELECT = f"SELECT {_COLUMNS} FROM runs"
_NEWEST_FIRST = "ORDER BY started_at DESC, id DESC"
# Only claim() and finish() may change these.
_FIXED = {"id", "task_id", "status", "attempt"}

_COUNTED = ("input_tokens", "cached_input_tokens", "output_tokens", "cost_usd")


class RunStore:
    """A task is IN_PROGRESS exactly while one of its runs is RUNNING: both change in one transaction.

    An unknown id raises UsageError.
    """

    def __init__(self, db: Database, tasks: TaskStore, blockers: BlockerStore, events: EventStore) -> None:
        self._db = db
        self._tasks = tasks
        self._blockers = blockers
        self._events = events

    def claim(
        self,
        task_id: str,
        *,
        engine: str,
        id: str | None = None,
        expect: Sequence[TaskStatus] = (TaskStatus.READY,),
        **values: Any,
    ) -> Run:
        """Begin a run: the task, in one of `expect`, becomes IN_PROGRESS and the run's row is written.

        `id` is one the caller has locked already; `values` are further fields of Run; `attempt` is
        counted, `previous_run_id` is the task's last run unless given. CodeFrameError when another run
        holds the task (it names that run)
        or the task is in another state.
        """
        with self._db.write() as connection:
            holder = self._live(task_id)
            if holder is not None:
                title = self._tasks.get(task_id).title
                raise CodeFrameError(
                    f"Task {task_id} '{title}' is already being worked on by run {holder.id}"
                    f" ({holder.engine}, since {holder.started_at:%Y-%m-%d %H:%M} UTC).",
                    f"Look at it: cf work status; or end it: cf work stop {task_id[:8]}",
                )
            self._tasks.enter(connection, task_id, expect)
            attempt: int = connection.execute(
                "SELECT count(*) FROM runs WHERE task_id = ?", (task_id,)
            ).fetchone()[0]
            last = self.latest(task_id)
            values.setdefault("previous_run_id", last.id if last else None)
            run = Run(
                id=id or new_id(connection, "runs"),
                task_id=task_id,
                status=RunStatus.RUNNING,
                engine=engine,
                started_at=utc_now(),
                attempt=attempt,
                **values,
            )
            connection.execute(
                f"INSERT INTO runs ({_COLUMNS}) VALUES ({', '.join('?' * len(_FIELDS))})",
                [_encode(getattr(run, name)) for name in _FIELDS],
            )
            self._events.add(
                "run_started",
                "by hand" if run.kind is RunKind.MANUAL else f"{run.kind} with {engine}",
                run_id=run.id,
                task_id=task_id,
                metadata={"attempt": attempt},
            )
            return self.get(run.id)

    def finish(
        self,
        run_id: str,
        status: RunStatus,
        task_status: TaskStatus,
        *,
        blocker: tuple[str, str] | None = None,
        **values: Any,
    ) -> Run:
        """The verdict: run, task, blocker (question, kind) and event, in one transaction.

        `values` are further fields of Run; `ended_at` is now unless given. CodeFrameError when the
        run has already ended, whoever ended it, or rule 8.1 forbids the step.
        """
        with self._db.write() as connection:
            run = self.get(run_id)
            if run.status != RunStatus.RUNNING:
                raise CodeFrameError(
                    f"Run {run_id} has already ended: {run.status}.", f"Look at it: cf work why {run.task_id}"
                )
            state_machine.check("run", run.status, status)
            self._tasks.leave(connection, run.task_id, task_status)
            self._set(connection, run_id, {"ended_at": utc_now()} | values | {"status": status})
            if blocker is not None:
                question, kind = blocker
                self._blockers.add(run.task_id, run_id, question, kind)
            finished = self.get(run_id)
            self._events.add(
                "run_finished",
                _in_words(finished),
                run_id=run_id,
                task_id=run.task_id,
                metadata={"run": status, "task": task_status, "error_class": finished.error_class},
            )
            return finished

    def get(self, id: str) -> Run:
        """The run with exactly this id."""
        run = self._one("WHERE id = ?", id)
        if run is None:
            raise UsageError(f"There is no run '{id}'.", "Type: cf work status")
        return run

    def find(self, prefix: str, list_with: str = "cf work status") -> Run:
        """The one run whose id starts with `prefix`; UsageError when none or several do, with what lists them."""
        label = "engine || ' ' || status || ' ' || substr(started_at, 1, 16)"
        return self.get(self._db.find_id("runs", prefix, noun="run", label=label, list_with=list_with))

    def latest(self, task_id: str) -> Run | None:
        """The task's last attempt."""
        return self._one("WHERE task_id = ? ORDER BY attempt DESC LIMIT 1", task_id)

    def first(self, task_id: str) -> Run | None:
        """The task's first attempt, whose `base` the baseline comes from (rule 6.4)."""
        return self._one("WHERE task_id = ? ORDER BY attempt LIMIT 1", task_id)

    def running(self) -> list[Run]:
        """Runs that have not ended, newest first; whether a process still lives its lease tells."""
        return self._many(f"WHERE status = 'RUNNING' {_NEWEST_FIRST}")

    def with_leftovers(self) -> list[Run]:
        """Runs whose unaccepted changes are still in a tree (rule 4.3), newest first."""
        return self._many(f"WHERE leftover = 'pending' {_NEWEST_FIRST}")

    def of_ready(self) -> list[Run]:
        """The last run of each READY task that has one which was not completed, newest first."""
        last = "SELECT r.id FROM runs r WHERE r.task_id = t.id ORDER BY r.attempt DESC LIMIT 1"
        ready = f"SELECT ({last}) FROM tasks t WHERE t.status = 'READY'"
        return self._many(f"WHERE id IN ({ready}) AND status != 'COMPLETED' {_NEWEST_FIRST}")

    def update(self, id: str, **values: Any) -> Run:
        """Change fields of a run, ended or not; id, task, attempt and status have their own ways."""
        with self._db.write() as connection:
            if values.keys() & _FIXED:
                raise TypeError("claim() and finish() set a run's id, task, attempt and status")
            self.get(id)
            self._set(connection, id, values)
            return self.get(id)

    def add_usage(self, id: str, usage: TokenUsage) -> Run:
        """Add the tokens and money of one more engine call."""
        with self._db.write():
            return self.update(id, usage=self.get(id).usage + usage)

    def spent(self, task_id: str | None = None) -> TokenUsage:
        """What all runs have used up, or those of one task."""
        total = ", ".join(f"coalesce(sum(json_extract(usage, '$.{f}')), 0)" for f in _COUNTED)
        where, args = ("WHERE task_id = ?", (task_id,)) if task_id is not None else ("", ())
        ((read, cached, written, cost),) = self._db.query(f"SELECT {total} FROM runs {where}", args)
        return TokenUsage(read, cached, written, cost or None)

    def request_stop(self, id: str) -> bool:
        """Ask the process that owns the run to stop it; False when the run has already ended."""
        with self._db.write() as connection:
            self.get(id)
            changed = connection.execute(
                "UPDATE runs SET stop_requested_at = coalesce(stop_requested_at, ?)"
                " WHERE id = ? AND status = 'RUNNING'",
                (stamp(utc_now()), id),
            )
            return changed.rowcount > 0

    def stop_requested(self, id: str) -> bool:
        """Whether `request_stop` was called; one indexed read, made to be polled."""
        rows = self._db.query("SELECT stop_requested_at IS NOT NULL FROM runs WHERE id = ?", (id,))
        return bool(rows and rows[0][0])

    def add_round(self, run_id: str, round: int, record: Mapping[str, Any]) -> None:
        """Store the JSON record of one engine call; the same round again replaces its record."""
        with self._db.write() as connection:
            self.get(run_id)
            connection.execute(
                "INSERT OR REPLACE INTO rounds (run_id, round, record) VALUES (?, ?, ?)",
                (run_id, round, to_json(record)),
            )

    def rounds(self, run_id: str) -> list[dict[str, Any]]:
        """The records of a run's engine calls, in order."""
        sql = "SELECT run_id, record FROM rounds WHERE run_id = ? ORDER BY round"
        return self._db.models("rounds", lambda run_id, record: record, sql, (run_id,))

    def _live(self, task_id: str) -> Run | None:
        return self._one("WHERE task_id = ? AND status = 'RUNNING'", task_id)

    def _one(self, clauses: str, *args: Any) -> Run | None:
        runs = self._many(clauses, *args)
        return runs[0] if runs else None

    def _many(self, clauses: str, *args: Any) -> list[Run]:
        return self._db.models("runs", Run, f"{_SELECT} {clauses}", args)

    def _set(self, connection: sqlite3.Connection, id: str, values: Mapping[str, Any]) -> None:
        unknown = values.keys() - set(_FIELDS)
        if unknown:
            raise TypeError(f"a run has no field {', '.join(sorted(unknown))}")
        columns = ", ".join(f'"{name}" = ?' for name in values)
        if values:
            connection.execute(
                f"UPDATE runs SET {columns} WHERE id = ?", [*map(_encode, values.values()), id]
            )

    # Last in the class: from here on, its name hides the builtin's.
    def list(
        self, task_id: str | None = None, status: RunStatus | None = None, limit: int | None = None
    ) -> list[Run]:
        """Runs, newest first."""
        conditions, args = ["1"], list[Any]()
        for column, value in (("task_id", task_id), ("status", status)):
            if value is not None:
                conditions.append(f"{column} = ?")
                args.append(value)
        return self._many(
            f"WHERE {' AND '.join(conditions)} {_NEWEST_FIRST} LIMIT ?", *args, -1 if limit is None else limit
        )


def _in_words(run: Run) -> str:
    """How a run ended: the verdict first, then what is said of it in a line."""
    verified = f", {run.verification}" if run.status is RunStatus.COMPLETED and run.verification else ""
    said = (run.error or run.summary).strip().partition("\n")[0]
    return f"{run.status}{verified}" + (f": {said}" if said else "")


def _encode(value: Any) -> Any:
    """A field of Run as SQLite stores it."""
    if isinstance(value, TokenUsage):
        return to_json(asdict(value))
    if isinstance(value, Mapping):
        return to_json(dict(value))
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, str) and not isinstance(value, StrEnum):
        return clean(value)
    return value
