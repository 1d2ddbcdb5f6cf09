"""A workspace to type in, `cf` in this process where nothing about the process matters, and a terminal."""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path

import pytest

from codeframe.cli.app import main
from codeframe.core.workspace import init_workspace
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.engines import Completed
from tests.kit.repos import git_home, make_repo, repo
from tests.kit.scenario import FakeEngine, call
from tests.kit.trusting import runs_something, trust

__all__ = ["git_home", "repo"]


class Cf:
    """Runs `cf ARGS` in this process, in `where`, and checks its exit status: 0 unless `code` says otherwise."""

    def __init__(
        self, where: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.where = where
        self.trusting = True  # what the test itself put there, before each command that would run it
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *args: str, code: int = 0, stdin: bytes = b"", where: Path | None = None) -> Completed:
        self._monkeypatch.chdir(where or self.where)
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capsys.readouterr()
        if self.trusting and runs_something(args):
            trust(where or self.where, os.environ)
        with pytest.raises(SystemExit) as ended:
            main(list(args))
        out, err = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        done = Completed(ended.value.code, out, err)
        del ended  # its traceback would keep what the command had open
        assert done.exit_code == code, done
        return done

    def add(self, title: str = "Do it", *options: str) -> str:
        """A new task's id."""
        return self("tasks", "add", title, *options).stdout.strip()


def refused(done: Completed, *parts: str) -> None:
    """An error as people are to see it: two lines on stderr, nothing on stdout, no traceback (rule 10.2)."""
    assert done.stdout == ""
    problem, hint = done.stderr.splitlines()
    assert problem.startswith("cf: ")
    assert problem.endswith((".", "?"))
    assert hint.startswith("    ")
    for part in parts:
        assert part in done.stderr


@pytest.fixture
def outside(git_home: Path, tmp_path: Path) -> Path:
    """A folder that is in no git repository."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit and no gates, made a workspace: to be copied, which is faster than made."""
    folder = tmp_path_factory.mktemp("workspace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        made = make_repo(folder / "project", {"README.md": "hello\n"})
        init_workspace(made)
    return made


@pytest.fixture
def cf(
    git_home: Path,
    workspace: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Cf:
    """`cf` in a workspace: a repository with one commit and no gates."""
    return Cf(shutil.copytree(workspace, tmp_path / "project"), capsys, monkeypatch)


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    """A fake engine that writes one file and says so."""
    return FakeEngine(tmp_path, "claude").calls(call(session(wrote("a.py", "x = 1\n"), verdict("made a.py"))))
