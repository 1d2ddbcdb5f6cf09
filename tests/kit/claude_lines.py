"""The lines Claude Code 2.1.197 prints with `--output-format stream-json`, for the fake engine to print.

Keys and their absence are those of the recorded transcripts in `tests/fixtures/claude-code`, and a test
compares them. `claude_runs.py` puts lines and deeds together.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Line = dict[str, Any]

VERSION = "2.1.197"
MODEL = "claude-opus-4-8"
MODEL_WITH_WINDOW = "claude-opus-4-8[1m]"
SESSION = "{arg:--session-id|--resume}"  # the fake puts in the id it was given, as the real one does
TOOLS = (
    *("Task", "Bash", "CronCreate", "CronDelete", "CronList", "Edit", "EnterWorktree", "ExitWorktree"),
    *("NotebookEdit", "Read", "ReportFindings", "ScheduleWakeup", "SendMessage", "Skill", "StructuredOutput"),
    *("TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop", "TaskUpdate", "WebFetch", "WebSearch"),
    *("Workflow", "Write"),
)
TIMESTAMP = "2026-11-30T12:05:20.467Z"


@dataclass(frozen=True)
class Spent:
    """Tokens of one process run, and US dollars, as `result` reports them."""

    input: int = 100
    cache_creation: int = 1000
    cache_read: int = 2000
    output: int = 50
    cost_usd: float = 0.009


NOTHING_SPENT = Spent(0, 0, 0, 0, 0)


def init(
    *, structured: bool = True, permission_mode: str = "acceptEdits", api_key: bool = True, **changes: Any
) -> Line:
    """system/init: the first line of nearly every run. `structured`: --json-schema was given."""
    skills = ["deep-research", "update-config", "verify", "debug", "code-review", "simplify", "batch"]
    line: Line = {
        "type": "system",
        "subtype": "init",
        "cwd": "{cwd}",
        "session_id": SESSION,
        "tools": [name for name in TOOLS if structured or name != "StructuredOutput"],
        "mcp_servers": [],
        "model": MODEL_WITH_WINDOW,
        "permissionMode": permission_mode,
        "slash_commands": [*skills, "clear", "compact", "config", "context", "init", "review", "usage"],
        "apiKeySource": "ANTHROPIC_API_KEY" if api_key else "none",
        "claude_code_version": VERSION,
        "output_style": "default",
        "agents": ["claude", "Explore", "general-purpose", "Plan", "statusline-setup"],
        "skills": skills,
        "plugins": [],
        "analytics_disabled": True,
        "product_feedback_disabled": True,
        "uuid": _uuid(),
        "memory_paths": {"auto": "/home/dev/.claude/projects/-repo/memory/"},
        "fast_mode_state": "off",
    }
    return line | changes


def text(words: str, parent: str | None = None) -> Line:
    """assistant: one block of text. `parent` is the Task tool_use id of a sub-agent."""
    return _assistant({"type": "text", "text": words}, parent)


def tool_use(name: str, tool_input: Mapping[str, Any], tool_id: str, parent: str | None = None) -> Line:
    """assistant: one tool call."""
    block = {"type": "tool_use", "id": tool_id, "name": name, "input": dict(tool_input)}
    return _assistant(block, parent)


def tool_result(
    tool_id: str,
    content: Any,
    *,
    is_error: bool | None = None,
    tool_use_result: Mapping[str, Any] | str | None = None,
    parent: str | None = None,
) -> Line:
    """user: what a tool gave back. `is_error` None leaves the key out, as successful file tools do."""
    block = {"tool_use_id": tool_id, "type": "tool_result", "content": content}
    if is_error is not None:
        block["is_error"] = is_error
    line = _user([block], parent)
    # Sub-agents' results come without it.
    return line if tool_use_result is None else line | {"tool_use_result": tool_use_result}


def injected(words: str) -> Line:
    """user: words of the CLI itself, such as "[structured-output-enforce] ..."."""
    return _user([{"type": "text", "text": words}], None) | {"isSynthetic": True}


def interrupted() -> Line:
    """user: what the CLI notes when SIGINT comes in the middle of a tool call."""
    return _user([{"type": "text", "text": "[Request interrupted by user for tool use]"}], None)


def api_retry(
    error_status: int | None, error: str, attempt: int = 1, max_retries: int = 3, delay_ms: float = 615.5
) -> Line:
    """system/api_retry: a failed request is about to be sent again."""
    return {
        "type": "system",
        "subtype": "api_retry",
        "attempt": attempt,
        "max_retries": max_retries,
        "retry_delay_ms": delay_ms,
        "error_status": error_status,
        "error": error,
        "session_id": SESSION,
        "uuid": _uuid(),
    }


def api_error(words: str, error: str, request_id: bool = True) -> Line:
    """assistant: the synthetic message that carries an API error. No request id when none was sent."""
    message = {
        "id": _uuid(),
        "container": None,
        "model": "<synthetic>",
        "role": "assistant",
        "stop_details": None,
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "type": "message",
        "usage": {
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": None,
            "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
            "inference_geo": None,
            "iterations": None,
            "speed": None,
        },
        "content": [{"type": "text", "text": words}],
        "context_management": None,
    }
    line = {"type": "assistant", "message": message, **_place(None), "error": error}
    return line | ({"request_id": _request_id()} if request_id else {})


def result(
    words: str,
    *,
    structured_output: Mapping[str, Any] | None = None,
    spent: Spent = Spent(),
    num_turns: int = 2,
    permission_denials: Sequence[Mapping[str, Any]] = (),
    stop_reason: str = "end_turn",
    model: str = MODEL_WITH_WINDOW,
    **changes: Any,
) -> Line:
    """result/success with is_error false."""
    line: Line = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "api_error_status": None,
        "duration_ms": 533,
        "duration_api_ms": 202,
        "ttft_ms": 229,
        "ttft_stream_ms": 227,
        "time_to_request_ms": 196,
        "num_turns": num_turns,
        "result": words,
        "stop_reason": stop_reason,
        **_account(spent, model, permission_denials),
        "terminal_reason": "completed",
        "fast_mode_state": "off",
        "uuid": _uuid(),
    }
    if structured_output is not None:
        line["structured_output"] = dict(structured_output)
    return line | changes


def result_api_error(words: str, status: int | None, *, spent: Spent = NOTHING_SPENT, **changes: Any) -> Line:
    """result of a run the API failed: subtype "success" all the same, but is_error true (and exit 1)."""
    line = result(words, spent=spent, num_turns=1, stop_reason="stop_sequence")
    for never_sent in ("ttft_ms", "ttft_stream_ms", "time_to_request_ms"):
        del line[never_sent]
    return line | {"is_error": True, "api_error_status": status, "duration_api_ms": 0} | changes


def result_error(
    subtype: str,
    errors: Sequence[str],
    *,
    terminal_reason: str | None = None,
    spent: Spent = NOTHING_SPENT,
    num_turns: int = 0,
    stop_reason: str | None = None,
    **changes: Any,
) -> Line:
    """result of subtype error_*: it has `errors` and no `result`. `terminal_reason` None leaves it out."""
    line: Line = {
        "type": "result",
        "subtype": subtype,
        "duration_ms": 277,
        "duration_api_ms": 62,
        "is_error": True,
        "num_turns": num_turns,
        "stop_reason": stop_reason,
        **_account(spent, MODEL_WITH_WINDOW, ()),
        "uuid": _uuid(),
        "errors": list(errors),
    }
    if terminal_reason is not None:
        line |= {"terminal_reason": terminal_reason, "fast_mode_state": "off"}
    return line | changes


def _assistant(block: Mapping[str, Any], parent: str | None) -> Line:
    # The usage is message_start's, repeated per block: one output token, whatever the answer cost.
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 1000, "cache_read_input_tokens": 2000}
    message = {
        "id": f"msg_{uuid.uuid4().hex[:20]}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [dict(block)],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage | {"output_tokens": 1},
        "context_management": None,
    }
    return {"type": "assistant", "message": message, **_place(parent), "request_id": _request_id()}


def _user(blocks: list[dict[str, Any]], parent: str | None) -> Line:
    message = {"role": "user", "content": blocks}
    return {"type": "user", "message": message, **_place(parent), "timestamp": TIMESTAMP}


def _place(parent: str | None) -> Line:
    return {"parent_tool_use_id": parent, "session_id": SESSION, "uuid": _uuid()}


def _account(spent: Spent, model: str, denials: Sequence[Mapping[str, Any]]) -> Line:
    """What every result line says of tokens, money and refused tools."""
    per_model = {
        "inputTokens": spent.input,
        "outputTokens": spent.output,
        "cacheReadInputTokens": spent.cache_read,
        "cacheCreationInputTokens": spent.cache_creation,
        "webSearchRequests": 0,
        "costUSD": spent.cost_usd,
        "contextWindow": 1_000_000 if model.endswith("[1m]") else 200_000,
        "maxOutputTokens": 64_000,
    }
    return {
        "session_id": SESSION,
        "total_cost_usd": spent.cost_usd,
        "usage": {
            "input_tokens": spent.input,
            "cache_creation_input_tokens": spent.cache_creation,
            "cache_read_input_tokens": spent.cache_read,
            "output_tokens": spent.output,
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": "standard",
            "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
            "inference_geo": "",
            "iterations": [],
            "speed": "standard",
        },
        "modelUsage": {} if spent == NOTHING_SPENT else {model: per_model},
        "permission_denials": [dict(denial) for denial in denials],
    }


def _uuid() -> str:
    return str(uuid.uuid4())


def _request_id() -> str:
    return f"req_{uuid.uuid4().hex[:12]}"
