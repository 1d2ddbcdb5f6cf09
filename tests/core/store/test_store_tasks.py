"""Tasks: adding, finding, ordering, changing, and the dependencies between them (rules 8.1 to 8.3)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from codeframe.core.errors import CodeFrameError, UsageError
from codeframe.core.models import RunStatus, Task, TaskStatus
from codeframe.core.store import Store

S = TaskStatus


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "state.db")


def with_id(store: Store, id: str, title: str = "planted") -> None:
    """A task with an id of our choice, for tests of prefixes."""
    task = store.tasks.add(title)
    with store.write() as connection:
        connection.execute("UPDATE tasks SET id = ? WHERE id = ?", (id, task.id))


def titles(tasks: list[Task]) -> list[str]:
    return [task.title for task in tasks]


def statements(store: Store) -> tuple[sqlite3.Connection, list[str]]:
    """This thread's connection, and a list that every statement it runs from now on is appended to."""
    with store.write() as connection:
        pass
    seen: list[str] = []
    connection.set_trace_callback(seen.append)
    return connection, seen


def test_a_task_comes_back_as_it_was_added(store: Store) -> None:
    first = store.tasks.add("first")
    task = store.tasks.add(
        " Ünïcode \N{SNOWMAN} % _ ' \" ",
        description="line\nline\x00",
        depends_on=[first.id],
        priority=-3,
        engine="codex",
        status=S.BACKLOG,
    )
    assert task == store.tasks.get(task.id)
    assert (task.title, task.description) == ("Ünïcode \N{SNOWMAN} % _ ' \"", "line\nline\x00")
    assert (task.priority, task.engine, task.status, task.depends_on) == (-3, "codex", S.BACKLOG, (first.id,))
    assert task.created_at.utcoffset() is not None
    assert len(task.id) == 12
    assert int(task.id, 16) >= 0


def test_a_badly_encoded_argument_is_stored_all_the_same(store: Store) -> None:
    assert store.tasks.add("caf\udce9").title == "caf?"


@pytest.mark.parametrize("title", ["", "  ", "\n"])
def test_an_empty_title_is_refused(store: Store, title: str) -> None:
    with pytest.raises(UsageError, match="needs a title"):
        store.tasks.add(title)
    task = store.tasks.add("x")
    with pytest.raises(UsageError, match="needs a title"):
        store.tasks.update(task.id, title=title)
    assert store.tasks.count() == 1


@pytest.mark.parametrize("status", [S.IN_PROGRESS, S.DONE, S.FAILED, S.BLOCKED, S.MERGED])
def test_a_new_task_is_ready_or_in_the_backlog(store: Store, status: TaskStatus) -> None:
    with pytest.raises(UsageError, match="only BACKLOG and READY"):
        store.tasks.add("x", status=status)


@pytest.mark.parametrize("priority", [10**9, -(10**30)])
def test_a_priority_out_of_range_is_refused(store: Store, priority: int) -> None:
    with pytest.raises(UsageError, match="priority"):
        store.tasks.add("x", priority=priority)


def test_an_unknown_dependency_is_refused_and_nothing_stays(store: Store) -> None:
    with pytest.raises(UsageError, match="No task starts with 'abc'"):
        store.tasks.add("x", depends_on=["abc"])
    assert store.tasks.list() == []


def test_dependencies_may_be_prefixes_and_named_twice(store: Store) -> None:
    a, b = store.tasks.add("a"), store.tasks.add("b")
    task = store.tasks.add("c", depends_on=[b.id[:11], a.id, b.id])
    assert task.depends_on == (b.id, a.id)


# --- finding


def test_any_unique_prefix_finds_a_task(store: Store) -> None:
    with_id(store, "abc123456789")
    with_id(store, "abd000000000")
    with_id(store, "123456789012")
    for prefix in ("abc", "ABC1", " abc123456789 "):
        assert store.tasks.find(prefix).id == "abc123456789"
    assert store.tasks.find("1").id == "123456789012"


def test_an_ambiguous_prefix_lists_the_candidates(store: Store) -> None:
    with_id(store, "abc123456789", "paint the shed")
    with_id(store, "abd000000000", "mow the lawn")
    with pytest.raises(UsageError) as caught:
        store.tasks.find("ab")
    assert "abc123456789 paint the shed; abd000000000 mow the lawn" in caught.value.problem
    assert caught.value.hint


