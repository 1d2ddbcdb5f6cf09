"""The OpenAI Chat Completions API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codeframe.demo.asked import Asked, Said, read_off
from codeframe.demo.dialects import openai
from codeframe.demo.dialects.dialect import Answer, Event, Refusal, cut
from codeframe.demo.meter import Part

_WHO: Mapping[str, Any] = {"assistant": "model", "user": "user", "tool": "tool"}
# How an answer ended, by stop_reason of the Messages API.
_FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}


class Chat:
    """POST /v1/chat/completions."""

    name = "chat"
    path = "/v1/chat/completions"

    def read(self, body: Mapping[str, Any]) -> Asked:
        said = [Said(_WHO.get(message["role"], "system"), _texts(message)) for message in _messages(body)]
        return read_off(said, [tool["function"] for tool in body.get("tools") or ()])

    def parts(self, body: Mapping[str, Any]) -> Iterator[Part]:
        return openai.parts(body.get("model"), body.get("tools") or (), _messages(body))

    def whole(self, answer: Answer) -> Mapping[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": _text(answer) or None}
        if calls := _calls(answer):
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
        return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}

    def blocks(self, answer: Answer) -> Iterator[Event]:
        yield _chunk(answer, {"role": "assistant", "content": ""})
        for piece in cut(_text(answer)):
            yield _chunk(answer, {"content": piece}, is_delta=True)
        for index, call in enumerate(_calls(answer)):
            begun = {**call, "function": {**call["function"], "arguments": ""}}
            yield _chunk(answer, {"tool_calls": [{"index": index, **begun}]})
            for piece in cut(call["function"]["arguments"]):
                more = {"index": index, "function": {"arguments": piece}}
                yield _chunk(answer, {"tool_calls": [more]}, is_delta=True)

    def closing(self, answer: Answer, body: Mapping[str, Any]) -> Iterator[Event]:
        yield _chunk(answer, {}, _finish(answer))
        if (body.get("stream_options") or {}).get("include_usage"):
            head = _head(answer, "chat.completion.chunk")
            yield Event(None, {**head, "choices": [], "usage": _usage(answer)})
        yield Event(None, "[DONE]")

    def refusal(self, failure: Mapping[str, Any]) -> Refusal:
        return openai.refusal(failure)

    def failing(self, answer: Answer, refusal: Refusal) -> Iterator[Event]:
        yield Event(None, refusal.body)


def _messages(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return body.get("messages") or ()


def _texts(message: Mapping[str, Any]) -> tuple[str, ...]:
    content = message.get("content") or ()
    if isinstance(content, str):
        return (content,)
    return tuple(piece["text"] for piece in content if piece.get("type") == "text")


def _text(answer: Answer) -> str:
    """An answer has one text here; several blocks of it are paragraphs."""
    return "\n\n".join(block["text"] for block in answer.blocks if block["type"] == "text")


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "id": answer.call_id(index),
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for index, block in enumerate(answer.blocks)
        if block["type"] == "tool_use"
    ]


def _finish(answer: Answer) -> str:
    return _FINISH.get(answer.stop, answer.stop)


def _usage(answer: Answer) -> Mapping[str, Any]:
    total, read, output = openai.counted(answer.usage)
    return {
        "prompt_tokens": total,
        "completion_tokens": output,
        "total_tokens": total + output,
        "prompt_tokens_details": {"cached_tokens": read},
    }


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.serial}",
        "object": kind,
        "created": answer.made,
        "model": answer.model,
    }


def _chunk(
    answer: Answer, delta: Mapping[str, Any], finish: str | None = None, is_delta: bool = False
) -> Event:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return Event(None, {**_head(answer, "chat.completion.chunk"), "choices": [choice]}, is_delta)
