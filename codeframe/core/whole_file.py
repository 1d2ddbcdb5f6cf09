"""Write a file so that a kill at any line leaves the old one or the new one, whole."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Put `text` (bytes that are no UTF-8 as surrogates) at `path`, and on the disk. `mode` is that of a new file,
    less the umask. One writer at a time. OSError where it cannot be written; `path` is then as it was."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(fresh, flags, mode), "wb") as file:
            file.write(os.fsencode(text))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
