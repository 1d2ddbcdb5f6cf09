"""Ends git processes that are stuck, and says on what: opening a FIFO, for one, takes git for ever.

Time alone says nothing (a large file on a slow disk takes its time), so what counts is progress:
a process that neither computes nor reads nor writes, and does not wait for the disk, waits for
something that will not come.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from codeframe.core.safe_read import read_regular

LOOK_S = 0.5
STILL_S = 1.0  # without progress, until it is looked for a file that blocks
PATIENCE_S = 120.0  # without progress where no such file is found
HURRIED_S = 5.0  # the same once somebody wants this process to stop
_LAST_MOMENT_S = 2.0  # what a git process gets to finish in after Ctrl-C

# What git reads by itself: these in any folder of a working tree, everything in a git folder.
_READ_IN_TREES = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap"})
_MAX_CONFIG_BYTES = 1_000_000
_NAMES_A_FILE = re.compile(rb"^\s*(?:path|excludesfile|attributesfile)\s*=\s*\"?([^\"\r\n]+)", re.I | re.M)

_lock = threading.Lock()
_calls: set[Call] = set()
_thread: threading.Thread | None = None
_hurried = False


class Trouble(NamedTuple):
    """Why a git process was ended, and what to type."""

    problem: str
    hint: str


class Call:
    """A git process under watch. `waits_for_us` is True while that is all it does; `trouble` says why it was ended."""

    def __init__(self, process: subprocess.Popen[bytes], tree: Path) -> None:
        self.process = process
        self.tree = tree
        self.waits_for_us = False
        self.trouble: Trouble | None = None
        self._pulse: Any = None
        self._still_since = time.monotonic()
        self._searched = False

    def look(self) -> None:
        """End the process when it is stuck."""
        now = time.monotonic()
        pulse = None if self.waits_for_us else _pulse(self.process.pid)
        if pulse is None or pulse != self._pulse:
            self._pulse, self._still_since, self._searched = pulse, now, False
            return
        still = now - self._still_since
        if still >= STILL_S and not self._searched:
            self._searched = True
            if culprit := blocking_file(self.tree):
                self._end(cannot_read(culprit))
        if still >= (HURRIED_S if _hurried else PATIENCE_S):
            words = f"git got no further for {still:.0f} s in {self.tree} and was ended."
            self._end(
                Trouble(words, f"See whether it hangs there: git -C {shlex.quote(str(self.tree))} status")
            )

    def _end(self, trouble: Trouble) -> None:
        self.trouble = self.trouble or trouble
        self.process.kill()


@contextmanager
def watch(process: subprocess.Popen[bytes], tree: Path) -> Iterator[Call]:
    """While inside, `process` (a git process in the folder `tree`) is ended when it is stuck.

    After Ctrl-C it gets a moment: a half-written lock of the person's index would stay.
    """
    call = Call(process, tree)
    _add(call)
    try:
        yield call
    except BaseException:
        try:
            process.communicate(timeout=_LAST_MOMENT_S)
        except (subprocess.TimeoutExpired, ValueError, OSError):
            pass
        finally:
            process.kill()
        raise
    finally:
        _calls.discard(call)


def hurry() -> None:
    """From now on be less patient: somebody wants this process to stop. Safe in a signal handler."""
    global _hurried
    _hurried = True


def hurried() -> bool:
    """Whether `hurry` was called."""
    return _hurried


def end_all() -> None:
    """End every git process that runs, for a process that is about to end itself."""
    for call in list(_calls):
        call.process.kill()


def cannot_read(path: Path) -> Trouble:
    """What to say of a FIFO in a file's place."""
    return Trouble(f"{path} is a FIFO, and git cannot read it.", f"Remove it: rm {shlex.quote(str(path))}")


def blocking_file(tree: Path) -> Path | None:
    """A FIFO where git, started in the folder `tree`, reads a file; None when there is none."""
    found = git_folder_above(tree)
    top = found.parent if found else None
    folders = _git_folders(found) if found else []
    home = Path.home()
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    configs = [*(folder / name for folder in folders for name in ("config", "config.worktree"))]
    configs += [home / ".gitconfig", settings / "config"]
    named = [path for config in configs for path in _named_in(config)]
    for path in (*configs, *named, settings / "ignore", settings / "attributes"):
        if _is_fifo(path):
            return path
    for folder in (top, *folders) if top else ():  # outside of a repository git reads no tree
        for path in _fifos(folder, inside_git=folder != top):
            return path
    return None


def git_folder_above(path: Path) -> Path | None:
    """The `.git` that git uses for the folder `path`, or would, were it whole. As git does, it passes by a folder
    of that name that holds nothing of a repository."""
    path = path.resolve()
    places = (folder / ".git" for folder in (path, *path.parents))
    return next((place for place in places if _of_a_repository(place)), None)


def _of_a_repository(place: Path) -> bool:
    if place.is_dir():
        return any(os.path.lexists(place / part) for part in ("HEAD", "objects", "refs"))
    return os.path.lexists(place)


def _git_folders(folder: Path) -> list[Path]:
    """The git folder that a `.git` is or names, and the one it shares, where they can be told."""
    with contextlib.suppress(OSError):
        folder = folder.parent / os.fsdecode(read_regular(folder, 10_000)).strip().removeprefix("gitdir: ")
    found = [folder]
    with contextlib.suppress(OSError):
        found.append(folder / os.fsdecode(read_regular(folder / "commondir", 10_000)).strip())
    return found


def _named_in(config: Path) -> Iterator[Path]:
    """The files that a configuration file includes or names as lists of patterns."""
    try:
        text = read_regular(config, _MAX_CONFIG_BYTES)
    except OSError:
        return
    for match in _NAMES_A_FILE.finditer(text):
        path = Path(os.fsdecode(match[1]).strip())
        with contextlib.suppress(RuntimeError):
            yield config.parent / path.expanduser()


def _fifos(folder: Path, *, inside_git: bool) -> Iterator[Path]:
    waiting = [(str(folder), inside_git)]
    while waiting:
        here, inside = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(here) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, inside or entry.name.lower() == ".git"))
                    continue
                read_by_git = inside or entry.name in _READ_IN_TREES
                # git follows no link to a .gitignore
                if read_by_git and not entry.is_file() and _is_fifo(entry.path, follow=inside):
                    yield Path(entry.path)


def _is_fifo(path: str | Path, *, follow: bool = True) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path, follow_symlinks=follow).st_mode)
    except (OSError, ValueError):
        return False


def _add(call: Call) -> None:
    global _thread
    _calls.add(call)
    if _thread is None:
        with _lock:
            if _thread is None:
                _thread = threading.Thread(target=_watch, daemon=True)
                _thread.start()


def _watch() -> None:
    while True:
        time.sleep(LOOK_S)
        for call in list(_calls):
            with contextlib.suppress(OSError, RuntimeError):
                call.look()


def _pulse(pid: int) -> Any:
    """Changes while the process gets on with something; None when it surely does, or is gone."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            read_and_written = b""
            with contextlib.suppress(PermissionError):
                read_and_written = Path(f"/proc/{pid}/io").read_bytes()
            return None if fields[0] in "RD" else (fields[11:13], read_and_written)
        return None
    import psutil

    try:
        return psutil.Process(pid).cpu_times()[:2]
    except psutil.Error:
        return None
