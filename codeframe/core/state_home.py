"""Where a person's own state is kept, outside of every repository: what they trust, versions of engines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from codeframe.core.errors import CodeFrameError


def state_home(environ: Mapping[str, str] = os.environ) -> Path:
    """CodeFrame's folder there, made or not, by the XDG base directory specification, where a relative path counts as
    unset. Raises CodeFrameError when nobody's home is known."""
    if os.path.isabs(state := environ.get("XDG_STATE_HOME", "")):
        return Path(state) / "codeframe"
    home = environ.get("HOME", "")
    if not os.path.isabs(home):
        import pwd

        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            home = ""
    if not os.path.isabs(home):
        raise CodeFrameError(
            "There is no home folder to keep in what is trusted.", "Name one: export HOME=/path/to/yours"
        )
    return Path(home) / ".local" / "state" / "codeframe"
