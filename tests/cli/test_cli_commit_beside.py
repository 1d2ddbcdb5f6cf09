"""`cf commit create` and `cf patch export` while other processes are at work in the repository (rule 10.4)."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from copy import copy
from pathlib import Path

import psutil
import pytest

from codeframe.core.scratch import in_use
from tests.cli.conftest import Cf, refused
from tests.cli.test_cli_commit import by_hand, committed_in
from tests.kit.engines import CF, start_cf
from tests.kit.repos import git, write
from tests.kit.scenario import FakeEngine
from tests.kit.waiting import wait_until


def hook(repo: Path, name: str, script: str) -> None:
    """A hook that does this once."""
    path = repo / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n[ -e ../hooked ] && exit 0\ntouch ../hooked\n{script}\n")
    path.chmod(0o755)


def state(repo: Path) -> tuple[str, str]:
    return git(repo, "rev-parse", "HEAD"), git(repo, "status", "--porcelain")


def scratch_folders(repo: Path) -> list[Path]:
    return list((repo / ".git" / "codeframe").glob("*/scratch-*"))


@pytest.mark.parametrize("tree", ["patch in this tree", "commit in a linked worktree"])
def test_another_cf_during_a_commit_hook_does_not_empty_the_project(cf: Cf, tree: str) -> None:
    task, other = by_hand(cf, {"work.py": "x = 1\n"}, "One"), by_hand(cf, {"more.py": "x = 1\n"}, "Two")
    typed = ["patch", "export", other, "-o", "../it.patch"]
    if "commit" in tree:
        git(cf.where, "worktree", "add", "-q", "-b", "other", "../linked")
        linked = copy(cf)
        linked.where = cf.where.parent / "linked"
        other = by_hand(linked, {"more.py": "x = 2\n"}, "Three")
        typed = ["-C", "../linked", "commit", "create", "--task", other]
    before = git(cf.where, "rev-parse", "HEAD")
    run = shlex.join(["env", "-u", "GIT_INDEX_FILE", *CF, *typed])
    hook(cf.where, "pre-commit", f"{run} > ../said 2>&1 || cp ../said ../failed")
    cf("commit", "create", "--task", task)
    assert not (cf.where.parent / "failed").exists()
    assert committed_in(cf.where) == ["work.py"]
    assert git(cf.where, "rev-parse", "HEAD^") == before
    if "commit" in tree:
        assert committed_in(linked.where) == ["more.py"]
    else:
        assert "deleted file" not in (cf.where.parent / "it.patch").read_text()
    assert scratch_folders(cf.where) == []


def test_a_commit_that_would_remove_the_rest_of_the_project_is_taken_back(cf: Cf) -> None:
    by_hand(cf, {"work.py": "x = 1\n"})
    hook(cf.where, "pre-commit", 'rm -f "$GIT_INDEX_FILE"; git add work.py')
    before = state(cf.where)
    refused(cf("commit", "create", code=1), "would remove README.md as well; it was not kept")
    assert state(cf.where) == before


def test_a_patch_that_is_not_the_tasks_is_not_printed(
    cf: Cf, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = by_hand(cf, {"work.py": "x = 1\n"})
    stub, real = engine.bin / "git", shutil.which("git")
    stub.write_text(f'#!/bin/sh\ncase "$*" in *write-tree) rm "$GIT_INDEX_FILE";; esac\nexec {real} "$@"\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", engine.path())
    refused(cf("patch", "export", task, code=1), "README.md is wrong in it")


def test_a_commit_whose_cf_was_killed_in_the_hook_is_waited_for_and_swept(cf: Cf) -> None:
    task = by_hand(cf, {"work.py": "x = 1\n"})
    hook(cf.where, "pre-commit", "touch ../waits; until [ -e ../go ]; do sleep 0.05; done")
    place = cf.where.parent
    process = start_cf("commit", "create", "--task", task, cwd=cf.where)
    wait_until((place / "waits").exists)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    try:
        refused(cf("commit", "create", "--task", task, code=1), "still at work", "or end it: kill ")
        refused(cf("deinit", "--force", code=1), "A commit or a patch is being made")
        refused(cf("work", "undo", task, code=1), "still at work")
        assert "still at work" in cf("work", "start", cf.add("Next"), code=1).stderr
        cf("patch", "export", task)  # sweeps what nobody uses
        found = cf("doctor", code=1).stdout
        assert "still at work" in found
        assert "Left half-written" not in found
    finally:
        (place / "go").touch()
    process.communicate(timeout=60)
    wait_until(lambda: not any(map(in_use, scratch_folders(cf.where))))
    refused(cf("commit", "create", "--task", task, code=1), "a commit of it is in HEAD")
    assert (committed_in(cf.where), git(cf.where, "status", "--porcelain")) == (["work.py"], "")
    assert "Left half-written" in cf("doctor", code=1).stdout
    cf("doctor", "--fix")
    assert scratch_folders(cf.where) == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_hook_does_not_live_on_and_write_into_the_tree_once_the_commit_was_stopped(
    cf: Cf, signum: signal.Signals
) -> None:
    task = by_hand(cf, {"work.py": "x = 1\n"})
    before = state(cf.where)
    hook(cf.where, "pre-commit", "sh -c 'echo $$ > ../hook; exec sleep 60'; echo late > README.md")
    process = start_cf("commit", "create", "--task", task, cwd=cf.where)
    pid = cf.where.parent / "hook"
    wait_until(lambda: pid.exists() and bool(pid.read_text()))
    os.kill(process.pid, signum)
    said = "".join(map(str, process.communicate(timeout=60)))
    assert (process.returncode, "nothing was committed" in said) == (128 + signum, True)
    left = int(pid.read_text())
    assert not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE
    assert state(cf.where) == before
    assert scratch_folders(cf.where) == []


def test_a_persons_own_commit_during_the_hook_leaves_no_deletion_staged(cf: Cf) -> None:
    task = by_hand(cf, {"work.py": "x = 1\n"})
    write(cf.where, {"mine.txt": "mine\n"})
    git(cf.where, "add", "mine.txt")
    hook(cf.where, "pre-commit", "unset GIT_INDEX_FILE; git commit -q -m mine")
    said = cf("commit", "create", "--task", task, code=1)
    refused(said, "HEAD moved while the commit was made", "git log -3")
    assert committed_in(cf.where) == ["mine.txt", "work.py"]  # as it was staged for the person at that time
    assert git(cf.where, "status", "--porcelain") == ""
