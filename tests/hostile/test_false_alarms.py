"""Nothing is taken for dead, or for ours, that is not: numbers that came again, a clock that was set back (rule 4.4).

A suspended `cf` is in test_stops.py, another pid namespace or host in test_owners.py.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from datetime import timedelta

import pytest

from codeframe.core.engine_session import session_note
from codeframe.core.heartbeat import beat
from codeframe.core.leftovers import ENGINE, OPEN_START, snapshots_of
from codeframe.core.models import Run, Task, utc_now
from codeframe.core.process_sweep import process_identity, started
from codeframe.core.run_lock import lock_run
from tests.hostile.stage import UNSTAGED, Stage
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.scenario import call

NEGATIVE = re.compile(r"(?<![\w-])-\d+(\.\d+)?[smhd]")


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else's that leads its session."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


def claimed(stage: Stage, task: Task, **process: object) -> Run:
    """A run in the middle of an engine call, as a killed `cf` leaves it in the database."""
    base = snapshots_of(stage.workspace).take(task.id, "base").commit
    place = {"tree": stage.workspace.tree_key, "toplevel": str(stage.repo), OPEN_START: base}
    return stage.workspace.store.runs.claim(
        task.id, engine="claude-code", base=base, end=base, process={**place, **process_identity(), **process}
    )


def test_a_stranger_that_got_the_numbers_of_a_dead_run_is_never_signalled(
    stage: Stage, stranger: subprocess.Popen[bytes]
) -> None:
    """Its pid is the killed cf's, its session and pid are the engine's; only the start times tell."""
    task = stage.task()
    note = {**session_note(stranger.pid), "started": started(stranger.pid) - 3600}
    run = claimed(stage, task, pid=stranger.pid, **{ENGINE: note})
    stage.workspace.run_dir(run.id).mkdir(parents=True)
    beat(stage.workspace.run_dir(run.id))
    said = stage.cf("work", "status")
    assert "had crashed" in said.stderr
    assert "ended" not in said.stderr
    assert stranger.poll() is None
    assert stage.status(task) == "READY"
    stage.check_persons_work()


def test_a_lease_that_names_a_stranger_is_dead_all_the_same(
    stage: Stage, stranger: subprocess.Popen[bytes]
) -> None:
    """That its number is in use says nothing: the lock is free."""
    task = stage.task()
    run = claimed(stage, task, pid=stranger.pid)
    lease = stage.workspace.run_dir(run.id) / "lease"
    lease.parent.mkdir(parents=True)
    lease.write_text(f'{{"pid": {stranger.pid}}}')
    stage.cf("work", "status")
    assert stage.status(task) == "READY"
    assert stranger.poll() is None


def test_a_clock_that_was_set_back_an_hour_reaps_nobody_and_makes_no_negative_time(stage: Stage) -> None:
    task, later = stage.task(), utc_now() + timedelta(hours=1)
    store, run_id = stage.workspace.store, "0123456789ab"
    lock = lock_run(stage.workspace, run_id, task)
    place = {"tree": stage.workspace.tree_key, "toplevel": str(stage.repo), **process_identity()}
    try:
        store.runs.claim(task.id, id=run_id, engine="claude-code", process=place)
        store.runs.update(run_id, started_at=later)
        living = stage.cf("work", "status")
        assert "crashed" not in living.stderr
        assert stage.status(task) == "IN_PROGRESS"
    finally:
        lock.release()
    dead = stage.cf("work", "status")
    assert "had crashed" in dead.stderr
    ended = store.runs.get(run_id)
    assert ended.ended_at is not None
    assert ended.ended_at < ended.started_at
    stage.engine.calls(call(session(wrote("work.py", "x = 1\n"), verdict("done"))))
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")
    shown = [stage.cf(*words) for words in (
        ("work", "why", task.id), ("work", "status"), ("tasks", "show", task.id), ("status",), ("doctor",),
    )]  # fmt: skip
    for said in (living, dead, *shown):
        assert said.exit_code == 0, said
        assert not NEGATIVE.search(said.stdout + said.stderr), said
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert stage.read("unstaged.txt") == UNSTAGED
