"""The three pipes of a process: what is said goes in, what it says comes out as lines, nothing blocks (rule 5.3)."""

from __future__ import annotations

import os
import selectors
import threading
import time
from collections.abc import Callable
from subprocess import Popen

from codeframe.core.lines import Line, LineSplitter

OnLines = Callable[[str, list[Line]], None]

STDERR_TAIL_BYTES = 16 * 1024
_READ_BYTES = 64 * 1024  # what a pipe holds
_TICK_CLOSED_S = 0.005  # how late an exit may be noticed once both outputs are closed: it is near


class OpenStdin:
    """The standard input of a process one talks with: bytes may be added until it is closed.

    `write` and `close` may be called from any thread and never block; what a callback of `run_process` writes
    goes out at once, what another thread writes within a twentieth of a second. What is written after the
    close, or after the process has closed its end or ended, goes nowhere.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unsent = bytearray()
        self._closed = False

    def write(self, data: bytes) -> None:
        """Say more."""
        with self._lock:
            if not self._closed:
                self._unsent += data

    def close(self) -> None:
        """Nothing more follows: what is still to be written is, then the process finds the end."""
        with self._lock:
            self._closed = True

    def abandon(self) -> None:
        """Nobody listens any more: what is still to be written goes nowhere."""
        with self._lock:
            self._closed = True
            self._unsent.clear()

    @property
    def pending(self) -> bool:
        """Is there something to write?"""
        return bool(self._unsent)

    @property
    def all_written(self) -> bool:
        """Was it closed, and is all of it written?"""
        with self._lock:
            return self._closed and not self._unsent

    def write_to(self, fd: int) -> None:
        """Write what `fd`, which does not block, takes now. Raises OSError as os.write does."""
        with self._lock:
            del self._unsent[: os.write(fd, self._unsent)]


class ProcessStreams:
    """The pipes of one process: feeds stdin, turns stdout and stderr into lines, never blocks."""

    def __init__(self, process: Popen[bytes], stdin: bytes | OpenStdin | None, on_lines: OnLines) -> None:
        self.stderr_tail = bytearray()
        self._on_lines: OnLines | None = on_lines
        self._selector = selectors.DefaultSelector()
        self._splitters = {"stdout": LineSplitter(), "stderr": LineSplitter()}
        self._stdin = stdin if isinstance(stdin, OpenStdin) else _said_at_once(stdin or b"")
        self._pipes = {"stdin": process.stdin, "stdout": process.stdout, "stderr": process.stderr}
        for name, pipe in self._pipes.items():
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                if name != "stdin":
                    self._selector.register(pipe.fileno(), selectors.EVENT_READ, name)
        self.outputs_open = 2

    def pump(self, timeout: float) -> set[str]:
        """Move what can be moved, waiting at most `timeout` seconds for it; the outputs that had data."""
        self._tend_stdin()
        if not self._selector.get_map():
            time.sleep(min(timeout, _TICK_CLOSED_S))
            return set()
        spoke = set()
        for key, _ in self._selector.select(timeout):
            if key.data == "stdin":
                self._write(key.fd)
            elif self._read(key.fd, key.data):
                spoke.add(key.data)
        return spoke

    def mute(self) -> None:
        """Read on, so that the process is not held up, but hand out nothing more."""
        self._on_lines = None

    def finish(self, seconds: float) -> None:
        """Read what the pipes still hold, for at most that long, and hand out the unfinished lines."""
        deadline = time.monotonic() + seconds
        while self.outputs_open and self.pump(0) and time.monotonic() < deadline:
            pass
        for name, splitter in self._splitters.items():
            self._hand_out(name, splitter.flush())

    def close(self) -> None:
        """Close every pipe."""
        self._stdin.abandon()
        for name in list(self._pipes):
            self._close(name)
        self._selector.close()

    def _read(self, fd: int, name: str) -> bool:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close(name)
            self.outputs_open -= 1
            return False
        if name == "stderr":
            self.stderr_tail += data
            del self.stderr_tail[:-STDERR_TAIL_BYTES]
        if self._on_lines is not None:
            self._hand_out(name, self._splitters[name].feed(data))
        return True

    def _hand_out(self, name: str, lines: list[Line]) -> None:
        if lines and self._on_lines is not None:
            self._on_lines(name, lines)

    def _tend_stdin(self) -> None:
        """Watch it only while there is something to write, for it nearly always could be; close it at the end."""
        pipe = self._pipes.get("stdin")
        if pipe is None:
            return
        if self._stdin.all_written:
            self._close("stdin")
        elif self._stdin.pending:
            self._watch(pipe.fileno())
        else:
            self._unwatch(pipe.fileno())

    def _write(self, fd: int) -> None:
        try:
            self._stdin.write_to(fd)
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._stdin.abandon()  # it does not want to read it all, which is its own affair
        self._tend_stdin()

    def _watch(self, fd: int) -> None:
        if fd not in self._selector.get_map():
            self._selector.register(fd, selectors.EVENT_WRITE, "stdin")

    def _unwatch(self, fd: int) -> None:
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def _close(self, name: str) -> None:
        pipe = self._pipes.pop(name)
        if pipe is not None:
            self._unwatch(pipe.fileno())
            pipe.close()


def _said_at_once(data: bytes) -> OpenStdin:
    stdin = OpenStdin()
    stdin.write(data)
    stdin.close()
    return stdin
