"""A declared engine as a process: its command, prompt, words, events, sessions and ends (rules 4.5, 4.6, 5, 12)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.adapters.custom import CustomAdapter, adapter_class
from codeframe.core.agent_adapter import AgentContext, AgentEvent, AgentResult, AgentResultStatus
from codeframe.core.engine_definition import EngineDefinition, problem_in
from codeframe.core.models import ErrorClass, TokenUsage
from tests.kit.scenario import (
    FakeEngine,
    call,
    die,
    err,
    flood,
    half_a_character,
    hang,
    leave,
    on_signal,
    out,
    raw,
    spawn,
    write,
)

COMPLETED, FAILED, BLOCKED = AgentResultStatus.COMPLETED, AgentResultStatus.FAILED, AgentResultStatus.BLOCKED
TIMEOUT = AgentResultStatus.TIMEOUT
PROMPT = "/clear\n@/etc/hostname http://127.0.0.1:9/x \"q\" 'q' \\n $HOME `id` {model} é \U0001f600\n"
READ_ALOUD = "429 rate limit, invalid api key, credit balance is too low"
EVENTS = {
    "text": "message.text",
    "session": "id",
    "usage": {"input": "tokens.in", "output": "tokens.out", "cost": "usd"},
    "success": {"type": "done"},
    "failure": {"type": "error"},
    "error": "details.0.message",
}


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """A fake `my-agent` on PATH."""
    fake = FakeEngine(tmp_path / "bin", "my-agent")
    monkeypatch.setenv("PATH", fake.path())
    return fake


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "a repo"
    made.mkdir()
    return made


def declared(command: list[Any] | None = None, **keys: Any) -> CustomAdapter:
    data = {"command": command or ["my-agent", "{prompt_file}"], **keys}
    assert problem_in("mine", data) == ""
    return adapter_class(EngineDefinition.of("mine", data), None, "")()


def execute(
    adapter: CustomAdapter, repo: Path, prompt: str = PROMPT, timeout_ms: int = 60_000, **context: Any
) -> AgentResult:
    given = AgentContext("t1", "title", run_id="run1", run_dir=repo.parent / "run", **context)
    return adapter.execute(prompt, repo, given, timeout_ms)


def jsonl(**more: Any) -> CustomAdapter:
    return declared(output="jsonl", events=EVENTS, **more)


# -- how it is called ----------------------------------------------------------------------------------


def test_the_prompt_in_a_file_is_verbatim_and_outside_of_the_tree(agent: FakeEngine, repo: Path) -> None:
    agent.calls(call(out("fine")))
    prompt = PROMPT + "on and on " * 105_000
    assert (
        execute(declared(["my-agent", "--in={prompt_file}", "-C", "{workspace}"]), repo, prompt).status
        is COMPLETED
    )
    (ran,) = agent.invocations()
    file = Path(ran.argv[0].removeprefix("--in="))
    assert file.read_bytes() == prompt.encode()
    assert file.stat().st_mode & 0o077 == 0
    assert list(ran.argv[1:]) == ["-C", str(repo)]
    assert ran.prompt == ""  # nothing on stdin
    assert repo not in file.parents
    assert list(repo.iterdir()) == []


def test_without_a_file_the_prompt_comes_on_stdin(agent: FakeEngine, repo: Path) -> None:
    agent.calls(call(out("fine")))
    adapter = declared(["my-agent", "-"])
    assert adapter.capabilities.stdin_prompt
    execute(adapter, repo)
    assert agent.invocations()[0].prompt == PROMPT


def test_the_prefix_stands_before_the_prompt(agent: FakeEngine, repo: Path) -> None:
    agent.calls(call(out("fine")))
    execute(declared(["my-agent"], prompt_prefix="\n"), repo)
    assert agent.invocations()[0].prompt == "\n" + PROMPT


def test_model_and_environment(agent: FakeEngine, repo: Path) -> None:
    agent.calls(call(out("fine")))
    adapter = declared(
        ["my-agent", ["-m", "{model}"]], env={"MINE": "yes", "WITH": "{scratch}/x", "M": "{model}"}
    )
    execute(adapter, repo, model="big one")
    execute(adapter, repo)
    with_model, without = agent.invocations()
    assert list(with_model.argv) == ["-m", "big one"]
    assert list(without.argv) == []
    assert (with_model.env["MINE"], with_model.env["M"]) == ("yes", "big one")
    assert "M" not in without.env
    assert with_model.env["NO_COLOR"] == "1"
    assert os.path.isdir(os.path.dirname(with_model.env["WITH"]))
    assert with_model.env["WITH"] != without.env["WITH"]  # a folder of each launch's own


def test_what_it_cannot_enforce_is_said_once(agent: FakeEngine, repo: Path) -> None:
    agent.calls(call(out("fine")))
    adapter = declared()
    options = {"autonomy": "workspace", "network": "off"}
    execute(adapter, repo, model="m", options=options)
    said = [e.message for e in adapter.stream_events() if e.metadata.get("notice")]
    assert ["model" in said[0], "network off: not enforced" in said[1], "autonomy workspace" in said[2]] == [
        True
    ] * 3
    execute(adapter, repo, model="m", options=options, round=1)
    assert [e for e in adapter.stream_events() if e.metadata.get("notice")] == []


# -- text -------------------------------------------------------------------------------------------------


def test_words_are_shown_and_status_0_is_a_good_end(agent: FakeEngine, repo: Path) -> None:
    agent.calls(call(out("first"), out('{"type": "error"}'), out("last")))
    adapter = declared()
    result = execute(adapter, repo)
    assert (result.status, result.summary) == (COMPLETED, 'first\n{"type": "error"}\nlast')
    outputs = [e for e in adapter.stream_events() if e.type == "output"]
    assert isinstance(outputs[0], AgentEvent)
    assert [e.message for e in outputs] == ["first", '{"type": "error"}', "last"]


def test_the_verdict_as_a_fenced_block(agent: FakeEngine, repo: Path) -> None:
    agent.calls(
        call(out("Hm."), out('```json\n{"status": "blocked", "summary": "s", "question": "Which?"}\n```'))
    )
    result = execute(declared(), repo)
    assert (result.status, result.blocker_question) == (BLOCKED, "Which?")


def test_the_verdict_as_a_line_with_words_after_it(agent: FakeEngine, repo: Path) -> None:
    report = '{"status": "completed", "summary": "did it", "already_satisfied": true}'
    agent.calls(call(out("x.py\n```\n{}\n```"), out(report), out("Tokens: 1k"), out("{}")))
    adapter = declared(report="line")
    assert adapter.capabilities.verdict_line
    result = execute(adapter, repo)
    assert (result.status, result.summary, result.already_satisfied) == (COMPLETED, "did it", True)


def test_another_status_is_a_crash_whatever_was_read_aloud(agent: FakeEngine, repo: Path) -> None:
    """A tool's output on stdout or stderr classifies nothing (rule 4.6)."""
    agent.calls(call(out(READ_ALOUD), err(READ_ALOUD), leave(1)))
    result = execute(declared(), repo)
    assert (result.status, result.error_class) == (FAILED, ErrorClass.CRASHED)


