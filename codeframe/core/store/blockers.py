"""Blockers: questions and obstacles that wait for a person."""

from __future__ import annotations

from typing import Any

from codeframe.core.errors import CodeFrameError, UsageError
from codeframe.core.models import Blocker, BlockerStatus, utc_now
from codeframe.core.store.database import Database, clean, new_id, stamp

_SELECT = "SELECT id, task_id, run_id, question, kind, status, answer, created_at, answered_at FROM blockers"


class BlockerStore:
    """OPEN -> ANSWERED by a person, -> RESOLVED once a run has used the answer.

    An answer does not touch the task: it stays BLOCKED, so that nothing starts it afresh, until
    `cf work resume` claims it with its session (BLOCKED -> READY -> IN_PROGRESS in one step).
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, task_id: str, run_id: str | None, question: str, kind: str = "question") -> Blocker:
        """Store an OPEN blocker; `kind` is "question" or an ErrorClass value."""
        with self._db.write() as connection:
            id_ = new_id(connection, "blockers")
            connection.execute(
                "INSERT INTO blockers (id, task_id, run_id, question, kind, status, created_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (id_, task_id, run_id, clean(question), kind, BlockerStatus.OPEN, stamp(utc_now())),
            )
            return self.get(id_)

    def get(self, id: str) -> Blocker:
        """The blocker with exactly this id; UsageError when there is none."""
        found = self._db.models("blockers", Blocker, f"{_SELECT} WHERE id = ?", (id,))
        if not found:
            raise UsageError(f"There is no blocker '{id}'.", "Type: cf blocker list")
        return found[0]

    def find(self, prefix: str) -> Blocker:
        """The one blocker whose id starts with `prefix`; UsageError when none or several do."""
        return self.get(
            self._db.find_id(
                "blockers",
                prefix,
                noun="blocker",
                label="substr(question, 1, 60)",
                list_with="cf blocker list",
            )
        )

    def history(self, task_id: str) -> list[Blocker]:
        """Every blocker the task ever had, oldest first."""
        return self.list(task_id=task_id)

    def answer(self, id: str, text: str) -> Blocker:
        """Record a person's answer; one that no run has used yet may be replaced.

        UsageError for an empty answer, CodeFrameError when the blocker is RESOLVED.
        """
        if not text.strip():
            raise UsageError("The answer is empty.", f'Type: cf blocker answer {id[:8]} "your answer"')
        with self._db.write() as connection:
            blocker = self.get(id)
            if blocker.status == BlockerStatus.RESOLVED:
                raise CodeFrameError(
                    f"Blocker {id} is resolved: its answer was used.", "Type: cf blocker list"
                )
            connection.execute(
                "UPDATE blockers SET status = ?, answer = ?, answered_at = ? WHERE id = ?",
                (BlockerStatus.ANSWERED, clean(text), stamp(utc_now()), id),
            )
            return self.get(id)

    def resolve(self, id: str) -> Blocker:
        """Mark a blocker as dealt with, answered or not. Doing it twice changes nothing."""
        with self._db.write() as connection:
            self.get(id)
            connection.execute("UPDATE blockers SET status = ? WHERE id = ?", (BlockerStatus.RESOLVED, id))
            return self.get(id)

    # Last in the class: from here on, its name hides the builtin's.
    def list(self, status: BlockerStatus | None = None, task_id: str | None = None) -> list[Blocker]:
        """Blockers, oldest first, of one status or task or of all."""
        conditions, args = ["1"], list[Any]()
        for column, value in (("status", status), ("task_id", task_id)):
            if value is not None:
                conditions.append(f"{column} = ?")
                args.append(value)
        sql = f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY created_at, id"
        return self._db.models("blockers", Blocker, sql, args)
