"""An answer in the making: the events of a Messages stream put together. Any event may be anything."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from codeframe.adapters.llm.base import Block, ModelError, Reply
from codeframe.core.models import ErrorClass, TokenUsage

# Which field of a block a delta of this type adds to, and where the delta carries it.
_GROWS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
}
_DEEPEST = 50  # no tool has an input nested like that; what walks it later need not fear for its stack


class Draft:
    """`take` each event in turn; `reply` when the stream has ended; `usage` at any time."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._blocks: dict[int, Block] = {}
        self._inputs: dict[int, list[str]] = {}  # pieces of JSON
        self._usage: dict[str, int] = {}
        self._stop_reason = ""
        self._ended = False

    def take(self, event: Mapping[str, Any]) -> str:
        """Take in one event; returns the words it adds to the answer, "" for none."""
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start":
            self._count(_mapping(event.get("message")).get("usage"))
        elif kind == "content_block_start" and isinstance(index, int):
            self._blocks[index] = dict(_mapping(event.get("content_block")))
            return _text(self._blocks[index].get("text"))
        elif kind == "content_block_delta" and isinstance(index, int) and index in self._blocks:
            return self._grow(index, _mapping(event.get("delta")))
        elif kind == "message_delta":
            self._stop_reason = _text(_mapping(event.get("delta")).get("stop_reason")) or self._stop_reason
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self._ended = True
        return ""

    def usage(self) -> TokenUsage | None:
        """What the server says was used so far; None before it said anything."""
        if not self._usage:
            return None
        count = self._usage.get
        return TokenUsage(
            input_tokens=count("input_tokens", 0) + count("cache_creation_input_tokens", 0),
            cached_input_tokens=count("cache_read_input_tokens", 0),
            output_tokens=count("output_tokens", 0),
            model=self._model,
        )

    def reply(self) -> Reply:
        """The whole answer. Raises ModelError (network) when the stream broke off before its end."""
        if not self._ended:
            raise ModelError(
                ErrorClass.NETWORK, "the connection ended in the middle of an answer", usage=self.usage()
            )
        content: list[Block] = []
        broken: set[str] = set()
        for index, block in sorted(self._blocks.items()):
            if block.get("type") == "tool_use":
                call, whole = self._call(block, self._inputs.get(index))
                content.append(call)
                if not whole:
                    broken.add(call["id"])
            elif block.get("type") != "text":
                content.append(block)
            elif (words := _text(block.get("text"))).strip():  # the API takes no blank text back
                content.append({"type": "text", "text": words})
        return Reply(
            content, self._stop_reason, self.usage() or TokenUsage(model=self._model), frozenset(broken)
        )

    def _grow(self, index: int, delta: Mapping[str, Any]) -> str:
        kind = _text(delta.get("type"))
        if kind == "input_json_delta":
            self._inputs.setdefault(index, []).append(_text(delta.get("partial_json")))
        elif kind in _GROWS:
            field, source = _GROWS[kind]
            words = _text(delta.get(source))
            block = self._blocks[index]
            block[field] = _text(block.get(field)) + words
            return words if kind == "text_delta" else ""
        return ""

    def _count(self, usage: object) -> None:
        """Counts are totals so far, so that later ones replace earlier ones."""
        for key, value in _mapping(usage).items():
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
                self._usage[key] = value

    @staticmethod
    def _call(block: Mapping[str, Any], pieces: list[str] | None) -> tuple[Block, bool]:
        """The tool call in the form it is sent back in, and whether its input is whole."""
        given: object = block.get("input")
        if pieces is not None and (text := "".join(pieces)):
            try:
                given = json.loads(text)
            except (ValueError, RecursionError):
                given = None
        whole = isinstance(given, dict) and not _deeper_than(_DEEPEST, given)
        return {
            "type": "tool_use",
            "id": _text(block.get("id")) or f"toolu_{uuid.uuid4().hex[:20]}",
            "name": _text(block.get("name")) or "unnamed",
            "input": given if whole else {},
        }, whole


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _deeper_than(limit: int, value: object) -> bool:
    """Whether lists and objects are nested more than `limit` deep in `value`."""
    level = [value]
    for _ in range(limit):
        level = [
            x
            for v in level
            for x in (v.values() if isinstance(v, dict) else v if isinstance(v, list) else ())
        ]
        if not level:
            return False
    return True
