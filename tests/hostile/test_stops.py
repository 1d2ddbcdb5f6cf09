"""Stopping from every side: nothing is left running, the work is kept, the run can go on (rules 4.3, 4.4, 4.10)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codeframe.core.models import Task
from codeframe.core.workspace import find_workspace
from tests.hostile.stage import WAIT_S, Outcome, Stage
from tests.kit.claude_runs import interruptible, session, verdict, wrote
from tests.kit.engines import Completed, start_cf
from tests.kit.repos import git
from tests.kit.scenario import call, hang, on_signal, sleep, spawn, touch, wait_for
from tests.kit.waiting import wait_until

WORK = "x = 1\n"


def begin(stage: Stage, *steps: object) -> tuple[Task, subprocess.Popen[str]]:
    """A run whose engine has written work.py, left children of both kinds and then does `steps`."""
    there = stage.repo.parent / "engine-is-there"
    busy = session(
        wrote("work.py", WORK), spawn(), spawn(session=True, ignore=["SIGTERM", "SIGINT"]), touch(there)
    )
    stage.engine.calls(
        call(busy, *steps),  # type: ignore[arg-type]
        call(session(wrote("more.py", WORK), verdict("done"))),
    )
    task = stage.task()
    process = stage.begin(task)
    wait_until(there.exists)
    return task, process


def check_stopped(stage: Stage, outcome: Outcome, exit: int) -> None:
    outcome.expect(exit, "STOPPED", "cancelled", "READY")
    outcome.check_work_kept("work.py", WORK)
    engine = stage.engine.invocations()[0]
    assert not [pid for pid in (engine.pid, *engine.children) if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def to_group(number: int) -> Callable[[int], None]:
    """What a terminal does: every process of the foreground group gets it."""
    return lambda pid: os.killpg(pid, number)


def to_cf(number: int) -> Callable[[int], None]:
    return lambda pid: os.kill(pid, number)


@pytest.mark.parametrize(
    ("send", "exit"),
    [
        (to_group(signal.SIGINT), 130),
        (to_cf(signal.SIGINT), 130),
        (to_cf(signal.SIGTERM), 143),
        (to_group(signal.SIGHUP), 130),
    ],
    ids=["ctrl-c", "sigint", "sigterm", "sighup"],
)
def test_a_signal_stops_the_run_and_all_below_it(
    stage: Stage, send: Callable[[int], None], exit: int
) -> None:
    task, process = begin(stage, interruptible(), hang())
    send(process.pid)
    check_stopped(stage, stage.ended(task, process), exit)
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")


def test_ctrl_c_again_and_again_changes_nothing(stage: Stage) -> None:
    task, process = begin(stage, interruptible(), hang())
    deadline = time.monotonic() + WAIT_S
    while stage.status(task) == "IN_PROGRESS" and time.monotonic() < deadline:
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.003)
    check_stopped(stage, stage.ended(task, process), 130)


def test_work_stop_from_another_terminal(stage: Stage) -> None:
    task, process = begin(stage, interruptible(), hang())
    said = stage.cf("work", "stop", task.id)
    assert said.exit_code == 0
    assert f"cf work resume {task.id[:8]}" in said.stdout
    check_stopped(stage, stage.ended(task, process), 130)


def test_an_engine_deaf_to_every_signal_is_ended_all_the_same(stage: Stage) -> None:
    task, process = begin(stage, on_signal("SIGINT", "SIGTERM", "SIGHUP"), hang())
    os.kill(process.pid, signal.SIGTERM)
    check_stopped(stage, stage.ended(task, process), 143)


def test_a_deaf_engine_times_out(stage: Stage) -> None:
    stage.engine.calls(call(session(wrote("work.py", WORK), on_signal("SIGINT", "SIGTERM"), hang())))
    task = stage.task()
    outcome = stage.start(task, "--timeout", "2s")
    outcome.expect(4, "TIMEOUT", "timeout", "FAILED")
    assert f"cf work resume {task.id[:8]}" in outcome.told
    outcome.check_work_kept("work.py", WORK)


def test_a_terminal_that_goes_away_takes_nothing_with_it(stage: Stage) -> None:
    task, process = begin(stage, interruptible(), hang())
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    os.killpg(process.pid, signal.SIGHUP)
    process.wait(WAIT_S)
    outcome = stage.outcome(task, Completed(130, "", ""))
    check_stopped(stage, outcome, 130)


def test_a_reader_that_goes_away_does_not_end_the_run(stage: Stage) -> None:
    go = stage.repo.parent / "go"
    task, process = begin(stage, wait_for(go), wrote("later.py", WORK), verdict("done"))
    assert process.stderr is not None
    process.stderr.close()
    go.touch()
    out, _ = process.stdout.read(), process.wait(WAIT_S)  # type: ignore[union-attr]
    outcome = stage.outcome(task, Completed(process.returncode, out, ""))
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert outcome.saved("later.py") == WORK


def test_a_signal_while_the_gates_run_at_the_start_stops_before_the_engine(stage: Stage) -> None:
    running = stage.repo.parent / "gate-runs"
    stage.gate(f"touch '{running}'; sleep 100")
    task = stage.task()
    process = start_cf(*stage.start_args(task, gates=True), cwd=stage.repo, env=stage.env)
    wait_until(running.exists)
    os.killpg(process.pid, signal.SIGINT)
    stage.ended(task, process).expect(130, "STOPPED", "cancelled", "READY")
    assert stage.engine.invocations() == []
    stage.check_persons_work()


def test_a_stop_while_the_gates_judge_keeps_the_work(stage: Stage) -> None:
    running = stage.repo.parent / "gate-runs"
    stage.gate(f"test -e work.py || exit 0; touch '{running}'; sleep 100")
    stage.engine.calls(call(session(wrote("work.py", WORK), verdict("done"))))
    task = stage.task()
    process = start_cf(*stage.start_args(task, gates=True), cwd=stage.repo, env=stage.env)
    wait_until(running.exists)
    assert stage.cf("work", "stop", task.id).exit_code == 0
    outcome = stage.ended(task, process)
    outcome.expect(130, "STOPPED", "cancelled", "READY")
    outcome.check_work_kept("work.py", WORK)


def test_a_second_start_is_refused_and_told_what_to_type(stage: Stage) -> None:
    go = stage.repo.parent / "go"
    task, process = begin(stage, wait_for(go), verdict("done"))
    same = stage.cf(*stage.start_args(task))
    assert same.exit_code == 1
    assert f"cf work stop {task.id[:8]}" in same.stderr
    other = stage.task("Another one")
    second = stage.cf(*stage.start_args(other))
    assert second.exit_code == 1
    assert "Write the module" in second.stderr
    assert f"cf work stop {task.id[:8]}" in second.stderr
    assert stage.status(other) == "READY"
    go.touch()
    stage.ended(task, process).expect(0, "COMPLETED", None, "DONE")
    assert len(stage.engine.invocations()) == 1


@pytest.mark.parametrize("tasks", [1, 2], ids=["one task", "two tasks"])
def test_two_starts_at_the_same_moment_make_one_run(stage: Stage, tasks: int) -> None:
    stage.engine.calls(call(session(wrote("work.py", WORK), sleep(3), verdict("done"))))
    chosen = [stage.task(), stage.task("Another one")][:tasks]
    processes = [stage.begin(chosen[0]), stage.begin(chosen[-1])]
    said = [Completed(p.wait(WAIT_S), *p.communicate()) for p in processes]
    assert sorted(s.exit_code for s in said) == [0, 1]
    loser = next(s for s in said if s.exit_code == 1)
    assert "cf work stop" in loser.stderr or "cf work status" in loser.stderr
    assert len(stage.engine.invocations()) == 1
    assert len(stage.workspace.store.runs.list()) == 1


def test_a_suspended_cf_is_not_taken_for_dead(stage: Stage) -> None:
    go = stage.repo.parent / "go"
    task, process = begin(stage, wait_for(go), verdict("done"))
    os.kill(process.pid, signal.SIGSTOP)
    try:
        said = stage.cf("work", "status")
        assert task.id[:8] in said.stdout
        assert "crashed" not in said.stderr
    finally:
        os.kill(process.pid, signal.SIGCONT)
    go.touch()
    stage.ended(task, process).expect(0, "COMPLETED", None, "DONE")


def test_undo_waits_for_no_run_but_says_which_one_is_there(stage: Stage) -> None:
    stage.engine.calls(call(session(wrote("early.py", WORK), verdict("done"))))
    earlier = stage.task("An earlier one")
    stage.start(earlier).expect(0, "COMPLETED", None, "DONE")
    go = stage.repo.parent / "go"
    task, process = begin(stage, wait_for(go), verdict("done"))
    refused = stage.cf("work", "undo", earlier.id)
    assert refused.exit_code == 1
    assert f"cf work stop {task.id[:8]}" in refused.stderr
    assert stage.is_there("early.py")
    go.touch()
    stage.ended(task, process).expect(0, "COMPLETED", None, "DONE")


def test_two_working_trees_of_one_repository_work_at_the_same_time(stage: Stage, tmp_path: Path) -> None:
    git(stage.repo, "worktree", "add", "-q", "-b", "second", str(tmp_path / "second"))
    go = stage.repo.parent / "go"
    task, process = begin(stage, wait_for(go), verdict("done"))
    other = replace(stage, repo=tmp_path / "second", place=tmp_path / "second", clean=True)
    other.workspace = find_workspace(other.repo)
    stage.engine.calls(call(session(wrote("other.py", WORK), verdict("done"))))
    second = other.task("Another one")
    outcome = other.start(second)
    outcome.expect(0, "COMPLETED", None, "DONE")
    outcome.check_work_kept("other.py", WORK)
    assert not stage.is_there("other.py")
    go.touch()
    stage.ended(task, process).expect(0, "COMPLETED", None, "DONE")
