"""Whole and half runs of Claude Code for the fake engine: a Write that writes, a failure that exits.

engine.calls(call(session(wrote("a.py", "x = 1\n"), verdict("made a.py"))))
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from tests.kit import claude_lines as lines
from tests.kit.scenario import Steps, err, flat, leave, on_signal, out, sh, write


def wrote(path: str, content: str) -> Steps:
    """The Write tool makes or replaces a file (path relative to the working directory)."""
    tool_id, where = _tool_id(), f"{{cwd}}/{path}"
    current = "(file state is current in your context — no need to Read it back)"
    told = f"File created successfully at: {where} {current}"
    details: dict[str, Any] = {
        "type": "create",
        "filePath": where,
        "content": content,
        "structuredPatch": [],
        "originalFile": None,
        "userModified": False,
    }
    return [
        out(lines.tool_use("Write", {"file_path": where, "content": content}, tool_id)),
        write(path, content),
        out(lines.tool_result(tool_id, told, tool_use_result=details)),
    ]


def ran(command: str, stdout: str = "") -> Steps:
    """The Bash tool runs a command that succeeds."""
    tool_id = _tool_id()
    details = {
        "stdout": stdout,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    return [
        out(lines.tool_use("Bash", {"command": command, "description": "run"}, tool_id)),
        sh(command),
        out(lines.tool_result(tool_id, stdout, is_error=False, tool_use_result=details)),
    ]


def tool_failed(name: str, tool_input: Mapping[str, Any], message: str) -> Steps:
    """A tool call that was refused or went wrong."""
    tool_id = _tool_id()
    return [
        out(lines.tool_use(name, tool_input, tool_id)),
        out(lines.tool_result(tool_id, message, is_error=True, tool_use_result=f"Error: {message}")),
    ]


def verdict(
    summary: str,
    *,
    status: str = "completed",
    question: str | None = None,
    already_satisfied: bool | None = None,
    spent: lines.Spent = lines.Spent(),
    **changes: Any,
) -> Steps:
    """The StructuredOutput tool call that --json-schema asks for, and the result line that repeats it."""
    given: dict[str, Any] = {"status": status, "summary": summary}
    if question is not None:
        given["question"] = question
    if already_satisfied is not None:
        given["already_satisfied"] = already_satisfied
    tool_id, told = _tool_id(), "Structured output provided successfully"
    as_text = json.dumps(given, separators=(",", ":"))
    return [
        out(lines.tool_use("StructuredOutput", given, tool_id)),
        out(lines.tool_result(tool_id, told, tool_use_result=told)),
        out(lines.result(as_text, structured_output=given, spent=spent, stop_reason="tool_use", **changes)),
    ]


def said(words: str, **changes: Any) -> Steps:
    """An end without a structured verdict: the answer, then the result line."""
    return [out(lines.text(words)), out(lines.result(words, num_turns=1, **changes))]


def api_failed(status: int | None, error: str, words: str, retries: int = 1) -> Steps:
    """The API refuses until the retries are used up: retry lines, the synthetic message, result, exit 1."""
    attempts = range(1, retries + 1)
    return [
        *[out(lines.api_retry(status, error, attempt, max_retries=retries)) for attempt in attempts],
        out(lines.api_error(words, error, request_id=status is not None)),
        out(lines.result_api_error(words, status)),
        leave(1),
    ]


def unknown_session() -> Steps:
    """--resume with an id nobody knows: no init line, the reason on both streams, exit 1."""
    reason = f"No conversation found with session ID: {lines.SESSION}"
    return [
        err(reason),
        out(lines.result_error("error_during_execution", [reason], duration_ms=0, duration_api_ms=0)),
        leave(1),
    ]


def interruptible() -> Steps:
    """From here on SIGINT ends the run as it does in the middle of a tool call: three lines, then exit 0."""
    refused = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a "
        "file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the "
        "user to tell you how to proceed."
    )
    diagnostic = "[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=tool_use"
    ended = lines.result_error(
        "error_during_execution",
        [diagnostic],
        terminal_reason="aborted_tools",
        spent=lines.Spent(),
        num_turns=3,
        stop_reason="tool_use",
    )
    told = lines.tool_result(
        "toolu_interrupted", refused, is_error=True, tool_use_result="User rejected tool use"
    )
    return on_signal("SIGINT", steps=[out(told), out(lines.interrupted()), out(ended), leave(0)])


def session(*steps: Steps, structured: bool = True) -> Steps:
    """A whole run: the init line, then the steps."""
    return [out(lines.init(structured=structured)), *flat(steps)]


def _tool_id() -> str:
    return f"toolu_{uuid.uuid4().hex[:20]}"
