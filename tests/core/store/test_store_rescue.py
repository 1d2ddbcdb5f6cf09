"""A damaged database: nothing of what can still be read is lost, and what is kept is whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.core.errors import CodeFrameError
from codeframe.core.models import RunStatus, TaskStatus
from codeframe.core.store import Store, database
from codeframe.core.store.rescue import Rescued, rescue, trouble

PAGE = 4096


class Whole(bytes):
    """The file of a database; hypothesis prints what a test is given."""

    def __repr__(self) -> str:
        return "Whole()"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def filled(path: Path) -> Store:
    """80 tasks, every second one with a run of one round, a PRD and a run that is at work."""
    store = Store(path)
    with store.write():
        store.prds.add("plan", "words " * 30)
        for number in range(80):
            task = store.tasks.add(f"t{number}", description="word " * 60)
            if number % 2:
                run = store.runs.claim(task.id, engine="e")
                store.runs.add_round(run.id, 0, {"start": "a", "end": "b"})
                if number != 79:
                    store.runs.finish(run.id, RunStatus.COMPLETED, TaskStatus.DONE)
    return store


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The file of such a database."""
    store = filled(tmp_path_factory.mktemp("whole") / "state.db")
    store.close()  # moves the log into the file
    return Whole(store.path.read_bytes())