def test_many_candidates_are_cut_and_it_is_said(store: Store) -> None:
    for number in range(15):
        with_id(store, f"f{number:011x}")
    with pytest.raises(UsageError) as caught:
        store.tasks.find("f")
    assert caught.value.problem.count("planted") == 10
    assert caught.value.problem.endswith("; and more.")


@pytest.mark.parametrize(
    "prefix", ["", " ", "%", "_", "a%", "a_c", "g", "abc1234567890", "'", "\x00", "٣", "é" * 500]
)
def test_nothing_else_matches(store: Store, prefix: str) -> None:
    with_id(store, "abc123456789")
    with pytest.raises(UsageError, match="No task starts with") as caught:
        store.tasks.find(prefix)
    assert caught.value.hint == "Type: cf tasks list"
    assert len(caught.value.problem) < 100


def test_get_wants_the_whole_id(store: Store) -> None:
    task = store.tasks.add("x")
    with pytest.raises(UsageError, match="no task"):
        store.tasks.get(task.id[:11])


# --- listing


def test_the_order_is_priority_then_age(store: Store) -> None:
    for title, priority in (("old", 0), ("urgent", 5), ("new", 0), ("later", -1)):
        store.tasks.add(title, priority=priority)
    assert titles(store.tasks.list()) == ["urgent", "old", "new", "later"]
    assert titles(store.tasks.list(limit=2, offset=1)) == ["old", "new"]
    assert titles(store.tasks.list(limit=0)) == []
    assert titles(store.tasks.list(offset=3)) == ["later"]


def test_lists_and_counts_by_status(store: Store) -> None:
    store.tasks.add("a")
    store.tasks.add("b", status=S.BACKLOG)
    assert titles(store.tasks.list(S.BACKLOG)) == ["b"]
    assert (store.tasks.count(), store.tasks.count(S.READY), store.tasks.count(S.DONE)) == (2, 1, 0)
    assert store.tasks.counts() == {status: int(status in (S.READY, S.BACKLOG)) for status in S}


def test_a_list_is_one_statement_and_sorts_nothing(store: Store) -> None:
    """Ten thousand tasks stay quick: no query per task, and an index for what lists (rule 8.2)."""
    previous: list[str] = []
    with store.write():
        for number in range(50):
            previous = [store.tasks.add(f"t{number}", depends_on=previous).id]
    connection, seen = statements(store)
    assert len(store.tasks.list()) == 50
    store.tasks.list(S.READY, limit=10)
    store.tasks.next_ready()
    assert len(seen) == 3
    for statement in list(seen):
        plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}"))
        assert "INDEX tasks_" in plan
        assert "TEMP B-TREE" not in plan
        assert "SCAN dependencies" not in plan


# --- changing


def test_fields_are_changed_and_nothing_else(store: Store) -> None:
    task = store.tasks.add("a", description="d", engine="codex", priority=1)
    changed = store.tasks.update(task.id, title=" b ", priority=7)
    assert (changed.title, changed.priority, changed.description, changed.engine) == ("b", 7, "d", "codex")
    assert changed.updated_at > task.updated_at
    assert store.tasks.update(task.id, engine=None).engine is None
    with pytest.raises(UsageError, match="status cannot be set"):
        store.tasks.update(task.id, status=S.DONE)
    with pytest.raises(UsageError, match="no task"):
        store.tasks.update("unknown", title="x")


def test_status_is_compared_and_set(store: Store) -> None:
    task = store.tasks.add("a", status=S.BACKLOG)
    assert store.tasks.set_status(task.id, S.READY, expect=S.BACKLOG).status == S.READY
    with pytest.raises(CodeFrameError, match="is READY, not BACKLOG any more"):
        store.tasks.set_status(task.id, S.READY, expect=S.BACKLOG)
    with pytest.raises(CodeFrameError, match="cannot be set to"):
        store.tasks.set_status(task.id, S.DONE)


def test_setting_the_status_it_has_is_no_change(store: Store) -> None:
    task = store.tasks.add("a")
    assert store.tasks.set_status(task.id, S.READY) == task


def test_in_progress_is_entered_and_left_only_with_a_run(store: Store) -> None:
    task = store.tasks.add("a")
    with pytest.raises(CodeFrameError) as caught:
        store.tasks.set_status(task.id, S.IN_PROGRESS)
    assert caught.value.hint == f"Type: cf work start {task.id[:8]} --execute"
    store.runs.claim(task.id, engine="codex")
    with pytest.raises(CodeFrameError) as caught:
        store.tasks.set_status(task.id, S.READY)
    assert f"cf work stop {task.id[:8]}" in caught.value.hint
    for frm, to in ((S.IN_PROGRESS, S.READY), (S.READY, S.IN_PROGRESS)):
        with pytest.raises(CodeFrameError):
            store.tasks.set_all_status(frm, to)


