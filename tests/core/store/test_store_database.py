"""The file: what survives, what is refused, what several processes may do at once (rule 8.2)."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from codeframe.core.errors import CodeFrameError, RequirementsError
from codeframe.core.models import RunStatus, TaskStatus
from codeframe.core.store import Store, database
from codeframe.core.store.schema import MIGRATIONS, migrate

PRELUDE = """
import sys
from pathlib import Path
from codeframe.core.errors import CodeFrameError
from codeframe.core.models import RunStatus, TaskStatus
from codeframe.core.store import Store
store = Store(Path(sys.argv[1]))
"""


def processes(code: str, path: Path, count: int) -> list[str]:
    """Run `code` in that many processes, let them go at the same moment, return what each printed."""
    argv = [
        sys.executable,
        "-c",
        f"{PRELUDE}\nprint('up', flush=True)\nsys.stdin.readline()\n{code}",
        str(path),
    ]
    running = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * count
    return outputs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def test_nothing_is_made_before_the_first_use(path: Path) -> None:
    store = Store(path)
    assert not path.exists()
    assert store.path == path
    assert store.tasks.list() == []
    assert path.exists()


def test_it_is_durable_and_consistent_as_configured(path: Path) -> None:
    with Store(path).write() as connection:
        settings = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout", "user_version")
        }
    full = 2
    assert settings == {
        "journal_mode": "wal",
        "foreign_keys": 1,
        "synchronous": full,
        "busy_timeout": 10_000,
        "user_version": len(MIGRATIONS),
    }


def test_several_processes_open_a_new_database_at_once(path: Path) -> None:
    processes("store.tasks.add('x')", path, 4)
    assert Store(path).tasks.count() == 4


def test_two_processes_never_hold_the_same_task(path: Path) -> None:
    store = Store(path)
    ids = [store.tasks.add(f"t{number}").id for number in range(25)]
    code = """
for task in store.tasks.list():
    try:
        print(store.runs.claim(task.id, engine="codex").task_id)
    except CodeFrameError as error:
        assert "already being worked on by run" in error.problem, error.problem
"""
    outputs = processes(code, path, 2)
    assert sorted("".join(outputs).split()) == sorted(ids)
    assert len(store.runs.running()) == 25
    assert {run.attempt for run in store.runs.list()} == {0}


def test_many_threads_share_a_store(path: Path) -> None:
    store = Store(path)
    run = store.runs.claim(store.tasks.add("x").id, engine="codex")
    start = threading.Barrier(8)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            start.wait()
            for _ in range(10):
                with store.write():
                    rounds = store.runs.get(run.id).rounds
                    store.runs.update(run.id, rounds=rounds + 1)
        except BaseException as error:
            failed.append(error)
        finally:
            store.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert store.runs.get(run.id).rounds == 80


def test_kill_9_in_the_middle_loses_nothing_that_was_committed(path: Path) -> None:
    code = f"""{PRELUDE}
for number in range(1000):
    with store.write():
        task = store.tasks.add(f"t{{number}}")
        run = store.runs.claim(task.id, engine="codex")
        store.runs.finish(run.id, RunStatus.COMPLETED, TaskStatus.DONE)
    print(task.id, flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline().strip() for _ in range(60)]
        process.kill()
        seen += process.stdout.read().split("\n")[:-1]  # the last line may be cut
    store = Store(path)
    assert set(seen) <= {task.id for task in store.tasks.list()}
    assert {task.status for task in store.tasks.list()} == {TaskStatus.DONE}
    assert {run.status for run in store.runs.list()} == {RunStatus.COMPLETED}
    with store.write() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


# --- transactions


def test_a_block_is_all_or_nothing(path: Path) -> None:
    store = Store(path)

    def fail() -> None:
        with store.write():
            store.tasks.add("a")
            store.prds.add("p", "text")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (store.tasks.list(), store.prds.list()) == ([], [])
    store.tasks.add("b")
    assert store.tasks.count() == 1


def test_an_inner_block_that_fails_takes_only_itself_back(path: Path) -> None:
    store = Store(path)

    def fail() -> None:
        with store.write():
            store.tasks.add("b")
            with store.write():
                store.tasks.add("c")
            raise ZeroDivisionError

    with store.write():
        store.tasks.add("a")
        with pytest.raises(ZeroDivisionError):
            fail()
        store.tasks.add("d")
    assert [task.title for task in store.tasks.list()] == ["a", "d"]


