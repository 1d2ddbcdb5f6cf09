"""Removing a workspace: what it holds, and the steps in an order that a kill anywhere does not spoil.

First no command finds it any more (its entry gets another name), last the folder that says so goes; between
the two everything can be done again, by the same command or by `cf doctor --fix`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from codeframe.core.config import CONFIG_DIR
from codeframe.core.errors import CodeFrameError
from codeframe.core.git import Git, Repo, discover
from codeframe.core.scratch import SCRATCH, in_use
from codeframe.core.trust import Trust
from codeframe.core.whole_file import HALF_WRITTEN
from codeframe.core.workspace import DATABASE, Workspace, is_registered, remove_state, unregister

# Written by `cf config set` or by hand, nobody knows. Of what else is in `.codeframe/` only _IGNORE is ours.
_SETTINGS = ("config.yaml", "config.json")
_IGNORE = ".gitignore"


def holdings(workspace: Workspace) -> list[str]:
    """What goes with the workspace, in words; none when nothing was ever kept in it."""
    refs = _refs(workspace)
    counts = {"snapshot": len(refs)}
    if (workspace.state_dir / DATABASE).exists():
        try:
            store = workspace.store
            counts |= {
                "task": store.tasks.count(),
                "run": len(store.runs.list()),
                "PRD": len(store.prds.list()),
            }
        except CodeFrameError:
            return ["a database that cannot be read", *_counted({"snapshot": len(refs)})]
    return _counted(counts)


def settings(workspace: Workspace) -> list[Path]:
    """The configuration files that are there, in any working tree of the repository, and that nobody committed."""
    return [
        folder / name
        for folder in _config_folders(workspace)
        for name in _SETTINGS
        if os.path.lexists(folder / name)
    ]


def staying(workspace: Workspace) -> list[str]:
    """Sentences on the settings that are there still."""
    return [f"The settings {each} stay." for each in settings(workspace)]


def remove(workspace: Workspace, *, and_settings: bool) -> None:
    """Take the workspace away. The tree is not touched, nor is any other workspace. Hold all trees' locks.

    Raises CodeFrameError while somebody works in its folder all the same, such as the git of a killed commit: from
    an index that is gone it would commit that all files are."""
    if any(map(in_use, workspace.state_dir.glob(f"{SCRATCH}*"))):
        raise CodeFrameError(
            f"A commit or a patch is being made in the workspace {workspace.root}.",
            "Wait for it, then try again.",
        )
    unregister(workspace)
    finish_removal(workspace, and_settings=and_settings)


def finish_removal(workspace: Workspace, *, and_settings: bool = False) -> None:
    """The steps after `unregister`; each may have been done before."""
    doomed = "".join(f"delete {ref}\n" for ref in _refs(workspace))
    Git(workspace.repo.toplevel).run("update-ref", "--stdin", stdin=doomed.encode())
    if not is_registered(workspace.repo, workspace.root):  # else somebody made a new one there meanwhile
        for each in settings(workspace) if and_settings else ():
            each.unlink(missing_ok=True)
        for folder in _config_folders(workspace):
            _remove_config(folder)
    Trust(workspace).discard()
    remove_state(workspace)


def _refs(workspace: Workspace) -> list[str]:
    git = Git(workspace.repo.toplevel)
    return git.text("for-each-ref", "--format=%(refname)", f"refs/codeframe/{workspace.id}/").splitlines()


def _counted(counts: dict[str, int]) -> list[str]:
    return [f"{count} {noun}{'s' if count != 1 else ''}" for noun, count in counts.items() if count]


def _config_folders(workspace: Workspace) -> list[Path]:
    """The workspace's `.codeframe/` in each working tree of the repository, but where it was committed."""
    place = workspace.root.relative_to(workspace.repo.toplevel)
    folders = [tree / place / CONFIG_DIR for tree in _trees(workspace.repo)]
    return [
        folder
        for folder in folders
        if folder.is_dir() and not folder.is_symlink() and not Git(folder).text("ls-files", ".")
    ]


def _trees(repo: Repo) -> Iterator[Path]:
    """The working trees of the repository. git lists what it once made: another repository may be there by now."""
    for line in Git(repo.toplevel).text("worktree", "list", "--porcelain", "-z").split("\0"):
        tree = Path(line.removeprefix("worktree "))
        with contextlib.suppress(CodeFrameError):
            found = discover(tree) if line.startswith("worktree ") else None
            if found and (found.toplevel, found.common_dir) == (tree.resolve(), repo.common_dir):
                yield tree


def _remove_config(folder: Path) -> None:
    """Our own files when nothing else is in the folder, and the folder."""
    for half in folder.glob(f".*{HALF_WRITTEN}"):
        half.unlink(missing_ok=True)
    if set(os.listdir(folder)) <= {_IGNORE}:
        (folder / _IGNORE).unlink(missing_ok=True)
        folder.rmdir()
