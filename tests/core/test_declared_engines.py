"""Engines declared in the configuration: where they are known, and that they run only once trusted (rules 3.3, 9.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.adapters.custom import CustomAdapter
from codeframe.core.agent_adapter import AgentAdapter
from codeframe.core.engine_registry import EngineRegistry
from codeframe.core.environment_config import EnvironmentConfig
from codeframe.core.errors import UsageError
from codeframe.core.run_options import RunOptions
from tests.cli.conftest import Cf, cf, git_home, refused, repo, workspace
from tests.kit.repos import write
from tests.kit.scenario import FakeEngine, call, leave, out
from tests.kit.scenario import write as wrote

__all__ = ["cf", "git_home", "repo", "workspace"]


def declare(where: Path, **engines: object) -> None:
    write(where, {".codeframe/config.yaml": json.dumps({"engines": engines})})


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """A fake `my-agent` on PATH that writes a file."""
    fake = FakeEngine(tmp_path / "bin", "my-agent").calls(call(wrote("made.txt", "x\n"), out("made it")))
    monkeypatch.setenv("PATH", fake.path())
    return fake


def test_it_is_known_in_its_workspace_and_nowhere_else(tmp_path: Path) -> None:
    declare(tmp_path, mine={"command": ["my-agent"], "description": "Mine"})
    known = EngineRegistry.at(tmp_path)
    assert "mine" in known.available()
    assert isinstance(known.get("mine"), AgentAdapter)
    assert isinstance(known.get("mine"), CustomAdapter)
    assert (known.describe("mine"), known.origin("mine")) == ("Mine", "declared in .codeframe/")
    assert "mine" not in EngineRegistry.available()
    with pytest.raises(ValueError, match="There is no engine 'mine'"):
        EngineRegistry.get("mine")
    assert EngineRegistry.at(tmp_path / "elsewhere") is EngineRegistry


@pytest.mark.parametrize("name", ["claude-code", "built-in", "aider"])
def test_a_name_that_is_taken_may_not_be_declared(tmp_path: Path, name: str) -> None:
    declare(tmp_path, **{name: {"command": ["evil"]}})
    with pytest.raises(UsageError, match=f"declares {name}, and there is an engine of that name"):
        EngineRegistry.at(tmp_path)


def test_a_preset_is_there_without_being_declared() -> None:
    assert "aider" in EngineRegistry.available()
    assert EngineRegistry.origin("aider") == "a preset"
    assert EngineRegistry.origin("claude-code") == ""


def test_a_program_of_the_workspace_counts_where_it_lies(tmp_path: Path) -> None:
    declare(tmp_path, mine={"command": ["tools/agent"]})
    assert EngineRegistry.at(tmp_path).check_requirements("mine") == {"tools/agent there": False}
    write(tmp_path, {"tools/agent": "#!/bin/sh\n"})
    (tmp_path / "tools/agent").chmod(0o755)
    assert EngineRegistry.at(tmp_path).check_requirements("mine") == {"tools/agent there": True}


def test_list_and_check_show_it_as_what_it_is_and_run_nothing(cf: Cf, agent: FakeEngine) -> None:
    declare(cf.where, mine={"command": ["my-agent", "go"], "description": "Mine", "install": "Get it."})
    assert "Mine (declared in .codeframe/)" in cf("engines", "list").stdout
    (listed,) = [e for e in cf("engines", "list", "--json").json()["engines"] if e["name"] == "mine"]
    assert listed["origin"] == "declared in .codeframe/"
    said = cf("engines", "check", "mine").stdout
    assert '"command": ["my-agent", "go"]' in said
    assert "mine is ready." in said
    assert agent.invocations() == []
    declare(cf.where, mine={"command": ["no-such-agent"], "install": "Get it."})
    assert "mine is not ready. Get it." in cf("engines", "check", "mine", code=5).stdout


def test_it_runs_only_once_trusted_and_again_only_as_it_was(cf: Cf, agent: FakeEngine) -> None:
    cf.trusting = False
    declare(cf.where, mine={"command": ["my-agent", "{prompt_file}"]})
    task = cf.add("Make made.txt", "--engine", "mine")
    start = ("work", "start", task, "--execute", "--no-gates")
    refused(cf(*start, code=5), "Not trusted to run here: engine mine (new)", "cf trust --yes")
    assert '"command": ["my-agent", "{prompt_file}"]' in cf("trust", "--show").stdout
    assert agent.invocations() == []
    cf("trust", "--yes")
    cf(*start)
    assert "Make made.txt" in Path(agent.invocations()[0].argv[0]).read_text()
    declare(cf.where, mine={"command": ["my-agent", "{prompt_file}"], "env": {"PAGER": "evil"}})
    cf("tasks", "set", task, "status", "READY")
    refused(cf(*start, code=5), "engine mine (changed)")
    assert len(agent.invocations()) == 1


def test_what_is_set_by_command_is_trusted_as_it_is_set(cf: Cf, agent: FakeEngine) -> None:
    cf.trusting = False
    cf("config", "set", "engines", "{mine: {command: [my-agent, '{prompt_file}']}}")
    cf("config", "set", "engine", "mine")
    cf("work", "start", cf.add(), "--execute", "--no-gates")
    assert (cf.where / "made.txt").exists()


def test_what_it_reads_of_the_project_is_an_item_of_its_own(cf: Cf, agent: FakeEngine) -> None:
    declare(cf.where, mine={"command": ["my-agent"], "project_config": [".my-agent.yml"]})
    write(cf.where, {".my-agent.yml": "run: evil\n"})
    names = [item["name"] for item in cf("trust", "--show", "--json").json()["items"]]
    assert {"engine mine", "file .my-agent.yml"} <= set(names)


def test_a_silence_it_is_known_for_counts_where_nobody_says_otherwise(tmp_path: Path) -> None:
    declare(tmp_path, mine={"command": ["my-agent"], "stall_timeout": "20m"})
    known = EngineRegistry.at(tmp_path)
    own = known.adapter_class("mine").run_defaults  # type: ignore[attr-defined]
    assert RunOptions.merge(EnvironmentConfig(), {}, None, own).stall_timeout_s == 1200
    assert RunOptions.merge(EnvironmentConfig(stall_timeout="5m"), {}, None, own).stall_timeout_s == 300
    assert RunOptions.merge(EnvironmentConfig(), {"stall_timeout_s": 60.0}, None, own).stall_timeout_s == 60


def test_what_a_preset_that_is_not_installed_would_read_is_nothing_to_ask_about(
    cf: Cf, agent: FakeEngine
) -> None:
    write(cf.where, {".env": "KEY=x\n"})
    assert cf("trust", "--show", "--json").json()["items"] == []


# -- whole runs (rule 12) -------------------------------------------------------------------------------


def run_of(cf: Cf, *flags: str, code: int) -> dict[str, Any]:
    """The run of a task done by the declared engine `mine`, ended with this status."""
    declare(cf.where, mine={"command": ["my-agent", "{prompt_file}"]})
    task = cf.add("Make made.txt", "--engine", "mine")
    cf("work", "start", task, "--execute", "--no-gates", *flags, code=code)
    run: dict[str, Any] = cf("work", "why", task, "--json").json()["run"]
    return run


def test_success_with_nothing_written(cf: Cf, agent: FakeEngine) -> None:
    agent.calls(call(out("all done")))
    run = run_of(cf, code=1)
    assert (run["status"], run["error_class"], run["rounds"]) == ("FAILED", "no_change", 2)
    assert all("Make made.txt" in Path(ran.argv[0]).read_text() for ran in agent.invocations())  # cold, both


def test_a_question_in_prose_with_an_empty_diff(cf: Cf, agent: FakeEngine) -> None:
    agent.calls(call(out("I looked at it."), out("Which colour should it be?")))
    assert run_of(cf, code=3)["status"] == "BLOCKED"


def test_reading_aloud_of_errors_is_no_error(cf: Cf, agent: FakeEngine) -> None:
    agent.calls(
        call(out("429 rate limit, invalid api key, credit balance too low"), wrote("made.txt", "x\n"))
    )
    assert run_of(cf, code=0)["status"] == "COMPLETED"


def test_a_crash_keeps_the_work(cf: Cf, agent: FakeEngine) -> None:
    agent.calls(call(wrote("half.txt", "x\n"), leave(1)))
    run = run_of(cf, code=1)
    assert (run["status"], run["error_class"]) == ("FAILED", "crashed")
    assert (cf.where / "half.txt").exists()
