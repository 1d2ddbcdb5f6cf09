"""`cf demo`, whole: through the engine of our own, and through the real CLI."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.engines import ENGINES_BIN, Completed, clean_env, pinned, run_cf

pytestmark = pytest.mark.engine


def project_of(said: Completed) -> Path:
    found = re.search(r"stays in (\S+): look", said.stdout)
    assert found, said
    return Path(found.group(1))


def shows_the_main_job(said: Completed) -> None:
    assert said.exit_code == 0, said
    for words in (
        "The model in this demo is scripted",
        "2 engine calls",  # the first task: corrected once
        "AssertionError: assert 0.1 == Decimal('0.30')",
        "F401",
        "BLOCKED; 1 engine call",
        "half a cent",
        "+    def total(self) -> Decimal:",
        "On your own project",
    ):
        assert words in said.stdout
    assert said.stdout.count("COMPLETED, verified") == 4  # three ends, and one seen again by `why`
    assert "correction 1 of 3" in said.stderr
    assert len(re.findall(r"^\w{8}  DONE ", said.stdout, re.M)) == 3
    assert "receipt(basket" in (project_of(said) / "till" / "receipt.py").read_text()


def test_the_demo_does_the_main_job_in_an_empty_home_and_writes_nothing_there(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    said = run_cf("demo", cwd=tmp_path, env={**clean_env(home), "TMPDIR": str(tmp_path)})
    shows_the_main_job(said)
    assert list(home.iterdir()) == []
    assert "scripted-model" in said.stdout


def test_the_demo_does_it_with_the_real_cli(tmp_path: Path) -> None:
    pinned("claude")
    env = clean_env(tmp_path)
    env |= {"TMPDIR": str(tmp_path), "PATH": f"{ENGINES_BIN}:{env['PATH']}"}
    shows_the_main_job(run_cf("demo", "--engine", "claude-code", cwd=tmp_path, env=env))
