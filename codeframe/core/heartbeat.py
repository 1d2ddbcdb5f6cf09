"""The sign of life of a run: a file that is touched while `cf` watches its engine (rule 4.4).

After a kill its time says until when what changed in the tree was seen to be the engine's. Apart from
the lease, which recovery writes to.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from codeframe.core.stop_switch import POLL_S

HEARTBEAT_S = POLL_S  # a run asks so often whether it is to stop


def beat(run_dir: Path) -> None:
    """Say that this process lives. A run folder that the engine deleted must not end the run."""
    with contextlib.suppress(OSError):
        _file(run_dir).touch(mode=0o600)


def watched_until(run_dir: Path) -> int:
    """The file system's time in ns until which the run was surely watched, an interval after its last
    beat; 0 where no beat is known of."""
    try:
        return _file(run_dir).stat().st_mtime_ns + int(HEARTBEAT_S * 1e9)
    except OSError:
        return 0


def _file(run_dir: Path) -> Path:
    return run_dir / "alive"
