"""Where the demo is played: a folder with the project and a home of its own, and the environment around it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import venv
from importlib.util import find_spec
from pathlib import Path

from codeframe.core.errors import CodeFrameError, RequirementsError
from codeframe.demo.story import lay_out

# What would reach past the scripted model or into the person's own settings.
_DROPPED = (
    "ANTHROPIC_",
    "CLAUDE",
    "CODEFRAME_",
    "GIT_",
    "XDG_",
    "PYTHON",
    "VIRTUAL_ENV",
    "UV_",
    "NO_PROXY",
    "no_proxy",
)


class Stage:
    """A folder that holds `project` (a git repository with one commit) and `home`; made by `build`, and kept.

    `env` is the environment of all commands of the demo: the scripted model at `model_url`, a home apart, and
    what the person has beside that.
    """

    def __init__(self, model_url: str) -> None:
        folder = Path(tempfile.gettempdir()) / f"codeframe-demo-{secrets.token_hex(4)}"
        self.project = folder / "project"
        self._home = folder / "home"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)} | {
            "HOME": str(self._home),
            "ANTHROPIC_BASE_URL": model_url,
            "ANTHROPIC_API_KEY": "scripted",  # the server asks for none, the clients do
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the project needs none, and CodeFrame's own are not its
        }

    def build(self) -> None:
        """Lay out the project, give it an environment with pytest, commit it.

        Raises CodeFrameError when there is no pytest and none can be installed, or git fails.
        """
        self._home.mkdir(parents=True, mode=0o700)
        self.project.mkdir()
        lay_out(self.project)
        _make_environment(self.project / ".venv")
        self.git("init", "-q", "-b", "main")
        for key, value in (("user.name", "CodeFrame demo"), ("user.email", "demo@localhost")):
            self.git("config", key, value)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "The till as it is")

    def git(self, *args: str) -> None:
        """Run git in the project. Raises CodeFrameError with its words when it fails."""
        done = subprocess.run(
            ["git", *args], cwd=self.project, env=self.env, capture_output=True, text=True, errors="replace"
        )
        if done.returncode:
            raise CodeFrameError(f"git {args[0]} failed: {done.stderr.strip()}", "Type: git --version")


def _make_environment(folder: Path) -> None:
    """A virtual environment with pytest, as any project of one's own would have it.

    Where CodeFrame's own environment has pytest, that one serves: nothing has to be fetched.
    """
    ours = find_spec("pytest")
    venv.create(folder, with_pip=ours is None)
    if ours is not None and ours.origin is not None:
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "pytest-of-codeframe.pth").write_text(f"{Path(ours.origin).parents[1]}\n")
        return
    install = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "pytest",
    ]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise RequirementsError(
            f"The demo's project needs pytest, which could not be installed: {last}",
            f"Install it beside CodeFrame, then try again: {sys.executable} -m pip install pytest",
        )
