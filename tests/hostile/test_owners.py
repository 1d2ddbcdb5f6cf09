"""Runs whose owner is elsewhere: in a container, on another host, in another workspace of the repository."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.models import Run, Task
from codeframe.core.process_sweep import find_marked
from codeframe.core.workspace import init_workspace
from tests.hostile.stage import WAIT_S, Stage
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.engines import Completed
from tests.kit.repos import git
from tests.kit.scenario import call, hang, touch
from tests.kit.waiting import wait_until

WORK = "x = 1\n"


def killed(stage: Stage, **elsewhere: Any) -> tuple[Task, Run]:
    """A run whose `cf` was killed while the engine worked; what its row says of the owner is changed."""
    there = stage.repo.parent / "there"
    stage.engine.calls(
        call(session(wrote("work.py", WORK), touch(there), hang())),
        call(session(wrote("more.py", WORK), verdict("done"))),
    )
    task = stage.task()
    process = stage.begin(task)
    wait_until(there.exists)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    runs = stage.workspace.store.runs
    run = runs.latest(task.id)
    assert run is not None
    return task, runs.update(run.id, process={**run.process, **elsewhere})


@pytest.mark.parametrize(
    ("elsewhere", "words"),
    [({"host": "another"}, "on the host another"), ({"pid_ns": "pid:[1]"}, "in another container")],
    ids=["host", "container"],
)
def test_a_run_that_cannot_be_seen_is_never_reaped_and_closed_when_a_person_says_so(
    stage: Stage, elsewhere: dict[str, str], words: str
) -> None:
    task, run = killed(stage, **elsewhere)
    short = task.id[:8]
    other = stage.task("Another one")
    for refused in (
        ["work", "stop", task.id],
        ["work", "resume", task.id],
        ["work", "undo", task.id],
        stage.start_args(task),
        stage.start_args(other),
        ["tasks", "delete", task.id, "--force"],
    ):
        said = stage.cf(*refused)
        assert said.exit_code == 1, said
        assert words in said.stderr
        assert f"cf work stop {short} --force" in said.stderr
    assert stage.cf("work", "status").exit_code == 0
    assert stage.status(task) == "IN_PROGRESS"
    assert find_marked(f"{run.id}/", prefix=True) != []
    forced = stage.cf("work", "stop", task.id, "--force")
    assert forced.exit_code == 0, forced
    assert f"cf work resume {short}" in forced.stdout
    outcome = stage.outcome(task, Completed(1, "", forced.stdout))
    outcome.expect(1, "FAILED", "crashed", "READY")
    outcome.check_work_kept("work.py", WORK)
    assert words in stage.why(task)
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")


def test_force_is_refused_where_a_plain_stop_will_do(stage: Stage) -> None:
    there = stage.repo.parent / "there"
    stage.engine.calls(call(session(wrote("work.py", WORK), touch(there), hang())))
    task = stage.task()
    process = stage.begin(task)
    wait_until(there.exists)
    runs = stage.workspace.store.runs
    run = runs.latest(task.id)
    assert run is not None
    runs.update(run.id, process={**run.process, "host": "another"})  # its lease is held all the same
    said = stage.cf("work", "stop", task.id, "--force")
    assert said.exit_code == 1
    assert f"Type: cf work stop {task.id[:8]}\n" in said.stderr
    assert stage.cf("work", "stop", task.id).exit_code == 0
    stage.ended(task, process).expect(130, "STOPPED", "cancelled", "READY")
    assert "is not running" in stage.cf("work", "stop", task.id, "--force").stderr


def test_a_dead_run_of_another_working_tree_is_recovered_there(stage: Stage, tmp_path: Path) -> None:
    git(stage.repo, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    linked = replace(stage, place=tmp_path / "linked", repo=tmp_path / "linked", clean=True)
    task, _ = killed(linked)
    for words in (["work", "stop", task.id], ["work", "stop", task.id, "--force"]):
        said = stage.cf(*words)
        assert said.exit_code == 1
        assert f"cf -C {tmp_path / 'linked'} work status" in said.stderr
    assert f"cf work resume {task.id[:8]}" in linked.cf("work", "status").stderr


def test_a_dead_run_of_a_working_tree_that_is_gone_can_be_closed(stage: Stage, tmp_path: Path) -> None:
    git(stage.repo, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    task, run = killed(replace(stage, place=tmp_path / "linked", repo=tmp_path / "linked", clean=True))
    shutil.rmtree(tmp_path / "linked")
    said = stage.cf("work", "stop", task.id)
    assert "which is gone" in said.stderr
    assert stage.cf("work", "stop", task.id, "--force").exit_code == 0
    assert stage.status(task) == "READY"
    assert find_marked(f"{run.id}/", prefix=True) == []
    stage.check_persons_work()


def nested(stage: Stage) -> Stage:
    """A second workspace, in a subfolder of the same working tree."""
    (stage.repo / "sub dir").mkdir()
    workspace, _ = init_workspace(stage.repo / "sub dir", nested=True)
    return replace(stage, workspace=workspace, place=stage.repo / "sub dir")


@pytest.mark.parametrize("outer_dies", [True, False])
def test_a_start_recovers_the_dead_run_of_the_trees_other_workspace_and_refuses_its_work(
    stage: Stage, outer_dies: bool
) -> None:
    dead, other = (stage, nested(stage)) if outer_dies else (nested(stage), stage)
    task, run = killed(dead)
    said = other.cf(*other.start_args(other.task("Elsewhere")))
    assert said.exit_code == 1, said
    assert find_marked(f"{run.id}/", prefix=True) == []
    assert dead.status(task) == "READY"
    cf = f"cf -C '{dead.place}'" if " " in str(dead.place) else f"cf -C {dead.place}"
    assert f"Go on with: {cf} work resume {task.id[:8]}" in said.stderr
    for choice in (f"{cf} work resume {task.id[:8]}", "--keep", f"{cf} work undo {task.id[:8]}"):
        assert choice in said.stderr
    # And what it says to type works.
    assert dead.cf("work", "undo", task.id).exit_code == 0
    assert not stage.is_there("work.py")
    stage.check_persons_work()


def test_a_living_run_of_the_trees_other_workspace_is_named_with_its_workspace(stage: Stage) -> None:
    inner = nested(stage)
    there = stage.repo.parent / "there"
    stage.engine.calls(call(session(wrote("work.py", WORK), touch(there), hang())))
    task = stage.task()
    process = stage.begin(task)
    wait_until(there.exists)
    said = inner.cf(*inner.start_args(inner.task("Elsewhere")))
    assert said.exit_code == 1
    assert f"cf -C {stage.repo} work stop {task.id[:8]}" in said.stderr
    assert inner.cf("-C", str(stage.repo), "work", "stop", task.id).exit_code == 0
    stage.ended(task, process).expect(130, "STOPPED", "cancelled", "READY")


def test_a_run_of_the_trees_other_workspace_that_cannot_be_seen_refuses_a_start(stage: Stage) -> None:
    inner = nested(stage)
    task, _ = killed(stage, host="another")
    said = inner.cf(*inner.start_args(inner.task("Elsewhere")))
    assert said.exit_code == 1
    assert f"cf -C {stage.repo} work stop {task.id[:8]} --force" in said.stderr
    assert stage.cf("work", "stop", task.id, "--force").exit_code == 0
