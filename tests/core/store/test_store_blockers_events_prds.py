"""The smaller aggregates: blockers, events, PRDs."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeframe.core.errors import CodeFrameError, UsageError
from codeframe.core.models import BlockerStatus, RunStatus, TaskStatus
from codeframe.core.store import Store

B = BlockerStatus


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "state.db")


def test_a_blocker_is_answered_replaced_and_resolved(store: Store) -> None:
    task = store.tasks.add("a")
    blocker = store.blockers.add(task.id, None, "Which colour?")
    assert blocker == store.blockers.get(blocker.id) == store.blockers.find(blocker.id[:6])
    assert (blocker.status, blocker.kind, blocker.answer, blocker.answered_at) == (
        B.OPEN,
        "question",
        None,
        None,
    )
    answered = store.blockers.answer(blocker.id, "blue")
    assert (answered.status, answered.answer) == (B.ANSWERED, "blue")
    assert answered.answered_at is not None
    assert store.blockers.answer(blocker.id, "no, red").answer == "no, red"
    assert store.blockers.resolve(blocker.id).status == B.RESOLVED
    assert store.blockers.resolve(blocker.id).answer == "no, red"
    with pytest.raises(CodeFrameError, match="resolved"):
        store.blockers.answer(blocker.id, "green")


def test_an_answer_leaves_the_task_blocked_for_resume(store: Store) -> None:
    """Were it READY, a plain start would throw the session away (rules 4.8, 8.1)."""
    task = store.tasks.add("a")
    run = store.runs.claim(task.id, engine="codex")
    store.runs.finish(run.id, RunStatus.BLOCKED, TaskStatus.BLOCKED, blocker=("why?", "question"))
    store.blockers.answer(store.blockers.list()[0].id, "because")
    assert store.tasks.get(task.id).status == TaskStatus.BLOCKED
    assert store.tasks.next_ready() is None
    store.runs.claim(task.id, engine="codex", expect=(TaskStatus.BLOCKED,))


def test_an_empty_answer_is_refused(store: Store) -> None:
    blocker = store.blockers.add(store.tasks.add("a").id, None, "?")
    with pytest.raises(UsageError, match="empty"):
        store.blockers.answer(blocker.id, " \n")
    assert store.blockers.get(blocker.id).status == B.OPEN


def test_blockers_are_listed_oldest_first(store: Store) -> None:
    a, b = store.tasks.add("a"), store.tasks.add("b")
    one, two, three = (store.blockers.add(task.id, None, q) for task, q in ((a, "1"), (b, "2"), (a, "3")))
    answered = store.blockers.answer(one.id, "x")
    assert store.blockers.list() == [answered, two, three]
    assert store.blockers.list(B.OPEN) == [two, three]
    assert store.blockers.list(B.OPEN, a.id) == [three]
    assert store.blockers.history(a.id) == [answered, three]


@pytest.mark.parametrize("prefix", ["", "%", "zz"])
def test_an_unknown_blocker_is_named(store: Store, prefix: str) -> None:
    with pytest.raises(UsageError, match="No blocker starts with"):
        store.blockers.find(prefix)
    with pytest.raises(UsageError, match="no blocker"):
        store.blockers.get("unknown")


def test_events_are_read_from_where_one_stopped(store: Store) -> None:
    task = store.tasks.add("a")
    run = store.runs.claim(task.id, engine="codex")
    first = store.events.add("gate", "ruff passed", run_id=run.id, task_id=task.id, metadata={"gate": "ruff"})
    second = store.events.add("note", "by hand", task_id=task.id)
    assert store.events.list(run.id)[1:] == [first]
    assert store.events.list(task_id=task.id)[1:] == [first, second]
    assert store.events.list(after=first.seq) == [second]
    assert len(store.events.list(limit=2)) == 2
    assert first.metadata == {"gate": "ruff"}


def test_the_number_of_an_event_is_never_used_twice(store: Store) -> None:
    """A reader that remembers the last number must not miss what comes after a deletion."""
    task = store.tasks.add("a")
    seq = store.events.add("note", "x", task_id=task.id).seq
    store.tasks.delete(task.id)
    assert store.events.add("note", "y").seq > seq


def test_an_event_of_an_unknown_run_is_an_error_not_an_orphan(store: Store) -> None:
    with pytest.raises(CodeFrameError, match="does not exist"):
        store.events.add("note", "x", run_id="unknown")
    with pytest.raises(CodeFrameError, match="does not exist"):
        store.blockers.add("unknown", None, "?")
    assert store.events.list() == []


def test_the_newest_prd_is_in_force(store: Store) -> None:
    assert store.prds.current() is None
    old = store.prds.add("v1", "# One\n")
    new = store.prds.add("v2", "# Two\n")
    assert store.prds.current() == new
    assert store.prds.list() == [new, old]
    assert store.prds.find(old.id) == old
    with pytest.raises(UsageError, match="empty"):
        store.prds.add("v3", "  \n")
