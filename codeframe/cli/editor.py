"""A text in the person's own editor, chosen as git chooses it."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path


def edited(text: str) -> str:
    """`text` after the person edited it. Raises CodeFrameError when there is no editor or it fails."""
    from codeframe.core.errors import CodeFrameError

    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="codeframe-edit-") as folder:
        file = Path(folder) / "TASK.md"
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*shlex.split(command), str(file)])
        except (OSError, ValueError) as e:
            raise CodeFrameError(
                f"The editor “{command}” cannot be started: {e}.", "Name yours: EDITOR=nano cf ..."
            ) from e
        if done.returncode:
            raise CodeFrameError(
                f"The editor “{command}” ended with exit status {done.returncode}; nothing changed.",
                "Name another one: EDITOR=nano cf ...",
            )
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise CodeFrameError(f"What the editor left cannot be read: {e}.", "Save it as UTF-8.") from e
