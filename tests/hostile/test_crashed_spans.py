"""After kill -9 of `cf` a person goes on working before the next command recovers: their edits are not the
engine's (rules 4.2, 4.4)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from codeframe.core.heartbeat import watched_until
from codeframe.core.models import Leftover, Task
from tests.hostile.stage import COMMITTED, Stage
from tests.hostile.test_kills import slow_git
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.engines import Completed, start_cf
from tests.kit.repos import git, write
from tests.kit.scenario import Steps, call, delete, hang, sh, touch, wait_for
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.engine  # at length: no engine needed, but minutes (make test-engines)

WORK = "x = 1\n"
MAYBE = "changed after CodeFrame was killed: maybe yours"


def crash(
    stage: Stage, *steps: Steps, after: Callable[[], object], ending: Steps = ()
) -> tuple[Task, Completed]:
    """An engine does `steps`, `cf` is killed, a person does `after`, the next command recovers."""
    there = stage.repo.parent / "there"
    stage.engine.calls(call(session(*steps, touch(there), ending or hang())))
    task = stage.task()
    process = stage.begin(task)
    wait_until(there.exists)
    stage.kill(task, process)
    run = stage.workspace.store.runs.latest(task.id)
    assert run is not None
    until = watched_until(stage.workspace.run_dir(run.id))
    wait_until(lambda: time.time_ns() > until + 20_000_000)  # kernels keep file times in ticks
    after()
    said = stage.cf("work", "status")
    assert "had crashed" in said.stderr
    return task, said


def undo(stage: Stage, task: Task, *paths: str, exit: int = 0) -> str:
    done = stage.cf("work", "undo", task.id, *(["--", *paths] if paths else []))
    assert done.exit_code == exit, done
    return done.stdout + done.stderr


def leftover(stage: Stage, task: Task) -> Leftover:
    run = stage.workspace.store.runs.latest(task.id)
    assert run is not None
    return run.leftover


def test_undo_takes_back_what_a_person_wrote_between_the_kill_and_the_next_command(stage: Stage) -> None:
    def person() -> None:
        write(stage.repo, {"mine.py": "mine\n", "work.py": "edited by me\n"})

    task, _ = crash(stage, wrote("work.py", WORK), wrote("engine.py", WORK), after=person)
    for command in (["diff", task.id], ["show", task.id]):
        said = stage.cf("work", *command)
        assert f"{MAYBE}: mine.py, work.py" in said.stdout + said.stderr
    told = undo(stage, task)
    assert "removed   engine.py" in told
    for path in ("mine.py", "work.py"):
        assert f"kept      {path} ({MAYBE})" in told
    assert f"cf work undo {task.id[:8]} -- :/mine.py :/work.py" in told
    assert (stage.read("mine.py"), stage.read("work.py")) == ("mine\n", "edited by me\n")
    assert not stage.is_there("engine.py")
    stage.check_persons_work()
    # That was all of it: nothing is refused afterwards.
    assert leftover(stage, task) is Leftover.UNDONE
    stage.engine.calls(call(session(wrote("other.py", WORK), verdict("done"))))
    stage.start(stage.task("Another")).expect(0, "COMPLETED", None, "DONE")
    assert stage.read("mine.py") == "mine\n"


def test_recovery_sweeps_what_a_killed_undo_left(stage: Stage) -> None:
    litter = stage.workspace.state_dir / "index" / stage.workspace.tree_key / "undo/0123"

    def killed_undo() -> None:
        litter.parent.mkdir(parents=True)
        litter.write_text("half a fi")

    crash(stage, wrote("work.py", WORK), after=killed_undo)
    assert [*litter.parent.iterdir()] == []


def test_what_may_be_a_persons_is_taken_back_when_it_is_named(stage: Stage) -> None:
    task, _ = crash(
        stage, wrote("new/a.py", WORK), wrote("new/b.py", WORK), wrote("c.py", WORK),
        after=lambda: write(stage.repo, {"new/a.py": "2\n", "new/b.py": "2\n", "README.md": "2\n"}),
    )  # fmt: skip
    # Named at once: only that, and the rest is still refused and can still be undone.
    told = undo(stage, task, "new/a.py")
    assert "removed   new/a.py" in told
    assert "c.py" not in told
    assert stage.is_there("new/b.py")
    assert not stage.is_there("new/a.py")
    assert leftover(stage, task) is Leftover.PENDING
    undo(stage, task)
    assert stage.is_there("new/b.py")
    assert not stage.is_there("c.py")
    # A folder is typed for what is known to be the engine's: it does not say that all in it is.
    for folder in ("new", "."):
        told = undo(stage, task, folder)
        assert f"kept      new/b.py ({MAYBE})" in told
        assert ("README.md" in told) is (folder == ".")
    assert (stage.read("new/b.py"), stage.read("README.md")) == ("2\n", "2\n")
    # Named after the whole undo.
    assert "removed   new/b.py" in undo(stage, task, "new/b.py")
    assert not stage.is_there("new")
    assert "is not among what the task changed" in undo(stage, task, "staged.txt", exit=2)
    assert "is outside the working tree" in undo(stage, task, "../elsewhere", exit=2)
    assert "is undone already" in undo(stage, task, exit=1)
    assert "restored  README.md" in undo(stage, task, ":/README.md")
    assert stage.read("README.md") == COMMITTED["README.md"]
    stage.check_persons_work()


def test_paths_are_relative_to_the_folder_they_are_typed_in(stage: Stage) -> None:
    stage.engine.calls(call(session(wrote("pkg/a.py", WORK), wrote("a.py", WORK), verdict("done"))))
    task = stage.task()
    stage.start(task)
    stage.place = stage.repo / "pkg"
    assert "removed   pkg/a.py" in undo(stage, task, "a.py")
    stage.place = stage.repo
    assert stage.is_there("a.py")
    assert "removed   a.py" in undo(stage, task)


def test_a_file_a_person_deleted_after_the_kill_does_not_come_back(stage: Stage) -> None:
    write(stage.repo, {"old/mine.txt": "1", "theirs/x": "1"})
    task, _ = crash(stage, delete("theirs/x"), after=lambda: (stage.repo / "old/mine.txt").unlink())
    told = undo(stage, task)
    assert "restored  theirs/x" in told
    assert f"kept      old/mine.txt ({MAYBE})" in told
    assert not stage.is_there("old/mine.txt")


def test_a_folder_a_person_moved_into_the_tree_after_the_kill_stays(stage: Stage) -> None:
    outside = stage.repo.parent / "outside"
    write(outside, {"old.txt": "precious"})  # its own time is older than the kill
    task, _ = crash(stage, wrote("work.py", WORK), after=lambda: outside.rename(stage.repo / "moved"))
    assert f"kept      moved/old.txt ({MAYBE})" in undo(stage, task)
    assert stage.read("moved/old.txt") == "precious"


def test_what_a_person_staged_after_the_kill_stays_staged(stage: Stage) -> None:
    def person() -> None:
        write(stage.repo, {"work.py": "for the index\n"})
        git(stage.repo, "add", "work.py", "unstaged.txt", "engine.py")

    task, _ = crash(stage, wrote("work.py", WORK), wrote("engine.py", WORK), after=person)
    undo(stage, task)
    assert git(stage.repo, "show", ":work.py") == "for the index"
    assert git(stage.repo, "show", ":unstaged.txt") == "edited by a person"
    # Of what the engine wrote and a person only staged, nothing is in the tree any more.
    assert git(stage.repo, "ls-files", "engine.py") == ""
    undo(stage, task, "work.py", "unstaged.txt")
    assert git(stage.repo, "ls-files", "work.py") == ""
    stage.check_persons_work()


def test_an_engine_that_lives_on_after_the_kill_is_not_taken_for_a_person_for_good(stage: Stage) -> None:
    go, late = stage.repo.parent / "go", stage.repo.parent / "late"

    def engine_goes_on() -> None:
        go.touch()
        wait_until(late.exists)

    task, _ = crash(
        stage, wrote("early.py", WORK), after=engine_goes_on,
        ending=[wait_for(go), wrote("late.py", WORK), touch(late), hang()],
    )  # fmt: skip
    refused = stage.cf(*stage.start_args(stage.task("Another")))
    assert refused.exit_code == 1
    assert f"cf work undo {task.id[:8]}" in refused.stderr
    assert f"kept      late.py ({MAYBE})" in undo(stage, task)
    assert "removed   late.py" in undo(stage, task, "late.py")


def test_a_recovery_that_is_done_again_knows_the_same_moment(stage: Stage) -> None:
    """The first one wrote to the lease; what a person did before it is theirs all the same."""
    held, there = slow_git(stage, 2), stage.repo.parent / "there"
    stage.engine.calls(call(session(wrote("work.py", WORK), touch(there), hang())))
    task = stage.task()
    process = stage.begin(task)
    wait_until(there.exists)
    stage.kill(task, process)
    run = stage.workspace.store.runs.latest(task.id)
    assert run is not None
    until = watched_until(stage.workspace.run_dir(run.id))
    wait_until(lambda: time.time_ns() > until + 20_000_000)
    write(stage.repo, {"mine.py": "mine\n"})
    recovery = start_cf("work", "status", cwd=stage.repo, env=stage.env)
    wait_until(held.exists)
    os.kill(recovery.pid, signal.SIGKILL)
    (held.parent / "go").touch()
    recovery.communicate(timeout=60)
    assert f"kept      mine.py ({MAYBE})" in undo(stage, task)


def test_a_commit_and_a_patch_leave_out_what_may_be_a_persons_until_it_is_named(stage: Stage) -> None:
    task, _ = crash(
        stage, wrote("work.py", WORK), wrote("both.py", WORK),
        after=lambda: write(stage.repo, {"mine.py": "mine\n", "both.py": "mine\n"}),
    )  # fmt: skip
    patch = stage.cf("patch", "export", task.id)
    assert ("work.py" in patch.stdout, "mine" in patch.stdout) == (True, False)
    assert f"cf patch export {task.id[:8]} -- :/both.py :/mine.py" in patch.stderr
    stage.engine.calls(call(session(wrote("more.py", WORK), verdict("done"))))
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")
    said = stage.cf("commit", "create")
    assert git(stage.repo, "show", "--format=", "--name-only").split() == ["more.py", "work.py"], said
    for path in ("both.py", "mine.py"):
        assert f"Left out: {path} ({MAYBE})" in said.stdout
    assert git(stage.repo, "status", "--porcelain", "*.py") == "?? both.py\n?? mine.py"
    again = stage.cf("commit", "create", "--task", task.id)
    assert f"left out: both.py ({MAYBE}), mine.py ({MAYBE})" in again.stderr
    assert stage.cf("commit", "create", "--task", task.id, "--", "both.py").exit_code == 0
    assert git(stage.repo, "show", "--format=", "--name-only").split() == ["both.py"]
    stage.check_persons_work()


def test_a_commit_is_refused_where_the_engine_went_on_with_what_may_be_a_persons(stage: Stage) -> None:
    task, _ = crash(stage, wrote("work.py", WORK), after=lambda: write(stage.repo, {"work.py": "mine\n"}))
    stage.engine.calls(call(session(sh("echo more >> work.py"), verdict("done"))))
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")
    before = git(stage.repo, "rev-parse", "HEAD")
    for command in ("commit create --task", "patch export"):
        said, how = stage.cf(*command.split(), task.id), f"cf {command} {task.id[:8]} -- :/work.py"
        assert (said.exit_code, said.stdout, how in said.stderr) == (1, "", True)
    assert git(stage.repo, "rev-parse", "HEAD") == before
    assert stage.cf("commit", "create", "--", ":/work.py").exit_code == 0
    assert git(stage.repo, "show", "HEAD:work.py") == "mine\nmore"


@pytest.mark.parametrize("way", ["resume", "retry"])
def test_a_task_goes_on_over_what_may_be_a_persons_and_undo_still_leaves_it(stage: Stage, way: str) -> None:
    task, _ = crash(stage, wrote("work.py", WORK), after=lambda: write(stage.repo, {"mine.py": "mine\n"}))
    stage.engine.calls(call(session(wrote("more.py", WORK), verdict("half", status="failed"))))
    stage.again(way, task)
    told = undo(stage, task)
    assert f"kept      mine.py ({MAYBE})" in told
    assert [stage.is_there(p) for p in ("work.py", "more.py", "mine.py")] == [False, False, True]
    assert leftover(stage, task) is Leftover.UNDONE
    assert "removed   mine.py" in undo(stage, task, "mine.py")  # of the first run of the chain


def test_permissions_a_person_changed_after_the_kill_stay(stage: Stage) -> None:
    engine = stage.repo / "staged.txt"
    task, _ = crash(stage, sh("chmod 600 staged.txt"), after=lambda: (stage.repo / "README.md").chmod(0o600))
    told = undo(stage, task)
    assert "restored  staged.txt" in told
    assert f"kept      README.md ({MAYBE})" in told
    assert [Path(p).stat().st_mode & 0o777 for p in (engine, stage.repo / "README.md")] == [0o644, 0o600]
