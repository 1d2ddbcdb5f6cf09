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

# Type of the Messages API -> status, type, code.
_WORDS: Mapping[str, tuple[int, str, str | None]] = {
    "authentication_error": (401, "invalid_request_error", "invalid_api_key"),
    "permission_error": (403, "request_forbidden", None),
    "billing_error": (429, "insufficient_quota", "insufficient_quota"),
    "rate_limit_error": (429, "requests", "rate_limit_exceeded"),
    "overloaded_error": (503, "server_error", "server_is_overloaded"),
    "api_error": (500, "server_error", "server_error"),
    "not_found_error": (404, "invalid_request_error", "model_not_found"),
    "invalid_request_error": (400, "invalid_request_error", None),
}
_TOO_LONG = re.compile(r"prompt is too long: (\d+) tokens > (\d+) maximum")
_NO_CREDIT = "credit balance is too low"


def refusal(failure: Mapping[str, Any]) -> Refusal:
    """An error of a scenario in OpenAI's words. One that is told in the stream (status 200) stays there."""
    kind, message = failure["type"], failure["message"]
    status, kind, code = _WORDS.get(kind, (failure["status"], kind, kind))
    if found := _TOO_LONG.search(message):
        code = "context_length_exceeded"
        message = (
            f"This model's maximum context length is {found[2]} tokens. "
            f"However, your messages resulted in {found[1]} tokens. Please reduce the length of the messages."
        )
    elif _NO_CREDIT in message:
        status, kind, code = _WORDS["billing_error"]
        message = "You exceeded your current quota, please check your plan and billing details."
    if failure["status"] == 200:
        status = 200
    return Refusal(status, {"error": {"message": message, "type": kind, "param": None, "code": code}})


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