def test_other_threads_see_a_block_only_when_it_is_done(path: Path) -> None:
    store = Store(path)
    store.tasks.add("a")
    counts: list[int] = []
    look = threading.Thread(target=lambda: counts.append(store.tasks.count()))
    with store.write():
        store.tasks.add("b")
        look.start()
        look.join()
    assert counts == [1]
    assert store.tasks.count() == 2


# --- refusals


def test_a_newer_database_is_refused_and_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        connection.execute("CREATE TABLE novelty (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(RequirementsError, match="written by a newer CodeFrame") as caught:
        Store(path).tasks.list()
    assert "pip install" in caught.value.hint
    assert path.read_bytes() == before
    assert {p.name for p in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}


@pytest.mark.parametrize("junk", [b"this is no database " * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_named(path: Path, junk: bytes) -> None:
    path.write_bytes(junk)
    with pytest.raises(CodeFrameError, match="is damaged") as caught:
        Store(path).tasks.list()
    assert str(path) in caught.value.problem
    assert "cf doctor --fix" in caught.value.hint
    assert path.read_bytes() == junk


def test_a_damaged_page_is_found_when_it_is_read(path: Path) -> None:
    store = Store(path)
    with store.write():
        for number in range(300):
            store.tasks.add(f"t{number}")
    store.close()  # moves the log into the file
    raw = bytearray(path.read_bytes())
    raw[8192:] = b"\xa5" * (len(raw) - 8192)
    path.write_bytes(raw)
    with pytest.raises(CodeFrameError, match="is damaged"):
        Store(path).tasks.list()


def test_an_empty_file_is_a_new_database(path: Path) -> None:
    """What a kill between open and the first commit leaves."""
    path.touch()
    assert Store(path).tasks.list() == []


def test_a_filesystem_without_wal_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite grants no write-ahead log in memory, nor on some network filesystems."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequirementsError, match="write-ahead log was refused"):
        Store(Path(":memory:")).tasks.list()


def test_a_folder_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CodeFrameError, match="cannot be used") as caught:
        Store(tmp_path / "gone" / "state.db").tasks.list()
    assert caught.value.hint


def test_somebody_elses_database_is_not_taken_over(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE tasks (note TEXT)")
    connection.close()
    with pytest.raises(CodeFrameError, match="table tasks already exists"):
        Store(path).tasks.list()


# --- migrations

NOTES: Sequence[Sequence[str]] = (
    ("CREATE TABLE notes (text TEXT)",),
    (
        "ALTER TABLE notes ADD COLUMN stars INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX by_stars ON notes (stars)",
    ),
    ("UPDATE notes SET stars = stars + 1",),
)


def test_an_older_database_is_brought_up_to_date_with_its_rows(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, NOTES[:1])
    connection.execute("INSERT INTO notes VALUES ('old')")
    migrate(connection, NOTES)
    migrate(connection, NOTES)
    assert connection.execute("SELECT * FROM notes").fetchall() == [("old", 1)]
    assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    connection.close()


def test_a_migration_that_fails_leaves_the_last_good_version(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    broken = (*NOTES[:1], (*NOTES[1], "CREATE NONSENSE"))
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, broken)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    migrate(connection, NOTES)
    assert connection.execute("SELECT stars FROM notes").fetchall() == []
    connection.close()


def test_locked_by_a_suspended_process_names_it_and_what_wakes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.1)
    path = tmp_path / "state.db"
    code = f"{PRELUDE}\nwith store.write():\n    print('in', flush=True)\n    sys.stdin.readline()"
    argv = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "in\n"
            with pytest.raises(CodeFrameError, match=f"locked: .* by process {holder.pid} ") as awake:
                Store(path).tasks.add("t")
            assert "cf work status" in awake.value.hint
            holder.send_signal(signal.SIGSTOP)
            os.waitpid(holder.pid, os.WUNTRACED)
            with pytest.raises(CodeFrameError, match="which is suspended") as refused:
                Store(path).tasks.add("t")
            assert f"kill -CONT {holder.pid};" in refused.value.hint
        finally:
            holder.kill()
    Store(path).tasks.add("t")
