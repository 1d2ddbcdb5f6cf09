"""Scratch git repositories for tests: real git, its own home, nothing of the developer's configuration."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

Content = str | bytes


def git(where: Path, *args: str, stdin: bytes = b"") -> str:
    """Run plain git as a person would (no hardening) and return its stdout; raises when it fails."""
    done = subprocess.run(["git", *args], cwd=where, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, f"git {args}: {done.stderr.decode(errors='replace')}"
    return os.fsdecode(done.stdout).strip("\n")


def make_repo(where: Path, files: dict[str, Content] | None = None, branch: str = "main") -> Path:
    """A repository with a local identity; with `files`, one commit that holds them. Returns `where`."""
    where.mkdir(parents=True, exist_ok=True)
    git(where, "init", "-q", "--template=", "-b", branch)
    with (where / ".git/config").open("a") as config:
        config.write("[user]\n\tname = A Person\n\temail = person@example.invalid\n")
    if files:
        commit(where, "first", files)
    return where


def write(where: Path, files: dict[str, Content]) -> None:
    """Write text (UTF-8) or bytes to paths relative to `where`, making folders."""
    for name, content in files.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def commit(where: Path, message: str, files: dict[str, Content] | None = None) -> str:
    """Write `files`, commit everything, return the commit's id."""
    write(where, files or {})
    git(where, "add", "-A")
    git(where, "commit", "-q", "--allow-empty", "-m", message)
    return git(where, "rev-parse", "HEAD")


@pytest.fixture
def git_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, so that no configuration of the machine reaches a test. Use it in every git test."""
    home = tmp_path_factory.mktemp("home")
    for name in [n for n in os.environ if n.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "CODEFRAME_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


@pytest.fixture
def repo(git_home: Path, tmp_path: Path) -> Path:
    """A repository `project` with one commit: README.md."""
    return make_repo(tmp_path / "project", {"README.md": "hello\n"})
