"""What an API dialect is to the scripted server: how a request is read, how an answer or an error is put."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from codeframe.demo.asked import Asked
from codeframe.demo.deeds import Block
from codeframe.demo.meter import Part


class Event(NamedTuple):
    """One server-sent event. Without a name only its data is sent; `is_delta` marks a piece of a block."""

    name: str | None
    data: Mapping[str, Any] | str
    is_delta: bool = False


class Refusal(NamedTuple):
    """An error as a dialect tells it. `status` 200 means that it comes inside the stream."""

    status: int
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """One answer of the model.

    `serial` makes its ids unique, `made` is in seconds since the epoch; `stop` is a stop_reason of the
    Messages API, and so are the keys of `usage`.
    """

    serial: str
    made: int
    model: str
    blocks: list[Block]
    stop: str
    usage: Mapping[str, int]

    def call_id(self, index: int) -> str:
        """The id of the tool call that is block number `index`; it tells which answer it belongs to."""
        return f"call_{self.serial}_{index}"


class Dialect(Protocol):
    """One API. `name` is for people and tests, `path` follows the base URL of a scenario."""

    name: str
    path: str

    def read(self, body: Mapping[str, Any]) -> Asked:
        """What a request asks."""
        ...

    def parts(self, body: Mapping[str, Any]) -> Iterator[Part]:
        """All of a request, in the order of the API's prompt cache."""
        ...

    def whole(self, answer: Answer) -> Mapping[str, Any]:
        """The answer as one JSON object."""
        ...

    def blocks(self, answer: Answer) -> Iterator[Event]:
        """The stream up to the end of the last block."""
        ...

    def closing(self, answer: Answer, body: Mapping[str, Any]) -> Iterator[Event]:
        """The rest of the stream: how the answer ended and what it cost."""
        ...

    def refusal(self, failure: Mapping[str, Any]) -> Refusal:
        """An error of a scenario (`status`, `type`, `message`) in this API's words."""
        ...

    def failing(self, answer: Answer, refusal: Refusal) -> Iterator[Event]:
        """The same told in a stream that had begun well."""
        ...


_DELTA_SIZE = 400  # characters


def cut(whole: str) -> Iterator[str]:
    """A text in the pieces a stream carries; an empty one has none."""
    for at in range(0, len(whole), _DELTA_SIZE):
        yield whole[at : at + _DELTA_SIZE]
