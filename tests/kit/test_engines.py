"""What runs `cf` in tests keeps the caller's own agents, keys and packages out of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.kit.engines import clean_env, pinned, run_cf, scripted_env


def test_nothing_of_the_callers_agents_is_inherited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in ("ANTHROPIC_API_KEY", "CLAUDECODE", "CLAUDE_CONFIG_DIR", "VIRTUAL_ENV", "PYTHONPATH"):
        monkeypatch.setenv(name, "leaked")
    own_bin = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", os.pathsep.join([own_bin, "/usr/bin"]))
    env = clean_env(tmp_path)
    assert "leaked" not in env.values()
    assert env["HOME"] == str(tmp_path)
    if sys.prefix != sys.base_prefix:
        assert env["PATH"] == "/usr/bin"


def test_a_home_is_never_the_callers():
    assert clean_env()["HOME"] == clean_env()["HOME"] != os.environ.get("HOME")


def test_the_scripted_server_is_all_the_cli_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    env = scripted_env(tmp_path, "http://127.0.0.1:1/s")
    assert env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1/s"
    assert "HTTPS_PROXY" not in env


def test_a_module_in_the_repository_is_not_taken_for_one_of_ours(tmp_path: Path):
    for name in ("codeframe", "json", "typer"):
        (tmp_path / f"{name}.py").write_text("print('trap')")
    done = run_cf("--help", cwd=tmp_path)
    assert "trap" not in done.stdout


def test_a_missing_real_cli_fails_the_test_and_says_what_to_type():
    with pytest.raises(pytest.fail.Exception, match="make test-engines"):
        pinned("no-such-engine")
