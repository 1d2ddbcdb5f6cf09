"""Reading files of a repository nobody vouches for: bounded, never outside it, never blocking."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_inside(repository: Path, path: Path, max_bytes: int) -> bytes | None:
    """The bytes of a regular file inside `repository`, or None.

    None when there is no such file, when it (or a folder on the way, through a symlink) leads out
    of `repository` or into a `.git`, when it is no regular file (a FIFO is never opened) and when
    it holds more than `max_bytes` bytes. Never raises for what it finds.
    """
    try:
        real = Path(os.path.realpath(path, strict=True))
        inside = real.relative_to(os.path.realpath(repository))
        if ".git" in inside.parts or not stat.S_ISREG(real.lstat().st_mode):
            return None
        # Looked at above, opened here: the flags hold should the file change in between.
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(max_bytes + 1)
    except OSError:
        return None
    return data if len(data) <= max_bytes else None


def read_text_inside(repository: Path, path: Path, max_bytes: int) -> str | None:
    """As `read_inside`, as text; None also for a binary file (a NUL byte in it).

    Bytes that are not UTF-8 become U+FFFD, and line ends become `\\n`.
    """
    data = read_inside(repository, path, max_bytes)
    if data is None or b"\0" in data:
        return None
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
