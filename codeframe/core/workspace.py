"""Workspaces: folders registered in a git repository, and where their state lives (rules 1.3, 1.4, 8.3)."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from codeframe.core.config import CONFIG_DIR, ensure_config_dir
from codeframe.core.errors import CodeFrameError, UsageError, how_to_write
from codeframe.core.git import Git, Repo, discover
from codeframe.core.lease import Lease
from codeframe.core.safe_read import read_regular
from codeframe.core.whole_file import write_whole

if TYPE_CHECKING:
    from codeframe.core.store import Store

DATABASE = "state.db"
_ENTRY = "workspace.json"
_LEAVING = "removed.json"  # what the entry is called while the workspace is being removed
_REGISTER_WAIT_S = 10.0
_MAX_ENTRY_BYTES = 100_000


@dataclass(frozen=True)
class Workspace:
    """A registered folder, seen from one working tree.

    `root` is the folder in this working tree; the state is shared by all trees of the repository.
    """

    id: str
    root: Path
    repo: Repo

    @property
    def state_dir(self) -> Path:
        """Where the database, the runs' folders and the snapshot index live; mode 0700."""
        return _state_home(self.repo) / self.id

    @cached_property
    def store(self) -> Store:
        """The database, opened on first use."""
        from codeframe.core.store import Store

        return Store(self.state_dir / DATABASE)

    @property
    def runs_dir(self) -> Path:
        """The folder of all runs' transcripts and reports; may not exist yet."""
        return self.state_dir / "runs"

    def run_dir(self, run_id: str) -> Path:
        """The folder of one run; may not exist yet."""
        return self.runs_dir / run_id

    @property
    def locks_dir(self) -> Path:
        """Lock files of the whole repository: a tree is shared by all workspaces in it."""
        return _locks_dir(self.repo)

    @property
    def config_dir(self) -> Path:
        """Local configuration; does not exist in linked worktrees nor after `git clean -fdx`."""
        return self.root / CONFIG_DIR

    @property
    def tree_key(self) -> str:
        """Names this working tree among the repository's, wherever that is moved: "main" or 12 hex characters."""
        if self.repo.git_dir == self.repo.common_dir:
            return "main"
        import hashlib  # it loads OpenSSL, which takes longer than all else that names a tree

        inside = os.path.relpath(self.repo.git_dir, self.repo.common_dir)
        return hashlib.sha256(os.fsencode(inside)).hexdigest()[:12]

    def command(self, here: Workspace) -> str:
        """How `cf` is called for this workspace by somebody who is in `here`."""
        return "cf" if self.id == here.id else f"cf -C {shlex.quote(str(self.root))}"


def init_workspace(path: Path, *, git_init: bool = False, nested: bool = False) -> tuple[Workspace, bool]:
    """Register the folder `path`; returns the workspace and whether it is a new one.

    Doing it again finds the same workspace and restores its `.codeframe/`. Outside of git it makes
    a repository when `git_init`, else raises UsageError, as it does inside of another workspace unless
    `nested`; CodeFrameError where it may not write.
    """
    try:
        repo = discover(path)
    except UsageError:
        if not git_init or _inside_git(path):
            raise
        Git(path).run("init", "--quiet")
        repo = discover(path)
    root = path.resolve()
    for folder in (_state_home(repo), _locks_dir(repo)):
        _make_private(folder)
    lock = Lease.acquire(registration_lock(repo), {"pid": os.getpid()}, wait_s=_REGISTER_WAIT_S)
    if lock is None:
        raise CodeFrameError("Another `cf init` is at work in this repository.", "Try again: cf init")
    with lock:
        place = root.relative_to(repo.toplevel)
        known = {folder: id_ for id_, folder in _registered(repo)}
        id_ = known.get(place)
        created = id_ is None
        if id_ is None:
            around = next((folder for folder in place.parents if folder in known), None)
            if around is not None and not nested:
                raise UsageError(
                    f"{root} lies in the workspace {repo.toplevel / around}, whose tasks are at hand here;"
                    " nothing was done.",
                    "To make it a workspace of its own all the same: cf init --nested",
                )
            id_ = os.urandom(6).hex()
            _register(repo, id_, place)
        ensure_config_dir(root)
    return Workspace(id_, root, repo), created