def test_declared_errors_are_looked_for_on_stderr_of_a_bad_end_only(agent: FakeEngine, repo: Path) -> None:
    adapter = declared(errors={"auth": "^mine: bad key", "rate_limited": "^mine: slow down"})
    agent.calls(
        call(out("mine: slow down"), err("mine: slow down"), err("mine: bad key!"), err("bye"), leave(2)),
        call(out("mine: bad key"), leave(2)),
        call(err("mine: bad key"), out("but it went well")),
    )
    result = execute(adapter, repo)
    assert (result.error_class, result.error) == (ErrorClass.AUTH, "mine: bad key!")
    assert execute(adapter, repo).error_class is ErrorClass.CRASHED
    assert execute(adapter, repo).status is COMPLETED


# -- events -----------------------------------------------------------------------------------------------


def test_a_run_told_in_events(agent: FakeEngine, repo: Path) -> None:
    agent.calls(
        call(
            out({"id": "s1", "type": "begun"}),
            out("not JSON"),
            out({"type": "says", "message": {"text": "working"}, "tokens": {"in": 10, "out": 2}, "usd": 0.5}),
            out({"type": "says", "message": {"text": "done"}, "tokens": {"in": 5, "out": 1}, "usd": 0.25}),
            out({"type": "done"}),
            leave(1),  # an announced success is one
        )
    )
    result = execute(jsonl(), repo)
    assert (result.status, result.summary, result.session_id) == (COMPLETED, "working\ndone", "s1")
    assert result.token_usage == TokenUsage(input_tokens=15, output_tokens=3, cost_usd=0.75)


