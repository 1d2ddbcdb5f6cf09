"""Product requirement documents: kept as they were added, the newest one in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codeframe.core.errors import UsageError
from codeframe.core.models import Prd, utc_now
from codeframe.core.store.database import Database, clean, new_id, stamp

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

    def _read(self, clauses: str, *args: Any) -> Sequence[Prd]:
        return self._db.models("prds", Prd, f"{_SELECT} {clauses}", args)

    def current(self) -> Prd | None:
        """The document in force: the one added last."""
        found = self._read("ORDER BY position DESC LIMIT 1")
        return found[0] if found else None

    def list(self) -> list[Prd]:
        """Every document, newest first."""
        return [*self._read("ORDER BY position DESC")]

    def find(self, prefix: str) -> Prd:
        """The one document whose id starts with `prefix`; UsageError when none or several do."""
        id_ = self._db.find_id("prds", prefix, noun="PRD", label="title", list_with="cf prd show --all")
        return self._read("WHERE id = ?", id_)[0]
