"""The tables, as a list of migrations. Never edit one that was released: append the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from codeframe.core.errors import RequirementsError

Migration = Sequence[str]

# Times are UTC text of one width (see database.stamp), so that they sort as text.
_FIRST: Migration = (
    """CREATE TABLE tasks (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        description TEXT NOT NULL,
        status TEXT NOT NULL,
        priority INTEGER NOT NULL,
        engine TEXT,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL
    )""",
    "CREATE INDEX tasks_in_order ON tasks (priority DESC, created_at, id)",
    "CREATE INDEX tasks_by_status ON tasks (status, priority DESC, created_at, id)",
    """CREATE TABLE dependencies (
        position INTEGER PRIMARY KEY,
        task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
        depends_on TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
        UNIQUE (task_id, depends_on)
    )""",
    "CREATE INDEX dependencies_in_order ON dependencies (task_id, position, depends_on)",
    "CREATE INDEX dependencies_backward ON dependencies (depends_on, task_id)",
    """CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
        status TEXT NOT NULL,
        engine TEXT NOT NULL,
        kind TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        previous_run_id TEXT REFERENCES runs (id) ON DELETE SET NULL,
        engine_why TEXT NOT NULL,
        model TEXT,
        session_id TEXT,
        rounds INTEGER NOT NULL,
        base TEXT,
        "end" TEXT,
        leftover TEXT NOT NULL,
        verification TEXT,
        error_class TEXT,
        error TEXT,
        summary TEXT NOT NULL,
        usage TEXT NOT NULL,
        duration_ms INTEGER NOT NULL,
        options TEXT NOT NULL,
        evidence TEXT NOT NULL,
        process TEXT NOT NULL,
        stop_requested_at TEXT,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        UNIQUE (task_id, attempt)
    )""",
    "CREATE INDEX runs_in_order ON runs (started_at, id)",
    "CREATE INDEX runs_previous ON runs (previous_run_id)",
    # The database itself refuses a second live run of a task.
    "CREATE UNIQUE INDEX runs_one_live ON runs (task_id) WHERE status = 'RUNNING'",
    "CREATE INDEX runs_pending ON runs (started_at, id) WHERE leftover = 'pending'",
    """CREATE TABLE rounds (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        round INTEGER NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (run_id, round)
    ) WITHOUT ROWID""",
    """CREATE TABLE blockers (
        id TEXT PRIMARY KEY,
        task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
        run_id TEXT REFERENCES runs (id) ON DELETE SET NULL,
        question TEXT NOT NULL,
        kind TEXT NOT NULL,
        status TEXT NOT NULL,
        answer TEXT,
        created_at TEXT NOT NULL,
        answered_at TEXT
    )""",
    "CREATE INDEX blockers_by_task ON blockers (task_id, created_at, id)",
    "CREATE INDEX blockers_by_run ON blockers (run_id)",
    "CREATE INDEX blockers_by_status ON blockers (status, created_at, id)",
    """CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT REFERENCES runs (id) ON DELETE CASCADE,
        task_id TEXT REFERENCES tasks (id) ON DELETE CASCADE,
        type TEXT NOT NULL,
        message TEXT NOT NULL,
        metadata TEXT NOT NULL,
        created_at TEXT NOT NULL
    )""",
    "CREATE INDEX events_by_run ON events (run_id, seq)",
    "CREATE INDEX events_by_task ON events (task_id, seq)",
    """CREATE TABLE prds (
        position INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL,
        content TEXT NOT NULL,
        created_at TEXT NOT NULL
    )""",
)

_BASELINES: Migration = ("CREATE TABLE baselines (key TEXT PRIMARY KEY, result BLOB NOT NULL)",)

MIGRATIONS: Sequence[Migration] = (_FIRST, _BASELINES)


def is_current(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> bool:
    """Whether the database has every migration; RequirementsError when it has more than we know."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(migrations):
        raise RequirementsError(
            f"This database was written by a newer CodeFrame (version {version}, not {len(migrations)}).",
            "Upgrade CodeFrame: pip install --upgrade codeframe",
        )
    return version == len(migrations)


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the database up to date, one transaction per migration.

    Safe when two processes do it at once: who waits for the lock finds the work done.
    """
    while not is_current(connection, migrations):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if not is_current(connection, migrations):
                version: int = connection.execute("PRAGMA user_version").fetchone()[0]
                for statement in migrations[version]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
