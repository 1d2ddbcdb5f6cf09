"""Commands that only look run nothing of the repository: no interpreter, hook, filter or helper of it (rule 9.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cf
from tests.kit.repos import commit, git
from tests.kit.scenario import FakeEngine


@pytest.fixture
def trapped(cf: Cf, tmp_path: Path) -> Path:
    """Puts programs everywhere a repository can name one; the file returned is there once one was run."""
    sprung = tmp_path / "sprung"
    trap = f"#!/bin/sh\necho $0 >> {sprung}\nexit 1\n"
    for name in (
        ".venv/bin/python",
        ".venv/bin/ruff",
        ".venv/bin/pytest",
        ".git/hooks/post-checkout",
        "trap",
    ):
        path = cf.where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(trap)
        path.chmod(0o755)
    (cf.where / ".gitignore").write_text(".venv\n")
    (cf.where / "test_a.py").write_text("def test_a(): pass\n")
    (cf.where / ".gitattributes").write_text("* diff=own\n")
    commit(cf.where, "project")
    trap_file = str(cf.where / "trap")
    for key in ("core.fsmonitor", "diff.external", "diff.own.textconv", "diff.own.command", "core.pager"):
        git(cf.where, "config", key, trap_file)
    return sprung


def test_looking_runs_nothing_of_the_repository(cf: Cf, trapped: Path) -> None:
    cf("init")
    cf("init", "--detect")
    task = cf.add("Fix test_a")
    for args in (
        ["status"], ["tasks", "list"], ["tasks", "show", task], ["work", "start", "--json"], ["work", "start", task],
        ["work", "status"], ["work", "show", task], ["blocker", "list"], ["engines", "list"], ["gates", "list"],
        ["gates", "list", "--json"], ["config", "show"], ["prd", "show", "--all"],
    ):  # fmt: skip
        cf(*args)
        assert not trapped.exists(), (args, trapped.read_text())


def test_a_dry_run_runs_nothing_of_the_repository(
    cf: Cf, trapped: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", engine.path())
    cf.add("Fix test_a")
    said = cf("work", "start", "--dry-run", "--engine", "claude-code").stdout
    assert "gate      pytest: .venv/bin/python -m pytest\n" in said
    assert not trapped.exists(), trapped.read_text()


def test_the_trap_can_be_sprung(cf: Cf, trapped: Path) -> None:
    cf("gates", "run", code=1)
    assert ".venv/bin/python" in trapped.read_text()
