"""What a scripted model answers: turns, how a conversation stands, and what a request costs.

A scenario is a dict (JSON, or made with the functions here):

    {"prompts": [[turn, turn, ...], [turn, ...]],     n-th prompt of the person -> the model's turns
     "match":   [{"text": T, "prompts": [...]}, ...],  conversations whose first prompt holds T
     "errors":  [{"status", "type", "message", "headers", "times", "after"}, ...],
     "usage":   "measured" or fixed numbers,
     "context_window": tokens,                         more in a request is an error, as in the API
     "aux":     text}                                  the answer to requests without tools (titles)

Which turn is due follows from the request alone (the API is stateless), so conversations never mix.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from codeframe.demo.deeds import Block, in_words_of

Turn = dict[str, Any]
Scenario = Mapping[str, Any]

# Text that stands in user messages but that no person wrote: how it begins, or the whole of it.
INJECTED = (
    "<system-reminder>",
    "[structured-output-enforce]",
    "[Request interrupted by user",
    "[Your previous response had no visible output",
)
INJECTED_WHOLE = (
    "Continue from where you left off."  # on --resume, where the last run ended with a tool result
)
BYTES_PER_TOKEN = 4


# -- turns --------------------------------------------------------------------------------------------


def text(words: str) -> Block:
    """A block of text."""
    return {"type": "text", "text": words}


def tool(name: str, tool_input: Mapping[str, Any]) -> Block:
    """A tool call. `{cwd}` in its strings becomes the working directory the CLI announces."""
    return {"type": "tool_use", "name": name, "input": dict(tool_input)}


def verdict(summary: str = "did it", status: str = "completed", **more: Any) -> Block:
    """The call of the StructuredOutput tool, which Claude Code offers with --json-schema."""
    return tool("StructuredOutput", {"status": status, "summary": summary, **more})


def fenced_verdict(summary: str = "did it", status: str = "completed", **more: Any) -> Block:
    """The same verdict as the last fenced block of an answer, for CLIs that enforce no schema."""
    return text("```json\n" + json.dumps({"status": status, "summary": summary, **more}) + "\n```")


def turn(*blocks: Block, **how: Any) -> Turn:
    """One answer of the model, where its blocks alone do not say it all.

    `delay`: seconds before anything is sent. `wait_for`: a file that must be there first. `hang`: seconds
    without even headers. `stall`: seconds of silence in mid-stream. `cut`: "block" drops the connection in
    the first block, "end" before the closing events. `stop_reason`, `usage` (a dict) replace the usual ones.
    Delays and cuts inside the stream (`stall`, `cut`) do not touch an answer that is not streamed.
    """
    return {"blocks": list(blocks), **how}


def error(
    status: int, error_type: str, message: str | None = None, headers: Mapping[str, str] | None = None
) -> Turn:
    """An API error in the place of a turn: it is answered whenever that turn is due."""
    return {
        "error": {
            "status": status,
            "type": error_type,
            "message": message or error_type,
            "headers": headers or {},
        }
    }


def as_turn(given: Turn | Block | Sequence[Block]) -> Turn:
    """A turn from what a scenario may hold in its place: a turn, one block, or a list of blocks."""
    if not isinstance(given, Mapping):
        return {"blocks": list(given)}
    return {"blocks": [given]} if "type" in given else dict(given)


# -- how a conversation stands ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """Where a conversation is: the person's prompts so far, answers since the last one, working directory."""

    prompts: tuple[str, ...]
    turn: int
    cwd: str


def standing(body: Mapping[str, Any]) -> Standing:
    """Read it off a request. Prompts are text blocks: two unanswered ones may share a message."""
    prompts: list[str] = []
    answers = 0
    for message in body.get("messages", []):
        if message["role"] == "assistant":
            answers += 1
        elif message["role"] == "user":
            said = [block["text"] for block in blocks_of(message["content"]) if block.get("type") == "text"]
            asked = [words for words in said if not is_injected(words)]
            if asked:
                prompts += asked
                answers = 0
    return Standing(tuple(prompts), answers, announced_cwd(body))


def is_injected(words: str) -> bool:
    """Whether the CLI, not the person, wrote this text of a user message."""
    return words.lstrip().startswith(INJECTED) or words == INJECTED_WHOLE


