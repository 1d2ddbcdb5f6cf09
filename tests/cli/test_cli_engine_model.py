"""An engine that must not run without a model refuses before a run exists (rules 3.2, 5.5)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kit.engines import run_cf
from tests.kit.repos import make_repo
from tests.kit.scenario import FakeEngine, call, out, write


def test_no_model_no_run(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", {"README.md": "# A project\n"})
    home = tmp_path / "home"
    home.mkdir()
    text = {"type": "text", "sessionID": "ses_1", "part": {"text": "made it"}}
    end = {"type": "step_finish", "sessionID": "ses_1", "part": {"id": "p", "reason": "stop"}}
    engine = FakeEngine(tmp_path, "opencode", "1.18.33").calls(
        call(write("made.txt", "x\n"), out(text), out(end), argv=["run"]),
        call(argv=["session"], stdin="ignore"),
    )
    env = {"PATH": engine.path(), "HOME": str(home)}

    def cf(*args: str) -> tuple[int, str, str]:
        done = run_cf(*args, cwd=repo, env=env)
        return done.exit_code, done.stdout, done.stderr

    cf("init")
    task = cf("tasks", "add", "Make it")[1].strip()
    start = ("work", "start", task, "--execute", "--engine", "opencode", "--no-gates")
    code, _, said = cf(*start)
    assert code == 5
    assert "No model is chosen for OpenCode" in said
    assert "cf config set model anthropic/claude-sonnet-4-5" in said
    assert engine.invocations() == []
    assert json.loads(cf("tasks", "show", task, "--json")[1])["status"] == "READY"

    assert cf("config", "set", "model", "anthropic/claude-sonnet-4-5")[0] == 0
    assert cf(*start)[0] == 0
    (run,) = [each for each in engine.invocations() if each.argv[0] == "run"]
    assert run.argv[run.argv.index("-m") + 1] == "anthropic/claude-sonnet-4-5"
