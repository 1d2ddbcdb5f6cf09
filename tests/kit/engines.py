"""Running `cf` and the real engine CLIs as real processes, in an environment that nothing leaks into.

`run_cf` and `start_cf` are for every test; the fixtures are for `tests/engines` (its conftest imports them).
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit.trusting import runs_something, trust

ROOT = Path(__file__).resolve().parents[2]
ENGINES_BIN = ROOT / ".engines" / "node_modules" / ".bin"
OTHERS_BIN = ROOT / ".engines" / "bin"  # what does not come from npm

# `python -m codeframe`, but of this checkout, whatever the environment has installed, and without the
# working directory on sys.path: a repository's own json.py is no module of ours. PYTHONPATH would do it
# too, and would leak into engines and gates.
_START = (
    f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); "
    "runpy.run_module('codeframe', run_name='__main__', alter_sys=True)"
)
CF = (sys.executable, "-P", "-c", _START)

KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL", "TERM")


@dataclass(frozen=True)
class Completed:
    """How a `cf` ended and what it printed."""

    exit_code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """What it printed on stdout with --json."""
        return json.loads(self.stdout)


def run_cf(
    *args: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout: float = 120.0,
    stdin: str | None = None,
) -> Completed:
    """Run `cf ARGS` in `cwd` and wait for it.

    `env` is laid over `clean_env()`; `stdin` None is /dev/null. After `timeout` seconds it is killed and
    the test fails with what had been printed.
    """
    process = start_cf(
        *args, cwd=cwd, env=env, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE
    )
    try:
        out, err = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"cf {' '.join(args)} did not end within {timeout} s\nstdout: {out}\nstderr: {err}")
    return Completed(process.returncode, out, err)


def start_cf(
    *args: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[str]:
    """Start `cf ARGS` in a session of its own, for tests that signal it or look at it while it runs.

    The pipes are the caller's to read (`communicate`). Its pid is its process group's too. What the test put
    into the repository is trusted first, where the command would ask (rule 9.1).
    """
    whole = clean_env() | dict(env or {})
    if runs_something(args):
        trust(cwd, whole)
    return subprocess.Popen(
        [*CF, *args],
        cwd=cwd,
        env=whole,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def clean_env(home: Path | None = None) -> dict[str, str]:
    """An environment with nothing of the caller's agents, keys or virtual environment.

    PATH is `clean_path()`, HOME a folder that is empty at first (one per test process unless given).
    """
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    return env | {"PATH": clean_path(), "HOME": str(home or _spare_home())}


def clean_path() -> str:
    """PATH without the bin folder of the virtual environment the tests run in."""
    own_bin = str(Path(sys.executable).parent) if sys.prefix != sys.base_prefix else None
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if folder != own_bin)


@functools.cache
def _spare_home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="cf-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def engines_env(home: Path) -> dict[str, str]:
    """`clean_env`, with the pinned CLIs first on PATH."""
    env = clean_env(home)
    return env | {"PATH": os.pathsep.join([str(ENGINES_BIN), str(OTHERS_BIN), env["PATH"]])}


def scripted_env(home: Path, url: str) -> dict[str, str]:
    """What makes Claude Code talk to a scripted server at `url` only. The pinned CLIs are first on PATH."""
    return engines_env(home) | {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
    }


def pinned(name: str) -> Path:
    """The pinned real CLI of this name. A missing one fails the test: skipped, it would prove nothing."""
    for folder in (ENGINES_BIN, OTHERS_BIN):
        if (folder / name).exists():
            return folder / name
    pytest.fail(f"{name} is not in .engines: `make test-engines` installs it")


@pytest.fixture
def claude() -> Path:
    """The real Claude Code CLI."""
    return pinned("claude")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fresh HOME: no login, no settings, no sessions."""
    made = tmp_path / "home"
    made.mkdir()
    return made
