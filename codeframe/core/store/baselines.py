"""Baselines: what gates told before the work began, kept where an engine has no business (rule 6.4)."""

from __future__ import annotations

from codeframe.core.store.database import Database


class BaselineStore:
    """Text by key, as a mapping has it; what the keys and the text mean the gates know."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def get(self, key: str, /) -> str | None:
        """What was kept under `key` last."""
        sql = "SELECT key, result FROM baselines WHERE key = ?"
        found = self._db.models("baselines", lambda key, result: str(result), sql, (key,))
        return found[0] if found else None

    def __setitem__(self, key: str, text: str, /) -> None:
        """Keep `text`; a test suite names thousands of tests, so it is compressed."""
        import zlib

        with self._db.write() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO baselines (key, result) VALUES (?, ?)",
                (key, zlib.compress(text.encode())),
            )
