"""Bytes in any chunking become lines of text, in bounded memory (rule 5.3)."""

from __future__ import annotations

from itertools import repeat
from typing import NamedTuple

EDGE_BYTES = 64 * 1024


class Line(NamedTuple):
    """One line without its end. `dropped_bytes` > 0: it was too long, `text` is its head and its tail.

    A named tuple, because a flood makes ten million of them and a frozen dataclass costs six times more.
    """

    text: str
    dropped_bytes: int = 0


class LineSplitter:
    r"""Splits a byte stream at "\n", strips one trailing "\r", decodes UTF-8 with replacement.

    The lines depend on the bytes only, never on how they were cut into chunks. A line longer than
    `max_line_bytes` keeps its first and last `EDGE_BYTES` (less where the maximum is small), so the
    buffer never holds more than the maximum plus one chunk.
    """

    def __init__(self, max_line_bytes: int = 8 * 1024 * 1024) -> None:
        self._max = max_line_bytes
        self._edge = min(EDGE_BYTES, max_line_bytes // 2)
        self._pending = bytearray()  # the unfinished line; once over the maximum, without its middle
        self._dropped = 0  # bytes of that middle

    def feed(self, chunk: bytes) -> list[Line]:
        """The lines that `chunk` completes."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._extend(chunk)
            return []
        if self._dropped or len(self._pending) + end > self._max:
            *ended, rest = chunk.split(b"\n")
            lines = []
            for piece in ended:
                self._extend(piece)
                lines.append(self._take())
            self._extend(rest)
            return lines
        # No line in here can be too long: decode all of them at once. That gives what decoding one
        # by one would give, as "\n" is never part of a longer UTF-8 sequence, not even of a broken one.
        text = (bytes(self._pending) + chunk[:end]).decode("utf-8", "replace")
        self._pending.clear()
        self._extend(chunk[end + 1 :])
        texts = text.split("\n")
        if "\r" in text:
            texts = [line.removesuffix("\r") for line in texts]
        # Line(text) for each, without a Python call for each.
        return list(map(tuple.__new__, repeat(Line), zip(texts, repeat(0))))

    def flush(self) -> list[Line]:
        """The last line, when the stream ended without a line end; else nothing."""
        return [self._take()] if self._pending else []

    def _extend(self, piece: bytes) -> None:
        self._pending += piece
        if len(self._pending) > self._max:
            self._cut()

    def _cut(self) -> None:
        """Drop the middle: what stays is the head and the tail of all that came so far."""
        middle = len(self._pending) - 2 * self._edge
        self._dropped += middle
        del self._pending[self._edge : self._edge + middle]

    def _take(self) -> Line:
        if self._dropped:
            self._cut()
            parts = [self._pending[: self._edge], self._pending[self._edge :]]
        else:
            parts = [self._pending]
        text = "".join(part.decode("utf-8", "replace") for part in parts).removesuffix("\r")
        line = Line(text, self._dropped)
        self._pending, self._dropped = bytearray(), 0
        return line
