"""What Codex's app-server tells, in CodeFrame's terms: items as events, errors as classes, totals as usage."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from typing import Any

from codeframe.core.adapters.heard import Heard, Terminal
from codeframe.core.adapters.json_values import dict_of, dicts_in, number_of, text_of
from codeframe.core.adapters.verdict_report import parse_fenced
from codeframe.core.agent_adapter import AgentEvent
from codeframe.core.api_status import class_of_status
from codeframe.core.blocker_detection import classify_error_for_blocker
from codeframe.core.models import ErrorClass, TokenUsage

_CHANGES = {"add": "created", "update": "modified", "delete": "deleted"}

# `codexErrorInfo` is one of these words, or an object of one member: a kind of failed request, with its status.
_BY_WORD = {
    "unauthorized": ErrorClass.AUTH,
    "usageLimitExceeded": ErrorClass.QUOTA,
    "sessionBudgetExceeded": ErrorClass.QUOTA,
    "rateLimitExceeded": ErrorClass.RATE_LIMITED,
    "flexUnavailable": ErrorClass.OVERLOADED,
    "serverOverloaded": ErrorClass.OVERLOADED,
    "policyCapacityUnavailable": ErrorClass.OVERLOADED,
    "internalServerError": ErrorClass.OVERLOADED,
    "contextWindowExceeded": ErrorClass.CONTEXT_WINDOW,
    "modelNotFound": ErrorClass.MODEL,
    "cyberPolicy": ErrorClass.MODEL,  # refusals
    "bioPolicy": ErrorClass.MODEL,
    "misalignmentPolicyViolation": ErrorClass.MODEL,
    "tooManyDenials": ErrorClass.PERMISSION_DENIED,
    "inferenceHookDenied": ErrorClass.PERMISSION_DENIED,
    "sandboxError": ErrorClass.PERMISSION_DENIED,
}
# What carries no class ("other") is told apart by Codex's own words.
_BY_WORDS = (
    ("Missing environment variable", ErrorClass.AUTH),
    ("stream disconnected", ErrorClass.NETWORK),
    ("error sending request", ErrorClass.NETWORK),
    ("Connection failed", ErrorClass.NETWORK),
)


def error_of(error: dict[str, Any]) -> Terminal:
    """The end that a TurnError `{message, codexErrorInfo}` is."""
    message = text_of(error.get("message")) or "an error without a text"
    info = error.get("codexErrorInfo")
    if word := text_of(info):
        found = _BY_WORD.get(word)
        if found is ErrorClass.QUOTA and "billing details" in message:
            found = ErrorClass.BILLING  # the API's insufficient_quota: nothing that time brings back
    else:
        found = _by_request(dict_of(info))
    if found is None:
        found = next((named for words, named in _BY_WORDS if words in message), None)
    return Terminal(message, found or classify_error_for_blocker(message) or ErrorClass.PROTOCOL)


def _by_request(info: dict[str, Any]) -> ErrorClass | None:
    if not info:
        return None
    status = int(number_of(dict_of(next(iter(info.values()))).get("httpStatusCode")))
    if not status:
        # Never connected, or cut off; "too many attempts" alone says what the last of them said.
        return None if "responseTooManyFailedAttempts" in info else ErrorClass.NETWORK
    return class_of_status(status)


def resets_in(limits: dict[str, Any]) -> float | None:
    """Seconds until the used-up windows of a RateLimitSnapshot are open again; None where none is used up."""
    windows = [dict_of(limits.get(name)) for name in ("primary", "secondary")]
    resets = [number_of(w.get("resetsAt")) for w in windows if number_of(w.get("usedPercent")) >= 100]
    known = [at for at in resets if at]
    return max(0.0, max(known) - time.time()) if known else None


class TokenCount:
    """The tokens of one call, from the totals of its threads, which count since the thread's first day.

    A sub-agent's thread has a total of its own. Codex counts cached input within the input, reasoning within
    the output.
    """

    def __init__(self) -> None:
        self._before: dict[str, dict[str, Any]] = {}
        self._now: dict[str, dict[str, Any]] = {}

    def told(self, thread: str, usage: dict[str, Any], *, earlier: bool) -> None:
        """A ThreadTokenUsage `{total, last}`. `earlier`: what was before this call, as a resumed thread tells."""
        total, last = dict_of(usage.get("total")), dict_of(usage.get("last"))
        if earlier:
            self._before[thread] = total
            return
        # Of a thread that did not tell, what was before its first request here.
        before = {key: number_of(total.get(key)) - number_of(last.get(key)) for key in total}
        self._before.setdefault(thread, before)
        self._now[thread] = total

    def usage(self, model: str | None) -> TokenUsage | None:
        """None while no request has been counted."""
        if not self._now:
            return None

        def spent(key: str) -> int:
            return int(
                sum(
                    max(0, number_of(total.get(key)) - number_of(self._before[thread].get(key)))
                    for thread, total in self._now.items()
                )
            )

        cached = spent("cachedInputTokens")
        return TokenUsage(max(0, spent("inputTokens") - cached), cached, spent("outputTokens"), None, model)


def started(item: dict[str, Any], heard: Heard) -> Iterator[AgentEvent]:
    """An item begins."""
    kind, call = text_of(item.get("type")), text_of(item.get("id"))
    if kind == "commandExecution":
        heard.open_tools.add(call)
        command = _bare(text_of(item.get("command")))
        yield AgentEvent("command_run", command, metadata={"tool_use_id": call})
    elif kind == "mcpToolCall":
        heard.open_tools.add(call)
        yield AgentEvent("progress", f"{text_of(item.get('server'))}: {text_of(item.get('tool'))}")


def completed(item: dict[str, Any], heard: Heard, *, in_subagent: bool) -> Iterator[AgentEvent]:
    """An item is over."""
    kind, status = text_of(item.get("type")), text_of(item.get("status"))
    heard.open_tools.discard(text_of(item.get("id")))
    if kind == "agentMessage" and (text := text_of(item.get("text"))):
        if not in_subagent:
            heard.text = text  # its last words, should no good end follow
        if parse_fenced(text) is None:
            yield AgentEvent("output", text, metadata={"sub_agent": True} if in_subagent else {})
    elif kind == "fileChange" and status == "completed":
        for change in dicts_in(item.get("changes")):
            yield from _changed(text_of(change.get("path")), dict_of(change.get("kind")), heard)
    elif kind == "fileChange":
        yield AgentEvent("progress", f"a patch was not applied: {status}")
    elif kind in ("commandExecution", "mcpToolCall") and status in ("failed", "declined"):
        code = item.get("exitCode")
        how = f"ended with status {code}" if isinstance(code, int) else f"was {status}"
        what = _bare(text_of(item.get("command"))) or text_of(item.get("tool"))
        yield AgentEvent("progress", f"{what} {how}")
    elif kind == "webSearch":
        yield AgentEvent("progress", f"web search: {text_of(item.get('query'))}")
    elif kind == "contextCompaction":
        yield AgentEvent("progress", "summed up its conversation to make room")


def _changed(path: str, kind: dict[str, Any], heard: Heard) -> Iterator[AgentEvent]:
    if moved_to := text_of(kind.get("move_path")):
        yield heard.file(path, "deleted")
        yield heard.file(moved_to, "created")
    elif path:
        yield heard.file(path, _CHANGES.get(text_of(kind.get("type")), "modified"))


def _bare(command: str) -> str:
    """The command without the login shell that Codex puts around it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[2] if len(words) == 3 and words[1] in ("-lc", "-c") else command