def test_the_backlog_is_approved_at_once(store: Store) -> None:
    for title in "abc":
        store.tasks.add(title, status=S.BACKLOG)
    store.tasks.add("d")
    assert store.tasks.set_all_status(S.BACKLOG, S.READY) == 3
    assert store.tasks.set_all_status(S.READY, S.READY) == 0
    with pytest.raises(CodeFrameError, match="READY cannot be set to DONE"):
        store.tasks.set_all_status(S.READY, S.DONE)
    assert store.tasks.count(S.READY) == 4


# --- dependencies


def finish(store: Store, task: Task, run: RunStatus = RunStatus.COMPLETED, to: TaskStatus = S.DONE) -> None:
    store.runs.finish(store.runs.claim(task.id, engine="codex").id, run, to)


def test_the_next_task_is_one_whose_dependencies_are_done(store: Store) -> None:
    a = store.tasks.add("a")
    b = store.tasks.add("b", depends_on=[a.id], priority=9)
    store.tasks.add("backlog", status=S.BACKLOG, priority=99)
    assert store.tasks.next_ready() == a
    assert store.tasks.unmet_dependencies(b.id) == [a]
    finish(store, a, RunStatus.FAILED, S.FAILED)
    assert store.tasks.next_ready() is None
    store.tasks.set_status(a.id, S.READY)
    finish(store, a)
    assert store.tasks.next_ready() == b
    store.tasks.set_status(a.id, S.MERGED)
    assert store.tasks.next_ready() == b
    assert store.tasks.unmet_dependencies(b.id) == []
    assert store.tasks.dependents(a.id) == [b]


def test_a_cycle_is_refused_and_printed(store: Store) -> None:
    a = store.tasks.add("alpha")
    b = store.tasks.add("beta", depends_on=[a.id])
    c = store.tasks.add("gamma", depends_on=[b.id])
    with pytest.raises(UsageError) as caught:
        store.tasks.add_dependency(a.id, c.id)
    assert f"{a.id} 'alpha' -> {c.id} 'gamma' -> {b.id} 'beta' -> {a.id} 'alpha'" in caught.value.problem
    with pytest.raises(UsageError, match=f"{a.id} 'alpha' -> {a.id} 'alpha'"):
        store.tasks.add_dependency(a.id, a.id)
    assert store.tasks.get(a.id).depends_on == ()


def test_dependencies_are_added_and_removed(store: Store) -> None:
    a, b, c = (store.tasks.add(title) for title in "abc")
    store.tasks.add_dependency(a.id, c.id)
    store.tasks.add_dependency(a.id, c.id)
    assert store.tasks.add_dependency(a.id, b.id).depends_on == (c.id, b.id)
    assert store.tasks.remove_dependency(a.id, c.id).depends_on == (b.id,)
    assert store.tasks.remove_dependency(a.id, c.id).depends_on == (b.id,)
    with pytest.raises(UsageError, match="no task"):
        store.tasks.add_dependency(a.id, "unknown")


# --- deleting


def test_deleting_takes_everything_of_the_task_along(store: Store) -> None:
    a = store.tasks.add("a")
    b = store.tasks.add("b", depends_on=[a.id])
    run = store.runs.claim(a.id, engine="codex")
    store.runs.add_round(run.id, 0, {})
    store.runs.finish(run.id, RunStatus.BLOCKED, S.BLOCKED, blocker=("why?", "question"))
    with pytest.raises(CodeFrameError, match=f"{b.id} 'b'"):
        store.tasks.delete(a.id)
    store.tasks.delete(a.id, force=True)
    assert store.tasks.list() == [store.tasks.get(b.id)]
    assert store.tasks.get(b.id).depends_on == ()
    assert (
        store.runs.list() == store.runs.rounds(run.id) == store.blockers.list() == store.events.list() == []
    )


def test_a_task_at_work_is_not_deleted(store: Store) -> None:
    task = store.tasks.add("a")
    store.runs.claim(task.id, engine="codex")
    with pytest.raises(CodeFrameError, match="being worked on"):
        store.tasks.delete(task.id, force=True)
    with pytest.raises(UsageError, match="no task"):
        store.tasks.delete("unknown")