def find_workspace(path: Path) -> Workspace:
    """The workspace that `path` (a directory, in any working tree of the repository) lies in.

    Of nested ones the deepest. UsageError when there is none.
    """
    try:
        repo = discover(path)
    except UsageError as error:
        raise UsageError(error.problem, error.hint or "Type: cf init") from error
    here = path.resolve().relative_to(repo.toplevel)
    around = [(id_, folder) for id_, folder in _registered(repo) if here.is_relative_to(folder)]
    if not around:
        raise UsageError("No CodeFrame workspace here.", "Type: cf init")
    id_, folder = max(around, key=lambda entry: len(entry[1].parts))
    return Workspace(id_, repo.toplevel / folder, repo)


def leaving(repo: Repo) -> list[Workspace]:
    """Workspaces whose removal was begun (see `unregister`) and not finished."""
    return [Workspace(id_, repo.toplevel / folder, repo) for id_, folder in _registered(repo, _LEAVING)]


def unregister(workspace: Workspace) -> None:
    """The first step of a removal: from here on no command finds the workspace. Doing it again changes nothing."""
    entry = workspace.state_dir / _ENTRY
    try:
        entry.rename(workspace.state_dir / _LEAVING)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _not_writable(workspace.state_dir, error) from error


def remove_state(workspace: Workspace) -> None:
    """The last step: the state folder goes, and last of all what says that it is to go."""
    import shutil

    try:
        for each in workspace.state_dir.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            elif each.name != _LEAVING:
                each.unlink()
        (workspace.state_dir / _LEAVING).unlink(missing_ok=True)
        workspace.state_dir.rmdir()
    except OSError as error:
        raise _not_writable(workspace.state_dir, error) from error


def is_registered(repo: Repo, root: Path) -> bool:
    """Whether this folder of the working tree is a workspace."""
    return root.relative_to(repo.toplevel) in {folder for _, folder in _registered(repo)}


def unregistered(repo: Repo) -> list[Path]:
    """State folders that no workspace has: of an `init` that was killed, or one whose entry was lost."""
    folders = sorted(_state_home(repo).glob("[0-9a-f]" * 12 + "/"))
    return [f for f in folders if not (f / _ENTRY).exists() and not (f / _LEAVING).exists()]


def neighbours(workspace: Workspace) -> list[Workspace]:
    """The other workspaces of the repository that have been used, as seen from the same working tree."""
    repo = workspace.repo
    others = [
        Workspace(id_, repo.toplevel / folder, repo)
        for id_, folder in _registered(repo)
        if id_ != workspace.id
    ]
    return [other for other in others if (other.state_dir / DATABASE).exists()]


def registration_lock(repo: Repo) -> Path:
    """Held while workspaces are made and removed."""
    return _locks_dir(repo) / "register.lock"


def _state_home(repo: Repo) -> Path:
    return repo.common_dir / "codeframe"


def _locks_dir(repo: Repo) -> Path:
    return _state_home(repo) / "locks"


def _registered(repo: Repo, entry_name: str = _ENTRY) -> list[tuple[str, Path]]:
    """(id, folder relative to the top of a working tree) of every workspace of the repository."""
    found = []
    for file in sorted(_state_home(repo).glob(f"*/{entry_name}")):
        try:
            entry = json.loads(read_regular(file, _MAX_ENTRY_BYTES))
            found.append((str(entry["id"]), Path(entry["path"])))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise CodeFrameError(
                f"{file} is damaged or cannot be read.",
                f"Name its folder again, if it was not the top one: echo "
                f'\'{{"id": "{file.parent.name}", "path": "."}}\' > {shlex.quote(str(file))}',
            ) from error
    return found


def _register(repo: Repo, id_: str, place: Path) -> None:
    state_dir = _state_home(repo) / id_
    _make_private(state_dir)
    try:
        write_whole(state_dir / _ENTRY, json.dumps({"id": id_, "path": place.as_posix()}))
    except OSError as error:
        raise _not_writable(state_dir, error) from error


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise _not_writable(folder, error) from error


def _not_writable(folder: Path, error: OSError) -> CodeFrameError:
    return CodeFrameError(
        f"CodeFrame keeps its state in {folder}, which cannot be written: {error.strerror}.",
        how_to_write(folder, error),
    )


def _inside_git(path: Path) -> bool:
    """Whether `path` belongs to a repository that has no working tree there (bare, or a .git folder)."""
    return path.is_dir() and Git(path).run("rev-parse", "--git-dir", check=False).exit_code == 0
