"""A text in the person's own editor, chosen as git chooses it. What was typed is never thrown away."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAX_BYTES = 10_000_000


@contextmanager
def edited(text: str, instead: str) -> Iterator[str]:
    """`text` after the person edited it. Where the block raises, the file stays and the error names it.

    Raises CodeFrameError when there is no editor, or it fails; `instead` is what to type without a terminal.
    """
    from codeframe.core.errors import CodeFrameError
    from codeframe.core.safe_read import read_regular

    own = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not own and not (sys.stdin.isatty() and sys.stdout.isatty()):  # one that is named may need none
        raise CodeFrameError("There is no terminal to edit it in.", f"Type: {instead}")
    command = own or "vi"
    folder = Path(tempfile.mkdtemp(prefix="codeframe-edit-"))
    file = folder / "TASK.md"
    file.write_text(text, encoding="utf-8")
    try:
        try:
            done = subprocess.run([*shlex.split(command), str(file)])
        except (OSError, ValueError) as e:
            why = e.strerror if isinstance(e, OSError) else e
            raise CodeFrameError(
                f"The editor “{command}” cannot be started: {why}.", "Name yours: EDITOR=nano cf ..."
            ) from e
        if done.returncode:
            raise CodeFrameError(
                f"The editor “{command}” ended with exit status {done.returncode}; nothing changed.",
                "Name another one: EDITOR=nano cf ...",
            )
        try:
            typed = read_regular(file, _MAX_BYTES).decode()
        except (OSError, UnicodeDecodeError) as e:
            raise CodeFrameError(
                f"What the editor left cannot be read: {e}.", "Save it as UTF-8 text."
            ) from e
        yield typed
    except CodeFrameError as e:
        if _changed(file, text):
            raise CodeFrameError(e.problem, f"What you typed is in {file} now. {e.hint}", e.exit_code) from e
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _changed(file: Path, text: str) -> bool:
    from codeframe.core.safe_read import read_regular

    try:
        return read_regular(file, _MAX_BYTES) != text.encode()
    except OSError:
        return False