def blocks_of(content: str | Sequence[Block]) -> list[Block]:
    """A message's content as blocks; the CLI sends the same text now as a string, now as a block."""
    return [text(content)] if isinstance(content, str) else list(content)


def announced_cwd(body: Mapping[str, Any]) -> str:
    """The working directory the CLI names in its system prompt, or else in a message; "" if nowhere."""
    places = [blocks_of(body.get("system") or "")]
    places += [blocks_of(message["content"]) for message in body.get("messages", [])]
    for blocks in places:
        words = "\n".join(block.get("text", "") for block in blocks)
        if found := re.search(r"working directory:? *(/.*)", words, re.IGNORECASE):
            return found.group(1).strip()
    return ""


def due_turn(scenario: Scenario, body: Mapping[str, Any]) -> Turn:
    """The turn for this request; past the end of a list its last entry goes on."""
    if scenario.get("aux") is not None and not body.get("tools"):
        return as_turn(text(scenario["aux"]))
    where = standing(body)
    first = where.prompts[0] if where.prompts else ""
    branches = [branch["prompts"] for branch in scenario.get("match", []) if branch["text"] in first]
    prompts = branches[0] if branches else scenario["prompts"]
    turns = prompts[min(max(len(where.prompts), 1), len(prompts)) - 1]
    chosen = as_turn(turns[min(where.turn, len(turns) - 1)])
    if "blocks" in chosen:
        chosen["blocks"] = [in_words_of(body.get("tools") or (), block) for block in chosen["blocks"]]
    filled: Turn = _fill(chosen, where.cwd)
    return filled


def _fill(value: Any, cwd: str) -> Any:
    if isinstance(value, str):
        return value.replace("{cwd}", cwd)
    if isinstance(value, Mapping):
        return {key: _fill(item, cwd) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fill(item, cwd) for item in value]
    return value


# -- what a request costs -----------------------------------------------------------------------------------


@dataclass
class Meter:
    """Counts tokens from the real bytes of each request, with a prompt cache that works as the API's does.

    A token is four bytes. The cached prefix (model, tools, system, messages, block by block) is the longest
    one an earlier request had up to its last `cache_control` mark. What follows it up to this request's last
    mark is written to the cache, the rest is plain input. Left out: minimum sizes and expiry.
    """

    _seen: set[bytes] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def measure(self, body: Mapping[str, Any], answer: Sequence[Block]) -> dict[str, int]:
        """The `usage` object of the answer to `body`; the request's prefixes are in the cache from now on."""
        parts = cacheable_parts(body)
        marks = [number for number, part in enumerate(parts) if part.marked]
        last_mark = marks[-1] if marks else -1
        read = written = rest = 0
        with self._lock:
            chain = b""
            for number, part in enumerate(parts):
                chain = hashlib.sha256(chain + part.data).digest()
                if number > last_mark:
                    rest += len(part.data)
                elif chain in self._seen:
                    read += len(part.data)
                else:
                    written += len(part.data)
                    self._seen.add(chain)
        return {
            "input_tokens": tokens(rest),
            "cache_creation_input_tokens": tokens(written),
            "cache_read_input_tokens": tokens(read),
            "output_tokens": max(1, tokens(len(json.dumps(list(answer))))),
        }


@dataclass(frozen=True)
class Part:
    """One block of a request as bytes, and whether a cache mark is on it."""

    data: bytes
    marked: bool


def cacheable_parts(body: Mapping[str, Any]) -> list[Part]:
    """A request in the order of the API's cache: model, tools, system, messages."""
    labelled: list[tuple[str, Mapping[str, Any]]] = [("model", {"model": body.get("model")})]
    labelled += [("tool", tool_spec) for tool_spec in body.get("tools") or []]
    labelled += [("system", block) for block in blocks_of(body.get("system") or "")]
    for message in body.get("messages", []):
        labelled += [(message["role"], block) for block in blocks_of(message["content"])]
    return [_part(label, block) for label, block in labelled]


def _part(label: str, block: Mapping[str, Any]) -> Part:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    data = json.dumps([label, bare], sort_keys=True, ensure_ascii=False).encode(errors="surrogatepass")
    return Part(data, marked="cache_control" in block)


def tokens(size: int) -> int:
    """Tokens of `size` bytes, rounded up."""
    return -(-size // BYTES_PER_TOKEN)
