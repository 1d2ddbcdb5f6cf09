"""Removing a workspace: what it holds, and the steps in an order that a kill anywhere does not spoil.

First no command finds it any more (its entry gets another name), last the folder that says so goes; between
the two everything can be done again, by the same command or by `cf doctor --fix`.
"""

from __future__ import annotations

import os
from pathlib import Path

from codeframe.core.config import CONFIG_DIR
from codeframe.core.errors import CodeFrameError
from codeframe.core.git import Git
from codeframe.core.workspace import DATABASE, Workspace, is_registered, remove_state, unregister

# What CodeFrame itself writes into `.codeframe/`; a person's other files there stay.
_OURS = ("config.yaml", "config.json")
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


def remove(workspace: Workspace) -> None:
    """Take the workspace away. The tree is not touched, nor is any other workspace. Hold all trees' locks."""
    unregister(workspace)
    finish_removal(workspace)


def finish_removal(workspace: Workspace) -> None:
    """The steps after `unregister`; each may have been done before."""
    doomed = "".join(f"delete {ref}\n" for ref in _refs(workspace))
    Git(workspace.repo.toplevel).run("update-ref", "--stdin", stdin=doomed.encode())
    if not is_registered(workspace.repo, workspace.root):  # else somebody made a new one there meanwhile
        for folder in _config_folders(workspace):
            _remove_config(folder)
    remove_state(workspace)


def _refs(workspace: Workspace) -> list[str]:
    git = Git(workspace.repo.toplevel)
    return git.text("for-each-ref", "--format=%(refname)", f"refs/codeframe/{workspace.id}/").splitlines()


def _counted(counts: dict[str, int]) -> list[str]:
    return [f"{count} {noun}{'s' if count != 1 else ''}" for noun, count in counts.items() if count]


def _config_folders(workspace: Workspace) -> list[Path]:
    """The workspace's `.codeframe/` in each working tree of the repository."""
    said = Git(workspace.repo.toplevel).text("worktree", "list", "--porcelain", "-z")
    trees = [
        Path(line.removeprefix("worktree ")) for line in said.split("\0") if line.startswith("worktree ")
    ]
    place = workspace.root.relative_to(workspace.repo.toplevel)
    return [
        folder for tree in trees if (folder := tree / place / CONFIG_DIR).is_dir() and not folder.is_symlink()
    ]


def _remove_config(folder: Path) -> None:
    """Our own files, unless somebody committed them; the folder as well when nothing else is in it."""
    if Git(folder).text("ls-files", "."):
        return
    for name in _OURS:
        (folder / name).unlink(missing_ok=True)
    if set(os.listdir(folder)) <= {_IGNORE}:
        (folder / _IGNORE).unlink(missing_ok=True)
        folder.rmdir()
