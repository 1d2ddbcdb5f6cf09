"""The bounded queue behind `stream_events()`: what every adapter uses to say what happens (rule 3.1)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from codeframe.core.agent_adapter import AgentEvent

MAX_OUTPUT_EVENTS = 1000


class EventStream:
    """Carries the events of one `execute` at a time to one consumer.

    `open()` at the start of `execute`, `put()` from any thread, `close()` at its end. The stream may
    be iterated before, during or after: iteration starts with what is still unread and ends with the
    close. Once a consumer has seen an end, the next iteration is about the next `execute` and waits for it.

    A producer never waits. Of `output` events at most `limit` are kept: the oldest go first and are
    counted in `dropped`. Other events are few and are all kept.
    """

    def __init__(self, limit: int = MAX_OUTPUT_EVENTS) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        # Two queues, merged by number when read: dropping the oldest output costs the same however
        # many other events wait.
        self._outputs: deque[tuple[int, AgentEvent]] = deque()
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

    def put(self, event: AgentEvent) -> None:
        """Add one event; never blocks, never raises."""
        with self._changed:
            self._number += 1
            if event.type == "output":
                if len(self._outputs) >= self._limit:
                    self._outputs.popleft()
                    self.dropped += 1
                self._outputs.append((self._number, event))
            else:
                self._others.append((self._number, event))
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
        while True:
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
                event = queue.popleft()[1]
            yield event
