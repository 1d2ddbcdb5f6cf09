"""`cf` on a terminal of a given width: a pseudo-terminal that records all that is written to it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.kit.engines import CF, clean_env


def on_terminal(
    *args: str,
    cwd: Path,
    width: int = 80,
    env: Mapping[str, str] | None = None,
    typed: bytes = b"",
    asked: Callable[[], bytes] | None = None,
) -> str:
    """What `cf ARGS` writes to a terminal (stdout and stderr), with its escapes; lines end in `\\n`.

    `typed` is on its keyboard from the beginning, what `asked` returns whenever a question stands there.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = clean_env() | {"TERM": "xterm"} | dict(env or {})
    process = subprocess.Popen(
        [*CF, *args],
        cwd=cwd,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, typed)
    written = b""
    with contextlib.suppress(OSError):  # EIO: the last writer closed it
        while chunk := os.read(ours, 65536):
            written += chunk
            if asked is not None and written.endswith(b"[y/N] "):
                os.write(ours, asked())
    os.close(ours)
    process.wait(timeout=60)
    return written.decode().replace("\r\n", "\n")
