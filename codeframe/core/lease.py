"""Leases: a locked file says that a living process owns something (rules 4.3, 4.4, 7.5).

The lock is an `flock`: it lasts while its process lives, suspended or not, and is free the moment
the process is gone, kill -9 included. Lock files are never deleted: two processes could then hold
"the same" lock on two files. Who holds it is written inside, for people and for recovery; a
holder that ends in good order empties the file, so a free lease with contents is a dead one.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from codeframe.core.errors import CodeFrameError, how_to_write, writing
from codeframe.core.safe_read import read_regular

_PROBE_S = 0.1  # far longer than `is_held` keeps its shared lock
_POLL_S = 0.01
_MAX_INFO_BYTES = 1_000_000


class Lease:
    """A held lock. Get one with `Lease.acquire`; use it as a context manager or `release` it."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd: int | None = fd

    @classmethod
    def acquire(cls, path: Path, info: Mapping[str, Any], *, wait_s: float = _PROBE_S) -> Lease | None:
        """Lock `path` and write `info` (JSON-ready) into it; None when another holds it.

        Another may be this process: a second lease on one path is refused there too. Tries for
        `wait_s` seconds. CodeFrameError when the file cannot be opened or locked at all.
        """
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(path, error) from error
        fd = _locked(path, fcntl.LOCK_EX, wait_s)
        if fd is None:
            return None
        lease = cls(path, fd)
        try:
            lease.note(info)
        except BaseException:
            os.close(fd)
            raise
        return lease

    @property
    def fd(self) -> int:
        """The descriptor. Whoever inherits it keeps the lock when this process is killed, not when it releases."""
        assert self._fd is not None, "it was released"
        return self._fd

    def note(self, info: Mapping[str, Any]) -> None:
        """Write `info` (JSON-ready) into it, instead of what is there."""
        with writing(self.path):
            # What a dead holder left must not be read as ours, not even in part.
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, json.dumps(dict(info), default=str).encode(), 0)

    def release(self) -> None:
        """Empty the file and free the lock. Doing it twice changes nothing."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            os.ftruncate(fd, 0)
            # Explicitly: should a forked child still share the descriptor, closing alone frees nothing.
            fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def share(path: Path, *, wait_s: float) -> int | None:
    """A descriptor that keeps everybody from acquiring the lease until it is closed; others may share it too.

    None when somebody holds it for `wait_s` seconds. CodeFrameError when the file cannot be opened or locked.
    """
    try:
        return _locked(path, fcntl.LOCK_SH, wait_s)
    except FileNotFoundError as error:
        raise _unusable(path, error) from error


def is_held(path: Path) -> bool:
    """Whether a living process holds the lease. The holder notices nothing; no file is made."""
    try:
        fd = _open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who ask at once do not see each other; `acquire` outwaits it.
        return not _try_lock(path, fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def read_info(path: Path) -> dict[str, Any]:
    """What the holder wrote, or a holder that died; {} when it was released or never taken."""
    try:
        info = json.loads(read_regular(path, _MAX_INFO_BYTES))
    except (OSError, ValueError):
        return {}
    return info if isinstance(info, dict) else {}


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(path, error) from error


def _locked(path: Path, kind: int, wait_s: float) -> int | None:
    """A descriptor of the file, made if need be, with this kind of lock; None when it was not to be had in time."""
    fd = _open(path, os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + max(wait_s, _PROBE_S)
    try:
        while not _try_lock(path, fd, kind):
            if time.monotonic() >= deadline:
                os.close(fd)
                return None
            time.sleep(_POLL_S)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _try_lock(path: Path, fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _unusable(path, error) from error
    return True


def _unusable(path: Path, error: OSError) -> CodeFrameError:
    return CodeFrameError(
        f"The lock file {path} cannot be used: {error.strerror}.",
        how_to_write(path, error),
    )
