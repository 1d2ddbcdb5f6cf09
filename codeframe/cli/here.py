"""The workspace a command was typed in and its engines; the recovery of crashed runs that comes before work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codeframe.core.engine_registry import EngineRegistry
    from codeframe.core.workspace import Workspace


def folder_here() -> Path:
    """The current folder. Raises UsageError when it was removed."""
    from codeframe.core.errors import UsageError

    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("The current folder does not exist any more.", "Type: cd to one that does") from None


def workspace_here() -> Workspace:
    """The workspace of the current folder. Raises UsageError where there is none."""
    from codeframe.core.workspace import find_workspace

    return find_workspace(folder_here())


def engines_here() -> type[EngineRegistry]:
    """The engines of the current folder's workspace; outside of one, those that are everywhere.

    Raises UsageError where the configuration cannot be read.
    """
    from codeframe.core.engine_registry import EngineRegistry
    from codeframe.core.errors import CodeFrameError

    try:
        root = workspace_here().root
    except CodeFrameError:  # no workspace, no git, or none that works
        return EngineRegistry
    return EngineRegistry.at(root)


def tell_trouble(workspace: Workspace) -> None:
    """Say on stderr, where a view stands without it, that the configuration cannot be read: nothing starts then."""
    from codeframe.core.config import load_environment_config
    from codeframe.core.errors import CodeFrameError

    try:
        load_environment_config(workspace.root)
    except CodeFrameError as e:
        from codeframe.cli.output import note

        note(f"{e.problem}\n    {e.hint}")


def autonomy_here() -> str:
    """What the current folder's workspace is configured to leave to engines; the default outside of one."""
    from codeframe.core.config import load_environment_config
    from codeframe.core.environment_config import EnvironmentConfig
    from codeframe.core.errors import CodeFrameError

    try:
        root = workspace_here().root
    except CodeFrameError:  # no workspace, no git, or none that works
        return EnvironmentConfig().autonomy
    return load_environment_config(root).autonomy


def recovered_workspace() -> Workspace:
    """The same, after closing runs whose process is gone; says so on stderr (rule 4.4).

    Those of the repository's other workspaces too: they share the working tree.
    """
    from codeframe.core.workspace import neighbours

    workspace = workspace_here()
    for owner in (workspace, *neighbours(workspace)):
        if owner.store.runs.running():
            from codeframe.cli.output import note
            from codeframe.core.recovery import recover

            for line in recover(owner, workspace):
                note(line)
    return workspace
