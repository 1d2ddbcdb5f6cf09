"""A damaged database: found, set aside whole, and what can still be read of it put into a new one."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from codeframe.core.errors import CodeFrameError, writing
from codeframe.core.models import utc_now
from codeframe.core.store.columns import COLUMNS, damaged, decode, mended
from codeframe.core.store.database import BUSY_TIMEOUT_S, alone, is_damage, shared, stamp
from codeframe.core.store.schema import MIGRATIONS, is_current, migrate

THOROUGH_BYTES = 50_000_000  # up to it every index is compared with its table as well
_MAX_PROBES = 100_000  # single rows asked for between two damaged places
_SIDE_FILES = ("-wal", "-shm")
_UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter where SQLite cites damaged bytes


class Rescued(NamedTuple):
    """What became of a damaged database: where it is now, rows kept by table, tables that may lack some, and the
    rows that were mended or left out, in words."""

    aside: Path
    kept: dict[str, int]
    damaged: tuple[str, ...]
    mended: tuple[str, ...] = ()


def trouble(path: Path) -> str | None:
    """What is wrong with the database file, for SQLite or with what is in its rows; None when it is whole.
    Changes nothing.

    Raises RequirementsError when a newer CodeFrame wrote it, sqlite3.OperationalError when it cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, shared(path))
        connection = stack.enter_context(contextlib.closing(_read(path)))
        try:
            current = is_current(connection)
            check = "integrity_check" if path.stat().st_size <= THOROUGH_BYTES else "quick_check"
            said = [str(row[0]) for row in connection.execute(f"PRAGMA {check}(3)")]
            if said == ["ok"] and current:
                said = list(itertools.islice(_in_rows(connection), 3)) or said
        except UnicodeDecodeError:
            return "it is not even readable as text"  # SQLite cites the damaged bytes
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                return str(error)
            raise
    lines = [line for each in said for line in each.splitlines() if not line.startswith("***")]
    return None if said == ["ok"] else "; ".join(lines[:3])


def _in_rows(connection: sqlite3.Connection) -> Iterator[str]:
    for table in COLUMNS:
        names = _columns(connection, table)
        if strange := set(names) - COLUMNS[table].keys():
            yield f"in the columns of {table}: {', '.join(sorted(strange))}"
        for row in connection.execute(f"SELECT * FROM {table}"):
            if lost := damaged(table, dict(zip(names, row, strict=True))):
                yield f"in {table}, row {row[0]}: {', '.join(lost)}"
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"in {table}, row {row}: its row of {parent} is lost"


def rescue(path: Path) -> Rescued:
    """Put what can be read of the damaged database into a new one at the same place; the old one is kept aside.

    Nobody has it open meanwhile, so no row of theirs is lost. A kill at any line leaves the damaged file in place or
    the new one, and the damaged one whole beside it. CodeFrameError when not one row can be read, or when another
    command does not let go of it: then nothing is changed.
    """
    try:
        with alone(path, "cf doctor --fix"):
            return _rescue(path)
    except sqlite3.Error as error:
        raise CodeFrameError(
            f"The damaged database {path} is as it was: {error} while a new one was written.",
            f"Check the space left and the permissions: df -h '{path.parent}'; ls -la '{path.parent}'",
        ) from error


def _rescue(path: Path) -> Rescued:
    with writing(path):
        fresh, aside = path.with_name(f"{path.name}.new"), _set_aside(path)
        for left in (fresh, *_beside(fresh)):
            left.unlink(missing_ok=True)
        with _padded(aside):
            kept, incomplete, changed = _copy(aside, fresh)
        if not sum(kept.values()):
            fresh.unlink()
            for each in (aside, *_beside(aside)):
                each.unlink(missing_ok=True)
            raise CodeFrameError(
                f"Nothing can be read from the database {path}; it is as it was.",
                f"Restore it from a backup, or begin a new one: mv '{path}' '{path}.unreadable'",
            )
        # Its log first, as SQLite would play that into the new one; into the old one, where it belongs, so
        # that nothing is missing there if a kill comes now.
        with contextlib.suppress(*_UNREADABLE), contextlib.closing(sqlite3.connect(path)) as old:
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for side in _beside(path):
            side.unlink(missing_ok=True)
        fresh.replace(path)
        _sync(path.parent)
    return Rescued(aside, {table: n for table, n in kept.items() if n}, incomplete, changed)


