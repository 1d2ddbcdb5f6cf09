"""Product requirement documents: kept as they were added, the newest one in force."""

from __future__ import annotations

from datetime import datetime

from codeframe.core.errors import UsageError
from codeframe.core.models import Prd, utc_now
from codeframe.core.store.database import Database, Row, clean, new_id, stamp

_SELECT = "SELECT id, title, content, created_at FROM prds"


class PrdStore:
    """Documents are added, never changed: a task's run can always be read with the PRD of its time."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, title: str, content: str) -> Prd:
        """Store a document, which is in force from now on. UsageError when it has no text."""
        if not content.strip():
            raise UsageError("The PRD is empty.", "Type: cf prd add FILE")
        with self._db.write() as connection:
            prd = Prd(new_id(connection, "prds"), clean(title).strip(), clean(content), utc_now())
            connection.execute(
                "INSERT INTO prds (id, title, content, created_at) VALUES (?, ?, ?, ?)",
                (prd.id, prd.title, prd.content, stamp(prd.created_at)),
            )
        return prd

    def current(self) -> Prd | None:
        """The document in force: the one added last."""
        rows = self._db.query(f"{_SELECT} ORDER BY position DESC LIMIT 1")
        return _prd(rows[0]) if rows else None

    def list(self) -> list[Prd]:
        """Every document, newest first."""
        return [_prd(row) for row in self._db.query(f"{_SELECT} ORDER BY position DESC")]

    def find(self, prefix: str) -> Prd:
        """The one document whose id starts with `prefix`; UsageError when none or several do."""
        id_ = self._db.find_id("prds", prefix, noun="PRD", label="title", list_with="cf prd show --all")
        return _prd(self._db.query(f"{_SELECT} WHERE id = ?", (id_,))[0])


def _prd(row: Row) -> Prd:
    return Prd(row[0], row[1], row[2], datetime.fromisoformat(row[3]))
