"""The same scenario in each API the scripted model speaks: how it is asked, answers, fails, and what it costs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from codeframe.demo.dialects import CHAT, DIALECTS, MESSAGES, RESPONSES
from codeframe.demo.dialects.dialect import Dialect
from codeframe.demo.model_script import error, text, tool, turn
from codeframe.demo.model_server import ScriptedModel

BOTH = pytest.mark.parametrize("dialect", [RESPONSES, CHAT], ids=lambda dialect: dialect.name)
ALL = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)


@pytest.fixture
def server() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


def body(dialect: Dialect, *prompts: str, **more: Any) -> dict[str, Any]:
    """A conversation of prompts, each but the last answered in words."""
    said: list[dict[str, Any]] = []
    for prompt in prompts:
        said += [{"role": "user", "content": prompt}, {"role": "assistant", "content": "answered"}]
    offered: dict[str, Any] = {"name": "write"}
    tools = [{"type": "function", "function": offered}] if dialect is CHAT else [offered]
    key = "input" if dialect is RESPONSES else "messages"
    return {"model": "m", key: said[:-1], "tools": tools, **more}


def ask(
    server: ScriptedModel, dialect: Dialect, *prompts: str, **more: Any
) -> tuple[int, Any, dict[str, str]]:
    """Status, the JSON or the events (each its data), headers."""
    data = json.dumps(body(dialect, *(prompts or ("hi",)), **more)).encode()
    try:
        with urllib.request.urlopen(server.url("s") + dialect.path, data, 60) as answer:
            status, raw, headers = answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as failed:
        with failed:
            status, raw, headers = failed.code, failed.read().decode(), dict(failed.headers)
    if headers["content-type"] == "application/json":
        return status, json.loads(raw), headers
    lines = [line.removeprefix("data: ") for line in raw.splitlines() if line.startswith("data: ")]
    return status, [line if line == "[DONE]" else json.loads(line) for line in lines], headers


def deltas_of_chat(events: list[Any], key: str) -> list[Any]:
    found = [choice["delta"].get(key) for event in events[:-1] for choice in event["choices"]]
    return [delta for delta in found if delta]


# -- how it is asked --------------------------------------------------------------------------------------


@ALL
def test_the_turn_that_is_due_follows_from_the_conversation(server: ScriptedModel, dialect: Dialect) -> None:
    server.add("s", {"prompts": [[text("a")], [text("b")]]})
    for prompts, due in ((("do a",), "a"), (("do a", "do b"), "b")):
        assert due in json.dumps(ask(server, dialect, *prompts)[1])
        assert server.requests("s")[-1].prompts == prompts
    assert [request.dialect for request in server.requests("s")] == [dialect.name] * 2


def test_an_answer_of_many_items_is_one_wherever_the_outputs_stand() -> None:
    def call(answer: str, index: int) -> list[dict[str, Any]]:
        made = {"call_id": f"call_{answer}_{index}"}
        return [{"type": "function_call", "name": "x", **made}, {"type": "function_call_output", **made}]

    said = {"type": "message", "id": "msg_aa_0", "role": "assistant", "content": [{"text": "on it"}]}
    prompt = {"role": "user", "content": [{"type": "input_text", "text": "go"}]}
    interleaved = [*call("aa", 1), *call("aa", 2)]
    items: list[Any] = [prompt, said, *interleaved]
    assert RESPONSES.read({"input": items}).turn == 1
    assert RESPONSES.read({"input": [*items, *call("bb", 0)]}).turn == 2
    nameless = [{"type": "reasoning"}, {"role": "assistant", "content": "x"}, {"type": "function_call"}]
    assert RESPONSES.read({"input": [*items, *nameless]}).turn == 2


def test_what_a_cli_adds_to_a_conversation_is_no_prompt() -> None:
    def asked(*texts: str) -> tuple[str, ...]:
        return CHAT.read({"messages": [{"role": "user", "content": words} for words in texts]}).prompts

    assert asked("<environment_context>\n<cwd>/x</cwd>", "# AGENTS.md instructions for /x", "go") == ("go",)
    assert asked("go", "\n\n<environment_details>\nWorking directory: /x\n</environment_details>") == ("go",)
    assert asked("an example", "I switched to a new code base. Please", "go") == ("go",)
    assert asked("go\n\nTo suggest changes to a file you MUST return the entire content") == ("go",)
    assert asked("I am not sharing any files that you can edit yet.", "go") == ("go",)


@pytest.mark.parametrize("words", ["<cwd>/a b</cwd>", "Working directory: /a b\nmore"])
@BOTH
def test_the_working_directory_is_where_the_cli_names_it(dialect: Dialect, words: str) -> None:
    assert dialect.read(body(dialect, words, "go")).cwd == "/a b"


def test_a_request_for_a_title_is_none_of_the_work(server: ScriptedModel) -> None:
    limit = {"status": 429, "type": "rate_limit_error", "times": 1}
    server.add("s", {"prompts": [[tool("write", {})]], "errors": [limit]})
    title = {"role": "system", "content": "You are a title generator."}
    messages = [title, {"role": "user", "content": "x"}]
    status, answer, _ = ask(server, CHAT, messages=messages, tools=[])
    assert (status, answer["choices"][0]["message"]) == (200, {"role": "assistant", "content": "A title"})
    assert server.requests("s") == []
    assert [request.is_title for request in server.all_requests()] == [True]
    assert ask(server, CHAT)[0] == 429


# -- how it answers ---------------------------------------------------------------------------------------

LONG = {"content": "x" * 1000, "name": "ä"}


def test_responses_whole_and_streamed(server: ScriptedModel) -> None:
    server.add(
        "s", {"prompts": [[[text("on it " * 100), tool("write", LONG), tool("patch", "free\n" * 200)]]]}
    )
    whole = ask(server, RESPONSES)[1]
    said, call, free = whole["output"]
    assert said["content"][0]["text"] == "on it " * 100
    assert (call["type"], json.loads(call["arguments"])) == ("function_call", LONG)
    assert (free["type"], free["input"]) == ("custom_tool_call", "free\n" * 200)

    events = ask(server, RESPONSES, stream=True)[1]
    assert [events[0]["type"], events[-1]["type"]] == ["response.created", "response.completed"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    for kind, item, expected in (
        ("output_text", done[0], "on it " * 100),
        ("function_call_arguments", done[1], json.dumps(LONG)),
        ("custom_tool_call_input", done[2], "free\n" * 200),
    ):
        pieces = [event for event in events if event["type"] == f"response.{kind}.delta"]
        assert "".join(piece["delta"] for piece in pieces) == expected
        assert {piece["item_id"] for piece in pieces} == {item["id"]}


def test_chat_whole_and_streamed(server: ScriptedModel) -> None:
    server.add("s", {"prompts": [[[text("on it"), tool("write", LONG), tool("write", {})]]]})
    (choice,) = ask(server, CHAT)[1]["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "on it"
    calls = choice["message"]["tool_calls"]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [LONG, {}]

    events = ask(server, CHAT, stream=True)[1]
    assert "".join(deltas_of_chat(events, "content")) == "on it"
    pieces = [piece for delta in deltas_of_chat(events, "tool_calls") for piece in delta]
    for index, given in enumerate((LONG, {})):
        mine = [piece for piece in pieces if piece["index"] == index]
        assert json.loads("".join(piece["function"]["arguments"] for piece in mine)) == given
        assert (mine[0]["function"]["name"], "id" in mine[0]) == ("write", True)
    assert events[-1] == "[DONE]"
    assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"
    counted = ask(server, CHAT, stream=True, stream_options={"include_usage": True})[1]
    assert (counted[-2]["choices"], counted[-2]["usage"]["completion_tokens"] > 100) == ([], True)


def test_an_answer_may_be_cut_off_by_its_length(server: ScriptedModel) -> None:
    server.add("s", {"prompts": [[turn(text("too lo"), stop_reason="max_tokens")]]})
    assert ask(server, CHAT)[1]["choices"][0]["finish_reason"] == "length"
    last = ask(server, RESPONSES, stream=True)[1][-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize("cut", ["block", "end"])
@BOTH
def test_a_stream_may_be_cut(server: ScriptedModel, dialect: Dialect, cut: str) -> None:
    server.add("s", {"prompts": [[turn(text("hello " * 200), cut=cut)]]})
    events = ask(server, dialect, stream=True)[1]
    whole = "hello " * 200 in "".join(
        [event.get("delta", "") for event in events]
        if dialect is RESPONSES
        else [event["choices"][0]["delta"].get("content", "") for event in events]
    )
    assert whole == (cut == "end")
    assert "completed" not in {event.get("type", "").rpartition(".")[2] for event in events}
    assert "[DONE]" not in events


# -- how it fails -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "status, kind, message, told",
    [
        (401, "authentication_error", None, (401, "invalid_api_key")),
        (403, "permission_error", None, (403, None)),
        (429, "rate_limit_error", None, (429, "rate_limit_exceeded")),
        (529, "overloaded_error", None, (503, "server_is_overloaded")),
        (500, "api_error", None, (500, "server_error")),
        (404, "not_found_error", None, (404, "model_not_found")),
        (402, "billing_error", None, (429, "insufficient_quota")),
        (400, "invalid_request_error", "Your credit balance is too low to", (429, "insufficient_quota")),
        (400, "invalid_request_error", "bad", (400, None)),
        (429, "usage_limit_reached", None, (429, "usage_limit_reached")),
    ],
)
@BOTH
def test_errors_have_the_words_of_the_api(
    server: ScriptedModel,
    dialect: Dialect,
    status: int,
    kind: str,
    message: str | None,
    told: tuple[int, str | None],
) -> None:
    server.add("s", {"prompts": [[error(status, kind, message, {"retry-after": "7"})]]})
    answered, given, headers = ask(server, dialect, stream=True)
    assert (answered, given["error"]["code"]) == told
    assert headers["retry-after"] == "7"


@BOTH
def test_a_full_context_window_is_told_in_the_words_of_the_api(
    server: ScriptedModel, dialect: Dialect
) -> None:
    server.add("s", {"prompts": [[text("ok")]], "context_window": 1000})
    assert ask(server, dialect)[0] == 200
    status, answer, _ = ask(server, dialect, "x" * 8000)
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    assert "maximum context length is 1000 tokens" in answer["error"]["message"]


@ALL
def test_an_error_may_come_inside_the_stream(server: ScriptedModel, dialect: Dialect) -> None:
    server.add("s", {"prompts": [[error(200, "rate_limit_error", "slow down")]]})
    status, events, _ = ask(server, dialect, stream=True)
    assert status == 200
    last = events[-1]
    failure = last["response"]["error"] if dialect is RESPONSES else last["error"]
    kind = failure["type"] if dialect is MESSAGES else failure["code"]
    assert (kind, failure["message"]) == (
        "rate_limit_error" if dialect is MESSAGES else "rate_limit_exceeded",
        "slow down",
    )


def test_no_websocket_is_said_as_such(server: ScriptedModel) -> None:
    upgrade = urllib.request.Request(server.url("s") + RESPONSES.path, headers={"Upgrade": "websocket"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(upgrade)
    with refused.value as answer:
        assert answer.code == 426


def test_a_request_may_come_in_chunks(server: ScriptedModel) -> None:
    server.add("s", {"prompts": [[text("ok")]]})
    data = json.dumps(body(CHAT, "in chunks")).encode()
    pieces = [data[at : at + 50] for at in range(0, len(data), 50)]
    with urllib.request.urlopen(server.url("s") + CHAT.path, iter(pieces), 60) as answer:
        assert answer.status == 200
    assert server.requests("s")[-1].prompts == ("in chunks",)


# -- what it costs ----------------------------------------------------------------------------------------


@BOTH
def test_what_was_sent_before_is_read_from_the_cache(server: ScriptedModel, dialect: Dialect) -> None:
    server.add("s", {"prompts": [[text("ok")]]})
    usages = [ask(server, dialect, *prompts)[1]["usage"] for prompts in (("x" * 4000,), ("x" * 4000, "more"))]
    total, details = (
        ("input_tokens", "input_tokens_details")
        if dialect is RESPONSES
        else ("prompt_tokens", "prompt_tokens_details")
    )
    cold, warm = usages
    assert cold[details]["cached_tokens"] == 0
    assert cold[total] > 1000
    assert 0 < warm[total] - warm[details]["cached_tokens"] < 100
    assert warm["total_tokens"] > warm[total]


@BOTH
def test_a_fixed_usage_is_counted_as_the_api_does(server: ScriptedModel, dialect: Dialect) -> None:
    fixed = {
        "input_tokens": 1,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 300,
        "output_tokens": 5,
    }
    server.add("s", {"prompts": [[text("ok")]], "usage": fixed})
    assert ask(server, dialect)[1]["usage"]["total_tokens"] == 326
    assert server.requests("s")[-1].usage == fixed
