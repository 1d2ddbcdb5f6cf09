"""A FIFO where git or `cf` reads a file: nothing hangs, it is named with what removes it, and no lock is left held."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from codeframe.core.workspace import init_workspace
from tests.hostile.stage import WAIT_S, Stage
from tests.kit.claude_runs import ran, session, verdict, wrote
from tests.kit.engines import run_cf, start_cf
from tests.kit.repos import git_home, make_repo, write
from tests.kit.scenario import call
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.engine  # at length: no engine needed, but minutes (make test-engines)

__all__ = ["git_home"]

WORK = "x = 1\n"


def fifo(place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    return place


@pytest.mark.parametrize(
    "place",
    [
        "sub/deep/.gitignore",
        ".gitattributes",
        ".git/config",
        ".git/index",
        ".git/refs/heads/x",
    ],
)
def test_a_fifo_that_the_engine_leaves_ends_the_run_with_its_name(stage: Stage, place: str) -> None:
    made = f"mkdir -p $(dirname {place}); mv {place} ../saved; mkfifo {place}; true"
    stage.engine.calls(
        call(session(wrote("work.py", WORK), ran(made), verdict("done"))),
        call(session(wrote("more.py", WORK), verdict("done"))),
    )
    task = stage.task()
    said = stage.cf(*stage.start_args(task), timeout=WAIT_S)
    assert "Traceback" not in said.stderr
    assert said.exit_code == 1, said
    assert str(stage.repo / place) in said.stderr
    assert stage.read("work.py") == WORK
    (stage.repo / place).unlink()
    saved = stage.repo.parent / "saved"
    if saved.exists():
        saved.rename(stage.repo / place)
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert not stage.is_there("work.py")
    stage.check_persons_work()


@pytest.mark.parametrize(
    "place",
    [
        "pyproject.toml",
        "pytest.ini",
        "ruff.toml",
        "CODEFRAME.md",
        "AGENTS.md",
        "CLAUDE.md",
        "package.json",
        "README.md",
    ],
)
def test_a_fifo_among_the_files_that_cf_looks_at_holds_nothing_up(
    git_home: Path, tmp_path: Path, place: str
) -> None:
    repo = make_repo(tmp_path / "project", {"test_x.py": "def test(): pass\n"})
    init_workspace(repo)
    fifo(repo / place)
    for command in (
        ("gates", "list"),
        ("init", "--detect"),
        ("engines", "list"),
        ("tasks", "add", "README.md"),
    ):
        assert run_cf(*command, cwd=repo, timeout=WAIT_S).exit_code == 0
    said = run_cf("work", "start", "--dry-run", "--engine", "claude-code", cwd=repo, timeout=WAIT_S)
    assert said.exit_code in (0, 5), said


def test_a_fifo_for_the_configuration_is_an_error_and_not_a_missing_file(
    git_home: Path, tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "project", {"README.md": "x\n"})
    init_workspace(repo)
    fifo(repo / ".codeframe/config.yaml")
    said = run_cf("config", "show", cwd=repo, timeout=WAIT_S)
    assert said.exit_code == 2
    assert "config.yaml cannot be read: it is not a regular file" in said.stderr


def test_a_configuration_of_20_mb_is_refused_at_once(git_home: Path, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "project", {"README.md": "x\n"})
    init_workspace(repo)
    write(repo, {".codeframe/config.yaml": "engine: x\n" + "# filler\n" * 2_200_000})
    said = run_cf("config", "show", cwd=repo, timeout=WAIT_S)
    assert said.exit_code == 2
    assert "it is larger than 262,144 bytes" in said.stderr


def test_a_fifo_that_configuration_includes_is_found(git_home: Path, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "project", {"README.md": "x\n"})
    pipe = fifo(tmp_path / "else where")
    with (repo / ".git/config").open("a") as config:
        config.write(f'[include]\n\tpath = "../../{pipe.name}"\n')
    said = run_cf("init", cwd=repo, timeout=WAIT_S)
    assert said.exit_code == 1
    assert "is a FIFO, and git cannot read it" in said.stderr
    assert "else where" in said.stderr


def git_children(pid: int) -> list[psutil.Process]:
    try:
        below = psutil.Process(pid).children(recursive=True)
        return [child for child in below if child.name().startswith("git")]
    except psutil.Error:
        return []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_and_the_git_that_hangs_below_it(
    git_home: Path, tmp_path: Path, number: int
) -> None:
    repo = make_repo(tmp_path / "project", {"README.md": "x\n"})
    fifo(repo / ".git/config")
    process = start_cf("status", cwd=repo)
    found: list[psutil.Process] = []

    def hangs() -> bool:
        found[:] = git_children(process.pid)
        return bool(found)

    wait_until(hangs)
    process.send_signal(number)
    process.communicate(timeout=WAIT_S)
    assert process.returncode != 0
    assert not [git for git in found if git.is_running() and git.status() != psutil.STATUS_ZOMBIE]


def _lists_untracked(git: psutil.Process) -> bool:
    try:
        return {"ls-files", "-o"} <= set(git.cmdline())
    except psutil.Error:
        return False


def test_the_next_command_names_the_git_that_a_killed_one_left_hanging(stage: Stage) -> None:
    stage.engine.calls(call(session(wrote("work.py", WORK), verdict("done"))))
    task = stage.task()
    stage.start(task).expect(0, "COMPLETED", None, "DONE")
    pipe = fifo(stage.repo / "sub/.gitignore")
    process = start_cf("work", "undo", task.id, cwd=stage.repo, env=stage.env)
    found: list[psutil.Process] = []

    def hangs() -> bool:
        found[:] = [git for git in git_children(process.pid) if _lists_untracked(git)]
        return bool(found)

    wait_until(hangs)
    process.kill()
    process.communicate()
    git = found[0]
    try:
        said = stage.cf("work", "undo", task.id, timeout=WAIT_S)
        assert said.exit_code == 1
        assert str(pipe) in said.stderr
        assert f"kill -9 {git.pid}" in said.stderr
        assert stage.read("work.py") == WORK
    finally:
        git.kill()
    pipe.unlink()
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert not stage.is_there("work.py")


def test_a_fifo_at_the_path_of_a_prd_is_no_file(git_home: Path, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "project", {"README.md": "x\n"})
    init_workspace(repo)
    fifo(repo / "prd.md")
    said = run_cf("prd", "add", "prd.md", cwd=repo, timeout=WAIT_S)
    assert said.exit_code == 2
    assert "is not a file" in said.stderr
