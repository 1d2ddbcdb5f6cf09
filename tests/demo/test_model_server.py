"""The scripted server by itself: which turn is due, what it costs, how it fails."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.demo import meter
from codeframe.demo.dialects import MESSAGES
from codeframe.demo.model_script import (
    Scenario,
    Turn,
    as_turn,
    due_turn,
    error,
    fenced_verdict,
    text,
    tool,
    turn,
    verdict,
)
from codeframe.demo.model_server import ScriptedModel, refused_url
from tests.kit.engines import ROOT

TOOLS = [{"name": "Write", "input_schema": {"type": "object"}}]
MARK = {"cache_control": {"type": "ephemeral"}}


def user(*blocks: str | dict[str, Any]) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [text(block) if isinstance(block, str) else block for block in blocks],
    }


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def tool_result(content: str = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t", "content": content}


def body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": list(messages), "tools": TOOLS, **more}


def due(scenario: Scenario, request: dict[str, Any]) -> Turn:
    return due_turn(scenario, MESSAGES.read(request))


def words(turn: Turn) -> str:
    return turn["blocks"][0]["text"]


class Meter(meter.Meter):
    """Measures requests of the Messages API."""

    def of(self, request: dict[str, Any]) -> dict[str, int]:
        return self.measure(list(MESSAGES.parts(request)), [])


# -- which turn is due --------------------------------------------------------------------------------


def test_turns_are_counted_by_prompt_and_by_answers_since():
    scenario = {"prompts": [[text("a0"), text("a1")], [text("b0")]]}
    first = [user("<system-reminder>\nx</system-reminder>", "do a")]
    assert words(due(scenario, body(*first))) == "a0"
    first += [assistant(text("a0")), user(tool_result(), tool_result())]
    assert words(due(scenario, body(*first))) == "a1"
    first += [assistant(text("a1")), user("[structured-output-enforce] You MUST")]
    assert words(due(scenario, body(*first))) == "a1"  # past the end: the last one goes on
    second = [*first, assistant(text("a1")), {"role": "user", "content": "do b"}]
    assert words(due(scenario, body(*second))) == "b0"
    third = [*second, assistant(text("b0")), user("and c")]
    assert words(due(scenario, body(*third))) == "b0"


def test_two_unanswered_prompts_in_one_message_are_two():
    assert MESSAGES.read(body(user("killed before an answer", "again"))).prompts == (
        "killed before an answer",
        "again",
    )


def test_what_the_cli_says_on_resume_is_no_prompt():
    messages = [
        user("do", "Continue from where you left off."),
        user("Continue from where you left off. Now!"),
    ]
    assert MESSAGES.read(body(*messages)).prompts == ("do", "Continue from where you left off. Now!")


def test_conversations_are_told_apart_by_their_first_prompt():
    scenario = {"prompts": [[text("other")]], "match": [{"text": "task b", "prompts": [[text("for b")]]}]}
    assert words(due(scenario, body(user("this is task b, please")))) == "for b"
    assert words(due(scenario, body(user("a"), assistant(text("x")), user("task b")))) == "other"


def test_the_announced_working_directory_is_put_in_at_any_depth():
    scenario = {"prompts": [[tool("Write", {"edits": [{"path": "{cwd}/a", "text": "{other}"}]})]]}
    system = [{"type": "text", "text": " - Primary working directory: /a path/with space\n - more"}]
    chosen = due(scenario, body(user("working directory: /elsewhere"), system=system))
    assert chosen["blocks"][0]["input"] == {"edits": [{"path": "/a path/with space/a", "text": "{other}"}]}


def test_side_requests_without_tools_have_their_own_answer():
    scenario = {"prompts": [[text("work")]], "aux": "a title"}
    assert words(due(scenario, body(user("x"), tools=[]))) == "a title"
    assert words(due(scenario, body(user("x")))) == "work"


def test_a_turn_may_be_written_three_ways():
    assert as_turn(text("a")) == as_turn([text("a")]) == as_turn(turn(text("a")))


def test_a_fenced_verdict_ends_in_json():
    fenced = fenced_verdict("done", question="why?")["text"]
    assert json.loads(fenced.removeprefix("```json\n").removesuffix("\n```")) == {
        "status": "completed",
        "summary": "done",
        "question": "why?",
    }


# -- what it costs -----------------------------------------------------------------------------------------


def test_only_what_is_marked_is_read_from_the_cache():
    counter = Meter()
    long = "x" * 4000
    cold = counter.of(body(user(text(long) | MARK), user("tail")))
    assert cold["cache_read_input_tokens"] == 0
    assert cold["cache_creation_input_tokens"] > 1000 > cold["input_tokens"] > 0
    warm = counter.of(body(user(long), user("tail"), user(text("new") | MARK)))
    assert warm["cache_read_input_tokens"] == cold["cache_creation_input_tokens"]
    assert 0 < warm["cache_creation_input_tokens"] < 50
    assert warm["input_tokens"] == 0
    unmarked = counter.of(body(user(long)))
    assert unmarked["cache_read_input_tokens"] == unmarked["cache_creation_input_tokens"] == 0


@pytest.mark.parametrize("change", [{"model": "other"}, {"tools": []}, {"system": "new"}])
def test_a_change_before_the_messages_loses_the_cache(change: dict[str, Any]):
    counter = Meter()
    request = body(user(text("x" * 400) | MARK), system="old")
    first = counter.of(request)["cache_creation_input_tokens"]
    assert counter.of(request)["cache_read_input_tokens"] == first
    changed = counter.of(request | change)
    assert changed["cache_read_input_tokens"] < first / 2


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=8), st.integers(0, 7))
def test_every_byte_is_charged_once(said: list[str], mark: int):
    counter = Meter()
    messages = [user(text(each) | (MARK if number == mark else {})) for number, each in enumerate(said)]
    totals = []
    for _ in range(2):
        usage = counter.of(body(*messages))
        totals.append(sum(usage[key] for key in usage if key != "output_tokens"))
    # Each of the three sums is rounded up by itself.
    assert abs(totals[0] - totals[1]) <= 2


# -- over HTTP ----------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedModel]:
    with ScriptedModel({"s": {"prompts": [[text("hello")]]}}, log=tmp_path / "log.jsonl") as running:
        yield running


def ask(
    server: ScriptedModel,
    *,
    name: str = "s",
    path: str = "/v1/messages?beta=true",
    method: str = "POST",
    **more: Any,
) -> tuple[int, bytes, dict[str, str]]:
    data = json.dumps(body(user("hi"), **more)).encode() if method == "POST" else None
    request = urllib.request.Request(
        server.url(name) + path, data, {"x-api-key": "secret-key"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as failed:
        with failed:
            return failed.code, failed.read(), dict(failed.headers)


def events(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: ")]


def test_the_same_answer_streamed_and_whole(server: ScriptedModel):
    long = {"file_path": "/a", "content": "ä\n" * 1000}
    server.add("s", {"prompts": [[[text("first" * 200), tool("Write", long)]]]})
    whole = json.loads(ask(server)[1])
    assert whole["stop_reason"] == "tool_use"
    assert whole["content"][1]["input"] == long

    streamed = events(ask(server, stream=True)[1])
    deltas = [event["delta"] for event in streamed if event["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == "first" * 200
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == long
    assert streamed[0]["message"]["usage"]["output_tokens"] == 1
    assert streamed[-2]["usage"]["output_tokens"] == whole["usage"]["output_tokens"]
    assert [event["type"] for event in streamed[-2:]] == ["message_delta", "message_stop"]


def test_errors_are_injected_for_a_while_with_their_headers(server: ScriptedModel):
    limit = {"status": 429, "type": "rate_limit_error", "message": "slow", "headers": {"retry-after": "7"}}
    server.add("s", {"prompts": [[text("ok")]], "errors": [limit | {"after": 1, "times": 2}]})
    answers = [ask(server) for _ in range(4)]
    assert [status for status, _, _ in answers] == [200, 429, 429, 200]
    assert json.loads(answers[1][1])["error"] == {"type": "rate_limit_error", "message": "slow"}
    assert answers[1][2]["retry-after"] == "7"


def test_an_error_may_stand_in_the_place_of_a_turn(server: ScriptedModel):
    server.add("s", {"prompts": [[error(529, "overloaded_error")]]})
    assert [ask(server)[0] for _ in range(2)] == [529, 529]


def test_a_request_past_the_context_window_is_refused_as_by_the_api(server: ScriptedModel):
    server.add("s", {"prompts": [[text("ok")]], "context_window": 1000})
    assert ask(server)[0] == 200
    status, answer, _ = ask(server, system="x" * 4000)
    assert status == 400
    assert json.loads(answer)["error"]["message"].startswith("prompt is too long: ")


@pytest.mark.parametrize("usage", [{"input_tokens": 1, "output_tokens": 2}])
def test_usage_may_be_fixed(server: ScriptedModel, usage: dict[str, int]):
    server.add("s", {"prompts": [[text("ok")]], "usage": usage})
    assert json.loads(ask(server)[1])["usage"] == usage
    server.add("s", {"prompts": [[turn(text("ok"), usage={"input_tokens": 9})]], "usage": usage})
    assert json.loads(ask(server)[1])["usage"] == {"input_tokens": 9}


@pytest.mark.parametrize("cut, last", [("block", "content_block_delta"), ("end", "content_block_stop")])
def test_a_stream_may_be_cut(server: ScriptedModel, cut: str, last: str):
    server.add("s", {"prompts": [[turn(text("hello"), cut=cut)]]})
    assert events(ask(server, stream=True)[1])[-1]["type"] == last
    assert ask(server)[0] == 200  # not streamed: whole


@pytest.mark.parametrize("how", [{"hang": 600}, {"wait_for": "/nonexistent/file"}, {"delay": 600}])
def test_the_end_of_the_test_ends_what_hangs(tmp_path: Path, how: dict[str, Any]):
    outcome: list[BaseException | None] = []

    def client(url: str) -> None:
        try:
            urllib.request.urlopen(url + "/v1/messages", json.dumps(body(user("x"))).encode(), 60).read()
            outcome.append(None)
        except (OSError, http.client.HTTPException) as gone:
            outcome.append(gone)

    with ScriptedModel({"s": {"prompts": [[turn(text("late"), **how)]]}}) as server:
        asking = threading.Thread(target=client, args=(server.url("s"),))
        asking.start()
        (request,) = server.wait_for(1)
        assert request.status is None
    asking.join(60)
    assert outcome
    assert (outcome[0] is not None) == ("hang" in how)


def test_a_turn_can_be_held_until_the_test_lets_go(server: ScriptedModel, tmp_path: Path):
    server.add("s", {"prompts": [[turn(text("now"), wait_for=str(tmp_path / "go"))]]})
    threading.Thread(target=lambda: (server.wait_for(1), (tmp_path / "go").touch())).start()
    assert json.loads(ask(server)[1])["content"] == [text("now")]


def test_the_rest_of_the_api(server: ScriptedModel):
    assert ask(server, path="", method="HEAD")[0] == 200
    assert json.loads(ask(server, path="/v1/models", method="GET")[1])["data"][0]["type"] == "model"
    assert json.loads(ask(server, path="/v1/messages/count_tokens")[1])["input_tokens"] > 0
    assert ask(server, path="/v1/other")[0] == 404
    assert server.requests() == []
    assert [request.method for request in server.all_requests()] == ["HEAD", "GET", "POST", "POST"]


def test_an_unknown_scenario_says_so(server: ScriptedModel):
    status, answer, _ = ask(server, name="typo")
    assert status == 404
    assert "no scenario 'typo'" in json.loads(answer)["error"]["message"]


def test_the_log_holds_requests_and_no_keys(server: ScriptedModel, tmp_path: Path):
    ask(server)
    (request,) = server.requests("s")
    assert (request.prompts, request.turn, request.status) == (("hi",), 0, 200)
    assert request.headers["x-api-key"] == "<10 characters>"
    (line,) = (tmp_path / "log.jsonl").read_text().splitlines()
    assert json.loads(line)["body"] == request.body
    assert "secret-key" not in line


def test_a_refused_url_refuses():
    with refused_url() as url, pytest.raises(urllib.error.URLError) as refused:
        urllib.request.urlopen(url)
    assert isinstance(refused.value.reason, ConnectionRefusedError)


def test_it_runs_as_a_program_of_its_own(tmp_path: Path):
    (tmp_path / "scenarios.json").write_text(json.dumps({"one": {"prompts": [[verdict("v")]]}}))
    command = [
        sys.executable,
        "-m",
        "codeframe.demo.model_server",
        "--scenario",
        tmp_path / "scenarios.json",
    ]
    command += ["--log", tmp_path / "log"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        name, url = process.stdout.readline().split()
        asked = urllib.request.urlopen(url + "/v1/messages", json.dumps(body(user("x"))).encode())
        with asked as answer:
            content = json.loads(answer.read())["content"]
        process.terminate()
    assert name == "one"
    assert content[0]["name"] == "StructuredOutput"
    assert (tmp_path / "log").exists()
