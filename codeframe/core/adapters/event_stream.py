"""The bounded queue behind `stream_events()`: what every adapter uses to say what happens (rule 3.1)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator

from codeframe.core.agent_adapter import AgentEvent

MAX_OUTPUT_EVENTS = 1000
OUTPUT_PER_S = 250  # more nobody can read, and in a flood the consumers would take time from the reading


class EventStream:
    """Carries the events of one `execute` at a time to one consumer.

    `open()` at the start of `execute`, `put()` from any thread, `close()` at its end. The stream may
    be iterated before, during or after: iteration starts with what is still unread and ends with the
    close. Once a consumer has seen an end, the next iteration is about the next `execute` and waits for it.

    A producer never waits. Of `output` events at most `limit` are kept: the oldest go first and are
    counted in `dropped`; they are handed out at most `OUTPUT_PER_S` a second, until the end has come.
    Other events are few and are all kept.
    """

    def __init__(self, limit: int = MAX_OUTPUT_EVENTS) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        # Two queues, merged by number when read: dropping the oldest output costs the same however
        # many other events wait.
        self._outputs: deque[tuple[int, AgentEvent]] = deque(maxlen=limit)
        self._others: deque[tuple[int, AgentEvent]] = deque()
        self._number = 0
        self._opened = 0  # how many times open() was called
        self._ended = 0  # the last opening whose end came
        self._seen = 0  # the last opening whose end a consumer has seen
        self.dropped = 0

    def open(self) -> None:
        """Start anew: forget what nobody read."""
        with self._changed:
            self._outputs.clear()
            self._others.clear()
            self._opened += 1
            self._seen = self._opened - 1
            self.dropped = 0
            self._changed.notify_all()

    def put(self, *events: AgentEvent) -> None:
        """Add events; never blocks, never raises."""
        with self._changed:
            # Who waits waits for the first of them.
            first = not self._outputs and not self._others
            numbered = list(enumerate(events, self._number))
            self._number += len(events)
            outputs = [one for one in numbered if one[1].type == "output"]
            if len(outputs) < len(numbered):
                self._others.extend(one for one in numbered if one[1].type != "output")
            self.dropped += max(0, len(self._outputs) + len(outputs) - self._limit)
            self._outputs.extend(outputs)  # the oldest make room
            if first and events:
                self._changed.notify_all()

    def close(self) -> None:
        """End the stream; a consumer still gets what is queued. Says how much output was dropped, if any."""
        if self.dropped:
            message = f"{self.dropped} output lines were not shown; the transcript has them"
            self.put(AgentEvent("progress", message, metadata={"dropped": self.dropped}))
        with self._changed:
            self._ended = self._opened
            self._changed.notify_all()

    def __iter__(self) -> Iterator[AgentEvent]:
        # Which execute this iteration is about is settled now, not at the first next().
        with self._changed:
            return self._read(self._seen + 1)

    def _read(self, opening: int) -> Iterator[AgentEvent]:
        second, handed = 0.0, 0  # when the second began, and how many output events it has had
        while True:
            if handed >= OUTPUT_PER_S:
                self._sit_out(opening, second + 1 - time.monotonic())
                second, handed = time.monotonic(), 0
            with self._changed:
                # Wait for an event of this opening, or for the opening's end.
                self._changed.wait_for(
                    lambda: (
                        self._opened > opening
                        or (
                            self._opened == opening
                            and (self._outputs or self._others or self._ended >= opening)
                        )
                    )
                )
                if self._opened > opening:
                    return  # overtaken: what was unread is gone
                queue = self._outputs
                if not queue or (self._others and self._others[0][0] < queue[0][0]):
                    queue = self._others
                if not queue:
                    self._seen = max(self._seen, opening)
                    return
                handed += queue is self._outputs
                event = queue.popleft()[1]
            yield event

    def _sit_out(self, opening: int, seconds: float) -> None:
        """The rest of a second in which enough was handed out; not past the end, nor while other events wait."""
        until = time.monotonic() + seconds
        while (
            time.monotonic() < until
            and self._ended < opening
            and self._opened == opening
            and not self._others
        ):
            time.sleep(0.1)  # no condition: it would wake for each event of the flood
