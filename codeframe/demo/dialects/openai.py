"""What the two OpenAI APIs share: errors, the prompt cache, how usage is counted.

A scenario names errors and usage in the terms of the Messages API; here they get the words of OpenAI. An error
of a type that is not among the translated ones goes out as it is, its type being its code too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from codeframe.demo.dialects.dialect import Refusal
from codeframe.demo.meter import Part, part

# Type of the Messages API -> type, code, and the status where it is another one.
_WORDS: Mapping[str, tuple[str, str | None, int | None]] = {
    "authentication_error": ("invalid_request_error", "invalid_api_key", None),
    "permission_error": ("request_forbidden", None, None),
    "billing_error": ("insufficient_quota", "insufficient_quota", 429),
    "rate_limit_error": ("requests", "rate_limit_exceeded", None),
    "overloaded_error": ("server_error", "server_is_overloaded", 503),
    "api_error": ("server_error", "server_error", None),
    "not_found_error": ("invalid_request_error", "model_not_found", None),
    "invalid_request_error": ("invalid_request_error", None, None),
}
_TOO_LONG = re.compile(r"prompt is too long: (\d+) tokens > (\d+) maximum")
_NO_CREDIT = "credit balance is too low"


def refusal(failure: Mapping[str, Any]) -> Refusal:
    """An error of a scenario in OpenAI's words. One that is told in the stream (status 200) stays there."""
    message = failure["message"]
    kind = "billing_error" if _NO_CREDIT in message else failure["type"]
    told, code, status = _WORDS.get(kind, (kind, kind, None))
    if kind == "billing_error":
        message = "You exceeded your current quota, please check your plan and billing details."
    elif found := _TOO_LONG.search(message):
        code = "context_length_exceeded"
        message = (
            f"This model's maximum context length is {found[2]} tokens. "
            f"However, your messages resulted in {found[1]} tokens. Please reduce the length of the messages."
        )
    given = failure["status"]
    body = {"error": {"message": message, "type": told, "param": None, "code": code}}
    return Refusal(given if given == 200 else status or given, body)


def parts(model: Any, tools: Sequence[Any], conversation: Iterable[Any]) -> Iterator[Part]:
    """A request for the meter. The cache takes all of it, without marks."""
    yield part("model", model, marked=True)
    for label, blocks in (("tool", tools), ("said", conversation)):
        for block in blocks:
            yield part(label, block, marked=True)


def counted(usage: Mapping[str, int]) -> tuple[int, int, int]:
    """Input tokens in all, those of them from the cache, output tokens. Writing to the cache is plain input."""
    read = usage.get("cache_read_input_tokens", 0)
    fresh = usage.get("input_tokens", 0) + usage.get("cache_creation_input_tokens", 0)
    return fresh + read, read, usage.get("output_tokens", 0)
