"""Write a file so that a kill at any line leaves the old one or the new one, whole."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

HALF_WRITTEN = ".codeframe-new"  # how names of temporary files end that lie beside a person's own


def write_whole(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Put `text` (bytes that are no UTF-8 as surrogates) at `path`, and on the disk. `mode` is that of a new file,
    less the umask. One writer at a time, in a folder of our own: a link there is replaced. OSError where it cannot
    be written; `path` is then as it was."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    _put(path, fresh, os.fsencode(text), mode)


def write_named(path: Path, content: bytes) -> None:
    """The same at a path that a person named, or where they may have put a link: see `regular_place`. The
    permissions of a file that is there stay."""
    place = regular_place(path)
    kept = stat.S_IMODE(place.stat().st_mode) if place.exists() else None
    _put(place, place.with_name(f".{os.urandom(6).hex()}{HALF_WRITTEN}"), content, 0o666, kept)


def regular_place(path: Path) -> Path:
    """`path`, its links followed. OSError where one leads nowhere, and where something is that is no regular file."""
    place = Path(os.path.realpath(path))
    try:
        found = place.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            raise OSError(errno.ENOENT, "it is a link that leads nowhere", str(path)) from None
        return place
    if not stat.S_ISREG(found):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return place


def _put(path: Path, fresh: Path, content: bytes, mode: int, exactly: int | None = None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(fresh, flags, mode), "wb") as file:
        try:
            if exactly is not None:
                os.fchmod(file.fileno(), exactly)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            fresh.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise
