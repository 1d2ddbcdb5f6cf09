"""The built-in engine with the real SDK against a scripted model on loopback (rules 4.5, 4.6, 4.10, 9.2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codeframe.adapters.llm.anthropic import AnthropicProvider, _model, _retry_after
from codeframe.core.adapters.builtin import BuiltInReactAdapter
from codeframe.core.adapters.transcript import read_transcript
from codeframe.core.agent_adapter import AgentAdapter, AgentContext, AgentResult, AgentResultStatus
from codeframe.core.models import ErrorClass
from codeframe.core.process_sweep import find_marked
from codeframe.demo.model_script import error, fenced_verdict, text, tool, turn
from codeframe.demo.model_server import MODELS, Request, ScriptedModel, refused_url
from tests.kit.repos import make_repo
from tests.kit.waiting import wait_until

KEY = "sk-ant-a-key-4711-0815"
RUN = f"run-built-in-{os.getpid()}"  # other workers run the same tests at the same time
WRITE = tool("create_file", {"path": "made.txt", "content": "hello\n"})


def verdict(summary: str = "did it", status: str = "completed", **more: Any) -> dict[str, Any]:
    return tool("finish", {"status": status, "summary": summary, **more})


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


class Setup:
    """One script, one repository, one run's folder: `run` calls the adapter as the runtime would."""

    def __init__(
        self, server: ScriptedModel, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.server, self.name, self._monkeypatch = server, name, monkeypatch
        self.repo = make_repo(folder / "repo", {"README.md": "# A project\n"})
        self.state = folder / "state"
        self.run_dir = self.state / "runs" / RUN
        self.run_dir.mkdir(parents=True)
        for variable in [v for v in os.environ if v.startswith(("ANTHROPIC_", "HTTP", "http"))]:
            monkeypatch.delenv(variable)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)

    def script(self, *prompts: list[Any], **scenario: Any) -> None:
        url = self.server.add(self.name, {"prompts": prompts or ([text("hm")],), **scenario})
        self._monkeypatch.setenv("ANTHROPIC_BASE_URL", url)

    def run(
        self,
        prompt: str = "do it",
        adapter: BuiltInReactAdapter | None = None,
        timeout_ms: int = 60_000,
        **context: Any,
    ) -> AgentResult:
        given = AgentContext("t1", "title", **{"run_id": RUN, "run_dir": self.run_dir, **context})
        return (adapter or BuiltInReactAdapter()).execute(prompt, self.repo, given, timeout_ms)

    def again(self, first: AgentResult, prompt: str, **context: Any) -> AgentResult:
        """A later round in the session of an earlier one."""
        given = {"session_id": first.session_id, "resume_session": True, "round": 1, **context}
        return self.run(prompt, model=first.evidence.get("model"), **given)

    def requests(self) -> list[Request]:
        return self.server.requests(self.name)

    def session(self, result: AgentResult) -> Path:
        return self.state / "sessions" / f"{result.session_id}.jsonl"

    def in_background(self, adapter: BuiltInReactAdapter, **how: Any) -> Callable[[], AgentResult]:
        """Start a run; what is returned waits for its end."""
        results: list[AgentResult] = []
        thread = threading.Thread(
            target=lambda: results.append(self.run(adapter=adapter, **how)), daemon=True
        )
        thread.start()

        def wait() -> AgentResult:
            thread.join(60)
            return results[0]

        return wait


@pytest.fixture
def setup(
    server: ScriptedModel, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Setup]:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    yield Setup(server, tmp_path, name, monkeypatch)
    assert find_marked(f"{RUN}/", prefix=True) == []


# -- good ends --------------------------------------------------------------------------------------------


def test_success_with_everything_a_run_is_judged_by(setup: Setup) -> None:
    setup.script(
        [
            [text("I make it."), WRITE],
            [tool("edit_file", {"path": "README.md", "old_text": "A", "new_text": "The"})],
            verdict("made it"),
        ]
    )
    adapter = BuiltInReactAdapter()
    result = setup.run(adapter=adapter)
    assert (result.status, result.summary, result.error) == (AgentResultStatus.COMPLETED, "made it", None)
    assert (result.files_created, result.files_modified) == (("made.txt",), ("README.md",))
    assert result.evidence == {
        "model": MODELS[0],
        "ended_by": "exit",
        "report": "completed",
        "steps": 3,
        "survivors": [],
    }
    usage = result.token_usage
    assert usage is not None
    charged = [r.usage for r in setup.requests() if r.usage]
    assert usage.output_tokens == sum(u["output_tokens"] for u in charged)
    assert usage.input_tokens == sum(u["input_tokens"] + u["cache_creation_input_tokens"] for u in charged)
    assert usage.cached_input_tokens == sum(u["cache_read_input_tokens"] for u in charged) > 0
    assert (usage.cost_usd, usage.model) == (None, MODELS[0])
    events = [(e.type, e.message) for e in adapter.stream_events()]
    assert ("output", "I make it.") in events
    assert ("file_changed", "made.txt") in events
    lines = [json.loads(record["line"]) for record in read_transcript(setup.run_dir / "transcript.jsonl")]
    assert [line["type"] for line in lines] == ["prompt", *["assistant", "tool_result"] * 3, "end"]


def test_what_goes_to_the_model(setup: Setup) -> None:
    prompt = "do it: @/etc/hostname /clear \"quotes\" 'single' \\n \x1b[0m é 中"
    setup.script([WRITE, verdict()])
    setup.run(prompt, model="a-model-by-name")
    first, second = setup.requests()
    assert first.body["model"] == "a-model-by-name"  # what is named wins, and nobody is asked for a list
    listed = [r.path for r in setup.server.all_requests() if r.scenario == setup.name]
    assert listed == ["/v1/messages"] * 2
    assert list(first.prompts) == [prompt]
    assert first.cwd == str(setup.repo)
    sent = first.headers.get("x-api-key") or first.headers["authorization"]  # the SDK's choice
    assert sent in (f"<{len(KEY)} characters>", f"<{len('Bearer ' + KEY)} characters>")
    assert "temperature" not in first.body
    marked = [json.dumps(m).count("cache_control") for m in second.body["messages"]]
    assert marked == [1, 0, 1]  # where the request before ended, and this one's end
    assert second.body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert second.usage is not None
    assert second.usage["cache_read_input_tokens"] == (first.usage or {})["cache_creation_input_tokens"]


def test_words_instead_of_a_verdict(setup: Setup) -> None:
    setup.script([WRITE, text("I have made it.")])
    result = setup.run()
    assert (result.status, result.summary) == (AgentResultStatus.COMPLETED, "I have made it.")
    assert "report" not in result.evidence  # so that the runtime looks for a question in the words
    setup.script([fenced_verdict("stuck", "blocked", question="Which one?")])
    assert setup.run().blocker_question == "Which one?"


def test_a_question_and_a_failure_and_nothing_to_do(setup: Setup) -> None:
    setup.script([verdict("stuck", "blocked", question="Which database?")])
    asked = setup.run()
    assert (asked.status, asked.blocker_question) == (AgentResultStatus.BLOCKED, "Which database?")
    setup.script([verdict("no way", "failed")])
    failed = setup.run()
    assert (failed.status, failed.error, failed.error_class) == (AgentResultStatus.FAILED, "no way", None)
    setup.script([verdict("was there", already_satisfied=True)])
    assert setup.run().already_satisfied


def test_a_correction_goes_on_in_the_same_session_and_reads_its_cache(setup: Setup) -> None:
    setup.script([WRITE, verdict("first")], [verdict("second")])
    first = setup.run("the whole task")
    second = setup.again(first, "only the failures")
    assert (second.status, second.summary) == (AgentResultStatus.COMPLETED, "second")
    assert second.session_id == first.session_id
    last = setup.requests()[-1]
    assert list(last.prompts) == ["the whole task", "only the failures"]
    # A cache works on the exact bytes: what was kept is what was sent.
    assert last.usage is not None
    assert last.usage["cache_read_input_tokens"] >= sum((setup.requests()[1].usage or {}).values()) * 0.9


def test_the_answer_to_a_question_reaches_the_session_in_another_process(setup: Setup) -> None:
    setup.script([verdict("stuck", "blocked", question="Which?")], [WRITE, verdict("made")])
    first = setup.run("the task", session_id="chosen-by-us")
    assert first.session_id == "chosen-by-us"
    run_dir = setup.state / "runs" / "another"
    second = setup.run("The answer: A", session_id="chosen-by-us", resume_session=True, run_dir=run_dir)
    assert second.status is AgentResultStatus.COMPLETED
    assert list(setup.requests()[-1].prompts) == ["the task", "The answer: A"]
    assert setup.requests()[-1].body["model"] == MODELS[0]  # the session's, though nobody named it