def _set_aside(path: Path) -> Path:
    """A second name for the damaged file, and copies of what goes with it."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    # A copy: reading it may write to its log.
    for source, name in ((path.with_name(path.name + "-wal"), aside.name + "-wal"), (path, aside.name)):
        if source.exists():
            target = path.with_name(name)
            shutil.copyfile(source, target)
            target.chmod(0o600)
            with target.open("rb") as file:
                os.fsync(file.fileno())
    _sync(path.parent)
    return aside


@contextlib.contextmanager
def _padded(copy: Path) -> Iterator[None]:
    """The file is as long as its header says meanwhile: SQLite reads nothing at all of a shorter one."""
    size = copy.stat().st_size
    with copy.open("rb") as file:
        header = file.read(32)
    page = int.from_bytes(header[16:18], "big")
    whole = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    padding = header.startswith(b"SQLite format 3\0") and size < whole
    if padding:
        os.truncate(copy, whole)  # zeros that take no space
    try:
        yield
    finally:
        if padding:
            os.truncate(copy, size)


def _copy(source: Path, target: Path) -> tuple[dict[str, int], tuple[str, ...], tuple[str, ...]]:
    """Rows copied by table, the tables that could not be read to their end, and the rows that were mended."""
    incomplete: list[str] = []
    changed: dict[str, None] = {}  # a row may come twice
    with contextlib.closing(_read(source)) as old, contextlib.closing(sqlite3.connect(target)) as new:
        new.isolation_level = None
        old.execute("PRAGMA writable_schema = ON")  # a damaged line of the schema costs its own table only
        version = _version(old)
        migrate(new, MIGRATIONS[:version])
        tables = [
            str(row[0])
            for row in new.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
            if not str(row[0]).startswith("sqlite_")
        ]
        new.execute("BEGIN")
        for table in tables:
            names = _columns(new, table)
            marks = ", ".join("?" * len(names))
            insert = f"INSERT OR IGNORE INTO {table} VALUES ({marks})"
            reading = _Reading(old, table)
            for row in reading.rows():
                if len(row) != len(names):
                    reading.damaged = True
                    break
                values, lost = mended(table, dict(zip(names, row, strict=True)))
                if lost:
                    how = "left out" if values is None else "mended"
                    changed[f"row {row[0]} of {table} {how} ({', '.join(lost)})"] = None
                if values is not None:
                    new.execute(insert, [*values.values()])
            if reading.damaged:
                incomplete.append(table)
        _make_whole(new, tables)
        kept = {table: new.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
        new.execute("COMMIT")
        migrate(new)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    return kept, tuple(incomplete), tuple(changed)


class _Reading:
    """All rows of a table that can be read: from the front, from the back, and one by one between."""

    def __init__(self, connection: sqlite3.Connection, table: str) -> None:
        self._connection = connection
        self._table = table
        self.damaged = False

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Some may come twice."""
        try:
            has_rowid = True
            self._connection.execute(f"SELECT rowid FROM {self._table} LIMIT 0")
        except _UNREADABLE:
            has_rowid = False
        if not has_rowid:
            for direction in ("ASC", "DESC"):
                yield from self._some("*", f"ORDER BY 1 {direction}, 2 {direction}")
                if not self.damaged:
                    return
            return
        ends = []
        for direction in ("ASC", "DESC"):
            reached = 0
            for rowid, *row in self._some("rowid, *", f"NOT INDEXED ORDER BY rowid {direction}"):
                reached = rowid
                yield tuple(row)
            if not self.damaged:
                return
            ends.append(reached)
        first, last = ends
        for rowid in range(first + 1, min(last, first + _MAX_PROBES)):
            yield from self._some("*", f"NOT INDEXED WHERE rowid = {rowid}")

    def _some(self, columns: str, clauses: str) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(f"SELECT {columns} FROM {self._table} {clauses}")
        except _UNREADABLE:
            self.damaged = True


def _make_whole(connection: sqlite3.Connection, tables: Sequence[str]) -> None:
    """Runs keep a task, what refers to a lost row goes, and a task is at work only with a run (rule 8.1)."""
    now = stamp(utc_now())
    connection.execute(
        "INSERT INTO tasks (id, title, description, status, priority, created_at, updated_at)"
        " SELECT DISTINCT task_id, 'Recovered: the title is lost', '', 'BACKLOG', 0, ?, ? FROM runs"
        " WHERE task_id NOT IN (SELECT id FROM tasks)",
        (now, now),
    )
    for _ in tables:  # what is deleted may have been referred to
        for table in tables:
            for key in connection.execute(f"PRAGMA foreign_key_list({table})").fetchall():
                parent, column, theirs, on_delete = key[2], key[3], key[4], key[6]
                lost = f'"{column}" IS NOT NULL AND "{column}" NOT IN (SELECT "{theirs}" FROM {parent})'
                if on_delete == "SET NULL":
                    connection.execute(f'UPDATE {table} SET "{column}" = NULL WHERE {lost}')
                else:
                    connection.execute(f"DELETE FROM {table} WHERE {lost}")
    running = "(SELECT task_id FROM runs WHERE status = 'RUNNING')"
    connection.execute(
        f"UPDATE tasks SET status = 'READY' WHERE status = 'IN_PROGRESS' AND id NOT IN {running}"
    )
    connection.execute(f"UPDATE tasks SET status = 'IN_PROGRESS' WHERE id IN {running}")


def _version(connection: sqlite3.Connection) -> int:
    """How many migrations the database has; all that we know when it does not say."""
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except _UNREADABLE:
        return len(MIGRATIONS)
    return version or len(MIGRATIONS)


def _read(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None
    )
    connection.text_factory = decode
    return connection


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + end) for end in _SIDE_FILES]


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
