"""How much memory a process takes at most, watched from outside while it lives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


class Peak:
    """The largest resident size seen, in bytes."""

    bytes = 0


@contextmanager
def watched(pid: int, every_s: float = 0.02) -> Iterator[Peak]:
    """Watch process `pid` from its start until it has ended.

    The kernel's own high-water mark is read while the process lives. `wait4` would not do: its `ru_maxrss`
    begins with the size of the process that forked, and a test worker may be the larger one.
    """
    peak, ended = Peak(), threading.Event()

    def watch() -> None:
        while not ended.wait(every_s):
            peak.bytes = max(peak.bytes, _high_water(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def _high_water(pid: int) -> int:
    """The largest resident size of a process so far, in bytes; on a system without /proc its size now."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except FileNotFoundError:
        return psutil.Process(pid).memory_info().rss if psutil.pid_exists(pid) else 0
    except (IndexError, ProcessLookupError):
        return 0  # it is ending
