"""`cf engines check --live` with the real Claude Code CLI and a scripted model."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeframe.core.engine_trial import LINE
from codeframe.demo.model_script import tool, verdict
from codeframe.demo.model_server import ScriptedModel
from tests.kit.engines import claude, home, run_cf, scripted_env

__all__ = ["claude", "home"]

pytestmark = pytest.mark.engine


def test_the_real_one_does_the_tiny_task(claude: Path, home: Path, tmp_path: Path) -> None:
    write = [tool("Write", {"file_path": "{cwd}/hello.txt", "content": f"{LINE}\n"}), verdict("made it")]
    with ScriptedModel() as server:
        env = scripted_env(home, server.add("s", {"prompts": [write]}))
        done = run_cf("engines", "check", "claude-code", "--live", cwd=tmp_path, env=env)
        assert done.exit_code == 0, done
        assert "\nCOMPLETED, verified; 1 engine call; " in done.stdout
        assert "claude-code works: it did the task, with " in done.stdout
        asked = len(server.requests("s"))
        listed = run_cf("engines", "list", cwd=tmp_path, env=env)
        assert "  2.1.197  ready  " in listed.stdout
        assert len(server.requests("s")) == asked  # a list asks no model
    state = home / ".local" / "state" / "codeframe"
    assert [path.name for path in state.rglob("*") if path.is_file()] == ["engine-versions.json"]
