"""The workspace a command was typed in, and the recovery of crashed runs that every working command does first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codeframe.core.workspace import Workspace


def workspace_here() -> Workspace:
    """The workspace of the current folder. Raises UsageError where there is none."""
    from codeframe.core.workspace import find_workspace

    return find_workspace(Path.cwd())


def recovered_workspace() -> Workspace:
    """The same, after closing runs whose process is gone; says so on stderr (rule 4.4)."""
    workspace = workspace_here()
    if workspace.store.runs.running():
        from codeframe.cli.output import note
        from codeframe.core.recovery import recover

        for line in recover(workspace):
            note(line)
    return workspace


def text_argument(value: str) -> str:
    """`value`, or standard input when it is `-`."""
    if value != "-":
        return value
    import sys

    return sys.stdin.read()