def test_a_session_without_a_folder_lives_as_long_as_the_adapter(setup: Setup) -> None:
    setup.script([verdict("one")], [verdict("two")])
    adapter = BuiltInReactAdapter()
    first = setup.run("a", adapter, run_dir=None)
    more = {"session_id": first.session_id, "resume_session": True, "run_dir": None}
    assert setup.run("b", adapter, **more).summary == "two"
    assert list(setup.requests()[-1].prompts) == ["a", "b"]
    assert setup.run("b", **more).evidence["session_lost"] is True


def test_sessions_that_are_gone_and_taken(setup: Setup) -> None:
    setup.script([verdict()])
    for context in ({"session_id": "gone", "resume_session": True}, {"session_id": "../../escape"}):
        lost = setup.run(**context)
        assert (lost.error_class, lost.evidence["session_lost"]) == (ErrorClass.PROTOCOL, True)
    first = setup.run()
    assert setup.run(session_id=first.session_id).evidence["session_lost"] is True
    assert len(setup.requests()) == 1


def test_a_megabyte_of_prompt(setup: Setup) -> None:
    setup.script([verdict()])
    prompt = "0123456789abcdef" * 65_536
    assert setup.run(prompt).status is AgentResultStatus.COMPLETED
    assert setup.requests()[0].prompts == (prompt,)


def test_a_kill_between_a_call_and_its_result(setup: Setup) -> None:
    """The file as a kill -9 leaves it while a command runs, with half a line behind."""
    setup.script([tool("run_command", {"command": "true"}), verdict("one")], [verdict("two")])
    first = setup.run("the task")
    file = setup.session(first)
    lines = file.read_bytes().splitlines(keepends=True)
    assert b"tool_use" in lines[3]
    assert b"tool_result" in lines[4]
    file.write_bytes(b"".join(lines[:4]) + lines[4][:20])
    second = setup.again(first, "go on")
    assert second.status is AgentResultStatus.COMPLETED
    _, call, answer = setup.requests()[-1].body["messages"]
    assert [b["type"] for b in answer["content"]] == ["tool_result", "text"]
    assert answer["content"][0]["tool_use_id"] == call["content"][0]["id"]
    assert "Interrupted" in answer["content"][0]["content"]


def test_the_step_limit_is_a_question_and_the_session_goes_on(setup: Setup) -> None:
    look = tool("list_files", {})
    setup.script([look, look, look], [verdict("done")])
    first = setup.run("the task", BuiltInReactAdapter(max_steps=2))
    assert first.status is AgentResultStatus.BLOCKED
    assert "took 2 steps" in (first.blocker_question or "")
    assert setup.again(first, "go on").summary == "done"


# -- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (401, "authentication_error", "invalid x-api-key", ErrorClass.AUTH),
        (403, "permission_error", "not yours", ErrorClass.AUTH),
        (402, "billing_error", "pay", ErrorClass.BILLING),
        (400, "invalid_request_error", "Your credit balance is too low", ErrorClass.BILLING),
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", ErrorClass.CONTEXT_WINDOW),
        (400, "invalid_request_error", "messages.1: bad", ErrorClass.PROTOCOL),
        (404, "not_found_error", "model: nope", ErrorClass.MODEL),
        (413, "request_too_large", "too large", ErrorClass.CONTEXT_WINDOW),
        (429, "rate_limit_error", "slow down", ErrorClass.RATE_LIMITED),
        (429, "rate_limit_error", "You've hit your usage limit, it resets at 3pm", ErrorClass.QUOTA),
        (500, "api_error", "oops", ErrorClass.OVERLOADED),
        (503, "", "proxy says no", ErrorClass.OVERLOADED),
        (529, "overloaded_error", "busy", ErrorClass.OVERLOADED),
    ],
)
def test_api_errors(setup: Setup, status: int, kind: str, message: str, expected: ErrorClass) -> None:
    setup.script([error(status, kind, message, {"retry-after": "7"})])
    result = setup.run()
    assert (result.status, result.error_class) == (AgentResultStatus.FAILED, expected)
    assert message in (result.error or "")
    assert result.retry_after_s == 7.0
    assert len(setup.requests()) == 1  # waiting and trying again is the wrapper's
    assert setup.session(result).exists()  # which then goes on in the session