def in_memory(raw: bytes) -> sqlite3.Connection:
    """The database, told in its header that it has no log: memory has none."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(raw[:18] + b"\1\1" + raw[20:])
    return connection


def readable(raw: bytes) -> bool:
    """Whether the list of tables, without which SQLite finds none, can be read."""
    connection = in_memory(raw)
    try:
        connection.execute("SELECT sql FROM sqlite_master").fetchall()
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()
    return True


def top_of(whole: bytes, name: str) -> slice:
    """Where the first page of a table or an index is."""
    connection = in_memory(whole)
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
    connection.close()
    return slice((root - 1) * PAGE, root * PAGE)


def check(path: Path) -> Store:
    """Whole for SQLite and by rule 8.1, and of use."""
    assert trouble(path) is None
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    store = Store(path)
    working = {task.id for task in store.tasks.list() if task.status is TaskStatus.IN_PROGRESS}
    assert working == {run.task_id for run in store.runs.running()}
    for run in store.runs.list():
        store.runs.rounds(run.id)
        store.tasks.get(run.task_id)
    store.tasks.add("one more")
    return store


def test_a_whole_database_has_no_trouble_and_looking_changes_nothing(path: Path, whole: Whole) -> None:
    path.write_bytes(whole)
    assert trouble(path) is None
    assert path.read_bytes() == whole


def rescued(path: Path) -> tuple[Rescued | None, str]:
    """What became of it, or why nothing did."""
    try:
        return rescue(path), ""
    except CodeFrameError as error:
        return None, error.problem


@settings(max_examples=25)
@given(data=st.data())
def test_pages_that_are_damaged_cost_no_more_than_what_is_on_them(
    tmp_path_factory: pytest.TempPathFactory, whole: Whole, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "state.db"
    pages = st.integers(1, len(whole) // PAGE - 1)  # the first one is the schema's
    raw = bytearray(whole)
    for page in data.draw(st.lists(pages, min_size=1, max_size=3, unique=True)):
        raw[page * PAGE : (page + 1) * PAGE] = data.draw(st.sampled_from([b"\xa5", b"\0"])) * PAGE
    path.write_bytes(raw)
    if trouble(path) is None:  # a page that nobody uses
        return
    listed = readable(bytes(raw))
    done, refusal = rescued(path)
    if done is None:
        assert not listed  # and even then some of it may be readable
        assert "Nothing can be read" in refusal
        assert path.read_bytes() == raw
        return
    assert done.aside.read_bytes() == raw
    assert sum(done.kept.values()) > 0
    store = check(path)
    store.close()


def test_a_damaged_index_costs_nothing(path: Path, whole: Whole) -> None:
    raw = bytearray(whole)
    raw[top_of(whole, "tasks_in_order")] = b"\xa5" * PAGE
    path.write_bytes(raw)
    assert trouble(path) is not None
    done = rescue(path)
    assert done.kept == {"tasks": 80, "runs": 40, "rounds": 40, "events": 79, "prds": 1}
    assert done.damaged == ()
    check(path)


@pytest.mark.parametrize("cut", [1, PAGE, 2 * PAGE])
def test_a_database_that_lacks_its_end_gives_all_that_is_left(path: Path, whole: Whole, cut: int) -> None:
    path.write_bytes(whole[:-cut])
    assert trouble(path) is not None
    done = rescue(path)
    assert done.kept["tasks"] == 80
    assert done.aside.read_bytes() == whole[:-cut]
    check(path)


VALUES = [
    ("tasks", "status", "'WEIRD'", "BACKLOG"),
    ("tasks", "title", "CAST(x'b574' AS TEXT)", "\ufffdt"),
    ("tasks", "title", "x'b574'", "\ufffdt"),
    ("tasks", "priority", "1 << 60", 0),
    ("tasks", "priority", "'high'", 0),
    ("runs", "status", "'RUN'", "FAILED"),
    ("runs", "leftover", "'?'", "pending"),
    ("runs", "usage", """'{"tokens": 1}'""", "{}"),
    ("runs", "usage", """'{"input_tokens": "1"}'""", "{}"),
    ("runs", "evidence", "'{'", "{}"),
    ("runs", "options", "'[]'", "{}"),
    ("runs", "error_class", "'odd'", None),
    ("runs", "ended_at", "'yesterday'", None),
    ("events", "metadata", "''", "{}"),
]


@pytest.mark.parametrize(("table", "column", "damage", "instead"), VALUES)
def test_one_damaged_value_is_refused_in_words_and_costs_that_value_only(
    path: Path, whole: Whole, table: str, column: str, damage: str, instead: object
) -> None:
    """Rule 8.4: not "Internal error", and not a hint at space and permissions."""
    path.write_bytes(whole)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        key = connection.execute(f"SELECT rowid FROM {table} ORDER BY rowid LIMIT 1 OFFSET 1").fetchone()[0]
        id_ = connection.execute(f"SELECT * FROM {table} WHERE rowid = ?", (key,)).fetchone()[0]
        connection.execute(f"UPDATE {table} SET {column} = {damage} WHERE rowid = ?", (key,))
    assert trouble(path) == f"in {table}, row {id_}: {column}"
    store = Store(path)
    with pytest.raises(CodeFrameError, match=f"is damaged .in {table}, row {id_}: {column}") as refused:
        store.tasks.list(), store.runs.list(), store.events.list()
    assert "cf doctor --fix" in refused.value.hint
    store.close()
    done = rescue(path)
    assert done.mended == (f"row {id_} of {table} mended ({column})",)
    assert done.kept == {"tasks": 80, "runs": 40, "rounds": 40, "events": 79, "prds": 1}
    check(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        value = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (key,)).fetchone()[0]
    assert value == instead


def test_a_row_that_is_of_no_use_without_its_damaged_value_is_left_out_alone(
    path: Path, whole: Whole
) -> None:
    path.write_bytes(whole)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE rounds SET record = 'x' WHERE run_id = (SELECT id FROM runs LIMIT 1)")
    done = rescue(path)
    assert done.kept["rounds"] == 39
    assert [each.partition("rounds ")[2] for each in done.mended] == ["left out (record)"]
    check(path)


def test_a_task_with_a_damaged_id_gets_another_one(path: Path, whole: Whole) -> None:
    path.write_bytes(whole)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE tasks SET id = '../' || id WHERE title = 't0'")
    assert rescue(path).kept["tasks"] == 80
    assert "t0" in [task.title for task in check(path).tasks.list()]


def test_runs_whose_task_is_lost_get_one_so_that_their_work_can_be_had(path: Path) -> None:
    store = filled(path)
    lost = store.runs.running()[0].task_id
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM tasks WHERE id = ?", (lost,))
    connection.commit()
    connection.close()
    rescue(path)
    store = check(path)
    assert store.tasks.get(lost).title.startswith("Recovered")


def test_what_is_only_in_the_log_is_kept(path: Path) -> None:
    killed = path.with_name("killed")
    killed.mkdir()
    store = filled(killed / "it.db")  # copied while it is open, as a kill leaves it: all of it is in the log
    for side in ("", "-wal"):
        shutil.copyfile(f"{store.path}{side}", f"{path}{side}")
    assert rescue(path).kept["tasks"] == 80
    assert check(path).tasks.count() == 81


WRITER = """
import sys, time
from pathlib import Path
from codeframe.core.store import Store
while True:
    store = Store(Path(sys.argv[1]))
    print(store.tasks.add("meanwhile").id, flush=True)
    store.close()
    time.sleep(0.02)
