"""One SQLite file: its connections, its transactions, its errors in words, its ids and times."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from codeframe.core.errors import CodeFrameError, RequirementsError, UsageError
from codeframe.core.lease import Lease, read_info, share
from codeframe.core.store.columns import COLUMNS, damaged, decode
from codeframe.core.store.schema import is_current, migrate

Row = tuple[Any, ...]
Model = TypeVar("Model")

BUSY_TIMEOUT_S = 10.0
_CANDIDATES = 10  # how many an ambiguous prefix lists


class _Connection(sqlite3.Connection):
    """Has its share of the database's lock (see `alone`) until it is closed."""

    lock = -1

    def close(self) -> None:
        super().close()  # first: this may still write to the file and delete its log
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


class Database:
    """Opens `path` on first use, with one connection per thread (rule 8.2).

    Every method raises CodeFrameError naming the file when it is damaged, busy or not writable,
    and RequirementsError when a newer CodeFrame wrote it or the filesystem cannot do WAL.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()

    def query(self, sql: str, args: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """All rows of one SELECT."""
        rows, _, _ = self._rows(sql, args)
        return rows

    def models(
        self, table: str, model: Callable[..., Model], sql: str, args: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[Model]:
        """All rows of one SELECT on `table`, each made a `model` by the names of its columns; the first tells
        the row. CodeFrameError when one holds what CodeFrame never stored."""
        rows, names, garbled = self._rows(sql, args)
        try:
            columns = [COLUMNS[table][name] for name in names]
            reads = [column.check if garbled else column.read for column in columns]
            return [
                model(
                    **dict(
                        zip(names, [read(value) for read, value in zip(reads, row, strict=True)], strict=True)
                    )
                )
                for row in rows
            ]
        except (KeyError, TypeError, ValueError):
            for row in rows:
                if lost := damaged(table, dict(zip(names, row, strict=True))):
                    raise self._damaged(f"in {table}, row {row[0]}: {', '.join(lost)}") from None
            raise

    def _rows(self, sql: str, args: Sequence[Any] | Mapping[str, Any]) -> tuple[list[Row], list[str], bool]:
        """Rows, the names of their columns, and whether text that is not UTF-8 is among what this connection reads."""
        with self._in_words():
            connection = self._connection()
            try:
                cursor = connection.execute(sql, args)
                rows: list[Row] = cursor.fetchall()
            except sqlite3.OperationalError as error:
                if hasattr(error, "sqlite_errorcode") or connection.text_factory is decode:
                    raise
                connection.text_factory = decode  # from here on only: a call for each text takes its time
                return self._rows(sql, args)
            return rows, [str(each[0]) for each in cursor.description], connection.text_factory is decode

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: all of the block is committed, or nothing when it raises.

        Inside another block of the same thread it joins that one; when the inner block raises, its
        own part is taken back even if the outer block goes on.
        """
        with self._in_words():
            connection = self._connection()
            nested = connection.in_transaction
            # IMMEDIATE: a deferred transaction that reads, then writes, fails at once when
            # another writer came between, whatever the busy timeout.
            connection.execute("SAVEPOINT inner_write" if nested else "BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("RELEASE inner_write" if nested else "COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite itself rolls back on some errors
                    connection.execute("ROLLBACK TO inner_write" if nested else "ROLLBACK")
                    if nested:
                        connection.execute("RELEASE inner_write")
                raise

    def __del__(self) -> None:
        self.close()  # now, and not when the collector comes: until then nobody is `alone`

    def close(self) -> None:
        """Close this thread's connection; the next use opens a new one."""
        connection: sqlite3.Connection | None = self._local.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def find_id(self, table: str, prefix: str, *, noun: str, label: str, list_with: str) -> str:
        """The one id in `table` that starts with `prefix` (any case, rule 8.3).

        `label` is an SQL expression that tells candidates apart. UsageError when none or several
        match: it lists the candidates, and `list_with` is the command that lists them all.
        """
        wanted = prefix.strip().lower()
        rows: list[Row] = []
        if wanted and not wanted.strip("0123456789abcdef"):
            # A range, not LIKE: nothing to escape, and the primary key's index serves it.
            rows = self.query(
                f"SELECT id, {label} FROM {table} WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
                (wanted, wanted + "g", _CANDIDATES + 1),
            )
        if not rows:
            raise UsageError(f"No {noun} starts with '{prefix.strip()[:40]}'.", f"Type: {list_with}")
        if len(rows) > 1:
            listed = [f"{row[0]} {row[1]}" for row in rows[:_CANDIDATES]]
            listed += ["and more"] if len(rows) > _CANDIDATES else []
            raise UsageError(
                f"'{wanted}' could be any of these {noun}s: {'; '.join(listed)}.",
                "Type more of the id.",
            )
        return str(rows[0][0])

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._open()
            self._local.connection = connection
            self._local.file = _file_id(self.path)
        elif _file_id(self.path) != self._local.file:
            # SQLite would go on writing into the deleted file, and all of that would be lost.
            raise CodeFrameError(
                f"The database {self.path} was deleted while it was in use; files and branches are as they are.",
                "To begin a new one type: cf init",
            )
        return connection

    def _open(self) -> sqlite3.Connection:
        lock = shared(self.path)
        try:
            connection = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, factory=_Connection
            )
        except BaseException:
            os.close(lock)
            raise
        connection.lock = lock
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            current = is_current(connection)  # before anything writes to a newer database
            _require_wal(connection, self.path)
            # FULL survives a power cut, NORMAL only kill -9; it costs one fsync per commit, and
            # a run commits a few dozen times.
            connection.execute("PRAGMA synchronous = FULL")
            if not current:
                migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _damaged(self, what: str) -> CodeFrameError:
        return CodeFrameError(
            f"The database {self.path} is damaged ({what}).",
            "Type: cf doctor --fix; it keeps the damaged file and recovers what can be read",
        )

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:  # SQLite cites the damaged bytes
            raise self._damaged("it is not even readable as text") from error
        except sqlite3.DatabaseError as error:
            extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            code = extended & 0xFF  # the low byte is the primary code
            if is_damage(error):
                raise self._damaged(str(error)) from error
            if extended == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
                raise CodeFrameError(
                    "The task or run that this belongs to does not exist (any more).", "Type: cf tasks list"
                ) from error
            if code == sqlite3.SQLITE_BUSY:
                raise _busy(self.path) from error
            if isinstance(error, sqlite3.OperationalError):
                folder = self.path.parent
                raise CodeFrameError(
                    f"The database {self.path} cannot be used: {error}.",
                    f"Check the space left and the permissions: df -h '{folder}'; ls -la '{folder}'",
                ) from error
            raise


