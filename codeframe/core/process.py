"""The one place that starts, watches and stops a process that is not ours: an engine or a gate (rule 5).

One loop on the calling thread moves what is in the pipes and keeps the deadlines. Whatever ends it,
nothing of the process is left running when `run_process` is over.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, NamedTuple

from codeframe.core.process_streams import OnLines, OpenStdin, ProcessStreams
from codeframe.core.process_sweep import (
    MARKER,
    adopted,
    adopted_processes,
    adopting,
    descendants,
    end_marked,
    end_processes,
    find_marked,
    reap,
    reap_adopted,
    session_members,
)

if TYPE_CHECKING:
    import psutil

__all__ = ["MARKER", "EndedBy", "Limits", "OpenStdin", "ProcessOutcome", "run_process"]

_TICK_S = 0.05  # how late an exit, a cancel or a deadline may be noticed
_DRAIN_FACTOR = 5  # a drain ends after this many `drain_s`, however much still comes
_SWEEP_GRACE_S = 1.0
_KILLED_S = 5.0  # how long a killed process may take to be gone
_REAP_EVERY_S = 1.0


class EndedBy(StrEnum):
    """Why a process ended: by itself (EXIT), or stopped by us for one reason; or it never began."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    NO_FIRST_OUTPUT = "no_first_output"
    CANCELLED = "cancelled"
    LINGERED = "lingered"
    SPAWN_FAILED = "spawn_failed"


class Limits(NamedTuple):
    """Seconds; None is no limit.

    `timeout_s`: the whole life. `stall_s`: silence on both outputs. `first_output_s`: until the first
    byte on stdout (stderr does not count: engines greet there before they do anything). `linger_s`:
    from `finished` to the exit. `drain_s`: silence after the exit until a pipe someone else still
    holds is given up. `farewell_s`: from `on_stop` to the polite signal. `polite_s`: from there to SIGKILL.
    """

    timeout_s: float | None = None
    stall_s: float | None = None
    first_output_s: float | None = None
    linger_s: float = 15.0
    drain_s: float = 2.0
    farewell_s: float = 2.0
    polite_s: float = 5.0


class ProcessOutcome(NamedTuple):
    """How a process ended.

    `exit_code` is negative for a signal, None when it never began or could not be killed.
    `stderr_tail` is the last 16 KiB of stderr. `duration_ms` runs to its exit. `survivors` describes
    each process the sweep had to end. `error` says why it could not be started.
    """

    ended_by: EndedBy
    exit_code: int | None = None
    stderr_tail: str = ""
    duration_ms: int = 0
    survivors: tuple[str, ...] = ()
    error: str | None = None


def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    marker: str,
    on_lines: OnLines,
    stdin: bytes | OpenStdin | None = None,
    limits: Limits = Limits(),
    cancel: threading.Event | None = None,
    polite_signal: signal.Signals = signal.SIGTERM,
    busy: Callable[[], bool] | None = None,
    finished: threading.Event | None = None,
    on_start: Callable[[int], None] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> ProcessOutcome:
    """Run `argv` to its end in a session of its own, and end whatever it leaves running.

    `env` is the complete environment; `marker` ("<run>/<launch>", unique) is added to it. `stdin` is
    written, then closed; an OpenStdin is written to by the caller while the process runs; None is /dev/null.
    `on_lines("stdout" or "stderr", lines)`, `busy()` (true: silence is fine just now), `on_start(pid)` and
    `on_stop()` (we are about to end it: last words into an OpenStdin) are called on this thread. `finished`
    is set by the caller once the output said that the work is done: only `cancel` and `linger_s` count
    from there.

    Raises only what a callback raises (or KeyboardInterrupt), after everything has been ended.
    """
    environment = {**env, MARKER: marker}
    try:
        with adopting():
            try:
                process = _spawn(argv, cwd, environment, with_stdin=stdin is not None)
            except (OSError, ValueError) as error:  # ValueError: a NUL byte, a lone surrogate in an argument
                return ProcessOutcome(EndedBy.SPAWN_FAILED, error=str(error))
            with contextlib.closing(ProcessStreams(process, stdin, on_lines)) as streams:
                child = _Child(process, streams, marker, limits, polite_signal, on_stop)
                try:
                    ended_by = child.watch(cancel, busy, finished, on_start)
                finally:
                    child.end_family()
                streams.finish(limits.drain_s)
    except BaseException:
        end_marked(marker)  # an interrupt may have come right after the fork, or during the sweep
        raise
    return ProcessOutcome(
        ended_by,
        exit_code=child.exit_code,
        stderr_tail=streams.stderr_tail.decode("utf-8", "replace"),
        duration_ms=child.duration_ms,
        survivors=child.survivors,
    )


def _spawn(argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, with_stdin: bool) -> Popen[bytes]:
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    stdin = pipe if with_stdin else null
    return Popen(
        argv, cwd=cwd, env=env, stdin=stdin, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
    )


