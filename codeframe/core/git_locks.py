"""Lock files of git that are there: by a git at work, or left by one that was killed or by an engine."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import NamedTuple

from codeframe.core.errors import CodeFrameError
from codeframe.core.git import Repo

_SETTLE_S = 1.0  # an editor's `git status` holds the index for less


class GitLock(NamedTuple):
    """A lock file: its age in seconds, and the git processes in this repository, in words (may be empty)."""

    path: Path
    age_s: float
    by: tuple[str, ...]

    @property
    def problem(self) -> str:
        """One sentence for people."""
        from codeframe.core.durations import format_duration

        who = f"this git may be at work: {'; '.join(self.by)}" if self.by else "no git is at work here"
        return f"{self.path} has been there for {format_duration(round(self.age_s))}, and {who}."

    @property
    def command(self) -> str:
        """What to type."""
        return f"{'When that has ended: ' if self.by else ''}rm {shlex.quote(str(self.path))}"


def git_locks(repo: Repo) -> list[GitLock]:
    """What keeps git from writing in this working tree: locks of its index and HEAD, of refs and the configuration.
    Those of our own refs are left out."""
    common, ours = repo.common_dir, repo.common_dir / "refs" / "codeframe"
    places = [repo.git_dir / "index.lock", repo.git_dir / "HEAD.lock", common / "packed-refs.lock"]
    places += [common / "config.lock", *sorted((common / "refs").rglob("*.lock"))]
    return _look(repo, [each for each in places if not each.is_relative_to(ours)])


def index_locked(repo: Repo) -> CodeFrameError | None:
    """The refusal of what is about to write the index, where another git has it for more than a moment."""
    place, deadline = repo.git_dir / "index.lock", time.monotonic() + _SETTLE_S
    while place.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    for lock in _look(repo, [place]):
        return CodeFrameError(lock.problem, f"To go on: {lock.command}; then type the same again")
    return None


def _look(repo: Repo, places: list[Path]) -> list[GitLock]:
    found = [(each, each.lstat().st_mtime) for each in places if each.exists()]
    by = _at_work(repo) if found else ()
    return [GitLock(each, max(0.0, time.time() - since), by) for each, since in found]


def _at_work(repo: Repo) -> tuple[str, ...]:
    """The git processes whose working directory is in the repository."""
    import psutil

    from codeframe.core.process_sweep import describe_process

    here = (repo.toplevel, repo.git_dir, repo.common_dir)
    found = []
    for process in psutil.process_iter(["name", "cwd"]):
        name, cwd = process.info["name"] or "", process.info["cwd"]
        if name.startswith("git") and cwd and any(Path(cwd).is_relative_to(each) for each in here):
            found.append(describe_process(process))
    return tuple(found)
