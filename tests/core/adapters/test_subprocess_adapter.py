"""An adapter around a real process: environment, transcript, events, limits, cancel (rules 4.5, 5)."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.adapters.claude_code import ClaudeCodeAdapter
from codeframe.core.adapters.transcript import TRANSCRIPT_NAME, read_transcript
from codeframe.core.agent_adapter import (
    AgentAdapter,
    AgentContext,
    AgentEvent,
    AgentResult,
    AgentResultStatus,
)
from codeframe.core.models import ErrorClass
from tests.kit import claude_lines as lines
from tests.kit import claude_runs
from tests.kit.scenario import (
    FakeEngine,
    call,
    die,
    err,
    flood,
    half_a_character,
    hang,
    leave,
    out,
    sleep,
    spawn,
    touch,
)

COMPLETED, FAILED, TIMEOUT = AgentResultStatus.COMPLETED, AgentResultStatus.FAILED, AgentResultStatus.TIMEOUT


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """A fake `claude`, first on PATH."""
    fake = FakeEngine(tmp_path / "engine")
    monkeypatch.setenv("PATH", fake.path())
    return fake


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    return made


def execute(
    repo: Path, adapter: AgentAdapter | None = None, timeout_ms: int = 60_000, **context: Any
) -> AgentResult:
    given = AgentContext("t1", "title", run_id="run1", run_dir=repo.parent / "run", **context)
    return (adapter or ClaudeCodeAdapter()).execute("do it", repo, given, timeout_ms)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def in_thread(work: Callable[[], AgentResult]) -> tuple[threading.Thread, list[AgentResult]]:
    results: list[AgentResult] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    return thread, results


def wait_until(there: Callable[[], object]) -> None:
    for _ in range(3000):
        if there():
            return
        time.sleep(0.01)
    pytest.fail("it did not happen")


def test_it_is_an_adapter() -> None:
    assert isinstance(ClaudeCodeAdapter(), AgentAdapter)
    assert ClaudeCodeAdapter().requires_api_key == {}


def test_a_whole_run(engine: FakeEngine, repo: Path) -> None:
    work = claude_runs.session(
        claude_runs.wrote("a.txt", "A"), claude_runs.ran("echo b > b.txt"), claude_runs.verdict("did both")
    )
    engine.calls(call(err("a warning"), *work))
    adapter = ClaudeCodeAdapter()
    result = execute(repo, adapter)
    assert (result.status, result.summary, result.files_created) == (COMPLETED, "did both", ("a.txt",))
    assert result.evidence["exit_code"] == 0
    assert result.duration_ms > 0
    [ran] = engine.invocations()
    assert json.loads(ran.prompt)["message"]["content"][0]["text"] == "do it"
    assert ran.cwd == repo
    assert result.session_id in ran.argv
    events = [e for e in adapter.stream_events() if e.message]
    assert [e.type for e in events] == ["progress"] * 3 + ["file_changed", "command_run"]
    assert [e.metadata["model"] for e in events if "model" in e.metadata] == [lines.MODEL_WITH_WINDOW]
    assert events[0].metadata["session_id"] == result.session_id
    assert events[0].metadata["pid"] == ran.pid
    records = list(read_transcript(repo.parent / "run" / TRANSCRIPT_NAME))
    assert [r["s"] for r in records if r["line"] == "a warning"] == ["err"]
    printed = [json.loads(r["line"])["type"] for r in records if r["s"] == "out"]
    assert printed[0] == "system"
    assert printed[-1] == "result"


def test_the_environment(engine: FakeEngine, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_WORK_TREE",
        "FORCE_COLOR",
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
    ):
        monkeypatch.setenv(name, "left over")
    monkeypatch.setenv("VIRTUAL_ENV", "/somewhere/.venv")
    monkeypatch.setenv("A_VARIABLE", "of the person's own")
    engine.calls(call(*claude_runs.session(claude_runs.said("fine"))))
    execute(repo)
    execute(repo)
    first, second = (ran.env for ran in engine.invocations())
    for name, value in {
        "NO_COLOR": "1",
        "GIT_EDITOR": "true",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "PWD": str(repo),
        "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
        "VIRTUAL_ENV": "/somewhere/.venv",
        "A_VARIABLE": "of the person's own",
        "PATH": engine.path(os.environ["PATH"].split(os.pathsep, 1)[1]),
    }.items():
        assert first[name] == value
    assert "left over" not in first.values()
    assert first["CODEFRAME_RUN_ID"].startswith("run1/")
    assert first["CODEFRAME_RUN_ID"] != second["CODEFRAME_RUN_ID"]


def test_noise_of_every_kind_does_no_harm(engine: FakeEngine, repo: Path) -> None:
    noise = [
        out("not json"),
        out("[1]"),
        out('"s"'),
        out("{" * 3000),
        out({"type": ["assistant"], "message": 7}),
        out(
            {
                "type": "assistant",
                "message": {"content": [{"type": "tool_use", "id": {}, "name": [], "input": "x"}]},
            }
        ),
        flood(3_000_000),
        flood(12_000_000, line=0),
        flood(1_000_000, to="stderr"),
        half_a_character(),
        out(""),
    ]
    engine.calls(call(*claude_runs.session(*noise, claude_runs.said("fine"))))
    result = execute(repo)
    assert (result.status, result.summary) == (COMPLETED, "fine")


def test_secrets_reach_neither_events_nor_result_nor_transcript(
    engine: FakeEngine, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "s3cr3t-of-mine")
    engine.calls(
        call(
            *claude_runs.session(
                claude_runs.ran("true s3cr3t-of-mine"), claude_runs.said("it is s3cr3t-of-mine")
            )
        )
    )
    adapter = ClaudeCodeAdapter()
    result = execute(repo, adapter)
    events = list(adapter.stream_events())
    assert result.summary == "it is [redacted]"
    assert "true [redacted]" in [e.message for e in events]
    assert "s3cr3t" not in repr(events)
    assert "s3cr3t" not in (repo.parent / "run" / TRANSCRIPT_NAME).read_text()


def test_a_secret_is_found_before_the_text_is_cut(
    engine: FakeEngine, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "s3cr3t-of-mine")
    around = "x" * 8186 + " s3cr3t-of-mine"  # an event's message ends in the middle of it
    engine.calls(call(*claude_runs.session(claude_runs.said(around))))
    adapter = ClaudeCodeAdapter()
    execute(repo, adapter)
    assert not [e for e in adapter.stream_events() if "s3c" in e.message]


def test_a_consumer_from_before_sees_all_and_the_end(engine: FakeEngine, repo: Path) -> None:
    engine.calls(
        call(*claude_runs.session(claude_runs.said("one"))),
        call(*claude_runs.session(claude_runs.said("two"))),
    )
    adapter = ClaudeCodeAdapter()
    for words in ("one", "two"):
        seen: list[AgentEvent] = []
        events = adapter.stream_events()
        consumer = threading.Thread(target=seen.extend, args=(events,), daemon=True)
        consumer.start()
        execute(repo, adapter)
        consumer.join(30)
        assert not consumer.is_alive()
        assert [e.message for e in seen if e.type == "output"] == [words]


def test_a_missing_binary_and_a_missing_folder_cannot_be_started(
    repo: Path, monkeypatch: pytest.MonkeyPatch, engine: FakeEngine
) -> None:
    assert execute(repo / "none").error_class is ErrorClass.SPAWN_FAILED
    monkeypatch.setenv("PATH", str(repo))
    adapter = ClaudeCodeAdapter()
    result = execute(repo, adapter)
    assert (result.status, result.error_class) == (FAILED, ErrorClass.SPAWN_FAILED)
    assert [e.type for e in adapter.stream_events()] == ["error"]
    assert ClaudeCodeAdapter.requirements() == {"claude on PATH": False}


def test_a_death_is_a_crash(engine: FakeEngine, repo: Path) -> None:
    engine.calls(call(*claude_runs.session(claude_runs.wrote("a.txt", "A"), die("SIGKILL"))))
    result = execute(repo)
    assert (result.status, result.error_class, result.files_created) == (
        FAILED,
        ErrorClass.CRASHED,
        ("a.txt",),
    )
    assert "SIGKILL" in str(result.error)


def test_an_error_event_and_a_success_event_outrank_the_exit_status(engine: FakeEngine, repo: Path) -> None:
    engine.calls(
        call(*claude_runs.session(claude_runs.said("fine"), leave(3))),
        call(*claude_runs.session(out(lines.result_api_error("Invalid API key", 401)), leave(0))),
    )
    assert execute(repo).status is COMPLETED
    assert execute(repo).error_class is ErrorClass.AUTH


def test_a_session_that_is_gone(engine: FakeEngine, repo: Path) -> None:
    engine.calls(call(*claude_runs.unknown_session(), argv=["--resume"]))
    result = execute(repo, session_id="11111111-1111-4111-8111-111111111111", resume_session=True)
    assert result.error_class is ErrorClass.PROTOCOL
    assert result.evidence["session_lost"] is True


def test_time_up(engine: FakeEngine, repo: Path) -> None:
    engine.calls(call(*claude_runs.session(claude_runs.interruptible(), hang())))
    result = execute(repo, timeout_ms=400)
    assert (result.status, result.error_class) == (TIMEOUT, ErrorClass.TIMEOUT)


def test_silence_is_a_stall_but_not_while_a_command_runs(engine: FakeEngine, repo: Path) -> None:
    quiet = [
        out(lines.tool_use("Bash", {"command": "sleep"}, "t")),
        sleep(2.2),
        out(lines.tool_result("t", "")),
    ]
    engine.calls(
        call(*claude_runs.session(quiet, claude_runs.said("fine"))),
        call(*claude_runs.session(claude_runs.interruptible(), hang())),
    )
    assert execute(repo, stall_timeout_ms=1500).status is COMPLETED
    result = execute(repo, stall_timeout_ms=1500)
    assert (result.status, result.error_class) == (TIMEOUT, ErrorClass.STALLED)


def test_an_engine_that_will_not_leave_after_its_success_still_succeeded(
    engine: FakeEngine, repo: Path
) -> None:
    class Impatient(ClaudeCodeAdapter):
        linger_s = 0.2

    engine.calls(call(*claude_runs.session(claude_runs.said("fine"), hang())))
    result = execute(repo, Impatient())
    assert result.status is COMPLETED
    assert result.evidence["ended_by"] == "lingered"


def test_cancel_ends_it_politely_and_all_its_children(engine: FakeEngine, repo: Path, tmp_path: Path) -> None:
    started = tmp_path / "started"
    engine.calls(
        call(
            *claude_runs.session(
                claude_runs.interruptible(), spawn(session=True), spawn(daemon=True), touch(started), hang()
            )
        )
    )
    adapter = ClaudeCodeAdapter()
    thread, results = in_thread(lambda: execute(repo, adapter))
    wait_until(started.exists)
    adapter.cancel()
    thread.join(30)
    assert results[0].error_class is ErrorClass.CANCELLED
    [ran] = engine.invocations()
    assert ran.signals == ["SIGINT"]
    assert len(ran.children) == 2
    assert all(gone(pid) for pid in ran.children)
    assert results[0].evidence["survivors"]


def test_a_cancel_before_the_start_counts_once(engine: FakeEngine, repo: Path) -> None:
    engine.calls(call(*claude_runs.session(claude_runs.said("fine"))))
    adapter = ClaudeCodeAdapter()
    adapter.cancel()
    assert execute(repo, adapter).error_class is ErrorClass.CANCELLED
    assert engine.invocations() == []
    assert execute(repo, adapter).status is COMPLETED


@pytest.mark.parametrize(
    ("answer", "logged_in"),
    [
        ({"loggedIn": True, "authMethod": "api_key"}, True),
        ({"loggedIn": False}, False),
        ("Not JSON", False),
        ("[]", False),
    ],
)
def test_requirements_ask_the_cli(engine: FakeEngine, answer: Any, logged_in: bool) -> None:
    engine.calls(call(out(answer), argv=["auth", "status"], stdin="ignore"))
    assert ClaudeCodeAdapter.requirements() == {"claude on PATH": True}
    assert ClaudeCodeAdapter.logged_in() == logged_in


def test_rounds_share_one_transcript(engine: FakeEngine, repo: Path) -> None:
    engine.calls(
        call(*claude_runs.session(claude_runs.said("one"))),
        call(*claude_runs.session(claude_runs.said("two"))),
    )
    execute(repo, round=0)
    execute(repo, round=1)
    records = list(read_transcript(repo.parent / "run" / TRANSCRIPT_NAME))
    assert {r["n"] for r in records} == {0, 1}