def _busy(path: Path) -> CodeFrameError:
    """Who has the database open: one of these holds it, most likely the one that is stopped."""
    import psutil

    from codeframe.core.process_sweep import describe_process

    holders: list[str] = []
    wake: list[int] = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or str(path.resolve()) not in (
                f.path for f in process.open_files()
            ):
                continue
            stopped = process.status() == psutil.STATUS_STOPPED
        except (psutil.Error, OSError):
            continue  # gone meanwhile, or another user's
        holders.append(f"process {describe_process(process)}{', which is suspended' if stopped else ''}")
        wake += [process.pid] if stopped else []
    hint = f"Try again; if it stays so, it is another user's: sudo lsof '{path}'"
    if wake:
        hint = f"Let it go on: kill -CONT {' '.join(map(str, wake))}; then type the same again"
    elif holders:
        hint = "Try again; if it stays so, end that process: cf work status tells which run it is"
    by = "; ".join(holders) or "another process"
    return CodeFrameError(f"The database {path} is locked: {BUSY_TIMEOUT_S:.0f} s long, by {by}.", hint)


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file holds what SQLite or our own SQL cannot make sense of: as that is fixed, SQLITE_ERROR
    means tables, values or a header that are not as CodeFrame wrote them."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or (
        code == sqlite3.SQLITE_ERROR and isinstance(error, sqlite3.OperationalError)
    )


def shared(path: Path) -> int:
    """A descriptor that keeps the database at `path` from being replaced until it is closed. CodeFrameError when
    somebody is `alone` with it for too long."""
    lock = share(_lock(path), wait_s=BUSY_TIMEOUT_S)
    if lock is None:
        by = read_info(_lock(path)).get("purpose", "another process")
        raise CodeFrameError(
            f"The database {path} is held by {by}: {BUSY_TIMEOUT_S:.0f} s long.",
            "Try again when that is done.",
        )
    return lock


@contextmanager
def alone(path: Path, purpose: str) -> Iterator[None]:
    """Nobody has the database open meanwhile: who did would go on writing into a file that was replaced.

    A lock of our own, as SQLite's are inside the file, which may be damaged. `purpose` is the command that is
    at it. CodeFrameError when others do not let go of it, this process included.
    """
    lease = Lease.acquire(_lock(path), {"pid": os.getpid(), "purpose": purpose}, wait_s=BUSY_TIMEOUT_S)
    if lease is None:
        raise CodeFrameError(
            f"The database {path} is open in another command, so it is as it was.",
            f"End that, such as a cf events --follow in another terminal; then type: {purpose}",
        )
    with lease:
        yield


def _lock(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _require_wal(connection: sqlite3.Connection, path: Path) -> None:
    """Switch to the write-ahead log; RequirementsError where it is not granted."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as error:
            # The switch needs the file for itself and does not honour the busy timeout: two
            # processes that open a new database at once meet here.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise RequirementsError(
            f"The filesystem of {path} cannot hold CodeFrame's database: "
            f"SQLite's write-ahead log was refused (mode '{mode}').",
            "Move the repository to a local disk; some network filesystems cannot do it.",
        )


def new_id(connection: sqlite3.Connection, table: str) -> str:
    """A random id of 12 hex characters that `table` does not hold yet; call inside `write()`."""
    while True:
        id_ = os.urandom(6).hex()
        if connection.execute(f"SELECT 1 FROM {table} WHERE id = ?", (id_,)).fetchone() is None:
            return id_


def stamp(moment: datetime) -> str:
    """An aware datetime as UTC text of one width, so that it sorts as text."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def to_json(value: Any) -> str:
    """Compact JSON; what JSON does not know (paths, enums, datetimes) is stored as text."""
    return json.dumps(value, separators=(",", ":"), default=str)


def clean(text: str) -> str:
    """`text` without the lone surrogates a badly encoded argument leaves; SQLite refuses those."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _file_id(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one at the same path; None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
