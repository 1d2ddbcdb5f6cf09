"""A person's own arguments for an engine: which may be given, where they go, that they are trusted (rules 5.5, 9.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.adapters.claude_code import ClaudeCodeAdapter
from codeframe.core.adapters.custom import adapter_class
from codeframe.core.agent_adapter import AgentContext
from codeframe.core.engine_arguments import arguments_for, with_arguments
from codeframe.core.engine_definition import EngineDefinition
from codeframe.core.engine_registry import EngineRegistry
from codeframe.core.environment_config import EnvironmentConfig
from codeframe.core.errors import UsageError
from tests.cli.conftest import Cf, cf, git_home, refused, workspace
from tests.kit import codex_runs as codex
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.repos import git, write
from tests.kit.scenario import FakeEngine, call, out

__all__ = ["cf", "git_home", "workspace"]

EFFORT = {"claude-code": ["--effort", "high"]}


@pytest.mark.parametrize(
    ("argv", "made"),
    [
        (("x", "-p"), ("x", "-p", "--a", "b")),
        (("x", "--", "file"), ("x", "--a", "b", "--", "file")),
    ],
)
def test_they_stand_last_but_before_what_ends_the_options(
    argv: tuple[str, ...], made: tuple[str, ...]
) -> None:
    assert with_arguments(argv, ["--a", "b"]) == made
    assert with_arguments(argv, ()) == argv


@pytest.mark.parametrize(
    "given",
    [["--x"], {"a": "--x"}, {"a": ["--x", 1]}, {"a": [""]}, {"a": ["x\0"]}, {1: ["x"]}, {"a": [["x"]]}],
)
def test_what_is_no_list_of_texts_for_an_engine_is_refused(given: Any) -> None:
    (sentence,) = EnvironmentConfig.from_dict({"engine_args": given}).validate()
    assert sentence.startswith("`engine_args` has to be a mapping of engines to lists of texts")
    assert EnvironmentConfig.from_dict({"engine_args": EFFORT}).validate() == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"claud-code": ["--x"]}, "Did you mean 'claude-code'"),
        ({"built-in": ["--x"]}, "Engine built-in is no command line, so it takes no `engine_args`."),
        ({"react": ["--x"]}, "no command line"),
        ({"codex": ["-c", "key=sk-ant-abc123def456ghi789jkl"]}, "looks like a secret"),
    ],
)
def test_what_cannot_be_given_is_refused_whichever_engine_runs(given: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        arguments_for({**EFFORT, **given}, ["claude-code"], EngineRegistry)


def test_only_those_of_the_engines_that_may_run_are_kept() -> None:
    given = {**EFFORT, "codex": ["-c", "a=b"], "aider": []}
    assert arguments_for(given, ["claude-code", "aider"], EngineRegistry) == EFFORT
    assert arguments_for(None, ["claude-code"], EngineRegistry) == {}


# -- where they arrive ------------------------------------------------------------------------------


def test_another_engine_that_takes_over_gets_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"engine_args": {**EFFORT, "codex": ["-c", "model_reasoning_effort=high"]}}
    context = AgentContext("t", "title", options=options)
    claude = FakeEngine(tmp_path, "claude").calls(call(session(verdict("fine"))))
    fake_codex = codex.fake_codex(tmp_path)
    fake_codex.calls(codex.conversation(codex.opened(), codex.turn(codex.verdict("fine"))))
    monkeypatch.setenv("PATH", claude.path(fake_codex.path()))
    ClaudeCodeAdapter().execute("do it", tmp_path, context, 60_000)
    EngineRegistry.get("codex").execute("do it", tmp_path, context, 60_000)
    (one,), (other,) = claude.invocations(), fake_codex.invocations()
    assert one.argv[-2:] == ["--effort", "high"]
    assert other.argv[0] == "app-server"
    assert other.argv[-2:] == ["-c", "model_reasoning_effort=high"]
    assert "--effort" not in other.argv


def test_a_declared_command_keeps_what_follows_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = FakeEngine(tmp_path, "my-agent").calls(call(out("fine")))
    monkeypatch.setenv("PATH", agent.path())
    mine = EngineDefinition.of("mine", {"command": ["my-agent", "run", "--", "{workspace}"]})
    context = AgentContext("t", "title", options={"engine_args": {"mine": ["--deep"]}})
    adapter_class(mine, tmp_path, "here")().execute("do it", tmp_path, context, 60_000)
    (one,) = agent.invocations()
    assert one.argv == ["run", "--deep", "--", str(tmp_path)]


# -- on the command line ----------------------------------------------------------------------------


@pytest.fixture
def claude(cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine(tmp_path / "person", "claude").calls(
        call(session(wrote("a.py", "x = 1\n"), verdict("made a.py")))
    )
    monkeypatch.setenv("PATH", fake.path())
    cf.trusting = False  # what is trusted is what this is about
    return fake


def start(cf: Cf, task: str, code: int = 0) -> Any:
    return cf("work", "start", task, "--execute", "--engine", "claude-code", code=code)


def test_what_a_person_sets_is_trusted_used_and_told(cf: Cf, claude: FakeEngine) -> None:
    cf("config", "set", "engine_args", "{claude-code: [--effort, high], codex: [-c, a=b]}")
    assert "set      {'claude-code': ['--effort', 'high'], 'codex':" in cf("config", "show").stdout
    task = cf.add()
    planned = cf("work", "start", task, "--execute", "--engine", "claude-code", "--dry-run").stdout
    assert "\narguments --effort high (claude-code)\n" in planned
    start(cf, task)
    (run,) = claude.invocations()
    assert run.argv[-2:] == ["--effort", "high"]
    assert "\nArguments by engine_args: --effort high\n" in cf("work", "why", task).stdout
    assert cf("work", "why", task, "--json").json()["run"]["options"]["engine_args"] == EFFORT
    cf("config", "set", "engine_args", "{}")
    cf("tasks", "set", task, "status", "READY")
    git(cf.where, "add", "-A")
    git(cf.where, "commit", "-q", "-m", "done")
    claude.calls(call(session(wrote("b.py", "x = 1\n"), verdict("made b.py"))))
    start(cf, task)
    assert "--effort" not in claude.invocations()[-1].argv


def test_what_a_file_of_the_repository_says_is_asked_about_first(cf: Cf, claude: FakeEngine) -> None:
    write(cf.where, {".codeframe/config.yaml": json.dumps({"engine_args": EFFORT})})
    task = cf.add()
    refused(
        start(cf, task, code=5), "Not trusted to run here: arguments claude-code (new)", "cf trust --show"
    )
    assert claude.invocations() == []
    assert "arguments claude-code: --effort high  (new)" in cf("trust", "--show").stdout
    cf("trust", "--yes")
    write(cf.where, {".codeframe/config.yaml": json.dumps({"engine_args": {"claude-code": ["--danger"]}})})
    refused(start(cf, task, code=5), "arguments claude-code (changed)")
    assert claude.invocations() == []


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("{claud-code: [--x]}", "Did you mean 'claude-code'?"),
        ("{built-in: [--x]}", "Engine built-in is no command line"),
        ("{claude-code: --x}", "`engine_args` has to be a mapping"),
        ("{claude-code: [--max-turns, 5]}", "numbers in quotes"),
    ],
)
def test_what_makes_no_sense_is_not_set(cf: Cf, value: str, part: str) -> None:
    refused(cf("config", "set", "engine_args", value, code=2), part)
    assert not (cf.where / ".codeframe" / "config.yaml").exists()


def test_a_start_refuses_what_a_file_says_of_an_engine_that_takes_none(cf: Cf, claude: FakeEngine) -> None:
    write(cf.where, {".codeframe/config.yaml": json.dumps({"engine_args": {"built-in": ["--x"]}})})
    refused(
        start(cf, cf.add(), code=2), "Engine built-in is no command line", "cf config set engine_args '{}'"
    )