class _Child:
    """One started process: watches it, stops it, ends its family.

    Its exit is noticed without collecting the status (where the system can: not macOS before
    Python 3.13), so that its pid, process group and session stay its own until all is swept.
    """

    def __init__(
        self,
        process: Popen[bytes],
        streams: ProcessStreams,
        marker: str,
        limits: Limits,
        polite_signal: signal.Signals,
        on_stop: Callable[[], None] | None,
    ) -> None:
        self.process = process
        self.streams = streams
        self.marker = marker
        self.limits = limits
        self.polite_signal = polite_signal
        self._on_stop = on_stop
        self._started = time.monotonic()
        self.duration_ms = 0
        self.exit_code: int | None = None
        self.survivors: tuple[str, ...] = ()
        self._ended: float | None = None
        self._family: set[psutil.Process] = set()  # seen below it before it was stopped

    def watch(
        self,
        cancel: threading.Event | None,
        busy: Callable[[], bool] | None,
        finished: threading.Event | None,
        on_start: Callable[[int], None] | None,
    ) -> EndedBy:
        """From the start to the exit, or to the end of the stop if a limit or a callback says so."""
        try:
            if on_start is not None:
                on_start(self.process.pid)
            ended_by = self._wait(cancel, busy, finished)
        except BaseException:
            self.streams.mute()
            self._on_stop = None
            self._stop()
            raise
        if ended_by is EndedBy.EXIT:
            self._drain(cancel)
        else:
            self._stop()
        return ended_by

    def end_family(self) -> None:
        """End every process that belongs to this one, itself included, and collect the statuses."""
        # Where no orphan came to us nothing that descends from it can be left: one scan for the marker will do.
        certain = self._ended is not None and adopted(self.process.pid) == set()
        ended = end_processes(self._remaining, grace_s=_SWEEP_GRACE_S, clean=1 if certain else 2)
        self.survivors = tuple(ended.values())
        self._signal(os.killpg, signal.SIGKILL)  # at once for all of it: what forks faster than a scan
        try:
            self.exit_code = self.process.wait(timeout=_KILLED_S)
        except subprocess.TimeoutExpired:
            pass  # not even SIGKILL ends it: it hangs in the kernel
        self.duration_ms = int(((self._ended or time.monotonic()) - self._started) * 1000)
        reap({p.pid for p in ended if p.pid != self.process.pid} | (adopted(self.process.pid) or set()))
        reap_adopted()

    def _wait(
        self,
        cancel: threading.Event | None,
        busy: Callable[[], bool] | None,
        finished: threading.Event | None,
    ) -> EndedBy:
        limits = self.limits
        heard = reaped = self._started
        first_output = False
        linger_until: float | None = None
        while True:
            spoke = self.streams.pump(_TICK_S)
            now = time.monotonic()
            if spoke or (busy is not None and busy()):
                heard = now
            first_output = first_output or "stdout" in spoke
            if self._exited():
                return EndedBy.EXIT
            if cancel is not None and cancel.is_set():
                return EndedBy.CANCELLED
            if now - reaped > _REAP_EVERY_S:
                reap_adopted()
                reaped = now
            if finished is not None and finished.is_set():
                linger_until = now + limits.linger_s if linger_until is None else linger_until
                if now >= linger_until:
                    return EndedBy.LINGERED
                continue
            linger_until = None  # it may go on after all: a background command's end wakes another turn
            if _over(limits.timeout_s, now - self._started):
                return EndedBy.TIMEOUT
            elif not first_output and _over(limits.first_output_s, now - self._started):
                return EndedBy.NO_FIRST_OUTPUT
            elif _over(limits.stall_s, now - heard):
                return EndedBy.STALLED

    def _stop(self) -> None:
        """The ladder, still draining: words, the polite signal to the process, SIGKILL to its group."""
        if self._exited():
            return
        self._family.update(descendants(self.process.pid))
        if self._on_stop is not None:
            self._on_stop()
            if self._exits_within(self.limits.farewell_s):
                return
        self._signal(os.kill, self.polite_signal)
        if self._exits_within(self.limits.polite_s):
            return
        self._family.update(descendants(self.process.pid))
        self._signal(os.killpg, signal.SIGKILL)
        self._exits_within(_KILLED_S)

    def _signal(self, send: Callable[[int, int], None], number: signal.Signals) -> None:
        try:
            send(self.process.pid, number)  # it has not been waited for, so the pid is its own
        except OSError:
            pass  # changed its user, or (macOS) its group is all zombies: the sweep reports what is left

    def _exits_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._exited():
            if time.monotonic() >= deadline:
                return False
            self.streams.pump(_TICK_S)
        return True

    def _drain(self, cancel: threading.Event | None) -> None:
        """Read on after the exit: to EOF, to silence, or until somebody else has flooded long enough."""
        drain_s = self.limits.drain_s
        start = heard = time.monotonic()
        while self.streams.outputs_open and not (cancel is not None and cancel.is_set()):
            spoke = self.streams.pump(min(_TICK_S, drain_s))
            now = time.monotonic()
            heard = now if spoke else heard
            if now - heard >= drain_s or now - start >= drain_s * _DRAIN_FACTOR:
                return

    def _exited(self) -> bool:
        if hasattr(os, "waitid"):
            try:
                gone = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            except ChildProcessError:
                gone = True
        else:
            gone = self.process.poll() is not None
        if gone and self._ended is None:
            self._ended = time.monotonic()
        return gone

    def _remaining(self) -> list[psutil.Process]:
        pid = self.process.pid
        return [*find_marked(self.marker), *session_members(pid), *adopted_processes(pid), *self._family]


def _over(limit: float | None, elapsed: float) -> bool:
    return limit is not None and elapsed >= limit
