"""`cf deinit`: make this folder an ordinary one again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from codeframe.cli.grammar import Commands
from codeframe.cli.here import folder_here, recovered_workspace, workspace_here
from codeframe.cli.output import say

if TYPE_CHECKING:
    from codeframe.core.workspace import Workspace

app = Commands()


@app.command()
def deinit(
    force: bool = typer.Option(
        False, "--force", help="Also with tasks, runs and snapshots, and the settings."
    ),
) -> None:
    """Remove the workspace here: its tasks, runs and snapshots, and what is trusted in it.

    The working tree and other workspaces are not touched. Settings in .codeframe/ stay unless --force is typed.
    """
    from codeframe.core.errors import CodeFrameError, UsageError
    from codeframe.core.git import discover
    from codeframe.core.removal import finish_removal, holdings, remove, settings, staying
    from codeframe.core.run_lock import repository_reserved
    from codeframe.core.workspace import leaving

    folder = folder_here()
    unfinished = [each for each in leaving(discover(folder)) if folder.resolve().is_relative_to(each.root)]
    for each in unfinished:
        with repository_reserved(each, "cf deinit"):
            finish_removal(each, and_settings=force)
    try:
        workspace = workspace_here()
    except UsageError:
        if not unfinished:
            raise
        say("\n".join([f"{unfinished[0].root} is no workspace any more.", *staying(unfinished[0])]))
        return
    _refuse_while_at_work(workspace, force)
    held = holdings(workspace)
    if held and not force:
        raise CodeFrameError(
            f"The workspace {workspace.root} has {', '.join(held)}; snapshots may hold work that is nowhere else.",
            " and ".join(["To remove all of that", *map(str, settings(workspace))]) + ": cf deinit --force",
        )
    with repository_reserved(workspace, "cf deinit"):
        _refuse_while_at_work(workspace, force)
        workspace.store.close()
        remove(workspace, and_settings=force)
    removed = f" Removed {', '.join(held)}." if held else ""
    say("\n".join([f"{workspace.root} is no workspace any more.{removed}", *staying(workspace)]))


def _refuse_while_at_work(workspace: Workspace, force: bool) -> None:
    """Raises CodeFrameError when a run has not ended, after closing those that died."""
    from codeframe.core.errors import CodeFrameError
    from codeframe.core.run_lock import owner_unseen
    from codeframe.core.workspace import DATABASE

    if not (workspace.state_dir / DATABASE).exists():
        return
    try:
        running = recovered_workspace().store.runs.running()
    except CodeFrameError:
        if not force:  # of a database that cannot be read nothing else is known
            raise
        return
    for run in running:
        raise owner_unseen(workspace, run) or CodeFrameError(
            f"Task {run.task_id[:8]} is being worked on by run {run.id[:8]}.",
            f"Type: cf work stop {run.task_id[:8]}",
        )
