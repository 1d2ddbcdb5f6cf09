"""Reading files of a repository nobody vouches for: bounded, never outside it, never blocking."""

from __future__ import annotations

import errno
import os
import stat
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO


class Refusal(StrEnum):
    """Why a file was not read, as the end of a sentence about it."""

    MISSING = "is not there"
    OUTSIDE = "leads out of the repository"
    IRREGULAR = "is not a regular file"
    TOO_LONG = "is too long"
    BINARY = "is binary"


class Unreadable(Exception):
    """A file that is not read; `refusal` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def read_text_inside(repository: Path, path: str | Path, max_bytes: int) -> str:
    """The text of a regular file of at most `max_bytes` bytes that really lies inside `repository`.

    `repository` is absolute and resolved. Symlinks are followed as long as they stay inside and out of
    `.git` (in any case: there are filesystems that ignore it); a FIFO or a device is never opened. Bytes
    that are not UTF-8 become U+FFFD, line ends become `\\n`. Raises Unreadable, nothing else.
    """
    try:
        real = os.path.realpath(path, strict=True)
        if not real.startswith(f"{repository}/") or "/.git/" in real[len(str(repository)) :].lower():
            raise Unreadable(Refusal.OUTSIDE)
        if not stat.S_ISREG(os.lstat(real).st_mode):
            raise Unreadable(Refusal.IRREGULAR)
        # Should it be exchanged after that look, the flags keep the open from following and blocking.
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, ValueError):
        raise Unreadable(Refusal.MISSING) from None
    if len(data) > max_bytes:
        raise Unreadable(Refusal.TOO_LONG)
    if b"\0" in data:
        raise Unreadable(Refusal.BINARY)
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading that may be none: a FIFO, which would block, or a device raises OSError.

    Symlinks are followed.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_regular(path: str | Path, max_bytes: int) -> bytes:
    """The bytes of a regular file. OSError when it is not one, cannot be read, or has more than `max_bytes`."""
    with open_regular(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes:,} bytes", str(path))
    return data
