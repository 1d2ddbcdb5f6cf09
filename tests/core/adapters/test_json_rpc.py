"""JSON-RPC over the pipes of a process: what is written, what is heard."""

from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from codeframe.core.adapters.json_rpc import JsonRpc, Notification, Request, Response
from codeframe.core.process import OpenStdin


class Pipe(OpenStdin):
    """A stdin whose lines can be looked at."""

    def lines(self) -> list[dict[str, Any]]:
        read, written = os.pipe()
        while self.pending:
            self.write_to(written)
        os.close(written)
        with os.fdopen(read, encoding="utf-8") as stream:
            return [json.loads(line) for line in stream]


def test_calls_are_numbered_and_answers_find_them() -> None:
    stdin = Pipe()
    rpc = JsonRpc(stdin)
    rpc.call("one", {"a": 1})
    rpc.call("two", {})
    rpc.notify("three")
    assert stdin.lines() == [
        {"jsonrpc": "2.0", "id": 1, "method": "one", "params": {"a": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "two", "params": {}},
        {"jsonrpc": "2.0", "method": "three"},
    ]
    assert rpc.hear({"id": 2, "result": {"b": 2}}) == Response("two", {"b": 2})
    assert rpc.hear({"id": 1, "error": {"code": -1, "message": "no"}}) == Response("one", {}, "no")
    assert rpc.hear({"id": 1, "result": {}}) is None  # answered already
    assert rpc.hear({"id": 9, "result": {}}) is None


def test_what_they_ask_is_answered_under_their_id() -> None:
    stdin = Pipe()
    rpc = JsonRpc(stdin, version=False)
    asked = rpc.hear({"id": "x-1", "method": "may I", "params": {"c": 3}})
    assert asked == Request("x-1", "may I", {"c": 3})
    rpc.answer(asked, {"yes": True})
    rpc.refuse(asked, "never heard of it")
    assert stdin.lines() == [
        {"id": "x-1", "result": {"yes": True}},
        {"id": "x-1", "error": {"code": -32601, "message": "never heard of it"}},
    ]
    assert rpc.hear({"method": "by the way"}) == Notification("by the way", {})


@given(st.text())
def test_a_message_is_one_line_whatever_is_in_it(text: str) -> None:
    stdin = Pipe()
    JsonRpc(stdin).call("say", {"text": text})
    (message,) = stdin.lines()
    assert message["params"]["text"] == text.encode("utf-8", "replace").decode()


def test_a_lone_surrogate_costs_one_character_and_not_the_message() -> None:
    stdin = Pipe()
    JsonRpc(stdin).call("say", {"text": "a\ud800b"})
    assert stdin.lines()[0]["params"]["text"] == "a?b"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["id", "method", "params", "result", "error"]), ANYTHING))
def test_nothing_heard_breaks_it(obj: dict[str, Any]) -> None:
    rpc = JsonRpc(OpenStdin())
    rpc.call("one", {})
    heard = rpc.hear(obj)
    assert heard is None or isinstance(heard, Request | Response | Notification)