def test_events_of_any_shape_do_no_harm(agent: FakeEngine, repo: Path) -> None:
    odd: list[Any] = [[], 3, "x", None, {"text": {}}, True]
    lines = [out({"id": o, "type": o, "message": o, "tokens": o, "usd": o, "details": o}) for o in odd]
    more = out({"tokens": {"in": -1, "out": "many"}, "usd": 1e999, "message": {"text": ["no"]}})
    agent.calls(call(lines, more, out({"type": "done"})))
    result = execute(jsonl(), repo)
    assert (result.status, result.session_id, result.summary) == (COMPLETED, "x", "")


@pytest.mark.parametrize(
    ("message", "error_class"),
    [("invalid api key", ErrorClass.AUTH), ("oh: slow", ErrorClass.OVERLOADED), ("what?", None)],
)
def test_an_error_event_with_status_0_is_that_error(
    agent: FakeEngine, repo: Path, message: str, error_class: ErrorClass | None
) -> None:
    agent.calls(call(out({"type": "error", "details": [{"message": message}]})))
    result = execute(jsonl(errors={"overloaded": "^oh: slow"}), repo)
    assert (result.status, result.error, result.error_class) == (FAILED, message, error_class)


def test_where_the_end_is_announced_silence_is_a_crash(agent: FakeEngine, repo: Path) -> None:
    agent.calls(call(out({"message": {"text": READ_ALOUD}})))
    result = execute(jsonl(), repo)
    assert (result.status, result.error_class) == (FAILED, ErrorClass.CRASHED)


BESIDE = {
    "events": {"request": {"e": "ask"}, "answer": {"e": "got"}, "usage": {"input": "n"}},
    "errors": {"auth": "^api: bad key"},
}


def test_events_on_stderr_beside_words(agent: FakeEngine, repo: Path) -> None:
    agent.calls(call(err({"e": "ask"}), out("api: bad key"), out('{"n": 99}'), err({"e": "got", "n": 7})))
    result = execute(declared(**BESIDE), repo)
    assert (result.status, result.summary) == (COMPLETED, 'api: bad key\n{"n": 99}')
    assert result.token_usage == TokenUsage(input_tokens=7)  # words on stdout are no events


def test_an_answer_of_nothing_may_be_excepted(agent: FakeEngine, repo: Path) -> None:
    events = {"request": [{"e": "ask"}, {"e": "got", "n": 0}], "answer": {"e": "got"}}
    agent.calls(
        call(err({"e": "ask"}), out("full"), err({"e": "got", "n": 0})),
        call(err({"e": "ask"}), out("full"), err({"e": "got", "n": 1})),
    )
    adapter = declared(events=events, errors={"context_window": "^full"})
    assert execute(adapter, repo).error_class is ErrorClass.CONTEXT_WINDOW
    assert execute(adapter, repo).status is COMPLETED


def test_a_request_without_an_answer_is_no_success(agent: FakeEngine, repo: Path) -> None:
    agent.calls(
        call(out("api: bad key 1"), out("try again")),
        call(err({"e": "ask"}), err({"e": "got"}), out("words"), err({"e": "ask"}), out("api: bad key 2")),
        call(out("hello")),
    )
    for error in ("api: bad key 1", "api: bad key 2"):
        result = execute(declared(**BESIDE), repo)
        assert (result.status, result.error_class, result.error) == (FAILED, ErrorClass.AUTH, error)
        assert result.summary == ""
    result = execute(declared(**BESIDE), repo)
    assert result.error_class is ErrorClass.PROTOCOL
    assert result.error == "mine ended without an answer of its model. hello"


# -- sessions ---------------------------------------------------------------------------------------------


def test_a_session_that_it_names_is_resumed(agent: FakeEngine, repo: Path) -> None:
    adapter = jsonl(resume_command=["my-agent", "--resume", "{session}", "-"])
    assert adapter.capabilities.resume
    assert not adapter.capabilities.preassigned_session
    agent.calls(call(out({"id": "s1"}), out({"type": "done"})))
    first = execute(adapter, repo)
    execute(adapter, repo, "go on", session_id=first.session_id, resume_session=True, round=1)
    ran = agent.invocations()[1]
    assert list(ran.argv) == ["--resume", "s1", "-"]
    assert ran.prompt == "go on"


