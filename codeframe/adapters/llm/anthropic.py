"""Models behind the Anthropic Messages API, by the anthropic SDK, which is imported at the first call only.

Calls run on an event loop in a thread of their own. The caller looks up twenty times a second, so that a
stop takes effect at once in every phase: import, name lookup, handshake, waiting, streaming; cancelling the
call closes its connection.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import email.utils
import os
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, TypeVar

from codeframe.adapters.llm.base import Message, Model, ModelError, Patience, Reply, Request, Stopped
from codeframe.adapters.llm.draft import Draft
from codeframe.core.api_status import class_of_status
from codeframe.core.blocker_detection import classify_error_for_blocker
from codeframe.core.models import ErrorClass

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
BASE_URL = "ANTHROPIC_BASE_URL"
_NO_KEY = "none-needed"  # the SDK wants one even where the server does not
_TICK_S = 0.05
_CONNECT_S = 15.0
_SILENCE_S = 600.0  # where the caller sets no limit; the SDK's own default
_CACHED = {"cache_control": {"type": "ephemeral"}}

# By the API's "error.type", which also comes in the middle of a stream, then by the HTTP status.
_BY_TYPE = {
    "authentication_error": ErrorClass.AUTH,
    "permission_error": ErrorClass.AUTH,
    "billing_error": ErrorClass.BILLING,
    "not_found_error": ErrorClass.MODEL,
    "request_too_large": ErrorClass.CONTEXT_WINDOW,
    "rate_limit_error": ErrorClass.RATE_LIMITED,
    "overloaded_error": ErrorClass.OVERLOADED,
    "api_error": ErrorClass.OVERLOADED,
    "timeout_error": ErrorClass.OVERLOADED,
}
# What the words of an otherwise unclassified refusal may say.
_IN_WORDS = {ErrorClass.BILLING, ErrorClass.CONTEXT_WINDOW, ErrorClass.MODEL, ErrorClass.QUOTA}

T = TypeVar("T")


class AnthropicProvider:
    """Reads ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, and ANTHROPIC_BASE_URL, which may do without either."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sdk_client: Any = None

    def models(self, patience: Patience) -> list[Model]:
        """What the server lists, in its order; see LLMProvider."""

        async def ask() -> list[Model]:
            page = await self._client(patience).models.list(limit=100)
            return [_model(entry) for entry in page.data]

        return self._run(ask, patience)

    def answer(self, request: Request, patience: Patience, on_text: Callable[[str], None]) -> Reply:
        """One streamed answer; see LLMProvider."""
        draft = Draft(request.model)

        async def ask() -> Reply:
            stream = await self._client(patience).messages.create(stream=True, **_body(request))
            async with stream:
                async for event in stream:
                    if words := draft.take(event.to_dict()):
                        on_text(words)
            return draft.reply()

        try:
            return self._run(ask, patience)
        except (ModelError, Stopped) as error:
            error.usage = error.usage or draft.usage()
            raise

    def close(self) -> None:
        """Close connections, end the thread; one that hangs in an import is left behind."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        client, self._sdk_client = self._sdk_client, None
        if client is not None:
            closing = asyncio.run_coroutine_threadsafe(client.close(), loop)
            with contextlib.suppress(Exception):
                closing.result(timeout=1.0)
        loop.call_soon_threadsafe(loop.stop)

    def _run(self, call: Callable[[], Coroutine[Any, Any, T]], patience: Patience) -> T:
        patience.check()
        future = asyncio.run_coroutine_threadsafe(call(), self._running_loop())
        try:
            while not concurrent.futures.wait([future], timeout=_TICK_S).done:
                patience.check()
            return future.result()
        except (ModelError, Stopped):
            raise
        except Exception as error:
            raise _model_error(error) from error
        finally:
            future.cancel()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_serve, args=(self._loop,), name="model", daemon=True).start()
        return self._loop

    def _client(self, patience: Patience) -> Any:
        """The SDK's client, made at the first call: on the loop's thread, so that the import can be left."""
        if self._sdk_client is None:
            import anthropic

            silence = patience.stall_s or _SILENCE_S
            keyless = os.environ.get(BASE_URL) and not any(map(os.environ.get, KEYS))
            self._sdk_client = anthropic.AsyncAnthropic(
                max_retries=0,  # waiting and trying again is done around the whole engine call (rule 4.6)
                timeout=anthropic.Timeout(silence, connect=_CONNECT_S),
                api_key=_NO_KEY if keyless else None,  # None: as the environment says
            )
        return self._sdk_client


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    for task in (left := asyncio.all_tasks(loop)):
        task.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.close()


def _model(entry: Any) -> Model:
    created, longest = getattr(entry, "created_at", None), getattr(entry, "max_tokens", None)
    return Model(
        str(entry.id),
        max_tokens=longest if isinstance(longest, int) and longest > 0 else None,
        created=created.timestamp() if isinstance(created, datetime) else 0.0,
        current=getattr(entry, "lifecycle", None) in (None, "active"),
    )


def _body(request: Request) -> dict[str, Any]:
    """The request with its cache marks: what never changes, and the conversation up to here.

    The mark before the last one is where the request before this one ended, however many blocks ago.
    """
    messages = list(request.messages)
    ends = [at for at, message in enumerate(messages) if message["role"] == "user"][-2:]
    for at in ends:
        messages[at] = _marked(messages[at])
    return {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "system": [{"type": "text", "text": request.system, **_CACHED}],
        "tools": list(request.tools),
        "messages": messages,
    }


def _marked(message: Message) -> Message:
    *before, last = message["content"]
    return {**message, "content": [*before, {**last, **_CACHED}]}


def _model_error(error: Exception) -> ModelError:
    """What went wrong, from the SDK's exception and the HTTP library's below it.

    The latter has changed its name between versions of the SDK, so its classes are known by theirs.
    """
    import anthropic

    if isinstance(error, anthropic.APIStatusError):
        return _refused(error.status_code, error.body, error.response.headers, error.message)
    chain = [error, error.__cause__, error.__context__]
    names = {base.__name__ for one in chain if one is not None for base in type(one).__mro__}
    if "ReadTimeout" in names:
        return ModelError(ErrorClass.STALLED, "the model's server said nothing for too long")
    if isinstance(error, anthropic.APIConnectionError | OSError) or "TransportError" in names:
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        return ModelError(ErrorClass.NETWORK, f"the model's server cannot be reached: {error}{cause}")
    if isinstance(error, anthropic.AnthropicError) and "authentication" in str(error):
        return ModelError(ErrorClass.AUTH, str(error))  # the SDK found no key at all
    return ModelError(ErrorClass.PROTOCOL, f"the model's answer was not understood: {error!r}")


def _refused(status: int, body: object, headers: Mapping[str, str], message: str) -> ModelError:
    told = body.get("error") if isinstance(body, Mapping) else None
    kind, words = "", message
    if isinstance(told, Mapping):
        kind, words = str(told.get("type") or ""), str(told.get("message") or message)
    found = _BY_TYPE.get(kind) or class_of_status(status)
    by_words = classify_error_for_blocker(words)
    if found is None:
        found = by_words if by_words in _IN_WORDS else ErrorClass.PROTOCOL
    elif found is ErrorClass.RATE_LIMITED and by_words is ErrorClass.QUOTA:
        found = ErrorClass.QUOTA
    what = f"{kind or 'error'} ({status})" if status >= 400 else kind or "error"
    return ModelError(found, f"{what}: {words}", retry_after_s=_retry_after(headers))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks us to wait: in milliseconds, in seconds, or as a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with contextlib.suppress(KeyError, ValueError):
            seconds = float(headers[name]) * unit
            return seconds if 0 <= seconds < float("inf") else None
    with contextlib.suppress(KeyError, ValueError, TypeError, OverflowError):
        return max(0.0, email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    return None
