"""One command at a time in a folder, for what is read, changed and written again."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folder_locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the kernel frees with the process. Raises OSError where it is not there."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