def test_after_a_passing_fault_the_session_goes_on_where_it_broke(setup: Setup) -> None:
    setup.script(
        [WRITE, verdict("done")], errors=[{"status": 529, "type": "overloaded_error", "after": 1, "times": 1}]
    )
    first = setup.run("the task")
    assert first.error_class is ErrorClass.OVERLOADED
    assert first.token_usage is not None  # of the answer before
    setup.script([WRITE, verdict("done")], [verdict("done after all")])
    second = setup.again(first, "the connection failed, go on")
    assert second.summary == "done after all"
    assert len(setup.requests()[-1].body["messages"]) == 3


def test_no_server(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused_url() as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        result = setup.run()
    assert (result.status, result.error_class) == (AgentResultStatus.FAILED, ErrorClass.NETWORK)


@pytest.mark.parametrize("cut", ["block", "end"])
def test_a_stream_that_is_cut(setup: Setup, cut: str) -> None:
    setup.script([turn(text("x" * 900), WRITE, cut=cut)])
    result = setup.run()
    assert (result.status, result.error_class) == (AgentResultStatus.FAILED, ErrorClass.NETWORK)
    assert not (setup.repo / "made.txt").exists()
    assert result.token_usage is not None  # its input was charged


@pytest.mark.parametrize("silence", [{"hang": 600}, {"stall": 600}])
def test_a_server_that_falls_silent(setup: Setup, silence: dict[str, int]) -> None:
    setup.script([turn(text("hm"), **silence)])
    result = setup.run(model="m", stall_timeout_ms=300)
    assert (result.status, result.error_class) == (AgentResultStatus.TIMEOUT, ErrorClass.STALLED)


def test_a_refusal(setup: Setup) -> None:
    setup.script([turn(text("I will not."), stop_reason="refusal")])
    result = setup.run()
    assert (result.status, result.error_class) == (AgentResultStatus.FAILED, ErrorClass.MODEL)
    assert "I will not." in (result.error or "")


def test_a_server_that_lists_no_models(setup: Setup) -> None:
    class NoModels(AnthropicProvider):
        def models(self, patience: Any) -> list[Any]:
            return []

    setup.script([verdict()])
    result = setup.run(adapter=BuiltInReactAdapter(NoModels))
    assert result.error_class is ErrorClass.MODEL
    assert "--model" in (result.error or "")


def test_a_session_that_cannot_be_written(setup: Setup) -> None:
    setup.script([verdict()])
    (setup.state / "sessions").write_text("a file in the way")
    result = setup.run()
    assert (result.status, result.error_class) == (AgentResultStatus.FAILED, ErrorClass.CRASHED)
    assert "cannot be kept" in (result.error or "")


# -- stopping ---------------------------------------------------------------------------------------------


def test_a_stop_in_the_middle_of_an_answer(setup: Setup) -> None:
    setup.script([turn(text("thinking\nabout it"), stall=600)], [verdict("after all")])
    adapter = BuiltInReactAdapter()
    events = adapter.stream_events()
    ended = setup.in_background(adapter)
    assert any(event.message == "thinking" for event in events)
    adapter.cancel()
    result = ended()
    assert (result.status, result.error_class) == (AgentResultStatus.FAILED, ErrorClass.CANCELLED)
    assert setup.again(result, "go on").summary == "after all"


def test_a_stop_before_anything_is_heard(setup: Setup) -> None:
    setup.script([turn(text("hm"), hang=600)])
    adapter = BuiltInReactAdapter()
    ended = setup.in_background(adapter, model="m")
    setup.server.wait_for(1, setup.name)
    adapter.cancel()
    assert ended().error_class is ErrorClass.CANCELLED


def test_a_stop_with_a_running_command(setup: Setup) -> None:
    command = "setsid sleep 300 & trap '' TERM INT; touch begun; sleep 301; sleep 302"
    setup.script([tool("run_command", {"command": command})], [verdict("after all")])
    adapter = BuiltInReactAdapter()
    events = adapter.stream_events()
    ended = setup.in_background(adapter)
    assert any(event.type == "command_run" for event in events)
    wait_until((setup.repo / "begun").exists)
    assert find_marked(f"{RUN}/0-", prefix=True)
    adapter.cancel()
    result = ended()
    assert result.error_class is ErrorClass.CANCELLED
    assert find_marked(f"{RUN}/", prefix=True) == []
    resumed = setup.again(result, "go on")
    assert resumed.summary == "after all"


def test_a_stop_that_came_too_early_counts_for_the_next_call_and_only_that(setup: Setup) -> None:
    setup.script([verdict()])
    adapter = BuiltInReactAdapter()
    adapter.cancel()
    assert setup.run(adapter=adapter).error_class is ErrorClass.CANCELLED
    assert setup.requests() == []
    assert setup.run(adapter=adapter).status is AgentResultStatus.COMPLETED


def test_time_is_up_in_an_answer_and_in_a_command(setup: Setup) -> None:
    setup.script([turn(text("hm"), stall=600)])
    result = setup.run(timeout_ms=700, model="m")
    assert (result.status, result.error_class) == (AgentResultStatus.TIMEOUT, ErrorClass.TIMEOUT)
    setup.script([tool("run_command", {"command": "sleep 300"})])
    result = setup.run(timeout_ms=1500, model="m")
    assert (result.status, result.error_class) == (AgentResultStatus.TIMEOUT, ErrorClass.TIMEOUT)


# -- secrets, login, manners ------------------------------------------------------------------------------


def test_no_secret_gets_anywhere(setup: Setup) -> None:
    adapter = BuiltInReactAdapter()
    setup.script(
        [
            [text(f"the key is {KEY}"), tool("run_command", {"command": "echo $ANTHROPIC_API_KEY"})],
            verdict(f"key {KEY}", "blocked", question=f"{KEY}?"),
        ]
    )
    result = setup.run(f"use {KEY}", adapter)
    seen = [result.summary, result.blocker_question, *(e.message for e in adapter.stream_events())]
    seen += [p.read_text() for p in (setup.session(result), setup.run_dir / "transcript.jsonl")]
    seen += [json.dumps(r.body) for r in setup.requests()]
    assert len(seen) > 6
    assert not [place for place in seen if KEY in str(place)]
    assert result.blocker_question == "[redacted]?"


def test_a_server_of_one_s_own_needs_no_key(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    setup.script([verdict()])
    (name,) = BuiltInReactAdapter.requirements()
    assert name == "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN or ANTHROPIC_BASE_URL"
    assert BuiltInReactAdapter.requirements()[name] is True
    assert setup.run().status is AgentResultStatus.COMPLETED
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "a-token-of-one-s-own")
    assert setup.run().status is AgentResultStatus.COMPLETED
    sent = f"<{len('Bearer a-token-of-one-s-own')} characters>"
    assert setup.requests()[-1].headers["authorization"] == sent
    for variable in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(variable)
    assert BuiltInReactAdapter.requirements()[name] is False


def test_options_it_cannot_tell_apart_are_said(setup: Setup) -> None:
    setup.script([verdict()])
    adapter = BuiltInReactAdapter()
    setup.run(adapter=adapter, options={"autonomy": "full", "network": "off"})
    notices = [e.message for e in adapter.stream_events() if e.metadata.get("notice")]
    assert [notice.split(":")[0] for notice in notices] == ["autonomy full", "network off"]


def test_it_is_an_adapter_and_costs_nothing_until_it_runs() -> None:
    adapter = BuiltInReactAdapter()
    assert isinstance(adapter, AgentAdapter)
    assert (adapter.name, adapter.requires_api_key) == ("built-in", {})
    code = (
        "import sys; from codeframe.core.adapters import BuiltInReactAdapter as b; b(); b.requirements(); "
        "sys.exit([m for m in ('anthropic', 'asyncio', 'pydantic', 'httpx', 'yaml') if m in sys.modules] or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_what_the_api_says_of_models_and_of_waiting() -> None:
    from anthropic.types import ModelInfo

    info = {"id": "m", "type": "model", "display_name": "M", "created_at": "1970-01-01T00:00:09Z"}
    told = _model(ModelInfo.model_validate({**info, "lifecycle": "deprecated", "max_tokens": 500}))
    assert (told.id, told.max_tokens, told.created, told.current) == ("m", 500, 9.0, False)
    assert _model(ModelInfo.construct(id="bare")).current
    assert _retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert _retry_after({"retry-after": "nonsense"}) is None
    assert _retry_after({"retry-after": "inf"}) is None
    assert _retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}) == 0.0
