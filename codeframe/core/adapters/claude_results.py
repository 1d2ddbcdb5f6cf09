"""What Claude Code says in its `result` and elsewhere, understood: which error it was, what it used, its words.

Observed on version 2.1.197.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from codeframe.core.adapters.heard import Terminal
from codeframe.core.adapters.json_values import dict_of, dicts_in, number_of, text_of
from codeframe.core.api_status import class_of_status
from codeframe.core.blocker_detection import classify_error_for_blocker
from codeframe.core.models import ErrorClass, TokenUsage

_TELLING = ("file_path", "path", "pattern", "query", "url", "description", "skill")
_SESSION_GONE = "No conversation found with session ID"
_BY_ASSISTANT_ERROR = {
    "authentication_failed": ErrorClass.AUTH,
    "oauth_org_not_allowed": ErrorClass.AUTH,
    "billing_error": ErrorClass.BILLING,
    "rate_limit": ErrorClass.RATE_LIMITED,
    "overloaded": ErrorClass.OVERLOADED,
    "model_not_found": ErrorClass.MODEL,
    "max_output_tokens": ErrorClass.PROTOCOL,
}
_BY_SUBTYPE = {
    "error_max_turns": ErrorClass.QUOTA,  # limits a person set and must raise
    "error_max_budget_usd": ErrorClass.QUOTA,
    "error_max_structured_output_retries": ErrorClass.PROTOCOL,
    "error_during_execution": ErrorClass.CRASHED,
}


def is_session_gone(result: Mapping[str, Any], text: str) -> bool:
    """Whether the session that was to go on is not there."""
    return _SESSION_GONE in text and result.get("subtype") == "error_during_execution"


def error_of(
    result: Mapping[str, Any], text: str, assistant_error: str, quota_resets_at: float | None
) -> Terminal:
    """The end that an error makes. `assistant_error` is the class the stream named last; `quota_resets_at` is in
    seconds since 1970, 0 where the quota is used up and nobody said until when, None where it is not."""
    if is_session_gone(result, text):
        return Terminal(text, ErrorClass.PROTOCOL)
    error_class = _BY_SUBTYPE.get(text_of(result.get("subtype"))) or _classify(result, text, assistant_error)
    limited = error_class in (ErrorClass.RATE_LIMITED, ErrorClass.QUOTA)
    if limited and quota_resets_at is not None:
        wait = max(0.0, quota_resets_at - time.time()) if quota_resets_at else None
        return Terminal(text, ErrorClass.QUOTA, retry_after_s=wait)
    if result.get("stop_reason") == "refusal":
        error_class = ErrorClass.MODEL
    return Terminal(text, error_class)


def _classify(result: Mapping[str, Any], text: str, error: str) -> ErrorClass:
    """The class of an API error, by its own fields first; its text only where they do not tell."""
    if result.get("terminal_reason") == "prompt_too_long":
        return ErrorClass.CONTEXT_WINDOW
    status = number_of(result.get("api_error_status"))
    by_text = classify_error_for_blocker(text)
    found = _BY_ASSISTANT_ERROR.get(error) or class_of_status(int(status))
    if found is ErrorClass.RATE_LIMITED and by_text is ErrorClass.QUOTA:
        return ErrorClass.QUOTA  # "you've hit your limit, resets 3pm": waiting seconds does not help
    if found is not None:
        return found
    if error == "server_error":
        # No status: never connected, or "Repeated 529".
        return ErrorClass.NETWORK if by_text is ErrorClass.NETWORK else ErrorClass.OVERLOADED
    return by_text or ErrorClass.PROTOCOL


def usage_of(result: Mapping[str, Any], model: str | None) -> TokenUsage:
    """The whole process's tokens, sub-agents included (which `usage` leaves out), and its cost in US dollars."""
    models = {name: dict_of(one) for name, one in dict_of(result.get("modelUsage")).items()}

    def total(*keys: str) -> int:
        return int(sum(number_of(one.get(key)) for one in models.values() for key in keys))

    busiest = max(models, key=lambda name: number_of(models[name].get("outputTokens")), default=None)
    cost = result.get("total_cost_usd")
    return TokenUsage(
        input_tokens=total("inputTokens", "cacheCreationInputTokens"),
        cached_input_tokens=total("cacheReadInputTokens"),
        output_tokens=total("outputTokens"),
        cost_usd=number_of(cost) if isinstance(cost, int | float) else None,
        model=text_of(busiest) or model,
    )


def spoken(value: object) -> str:
    """A text of the model's; "" for what the CLI says to its makers, as when it is ended in the middle of a call."""
    text = text_of(value)
    return "" if text.startswith("[ede_diagnostic]") else text


def first_line(content: object) -> str:
    """Of what a tool said, a string or blocks of text."""
    words = text_of(content) or "".join(text_of(block.get("text")) for block in dicts_in(content))
    return words.strip().partition("\n")[0][:200]


def about(given: Mapping[str, Any]) -> str:
    """What in a tool's input says in a word what it is about; "" for nothing."""
    return next((text for key in _TELLING if (text := text_of(given.get(key)))), "")
