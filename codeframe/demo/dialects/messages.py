"""The Anthropic Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codeframe.demo.asked import Asked, Said, read_off
from codeframe.demo.deeds import Block
from codeframe.demo.dialects.dialect import Answer, Event, Refusal, cut
from codeframe.demo.meter import Part, part

_WHO: Mapping[str, Any] = {"assistant": "model", "user": "user"}


class Messages:
    """POST /v1/messages."""

    name = "messages"
    path = "/v1/messages"

    def read(self, body: Mapping[str, Any]) -> Asked:
        said = [Said("system", _texts(body.get("system") or ""))]
        said += [
            Said(_WHO.get(message["role"], "system"), _texts(message["content"]))
            for message in body.get("messages", [])
        ]
        return read_off(said, body.get("tools") or ())

    def parts(self, body: Mapping[str, Any]) -> Iterator[Part]:
        labelled: list[tuple[str, Mapping[str, Any]]] = [("model", {"model": body.get("model")})]
        labelled += [("tool", tool) for tool in body.get("tools") or []]
        labelled += [("system", block) for block in _blocks(body.get("system") or "")]
        for message in body.get("messages", []):
            labelled += [(message["role"], block) for block in _blocks(message["content"])]
        for label, block in labelled:
            bare = {key: value for key, value in block.items() if key != "cache_control"}
            yield part(label, bare, "cache_control" in block)

    def whole(self, answer: Answer) -> Mapping[str, Any]:
        return {
            "id": f"msg_{answer.serial}",
            "type": "message",
            "role": "assistant",
            "model": answer.model,
            "content": [_numbered(answer, index) for index in range(len(answer.blocks))],
            "stop_reason": answer.stop,
            "stop_sequence": None,
            "usage": answer.usage,
        }

    def blocks(self, answer: Answer) -> Iterator[Event]:
        whole = self.whole(answer)
        usage = {**answer.usage, "output_tokens": 1}
        yield _event("message_start", message={**whole, "content": [], "stop_reason": None, "usage": usage})
        for index, block in enumerate(whole["content"]):
            start, deltas = _pieces(block)
            yield _event("content_block_start", index=index, content_block=start)
            for delta in deltas:
                yield _event("content_block_delta", is_delta=True, index=index, delta=delta)
            yield _event("content_block_stop", index=index)

    def closing(self, answer: Answer, body: Mapping[str, Any]) -> Iterator[Event]:
        ending = {"stop_reason": answer.stop, "stop_sequence": None}
        yield _event("message_delta", delta=ending, usage=answer.usage)
        yield _event("message_stop")

    def refusal(self, failure: Mapping[str, Any]) -> Refusal:
        told = {"type": failure["type"], "message": failure["message"]}
        return Refusal(failure["status"], {"type": "error", "error": told})

    def failing(self, answer: Answer, refusal: Refusal) -> Iterator[Event]:
        yield from list(self.blocks(answer))[:1]
        yield Event("error", refusal.body)


def _event(kind: str, is_delta: bool = False, **data: Any) -> Event:
    return Event(kind, {"type": kind, **data}, is_delta)


def _numbered(answer: Answer, index: int) -> Block:
    """Tool calls get an id, a fresh one each time as a model gives it."""
    block = answer.blocks[index]
    return block if block["type"] != "tool_use" else {"id": f"toolu_{answer.serial}_{index}", **block}


def _pieces(block: Block) -> tuple[Block, list[dict[str, str]]]:
    """A block as the stream carries it: how it starts, and its deltas."""
    if block["type"] == "tool_use":
        whole, kind, key = json.dumps(block["input"]), "input_json_delta", "partial_json"
        start = block | {"input": {}}
    else:
        whole, kind, key = block["text"], "text_delta", "text"
        start = block | {"text": ""}
    return start, [{"type": kind, key: piece} for piece in cut(whole)]


def _blocks(content: str | Sequence[Block]) -> list[Block]:
    """A content as blocks; a CLI sends the same text now as a string, now as a block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _texts(content: str | Sequence[Block]) -> tuple[str, ...]:
    return tuple(block["text"] for block in _blocks(content) if block.get("type") == "text")
