"""kill -9 of `cf` itself, wherever it is: the next command puts things right (rule 4.4)."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import psutil
import pytest

from codeframe.core.heartbeat import ALIVE
from codeframe.core.process_sweep import find_marked, is_alive, started
from tests.hostile.stage import WAIT_S, Stage
from tests.kit.claude_lines import MODEL_WITH_WINDOW
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.engines import Completed, start_cf
from tests.kit.scenario import call, die, hang, sh, spawn, touch, wait_for
from tests.kit.waiting import wait_until

WORK = "x = 1\n"


def test_after_kill_9_the_next_command_ends_the_engine_and_saves_its_work(
    stage: Stage, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    stage.engine.calls(
        call(session(wrote("work.py", WORK), spawn(session=True), touch(there), hang())),
        call(session(wrote("more.py", WORK), verdict("done"))),
    )
    task = stage.task()
    process = stage.begin(task)
    wait_until(there.exists)
    run = stage.workspace.store.runs.latest(task.id)
    assert run is not None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    assert find_marked(f"{run.id}/", prefix=True) != []  # the engine lives on
    said = stage.cf("work", "status")
    assert said.exit_code == 0
    assert f"cf work resume {task.id[:8]}" in said.stderr
    outcome = stage.outcome(task, Completed(1, "", said.stderr))
    outcome.expect(1, "FAILED", "crashed", "READY")
    outcome.check_work_kept("work.py", WORK)
    resumed = stage.again("resume", task)
    resumed.expect(0, "COMPLETED", None, "DONE")
    first, second = stage.engine.invocations()
    assert second.argv[second.argv.index("--resume") + 1] == first.argv[first.argv.index("--session-id") + 1]
    stage.check_persons_work()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
@pytest.mark.parametrize("engine_lives", [True, False])
def test_after_kill_9_what_dropped_its_environment_in_the_engines_session_is_ended(
    stage: Stage, tmp_path: Path, engine_lives: bool
) -> None:
    there, go = tmp_path / "there", tmp_path / "go"
    # Its parent is gone at once, so that it is nobody's descendant.
    orphan = f"env -i sh -c 'echo $$ > {there}.new; mv {there}.new {there}; exec sleep 60' >/dev/null 2>&1 &"
    waits = hang() if engine_lives else [wait_for(go), die("SIGKILL")]
    stage.engine.calls(call(session(wrote("work.py", WORK), sh(orphan), waits)))
    task = stage.task()
    process = stage.begin(task)
    wait_until(there.exists)
    run = stage.workspace.store.runs.latest(task.id)
    assert run is not None
    pid = int(there.read_text())
    began = started(pid)
    alive = stage.workspace.run_dir(run.id) / ALIVE
    wait_until(lambda: alive.exists() and alive.stat().st_mtime > began)
    wait_until(lambda: "engine" in stage.workspace.store.runs.get(run.id).process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    go.touch()
    if not engine_lives:
        wait_until(lambda: find_marked(f"{run.id}/", prefix=True) == [])
    left = psutil.Process(pid)
    assert is_alive(left)
    said = stage.cf("work", "status")
    outcome = stage.outcome(task, Completed(1, "", said.stderr))
    outcome.expect(1, "FAILED", "crashed", "READY")
    outcome.check_work_kept("work.py", WORK)
    assert not is_alive(left)
    assert "engine" not in outcome.run.process


def test_after_kill_9_the_session_goes_on_with_the_model_it_began_with(stage: Stage, tmp_path: Path) -> None:
    stage.engine.calls(
        call(session(wrote("work.py", WORK), hang())),
        call(session(wrote("more.py", WORK), verdict("done"))),
    )
    task = stage.task()
    process = stage.begin(task)
    runs = stage.workspace.store.runs
    wait_until(lambda: (run := runs.latest(task.id)) is not None and "model" in run.process)
    wait_until(lambda: stage.is_there("work.py"))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")
    argv = stage.engine.invocations()[1].argv
    assert argv[argv.index("--model") + 1] == MODEL_WITH_WINDOW


def test_after_kill_9_during_a_gate_the_gate_is_ended(stage: Stage) -> None:
    running = stage.repo.parent / "gate-runs"
    stage.gate(f"test -e work.py || exit 0; touch '{running}'; sleep 100")
    stage.engine.calls(call(session(wrote("work.py", WORK), verdict("done"))))
    task = stage.task()
    process = start_cf(*stage.start_args(task, gates=True), cwd=stage.repo, env=stage.env)
    wait_until(running.exists)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    # The very next start recovers, and is then refused: the work is there and nobody accepted it.
    said = stage.cf(*stage.start_args(task))
    assert said.exit_code == 1
    outcome = stage.outcome(task, said)
    outcome.expect(1, "FAILED", "crashed", "READY")
    for choice in (f"cf work resume {task.id[:8]}", "--keep", f"cf work undo {task.id[:8]}"):
        assert choice in said.stderr
    outcome.check_work_kept("work.py", WORK)
    assert (outcome.run.rounds, outcome.run.usage.output_tokens > 0) == (1, True)


def slow_git(stage: Stage, number: int) -> Path:
    """Put a git before the real one that holds at its `number`-th update-ref; returns what it makes then."""
    folder, real = stage.engine.bin, shutil.which("git")
    script = f"""#!/bin/sh