def test_a_session_that_is_chosen_for_it(agent: FakeEngine, repo: Path) -> None:
    keys = {"resume_command": ["my-agent", "--resume={session}"]}
    adapter = declared(["my-agent", "--session={session}"], **keys)
    assert adapter.capabilities.preassigned_session
    agent.calls(call(out("fine")))
    assert execute(adapter, repo, session_id="chosen").session_id == "chosen"
    made = execute(adapter, repo).session_id
    assert made
    execute(adapter, repo, session_id=made, resume_session=True)
    assert [list(ran.argv) for ran in agent.invocations()] == [
        ["--session=chosen"],
        [f"--session={made}"],
        [f"--resume={made}"],
    ]


def test_a_session_that_is_gone_is_told_from_a_crash(agent: FakeEngine, repo: Path) -> None:
    adapter = jsonl(resume_command=["my-agent", "{session}"])
    agent.calls(call(err("no such session"), leave(1)), call(out({"message": {"text": "hm"}}), leave(1)))
    lost = execute(adapter, repo, session_id="s", resume_session=True)
    crashed = execute(adapter, repo, session_id="s", resume_session=True)
    assert [r.evidence.get("session_lost") for r in (lost, crashed)] == [True, None]
    assert {r.error_class for r in (lost, crashed)} == {ErrorClass.CRASHED}


def test_without_a_way_to_resume_it_starts_anew(agent: FakeEngine, repo: Path) -> None:
    agent.calls(call(out("fine")))
    adapter = declared(["my-agent"])
    assert not adapter.capabilities.resume
    execute(adapter, repo, session_id="s", resume_session=True)
    assert list(agent.invocations()[0].argv) == []


# -- hostile ones (rule 12) -----------------------------------------------------------------------------


def test_floods_long_lines_and_halves_of_characters(agent: FakeEngine, repo: Path) -> None:
    agent.calls(
        call(flood(30_000_000), flood(20_000_000, line=0), flood(5_000_000, to="stderr"),
             raw(b"\xff\x00\n"), out("the end"), half_a_character())
    )  # fmt: skip
    result = execute(declared(), repo)
    assert result.status is COMPLETED
    assert result.summary.rstrip("�").rstrip().endswith("the end")
    assert len(result.summary) <= 64 * 1024


def test_a_daemon_that_holds_stdout_is_ended(agent: FakeEngine, repo: Path) -> None:
    agent.calls(
        call(write("made.txt", "x\n"), spawn(daemon=True, hold_stdout=True, session=True), out("done"))
    )
    result = execute(declared(), repo)
    assert result.status is COMPLETED
    (child,) = agent.invocations()[0].children
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.parametrize(
    ("steps", "keys", "limits", "status", "error_class"),
    [
        ([die()], {}, {}, FAILED, ErrorClass.CRASHED),
        ([out("x"), hang()], {}, {"timeout_ms": 1500}, TIMEOUT, ErrorClass.TIMEOUT),
        ([on_signal("SIGTERM"), out("x"), hang()], {}, {"timeout_ms": 1500}, TIMEOUT, ErrorClass.TIMEOUT),
        ([out("x"), hang()], {}, {"stall_timeout_ms": 500}, TIMEOUT, ErrorClass.STALLED),
        ([hang()], {"first_event_timeout": "1s"}, {}, TIMEOUT, ErrorClass.STALLED),
    ],
)
def test_ends_that_are_not_its_own(
    agent: FakeEngine, repo: Path, steps: Any, keys: Any, limits: Any,
    status: AgentResultStatus, error_class: ErrorClass,
) -> None:  # fmt: skip
    agent.calls(call(steps))
    result = execute(declared(**keys), repo, **limits)
    assert (result.status, result.error_class) == (status, error_class)


def test_a_command_that_is_not_there(repo: Path) -> None:
    adapter = declared(["no-such-agent-here"])
    assert adapter.requirements() == {"no-such-agent-here on PATH": False}
    assert execute(adapter, repo).error_class is ErrorClass.SPAWN_FAILED
