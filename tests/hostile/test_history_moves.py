"""An engine that moves branches, drops a stash, or works only inside a submodule: seen, said, and no failure."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.hostile.stage import Stage
from tests.kit.claude_runs import ran, session, verdict, wrote
from tests.kit.repos import commit, git, make_repo, write
from tests.kit.scenario import call, die

WORK = "x = 1\n"
MOVES = {
    "HEAD~2": ("git reset -q --hard HEAD~2", "branch main went from"),
    "amended": ("git commit -q --amend --allow-empty -m other", "branch main went from"),
    "branch": ("git branch -qD side", "branch side is gone"),
    "tag": ("git tag -d v1", "tag v1 is gone"),
    "stash": ("git stash drop -q", "is gone; to put it back type: git stash store"),
}


def with_history(tmp_path: Path) -> Stage:
    stage = Stage.build(tmp_path, clean=True)
    commit(stage.repo, "second", {"README.md": "2\n"})
    commit(stage.repo, "third", {"README.md": "3\n"})
    subprocess.run(
        "git tag v1; git switch -qc side; git commit -q --allow-empty -m s; git switch -q main; "
        "echo s > README.md; git stash -q",
        shell=True, cwd=stage.repo, check=True,
    )  # fmt: skip
    return stage


@pytest.mark.parametrize("move", MOVES)
def test_history_that_the_engine_moves_is_told_and_can_be_put_back(tmp_path: Path, move: str) -> None:
    stage = with_history(tmp_path)
    script, words = MOVES[move]
    was = git(stage.repo, "rev-parse", "main", "side", "v1", "refs/stash")
    stage.engine.calls(call(session(ran(script), verdict("done"))))
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(0, "COMPLETED", None, "DONE")  # reported; moving something was perhaps what was asked for
    assert words in outcome.said.stdout
    assert words in stage.cf("work", "show", task.id).stdout
    assert words in stage.why(task)
    (line,) = outcome.rounds[0]["moved"]
    undone = stage.cf("work", "undo", task.id)
    assert line in undone.stdout
    subprocess.run(["git", "reflog", "expire", "--expire=now", "HEAD", "main"], cwd=stage.repo, check=True)
    git(stage.repo, "gc", "-q", "--prune=now")
    subprocess.run(line.rpartition(" type: ")[2], shell=True, cwd=stage.repo, check=True, capture_output=True)
    assert git(stage.repo, "rev-parse", "main", "side", "v1", "refs/stash") == was


def test_history_that_moved_before_a_crash_of_codeframe_is_told_by_the_recovery(tmp_path: Path) -> None:
    stage = with_history(tmp_path)
    # The engine's parent is `cf` itself.
    stage.engine.calls(
        call(session(ran("git branch -qD side"), ran("kill -9 $(ps -o ppid= -p $PPID)")), die())
    )
    task = stage.task()
    stage.cf(*stage.start_args(task))
    assert stage.cf("status").exit_code == 0
    shown = stage.cf("work", "show", task.id).stdout
    if stage.status(task) == "IN_PROGRESS":  # `status` does not recover, this does
        stage.why(task)
        shown = stage.cf("work", "show", task.id).stdout
    assert stage.status(task) == "READY"
    assert "moved: branch side is gone" in shown


def with_submodule(tmp_path: Path) -> Stage:
    library = make_repo(tmp_path / "library", {"lib.py": "l = 1\n"})
    stage = Stage.build(tmp_path, clean=True)
    git(stage.repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "sub")
    git(stage.repo, "commit", "-q", "-m", "a submodule")
    return stage


@pytest.mark.parametrize("edit", ["rm -rf sub", "git rm -q sub"])
def test_undo_of_a_removed_submodule_says_how_it_comes_back_and_is_complete(
    tmp_path: Path, edit: str
) -> None:
    stage = with_submodule(tmp_path)
    stage.engine.calls(call(session(ran(edit), wrote("work.py", WORK), verdict("done"))))
    task = stage.task()
    stage.start(task).expect(0, "COMPLETED", None, "DONE")
    undone = stage.cf("work", "undo", task.id)
    assert undone.exit_code == 0, undone
    how = "git submodule update --init -- :/sub"
    assert f"kept      sub (a nested repository; a submodule comes back with: {how})" in undone.stdout
    assert "is undone already" in stage.cf("work", "undo", task.id).stderr
    git(stage.repo, *how.split()[1:])
    assert git(stage.repo, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("echo more >> sub/lib.py", "nested repository with changes of its own; not covered by undo"),
        (
            "cd sub && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x",
            "nested repository, from",
        ),
    ],
)
def test_work_inside_a_submodule_alone_is_a_change(tmp_path: Path, edit: str, said: str) -> None:
    stage = with_submodule(tmp_path)
    write(stage.repo, {"sub/lib.py": "a person's\n"})  # dirty before
    stage.engine.calls(call(session(ran(edit), verdict("done"))))
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert f"modified sub ({said}" in outcome.said.stdout
    assert len(stage.engine.invocations()) == 1  # it was not told that it had changed nothing
    assert "sub" in stage.cf("work", "undo", task.id).stdout
    assert stage.read("sub/lib.py").startswith("a person's\n")


def test_the_tips_that_are_kept_go_with_the_snapshots_of_the_task(tmp_path: Path) -> None:
    from codeframe.core.leftovers import snapshots_of

    stage = with_history(tmp_path)
    stage.engine.calls(call(session(wrote("work.py", WORK), verdict("done"))))
    task = stage.task()
    stage.start(task).expect(0, "COMPLETED", None, "DONE")
    assert "/tips-" in git(stage.repo, "for-each-ref", "refs/codeframe")
    snapshots_of(stage.workspace).delete_task(task.id)
    assert git(stage.repo, "for-each-ref", "refs/codeframe") == ""
