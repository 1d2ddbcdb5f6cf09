"""The sign of life of a run: a file that is touched while `cf` watches its engine (rule 4.4).

After a kill it says until when the run was surely watched, on two clocks: its change time is the file
system's, as those of the files in the tree are; its modification time is set to the one that the start
times of processes are told by. It is apart from the lease, which recovery writes to.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from codeframe.core.stop_switch import POLL_S

HEARTBEAT_S = POLL_S  # a run asks so often whether it is to stop
ALIVE = "alive"  # in the run's folder


def beat(run_dir: Path) -> None:
    """Say that this process lives. A run folder that the engine deleted must not end the run."""
    now = boot_clock()
    with contextlib.suppress(OSError):
        fd = os.open(run_dir / ALIVE, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            os.utime(fd, (now, now))
        finally:
            os.close(fd)


def watched_until(run_dir: Path) -> int:
    """The file system's time in ns until which the run was surely watched, an interval after its last
    beat; 0 where no beat is known of."""
    try:
        return (run_dir / ALIVE).stat().st_ctime_ns + int(HEARTBEAT_S * 1e9)
    except OSError:
        return 0


def last_beat(run_dir: Path) -> float:
    """The last beat on `boot_clock`, in s; 0.0 where none is known of."""
    try:
        return (run_dir / ALIVE).stat().st_mtime
    except OSError:
        return 0.0


def boot_clock() -> float:
    """Seconds, on the clock that the start times of processes are told by (see `process_sweep.started`)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.time()