case "$*" in *update-ref*)
    echo x >> '{folder}/count'
    if [ $(wc -l < '{folder}/count') = {number} ]; then
        touch '{folder}/held'
        while [ ! -e '{folder}/go' ]; do sleep 0.02; done
    fi
esac
exec '{real}' "$@"
"""
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    return folder / "held"


# Without gates the base snapshot is also the first start.
@pytest.mark.parametrize(
    ("number", "gates", "work"),
    [(1, False, False), (2, True, False), (2, False, True)],
    ids=["base", "start", "end"],
)
def test_after_kill_9_in_the_middle_of_a_snapshot(stage: Stage, number: int, gates: bool, work: bool) -> None:
    stage.gate("test -e made || touch made")  # else the base would be the start
    held = slow_git(stage, number)
    stage.engine.calls(
        call(session(wrote("work.py", WORK), verdict("done"))),
    )
    task = stage.task()
    process = start_cf(*stage.start_args(task, gates=gates), cwd=stage.repo, env=stage.env)
    wait_until(held.exists)
    if work:  # seen to be the engine's
        told = stage.kill(task, process, held.parent / "go")
    else:
        os.kill(process.pid, signal.SIGKILL)
        (held.parent / "go").touch()
        _, told = process.communicate(timeout=WAIT_S)  # ends with git, which holds the pipes
    said = stage.cf("work", "status")
    outcome = stage.outcome(task, Completed(1, "", told + said.stderr))
    outcome.expect(1, "FAILED", "crashed", "READY")
    stage.check_persons_work()
    if work:
        outcome.check_work_kept("work.py", WORK)
    assert stage.is_there("work.py") == work
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert not stage.is_there("work.py")
    stage.check_persons_work()


def test_after_kill_9_of_a_recovery_the_next_one_does_it_again(stage: Stage, tmp_path: Path) -> None:
    held, there = slow_git(stage, 2), tmp_path / "there"  # the second snapshot is the recovery's
    stage.engine.calls(call(session(wrote("work.py", WORK), touch(there), hang())))
    task = stage.task()
    process = stage.begin(task)
    wait_until(there.exists)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    recovery = start_cf("work", "status", cwd=stage.repo, env=stage.env)
    wait_until(held.exists)
    os.kill(recovery.pid, signal.SIGKILL)
    (held.parent / "go").touch()
    recovery.communicate(timeout=WAIT_S)
    said = stage.cf("work", "status")
    outcome = stage.outcome(task, Completed(1, "", said.stderr))
    outcome.expect(1, "FAILED", "crashed", "READY")
    assert [r["reason"] for r in outcome.rounds] == ["crashed"]
    outcome.check_work_kept("work.py", WORK)
