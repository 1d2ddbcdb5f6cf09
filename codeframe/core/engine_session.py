"""The session of an engine call, noted so that recovery finds what is left of it after CodeFrame was killed.

For what dropped the run's marker. Nobody may be signalled by mistake, and a session's number may come
again once all its members are gone. So a member counts only if it began while the session was
certainly the engine's: while the engine itself is seen alive, or CodeFrame was, which collects the
engine's exit status last and gives a sign of life (`heartbeat`) twice a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeframe.core.heartbeat import boot_clock, last_beat
from codeframe.core.process_sweep import process_identity, session_members, started

if TYPE_CHECKING:
    import psutil


def session_note(leader: int) -> dict[str, Any]:
    """What to note of a live engine that leads its session: JSON-ready. Raises ProcessLookupError when it is gone."""
    return {"leader": leader, "started": started(leader)}


def leftovers_of(
    note: Mapping[str, Any], owner: Mapping[str, Any], run_dir: Path
) -> Callable[[], list[psutil.Process]]:
    """A function that finds the live members of the noted session, call by call, for `end_processes`.

    `owner` is the `process_identity` of the CodeFrame that noted it: on another host, in another pid
    namespace or after a reboot there are none.
    """
    here = process_identity()
    if any(here[key] != owner.get(key) for key in ("host", "pid_ns", "boot_id")):
        return list
    leader, first = int(note["leader"]), float(note["started"])
    last = last_beat(run_dir)

    def find() -> list[psutil.Process]:
        nonlocal last
        now = boot_clock()
        with contextlib.suppress(ProcessLookupError):
            if started(leader) != first:
                return []  # the number has a new owner
            last = now
        return [p for p in session_members(leader) if first <= _started(p) <= last]

    return find


def _started(process: psutil.Process) -> float:
    try:
        return started(process.pid)
    except ProcessLookupError:
        return -1.0
