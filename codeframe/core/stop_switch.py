"""One switch that stops a run, whoever throws it: a signal, or `cf work stop` from another terminal (rule 4.10)."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from codeframe.core.errors import CodeFrameError

POLL_S = 0.5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSwitch:
    """Thrown once, then stays thrown. `reason` is a signal's name or "stopped from elsewhere"."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.reason: str | None = None
        self.signal: int | None = None
        self._actions: list[Callable[[], None]] = []

    def throw(self, reason: str, signum: int | None = None) -> None:
        """Stop. Later throws change nothing. Made for signal handlers: takes no lock of ours."""
        if self.reason is not None:
            return  # an impatient Ctrl-C must not meet the locks of the events that the first one set
        self.reason, self.signal = reason, signum
        self.event.set()
        for action in list(self._actions):
            action()

    def on_throw(self, action: Callable[[], None]) -> None:
        """Call `action` when thrown, at once if that has happened."""
        self._actions.append(action)
        if self.event.is_set():
            action()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """While inside, SIGINT, SIGTERM and SIGHUP throw the switch instead of ending the process."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handler(signum: int, frame: FrameType | None) -> None:
            self.throw(signal.Signals(signum).name, signum)

        hung_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # under nohup it stays ignored
        before = {s: signal.signal(s, handler) for s in SIGNALS if hung_up or s != signal.SIGHUP}
        try:
            yield
        finally:
            for s, h in before.items():
                signal.signal(s, h)

    @contextmanager
    def polling(self, asked: Callable[[], bool]) -> Iterator[None]:
        """While inside, `asked` is called twice a second; True throws the switch.

        A CodeFrameError of it is a no: that the database is busy must neither stop a run nor end the asking.
        """
        done = threading.Event()

        def poll() -> None:
            while not done.wait(POLL_S):
                with contextlib.suppress(CodeFrameError):
                    if asked():
                        self.throw("stopped from elsewhere")
                        return

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(timeout=5)


def set_within(event: threading.Event, seconds: float) -> bool:
    """Whether `event` is set by then. Not `Event.wait`: that holds the lock which `set` in a signal handler wants."""
    until = time.monotonic() + seconds
    while not event.is_set() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.1))
    return event.is_set()