"""


def test_rows_that_other_terminals_write_during_a_rescue_are_kept(path: Path, whole: Whole) -> None:
    raw = bytearray(whole)
    raw[top_of(whole, "runs_in_order")] = b"\xa5" * PAGE  # adding a task does not meet it
    path.write_bytes(raw)
    argv = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    acknowledged: set[str] = set()
    try:
        outputs = [writer.stdout for writer in writers if writer.stdout is not None]
        for moment in ("before", "after"):
            for output in outputs:
                acknowledged.update(output.readline().strip() for _ in range(3))
            if moment == "before":
                rescue(path)
    finally:
        for writer in writers:
            writer.kill()
            acknowledged.update(writer.communicate()[0].split("\n")[:-1])
    assert len(acknowledged) >= 12
    assert acknowledged <= {task.id for task in check(path).tasks.list()}


def test_a_rescue_is_refused_while_another_has_the_database_open(
    path: Path, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.1)
    path.write_bytes(whole)
    store = Store(path)
    store.tasks.count()
    with pytest.raises(CodeFrameError, match="open in another command") as refused:
        rescue(path)
    assert refused.value.hint.endswith("type: cf doctor --fix")
    assert not [*path.parent.glob("*damaged*")]
    store.close()
    with database.alone(path, "cf doctor --fix"), pytest.raises(CodeFrameError, match="by cf doctor --fix"):
        store.tasks.count()
    rescue(path)
    check(path)


def test_nothing_readable_changes_nothing(path: Path) -> None:
    path.write_bytes(b"no database " * 1000)
    assert "not a database" in (trouble(path) or "")
    with pytest.raises(CodeFrameError, match="Nothing can be read"):
        rescue(path)
    assert {each.name for each in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}


KILLED = """
import os, signal, sys
from pathlib import Path
from codeframe.core.store import rescue
left = int(sys.argv[2])
def trace(frame, event, arg):
    global left
    if not frame.f_code.co_filename.endswith("rescue.py"):
        return None
    if event == "line" and frame.f_code.co_name in ("_rescue", "_set_aside", "_beside", "_sync"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return trace
sys.settrace(trace)
rescue.rescue(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("line", [5, 12, 25, 33, 38, 43])
def test_kill_9_of_a_rescue_loses_nothing_and_the_next_one_finishes(
    path: Path, whole: Whole, line: int
) -> None:
    raw = bytearray(whole)
    raw[top_of(whole, "tasks_in_order")] = b"\xa5" * PAGE
    path.write_bytes(raw)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), str(line)], cwd=os.getcwd())
    assert killed.returncode == -signal.SIGKILL
    if trouble(path) is not None:
        assert path.read_bytes() == raw
        rescue(path)
    assert check(path).tasks.count() == 81
    assert any(each.read_bytes() == raw for each in path.parent.glob("state.db.damaged-*[0-9]"))
