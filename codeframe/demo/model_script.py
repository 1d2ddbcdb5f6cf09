"""What a scripted model answers: scenarios, their turns, and which turn is due.

A scenario is a dict (JSON, or made with the functions here):

    {"prompts": [[turn, turn, ...], [turn, ...]],     n-th prompt of the person -> the model's turns
     "match":   [{"text": T, "prompts": [...]}, ...],  conversations whose first prompt holds T
     "errors":  [{"status", "type", "message", "headers", "times", "after"}, ...],
     "usage":   "measured" or fixed numbers,
     "context_window": tokens,                         more in a request is an error, as in the APIs
     "aux":     text}                                  the answer to requests without tools (titles)

It says the same whichever API a CLI speaks: errors, usage and stop reasons are named as in the Messages API,
and a dialect puts them into the words of its own. Which turn is due follows from the request alone (the APIs
are stateless), so conversations never mix.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from codeframe.demo.asked import Asked
from codeframe.demo.deeds import Block, in_words_of

Turn = dict[str, Any]
Scenario = Mapping[str, Any]


# -- turns --------------------------------------------------------------------------------------------


def text(words: str) -> Block:
    """A block of text."""
    return {"type": "text", "text": words}


def tool(name: str, tool_input: Mapping[str, Any] | str) -> Block:
    """A tool call. `{cwd}` in its strings becomes the working directory the CLI announces.

    An input that is one text is for a freeform tool, which only the Responses API has.
    """
    given = tool_input if isinstance(tool_input, str) else dict(tool_input)
    return {"type": "tool_use", "name": name, "input": given}


def verdict(summary: str = "did it", status: str = "completed", **more: Any) -> Block:
    """The call of the StructuredOutput tool, which Claude Code offers with --json-schema."""
    return tool("StructuredOutput", {"status": status, "summary": summary, **more})


def plain_verdict(summary: str = "did it", status: str = "completed", **more: Any) -> Block:
    """The same verdict as an answer that is JSON and nothing else, where the request itself has a schema."""
    return text(json.dumps({"status": status, "summary": summary, **more}))


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
    """An API error in the place of a turn: it is answered whenever that turn is due.

    Status 200 tells it inside a stream that had begun well. Types of the Messages API are translated for the
    other ones (the message "prompt is too long: N tokens > M maximum" says that the context window is full,
    "credit balance is too low" that there is no quota); any other type goes out as it is, as the code too.
    """
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


# -- which turn is due -----------------------------------------------------------------------------------


def due_turn(scenario: Scenario, asked: Asked) -> Turn:
    """The turn for this request; past the end of a list its last entry goes on."""
    aux = scenario.get("aux")
    if asked.is_title or (aux is not None and not asked.tools):
        return as_turn(text(aux or "A title"))
    first = asked.prompts[0] if asked.prompts else ""
    branches = [branch["prompts"] for branch in scenario.get("match", []) if branch["text"] in first]
    prompts = branches[0] if branches else scenario["prompts"]
    turns = prompts[min(max(len(asked.prompts), 1), len(prompts)) - 1]
    chosen = as_turn(turns[min(asked.turn, len(turns) - 1)])
    if "blocks" in chosen:
        chosen["blocks"] = [in_words_of(asked.tools, block) for block in chosen["blocks"]]
    filled: Turn = _fill(chosen, asked.cwd)
    return filled


def _fill(value: Any, cwd: str) -> Any:
    if isinstance(value, str):
        return value.replace("{cwd}", cwd)
    if isinstance(value, Mapping):
        return {key: _fill(item, cwd) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fill(item, cwd) for item in value]
    return value
