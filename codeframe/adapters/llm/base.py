"""What an agent of our own asks of a model, whoever serves it: one request, one streamed answer.

Conversations are kept in the form of the Messages API: a message is {"role", "content"}, its content a
list of blocks ("text", "tool_use", "tool_result"). A provider for another API translates.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from codeframe.core.models import ErrorClass, TokenUsage

Block = dict[str, Any]
Message = dict[str, Any]


class Model(NamedTuple):
    """A model as its server lists it.

    `max_tokens` is the longest answer it gives (None: not told), `created` its release in seconds since
    the epoch (0: not told), `current` is False for one that is on its way out.
    """

    id: str
    max_tokens: int | None = None
    created: float = 0.0
    current: bool = True


class Request(NamedTuple):
    """One question to the model. `max_tokens` bounds the answer; `tools` are {"name", "description",
    "input_schema"}."""

    model: str
    max_tokens: int
    system: str
    tools: Sequence[Mapping[str, Any]]
    messages: Sequence[Message]


class Reply(NamedTuple):
    """A whole answer. `stop_reason` is the API's own word ("end_turn", "tool_use", "max_tokens", ...);
    `broken` are the ids of tool calls whose input was cut off or is no JSON object (it is {} in `content`)."""

    content: list[Block]
    stop_reason: str
    usage: TokenUsage
    broken: frozenset[str] = frozenset()

    @property
    def calls(self) -> list[Block]:
        """The tool calls, in order."""
        return [block for block in self.content if block.get("type") == "tool_use"]

    @property
    def text(self) -> str:
        """What it says in words."""
        return "\n".join(block["text"] for block in self.content if block.get("type") == "text")


class ModelError(Exception):
    """The model did not answer. `usage` is what was used up all the same; `retry_after_s` in seconds."""

    def __init__(
        self,
        error_class: ErrorClass,
        message: str,
        *,
        retry_after_s: float | None = None,
        usage: TokenUsage | None = None,
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.retry_after_s = retry_after_s
        self.usage = usage


class Stopped(Exception):
    """We stop: `error_class` is CANCELLED or TIMEOUT. `usage` is what the broken-off answer used up."""

    def __init__(self, error_class: ErrorClass) -> None:
        super().__init__(error_class.value)
        self.error_class = error_class
        self.usage: TokenUsage | None = None


@dataclass(frozen=True)
class Patience:
    """How long to go on: until `cancel` is set or `deadline` (monotonic seconds) is reached.

    `stall_s`: seconds without a byte from the server after which it counts as stalled.
    """

    cancel: threading.Event
    deadline: float
    stall_s: float | None = None

    @property
    def left_s(self) -> float:
        """Seconds to the deadline, at least 0."""
        return max(0.0, self.deadline - time.monotonic())

    def check(self) -> None:
        """Raise Stopped when it is over."""
        if self.cancel.is_set():
            raise Stopped(ErrorClass.CANCELLED)
        if self.left_s <= 0:
            raise Stopped(ErrorClass.TIMEOUT)


class LLMProvider(Protocol):
    """Who answers. One call at a time, from one thread; `close` may be called twice."""

    def models(self, patience: Patience) -> list[Model]:
        """What models there are. Raises ModelError or Stopped."""
        ...

    def answer(self, request: Request, patience: Patience, on_text: Callable[[str], None]) -> Reply:
        """Ask, and wait for the whole answer; `on_text` gets its words as they come, on another thread.

        Raises ModelError when there is none, Stopped within a moment of `patience` being over.
        """
        ...

    def close(self) -> None:
        """Give up connections and threads."""
        ...


def choose(models: Sequence[Model]) -> Model | None:
    """The one to take when nobody named any: the newest that is not on its way out; of equals the first listed."""
    return max(models, key=lambda model: (model.current, model.created), default=None)
