"""The OpenAI Responses API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codeframe.demo.asked import Asked, Said, read_off
from codeframe.demo.dialects import openai
from codeframe.demo.dialects.dialect import Answer, Event, Refusal, cut
from codeframe.demo.meter import Part

_OF_THE_MODEL = ("reasoning", "function_call", "custom_tool_call", "local_shell_call")
_ID = re.compile(r"[a-z]+_(\w+)_\d+")  # of an item or a call, as they are made here
# Why an answer is incomplete, by stop_reason of the Messages API.
_INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


class Responses:
    """POST /v1/responses."""

    name = "responses"
    path = "/v1/responses"

    def read(self, body: Mapping[str, Any]) -> Asked:
        said = [Said("system", (body.get("instructions") or "",)), *_said(_items(body))]
        return read_off(said, body.get("tools") or ())

    def parts(self, body: Mapping[str, Any]) -> Iterator[Part]:
        said = [body.get("instructions"), *_items(body)]
        return openai.parts(body.get("model"), body.get("tools") or (), said)

    def whole(self, answer: Answer) -> Mapping[str, Any]:
        total, read, output = openai.counted(answer.usage)
        why = _INCOMPLETE.get(answer.stop)
        return {
            "id": f"resp_{answer.serial}",
            "object": "response",
            "created_at": answer.made,
            "status": "incomplete" if why else "completed",
            "error": None,
            "incomplete_details": {"reason": why} if why else None,
            "model": answer.model,
            "output": [_item(answer, index) for index in range(len(answer.blocks))],
            "usage": {
                "input_tokens": total,
                "input_tokens_details": {"cached_tokens": read},
                "output_tokens": output,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": total + output,
            },
        }

    def blocks(self, answer: Answer) -> Iterator[Event]:
        yield _event("created", response=self._begun(answer))
        for index in range(len(answer.blocks)):
            yield from _streamed(_item(answer, index), index)

    def closing(self, answer: Answer, body: Mapping[str, Any]) -> Iterator[Event]:
        whole = self.whole(answer)
        yield _event(whole["status"], response=whole)

    def refusal(self, failure: Mapping[str, Any]) -> Refusal:
        return openai.refusal(failure)

    def failing(self, answer: Answer, refusal: Refusal) -> Iterator[Event]:
        begun = self._begun(answer)
        yield _event("created", response=begun)
        told = {key: refusal.body["error"][key] for key in ("code", "message")}
        yield _event("failed", response={**begun, "status": "failed", "error": told})

    def _begun(self, answer: Answer) -> Mapping[str, Any]:
        return {**self.whole(answer), "status": "in_progress", "output": [], "usage": None}


def _items(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    given = body.get("input") or ()
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _said(items: Sequence[Mapping[str, Any]]) -> Iterator[Said]:
    """The items as a conversation.

    An answer is several items, and outputs of its first calls may stand before its last one: their ids, which
    a CLI sends back as they were, tell that they are of one answer.
    """
    open_answer, known = False, set()
    for item in items:
        kind, role = item.get("type", "message"), item.get("role")
        if kind in _OF_THE_MODEL or role == "assistant":
            found = _ID.fullmatch(item.get("call_id") or item.get("id") or "")
            if found[1] not in known if found else not open_answer:
                yield Said("model", _texts(item))
            open_answer = True
            if found:
                known.add(found[1])
            continue
        open_answer = False
        if kind == "message":
            yield Said("user" if role == "user" else "system", _texts(item))
        else:
            yield Said("tool")


def _texts(item: Mapping[str, Any]) -> tuple[str, ...]:
    content = item.get("content") or ()
    if isinstance(content, str):
        return (content,)
    return tuple(piece["text"] for piece in content if "text" in piece)


def _item(answer: Answer, index: int) -> dict[str, Any]:
    """A block as an output item. A call whose input is text is one of a freeform tool."""
    block = answer.blocks[index]
    serial = f"{answer.serial}_{index}"
    if block["type"] == "text":
        content = {"type": "output_text", "text": block["text"], "annotations": []}
        return {
            "type": "message",
            "id": f"msg_{serial}",
            "role": "assistant",
            "status": "completed",
            "content": [content],
        }
    call = {"call_id": answer.call_id(index), "name": block["name"], "status": "completed"}
    if isinstance(block["input"], str):
        return {"type": "custom_tool_call", "id": f"ctc_{serial}", **call, "input": block["input"]}
    arguments = json.dumps(block["input"])
    return {"type": "function_call", "id": f"fc_{serial}", **call, "arguments": arguments}


# Kind of an item: what of it comes in deltas, the name of these, and how the item looks before.
_DELTAS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "message": ("content", "output_text", {"content": []}),
    "function_call": ("arguments", "function_call_arguments", {"arguments": ""}),
    "custom_tool_call": ("input", "custom_tool_call_input", {"input": ""}),
}


def _streamed(item: dict[str, Any], index: int) -> Iterator[Event]:
    key, kind, empty = _DELTAS[item["type"]]
    whole = item["content"][0]["text"] if key == "content" else item[key]
    where = {"item_id": item["id"], "output_index": index}
    if key == "content":
        where["content_index"] = 0
    yield _event("output_item.added", output_index=index, item={**item, **empty, "status": "in_progress"})
    for piece in cut(whole):
        yield _event(f"{kind}.delta", is_delta=True, **where, delta=piece)
    yield _event(f"{kind}.done", **where, **{"text" if key == "content" else key: whole})
    yield _event("output_item.done", output_index=index, item=item)


def _event(kind: str, is_delta: bool = False, **data: Any) -> Event:
    return Event(f"response.{kind}", {"type": f"response.{kind}", **data}, is_delta)
