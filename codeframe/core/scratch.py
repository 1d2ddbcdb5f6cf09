"""Folders of our own for short work, each of which belongs to one process (rules 4.2, 10.4).

A lock that the kernel frees says that somebody is at work in it. The git that works there inherits it: such
a folder outlives a killed `cf` as long as its git lives.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from codeframe.core.errors import writing
from codeframe.core.folder_lock import folder_locked
from codeframe.core.lease import Lease, is_held, read_info
from codeframe.core.process_sweep import may_live, process_identity

SCRATCH = "scratch-"
_GIT = "git"


class Scratch(NamedTuple):
    """One of these folders, held by us."""

    folder: Path
    lease: Lease
    info: Mapping[str, Any]

    def works_for_us(self, pid: int) -> None:
        """Note the process that works here and inherited the lock. What it starts may inherit that too, and live
        on for days: a free lock is not all that tells that nobody is at work."""
        with suppress(ProcessLookupError):
            self.lease.note({**self.info, _GIT: process_identity(pid)})


@contextmanager
def scratch(home: Path, info: Mapping[str, Any], prefix: str = SCRATCH) -> Iterator[Scratch]:
    """A new folder in `home`, gone afterwards; so are those with this name that nobody works in any more,
    unless the prefix is another. `info` (JSON-ready) says what for. Raises CodeFrameError where there is no room."""
    with writing(home / prefix):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with folder_locked(home):  # none is taken for left over between its making and its lock
            for left in home.glob(f"{SCRATCH}*"):
                if not in_use(left):
                    shutil.rmtree(left, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=home))
            info = {**process_identity(), **info}
            lease = Lease.acquire(folder / "lease", info)
    assert lease is not None, "the name is new, so nobody else can hold it"
    with lease:
        try:
            yield Scratch(folder, lease, info)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def in_use(folder: Path) -> bool:
    """Whether the process that made the folder lives, or the git that it started there."""
    lease = folder / "lease"
    if not is_held(lease):
        return False
    info = read_info(lease)
    return _GIT not in info or may_live(info) or may_live(info[_GIT])


def orphans(homes: Path) -> Iterator[dict[str, Any]]:
    """What the folders in use say whose own process is gone: `info`, and under "git" who works there, if known.

    `homes` holds the homes of all workspaces: one working tree may belong to several."""
    for folder in homes.glob(f"*/{SCRATCH}*"):
        info = read_info(folder / "lease")
        if info and not may_live(info) and in_use(folder):
            yield info
