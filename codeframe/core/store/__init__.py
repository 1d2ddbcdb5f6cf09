"""The state of a workspace: one SQLite file, one store per aggregate."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path

from codeframe.core.store.baselines import BaselineStore
from codeframe.core.store.blockers import BlockerStore
from codeframe.core.store.database import Database
from codeframe.core.store.events import Event, EventStore
from codeframe.core.store.prds import PrdStore
from codeframe.core.store.runs import RunStore
from codeframe.core.store.tasks import TaskStore

__all__ = [
    "BaselineStore",
    "BlockerStore",
    "Event",
    "EventStore",
    "PrdStore",
    "RunStore",
    "Store",
    "TaskStore",
]


class Store:
    """Everything CodeFrame remembers about a workspace. The file is opened on first use.

    Safe to share between threads. What can go wrong with the file is said by `Database`.
    """

    def __init__(self, path: Path) -> None:
        self._db = Database(path)
        self.tasks = TaskStore(self._db)
        self.blockers = BlockerStore(self._db)
        self.events = EventStore(self._db)
        self.prds = PrdStore(self._db)
        self.baselines = BaselineStore(self._db)
        self.runs = RunStore(self._db, self.tasks, self.blockers, self.events)

    @property
    def path(self) -> Path:
        """The database file."""
        return self._db.path

    def write(self) -> AbstractContextManager[sqlite3.Connection]:
        """Make several changes one: all are committed, or none when the block raises."""
        return self._db.write()

    def close(self) -> None:
        """Close this thread's connection; the next use opens a new one."""
        self._db.close()
