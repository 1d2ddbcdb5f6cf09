"""Runs: claimed and finished together with their task (rules 4.3, 4.8, 8.1)."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.errors import CodeFrameError, UsageError
from codeframe.core.models import (
    BlockerStatus,
    ErrorClass,
    Leftover,
    Run,
    RunKind,
    RunStatus,
    Task,
    TaskStatus,
    TokenUsage,
)
from codeframe.core.store import Store

R, S = RunStatus, TaskStatus


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "state.db")


@pytest.fixture
def task(store: Store) -> Task:
    return store.tasks.add("paint the shed")


def claim(store: Store, task: Task, **values: Any) -> Run:
    return store.runs.claim(task.id, engine="codex", **values)


def test_a_claim_takes_the_task_and_makes_the_run(store: Store, task: Task) -> None:
    run = claim(store, task, engine_why="--engine", model="m", options={"strict": True}, process={"pid": 1})
    assert run == store.runs.get(run.id) == store.runs.latest(task.id) == store.runs.first(task.id)
    assert (run.status, run.kind, run.attempt, run.previous_run_id) == (R.RUNNING, RunKind.START, 0, None)
    assert (run.engine_why, run.model, run.options, run.process) == (
        "--engine",
        "m",
        {"strict": True},
        {"pid": 1},
    )
    assert store.tasks.get(task.id).status == S.IN_PROGRESS
    assert store.runs.running() == [run]
    assert [event.type for event in store.events.list(run.id)] == ["run_started"]


def test_a_second_claim_says_who_was_first(store: Store, task: Task) -> None:
    run = claim(store, task)
    with pytest.raises(CodeFrameError) as caught:
        claim(store, task, expect=tuple(S))
    assert run.id in caught.value.problem
    assert "cf work status" in caught.value.hint
    assert f"cf work stop {task.id[:8]}" in caught.value.hint
    assert store.runs.list() == [run]


def test_claiming_from_the_backlog_approves(store: Store) -> None:
    task = store.tasks.add("x", status=S.BACKLOG)
    with pytest.raises(CodeFrameError, match="is BACKLOG") as caught:
        claim(store, task)
    assert "status READY" in caught.value.hint
    claim(store, task, expect=(S.READY, S.BACKLOG))
    assert store.tasks.get(task.id).status == S.IN_PROGRESS


@pytest.mark.parametrize(
    ("run_status", "task_status", "hint"),
    [
        (R.FAILED, S.FAILED, "cf work retry"),
        (R.BLOCKED, S.BLOCKED, "cf work resume"),
        (R.COMPLETED, S.DONE, "status READY"),
    ],
)
def test_a_start_on_another_state_names_the_way(
    store: Store, task: Task, run_status: R, task_status: S, hint: str
) -> None:
    first = store.runs.finish(claim(store, task).id, run_status, task_status)
    with pytest.raises(CodeFrameError) as caught:
        claim(store, task)
    assert hint in caught.value.hint
    again = claim(store, task, expect=(task_status,), kind=RunKind.RETRY)
    assert (again.attempt, again.previous_run_id, again.kind) == (1, first.id, RunKind.RETRY)
    assert (store.runs.first(task.id), store.runs.latest(task.id)) == (first, again)


def test_what_is_merged_is_never_started_again(store: Store, task: Task) -> None:
    store.runs.finish(claim(store, task).id, R.COMPLETED, S.DONE)
    store.tasks.set_status(task.id, S.MERGED)
    with pytest.raises(CodeFrameError):
        claim(store, task, expect=tuple(S))
    assert store.runs.running() == []


def test_a_claim_that_fails_leaves_nothing(store: Store, task: Task) -> None:
    with pytest.raises(TypeError):
        claim(store, task, no_such_field=1)
    with pytest.raises(UsageError, match="no task"):
        store.runs.claim("unknown", engine="codex")
    assert store.tasks.get(task.id) == task
    assert store.runs.list() == store.events.list() == []


def test_the_verdict_changes_run_task_blocker_and_events_together(store: Store, task: Task) -> None:
    run = claim(store, task)
    done = store.runs.finish(
        run.id,
        R.BLOCKED,
        S.BLOCKED,
        blocker=("Which colour?", "question"),
        rounds=2,
        leftover=Leftover.PENDING,
        error_class=ErrorClass.AUTH,
        error="no login",
        summary="half done",
        duration_ms=1234,
        evidence={"exit": 1},
    )
    assert done == store.runs.get(run.id)
    assert done.ended_at is not None
    assert done == run._replace(
        status=R.BLOCKED,
        rounds=2,
        leftover=Leftover.PENDING,
        error_class=ErrorClass.AUTH,
        error="no login",
        summary="half done",
        duration_ms=1234,
        evidence={"exit": 1},
        ended_at=done.ended_at,
    )
    assert store.tasks.get(task.id).status == S.BLOCKED
    (blocker,) = store.blockers.list()
    assert (blocker.question, blocker.kind, blocker.run_id, blocker.status) == (
        "Which colour?",
        "question",
        run.id,
        BlockerStatus.OPEN,
    )
    event = store.events.list(run.id)[-1]
    assert (event.type, event.message) == ("run_finished", "BLOCKED: no login")
    assert event.metadata == {"run": "BLOCKED", "task": "BLOCKED", "error_class": "auth"}


def test_a_run_ends_once(store: Store, task: Task) -> None:
    run = store.runs.finish(claim(store, task).id, R.COMPLETED, S.DONE)
    with pytest.raises(CodeFrameError, match="already ended: COMPLETED"):
        store.runs.finish(run.id, R.FAILED, S.FAILED, blocker=("?", "question"))
    assert store.runs.get(run.id) == run
    assert store.tasks.get(task.id).status == S.DONE
    assert store.blockers.list() == []


@pytest.mark.parametrize(
    ("run_status", "task_status"), [(R.RUNNING, S.DONE), (R.COMPLETED, S.MERGED), (R.FAILED, S.BACKLOG)]
)
def test_an_illegal_verdict_changes_nothing(store: Store, task: Task, run_status: R, task_status: S) -> None:
    run = claim(store, task)
    with pytest.raises(CodeFrameError):
        store.runs.finish(run.id, run_status, task_status)
    with pytest.raises(TypeError):
        store.runs.finish(run.id, R.COMPLETED, S.DONE, no_such_field=1)
    assert store.runs.get(run.id) == run
    assert store.tasks.get(task.id).status == S.IN_PROGRESS


def test_fields_are_updated_before_and_after_the_end(store: Store, task: Task) -> None:
    run = claim(store, task)
    moment = datetime(2024, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    store.runs.update(run.id, session_id="s", base="b", end="e", verification="verified", started_at=moment)
    store.runs.finish(run.id, R.STOPPED, S.READY, leftover=Leftover.PENDING)
    changed = store.runs.update(run.id, leftover=Leftover.KEPT)
    assert (changed.session_id, changed.base, changed.end, changed.verification) == (
        "s",
        "b",
        "e",
        "verified",
    )
    assert (changed.started_at, changed.leftover, changed.status) == (moment, Leftover.KEPT, R.STOPPED)
    for fixed in ({"status": R.RUNNING}, {"task_id": "x"}, {"id": "x"}, {"attempt": 1}, {"nonsense": 1}):
        with pytest.raises(TypeError):
            store.runs.update(run.id, **fixed)
    with pytest.raises(UsageError, match="no run"):
        store.runs.update("unknown", model="m")
    assert store.runs.get(run.id) == changed


def test_usage_adds_up(store: Store, task: Task) -> None:
    run = claim(store, task)
    store.runs.add_usage(run.id, TokenUsage(1, 2, 3, None, "m"))
    total = store.runs.add_usage(run.id, TokenUsage(10, 20, 30, 0.5)).usage
    assert total == TokenUsage(11, 22, 33, 0.5, "m")


def test_a_stop_is_asked_for_once_and_seen(store: Store, task: Task) -> None:
    run = claim(store, task)
    assert not store.runs.stop_requested(run.id)
    assert store.runs.request_stop(run.id)
    first = store.runs.get(run.id).stop_requested_at
    assert first is not None
    assert store.runs.request_stop(run.id)
    assert store.runs.get(run.id).stop_requested_at == first
    assert store.runs.stop_requested(run.id)
    store.runs.finish(run.id, R.STOPPED, S.READY)
    assert not store.runs.request_stop(run.id)
    assert not store.runs.stop_requested("unknown")


def test_rounds_are_kept_in_order_and_written_again(store: Store, task: Task) -> None:
    run = claim(store, task)
    store.runs.add_round(run.id, 1, {"status": "completed"})
    store.runs.add_round(run.id, 0, {"start": "abc"})
    store.runs.add_round(
        run.id, 0, {"start": "abc", "end": "def", "where": Path("x"), "class": ErrorClass.GATES}
    )
    assert store.runs.rounds(run.id) == [
        {"start": "abc", "end": "def", "where": "x", "class": "gates"},
        {"status": "completed"},
    ]
    with pytest.raises(UsageError, match="no run"):
        store.runs.add_round("unknown", 0, {})


def test_lists_are_newest_first(store: Store) -> None:
    runs = []
    for title in "abc":
        task = store.tasks.add(title)
        runs.append(claim(store, task))
    store.runs.finish(runs[0].id, R.FAILED, S.FAILED, leftover=Leftover.PENDING)
    store.runs.finish(runs[2].id, R.FAILED, S.FAILED, leftover=Leftover.PENDING)
    ids = [run.id for run in runs]
    assert [run.id for run in store.runs.list()] == ids[::-1]
    assert [run.id for run in store.runs.list(limit=1)] == [ids[2]]
    assert [run.id for run in store.runs.list(status=R.FAILED)] == [ids[2], ids[0]]
    assert [run.id for run in store.runs.list(task_id=runs[1].task_id)] == [ids[1]]
    assert [run.id for run in store.runs.with_leftovers()] == [ids[2], ids[0]]
    assert [run.id for run in store.runs.running()] == [ids[1]]


def test_a_prefix_finds_a_run_and_an_ambiguous_one_tells_them_apart(store: Store, task: Task) -> None:
    run = claim(store, task)
    assert store.runs.find(run.id[:5].upper()) == run
    other = claim(store, store.tasks.add("b"))
    with store.write() as connection:
        for id_, planted in ((run.id, "aa1111111111"), (other.id, "aa2222222222")):
            connection.execute("DELETE FROM events WHERE run_id = ?", (id_,))
            connection.execute("UPDATE runs SET id = ? WHERE id = ?", (planted, id_))
    with pytest.raises(UsageError, match=r"aa1111111111 codex RUNNING 20.*aa2222222222"):
        store.runs.find("a")
    with pytest.raises(UsageError, match="No run starts with"):
        store.runs.find("%")


def test_the_database_itself_refuses_a_second_live_run(store: Store, task: Task) -> None:
    store.runs.finish(claim(store, task).id, R.FAILED, S.FAILED)
    claim(store, task, expect=(S.FAILED,))
    with store.write() as connection, pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        connection.execute("UPDATE runs SET status = 'RUNNING'")
    assert len(store.runs.running()) == 1
