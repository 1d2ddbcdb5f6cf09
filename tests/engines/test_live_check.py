"""`cf engines check --live` with real CLIs and a scripted model, and a person's own arguments (rules 3.5, 5.5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeframe.core.engine_trial import LINE
from codeframe.demo.model_script import tool, verdict
from codeframe.demo.model_server import ScriptedModel
from tests.engines.test_conformance_codex import Codex
from tests.kit.engines import run_cf, scripted_env
from tests.kit.repos import make_repo

pytestmark = pytest.mark.engine


def kept(home: Path) -> list[str]:
    """Files of CodeFrame's own in the home folder, but for records of trust in other repositories."""
    state = home / ".local" / "state" / "codeframe"
    return [path.name for path in state.rglob("*") if path.is_file() and path.parent.name != "trust"]


def test_claude_code_does_the_tiny_task(claude: Path, home: Path, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", {"README.md": "# A project\n"})
    write = [tool("Write", {"file_path": "{cwd}/hello.txt", "content": f"{LINE}\n"}), verdict("made it")]
    with ScriptedModel() as server:
        env = scripted_env(home, server.add("s", {"prompts": [write]}))
        run_cf("init", cwd=repo, env=env)
        arguments = "{claude-code: [--tools, 'Bash,Read,Edit,Write,Glob,Grep']}"
        run_cf("config", "set", "engine_args", arguments, cwd=repo, env=env)
        done = run_cf("engines", "check", "claude-code", "--live", cwd=repo, env=env)
        assert done.exit_code == 0, done
        assert "\nCOMPLETED, verified; 1 engine call; " in done.stdout
        assert "claude-code works: it did the task, with " in done.stdout
        asked = server.requests("s")
        tools = {each["name"] for each in asked[0].body["tools"]}
        assert tools == {"Bash", "Read", "Edit", "Write", "Glob", "Grep", "StructuredOutput"}
        listed = run_cf("engines", "list", cwd=repo, env=env)
        assert "  2.1.197  ready  " in listed.stdout
        assert len(server.requests("s")) == len(asked)  # a list asks no model
    assert kept(home) == ["engine-versions.json"]


def test_codex_does_the_tiny_task(home: Path, tmp_path: Path) -> None:
    row = Codex()
    repo = make_repo(tmp_path / "repo", {"README.md": "# A project\n"})
    with ScriptedModel() as server:
        url = server.add("s", {"prompts": [[row.write("hello.txt", f"{LINE}\n"), row.verdict("made it")]]})
        env = row.environment(home, url)
        run_cf("init", cwd=repo, env=env)
        arguments = "{codex: [-c, 'model_reasoning_effort=\"low\"']}"
        run_cf("config", "set", "engine_args", arguments, cwd=repo, env=env)
        done = run_cf("engines", "check", "codex", "--live", cwd=repo, env=env)
        assert done.exit_code == 0, done
        assert "ok      its sandbox: works\n" in done.stdout or "ok     its sandbox: works\n" in done.stdout
        assert "\nCOMPLETED, verified; 1 engine call; " in done.stdout
        assert server.requests("s")[0].body["reasoning"]["effort"] == "low"
    assert kept(home) == ["engine-versions.json"]
