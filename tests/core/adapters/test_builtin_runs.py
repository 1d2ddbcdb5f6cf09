"""Whole runs of the built-in engine, gates and all, against a scripted model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codeframe.core import admission
from codeframe.core.adapters.builtin import BuiltInReactAdapter
from codeframe.core.engine_registry import EngineRegistry
from codeframe.core.models import Run, RunKind
from codeframe.core.process_sweep import find_marked
from codeframe.core.runtime import execute_agent
from codeframe.core.workspace import init_workspace
from codeframe.demo.model_script import error, tool
from codeframe.demo.model_server import ScriptedModel
from tests.kit.engines import Completed, run_cf
from tests.kit.repos import make_repo, write
from tests.kit.trusting import trust

CLASS = "codeframe.core.adapters.builtin:BuiltInReactAdapter"


def verdict(summary: str, status: str = "completed", **more: Any) -> dict[str, Any]:
    return tool("finish", {"status": status, "summary": summary, **more})


def make(content: str) -> dict[str, Any]:
    return tool("create_file", {"path": "made.txt", "content": content, "overwrite": True})


class Setup:
    """A task whose gate wants made.txt to say "right"."""

    def __init__(self, server: ScriptedModel, folder: Path) -> None:
        self._server = server
        self.repo = make_repo(folder / "project", {"README.md": "hello\n"})
        self.workspace, _ = init_workspace(self.repo)
        gate = {"name": "check", "command": ["sh", "-c", "grep right made.txt"]}
        write(self.repo, {".codeframe/config.yaml": json.dumps({"gates": [gate]})})
        self.task = self.workspace.store.tasks.add("Make the file", description="made.txt says right.")
        # The engine's entry points as an installed package offers them, whatever this environment has.
        offer = folder / "packages" / "offer-1.dist-info"
        offer.mkdir(parents=True)
        (offer / "METADATA").write_text("Metadata-Version: 2.1\nName: offer\nVersion: 1\n")
        points = f"[codeframe.engines]\nbuilt-in = {CLASS}\nreact = {CLASS}\n"
        (offer / "entry_points.txt").write_text(points)
        self.env = {"PYTHONPATH": str(offer.parent), "CODEFRAME_BACKOFF_S": "0.01"}

    def script(self, *prompts: list[Any], **scenario: Any) -> None:
        self.env["ANTHROPIC_BASE_URL"] = self._server.add("runs", {"prompts": prompts, **scenario})

    def cf(self, *args: str) -> Completed:
        return run_cf(*args, cwd=self.repo, env=self.env)

    def run(self, kind: RunKind = RunKind.START, engine: str | None = None) -> Run:
        """What `cf work start|resume` does, in this process."""
        request = admission.Request(kind, engine=engine, typed={"backoff_s": 0.01})
        task = self.workspace.store.tasks.get(self.task.id)
        trust(self.repo, os.environ)
        planned = admission.plan(self.workspace, task, request)
        execute_agent(self.workspace, admission.admit(self.workspace, planned, request))
        return self.latest()

    def latest(self) -> Run:
        run = self.workspace.store.runs.latest(self.task.id)
        assert run is not None
        assert find_marked(f"{run.id}/", prefix=True) == []
        return run

    def prompts(self) -> list[str]:
        return list(self._server.requests("runs")[-1].prompts)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    with ScriptedModel({"runs": {"prompts": []}}) as server:
        yield Setup(server, tmp_path)


@pytest.fixture
def here(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    """The engine under both names in this process, with no key but a server of its own."""
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", setup._server.url("runs"))
    for name in ("built-in", "react"):
        EngineRegistry.register(name, BuiltInReactAdapter)
    yield setup
    for name in ("built-in", "react"):
        EngineRegistry.unregister(name)


def test_a_correction_goes_on_in_the_session_until_the_gates_are_green(setup: Setup) -> None:
    setup.script(
        [verdict("never asked")],
        [make("wrong\n"), tool("run_tests", {}), verdict("made it")],
        [make("right\n"), verdict("fixed it")],
        errors=[{"status": 529, "type": "overloaded_error", "times": 1}],
    )
    said = setup.cf("work", "start", setup.task.id, "--execute", "--engine", "built-in")
    assert said.exit_code == 0, said
    run = setup.latest()
    assert (run.status.value, run.verification, run.summary) == ("COMPLETED", "verified", "fixed it")
    rounds = setup.workspace.store.runs.rounds(run.id)
    assert [r["reason"] for r in rounds] == ["first", "retry:overloaded", "correction"]
    assert len({r["session_id"] for r in rounds}) == 1
    task, interrupted, failures = setup.prompts()
    assert "made.txt says right." in task
    assert "connection to the model failed" in interrupted
    assert "check" in failures
    assert run.usage.cached_input_tokens > run.usage.input_tokens > 0
    logs = setup.cf("work", "logs", setup.task.id, "--raw").stdout
    assert "[exit status 1]" in logs  # of the check it ran itself
    assert "fixed it" in logs


def test_a_question_is_answered_and_the_session_goes_on(here: Setup) -> None:
    here.script(
        [verdict("stuck", "blocked", question="Right or left?")],
        [make("right\n"), verdict("made it")],
    )
    asked = here.run()  # the engine that runs where nobody named one
    assert (asked.engine, asked.status.value) == ("built-in", "BLOCKED")
    (blocker,) = here.workspace.store.blockers.list(task_id=here.task.id)
    assert blocker.question == "Right or left?"
    here.workspace.store.blockers.answer(blocker.id, "right")
    done = here.run(RunKind.RESUME)
    assert (done.status.value, done.session_id) == ("COMPLETED", asked.session_id)
    assert "The answer: right" in here.prompts()[1]


@pytest.mark.parametrize("names", [("react", "built-in"), ("built-in", "react")])
def test_a_session_goes_on_under_the_engines_other_name(here: Setup, names: tuple[str, str]) -> None:
    here.script([verdict("stuck", "blocked", question="Which?")], [make("right\n"), verdict("made it")])
    asked = here.run(engine=names[0])
    (blocker,) = here.workspace.store.blockers.list(task_id=here.task.id)
    here.workspace.store.blockers.answer(blocker.id, "right")
    done = here.run(RunKind.RESUME, engine=names[1])
    assert (done.engine, done.status.value, done.session_id) == (names[1], "COMPLETED", asked.session_id)


def test_the_sessions_of_a_deleted_task_are_deleted_and_no_others(here: Setup) -> None:
    here.script([verdict("stuck", "blocked", question="Which?")])
    run = here.run()
    sessions = here.workspace.state_dir / "sessions"
    assert [file.stem for file in sessions.iterdir()] == [run.session_id]
    (sessions / "another.jsonl").write_text("{}\n")
    assert here.cf("tasks", "delete", here.task.id, "--force").exit_code == 0
    assert [file.stem for file in sessions.iterdir()] == ["another"]


def test_a_lost_session_is_begun_anew(here: Setup) -> None:
    here.script([verdict("stuck", "blocked", question="Which?")], [make("right\n"), verdict("made it")])
    asked = here.run(engine="react")
    (blocker,) = here.workspace.store.blockers.list(task_id=here.task.id)
    here.workspace.store.blockers.answer(blocker.id, "right")
    (here.workspace.state_dir / "sessions" / f"{asked.session_id}.jsonl").unlink()
    here.script([make("right\n"), verdict("made it")])
    done = here.run(RunKind.RESUME)
    assert (done.engine, done.status.value) == ("react", "COMPLETED")
    assert done.session_id != asked.session_id
    assert "session is gone" in " ".join(done.evidence["notes"])


def test_a_wrong_key_is_a_blocker_that_says_what_to_type(here: Setup) -> None:
    here.script([error(401, "authentication_error", "invalid x-api-key")])
    run = here.run()
    assert (run.status.value, run.error_class) == ("BLOCKED", "auth")
    (blocker,) = here.workspace.store.blockers.list(task_id=here.task.id)
    assert "Set ANTHROPIC_API_KEY" in blocker.question


def test_what_it_needs_is_said_before_it_runs(setup: Setup) -> None:
    check = setup.cf("engines", "check", "react")
    assert (check.exit_code, check.stdout.split()[0]) == (5, "missing")
