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
def deinit(force: bool = typer.Option(False, "--force", help="Also with tasks, runs and snapshots.")) -> None:
    """Remove the workspace here: its tasks, runs, snapshots and settings.

    The working tree and other workspaces are not touched.
    """
    from codeframe.core.errors import CodeFrameError, UsageError
    from codeframe.core.git import discover
    from codeframe.core.removal import finish_removal, holdings, remove
    from codeframe.core.run_lock import repository_reserved
    from codeframe.core.workspace import leaving

    folder = folder_here()
    unfinished = [each for each in leaving(discover(folder)) if folder.resolve().is_relative_to(each.root)]
    for each in unfinished:
        with repository_reserved(each, "cf deinit"):
            finish_removal(each)
    try:
        workspace = workspace_here()
    except UsageError:
        if not unfinished:
            raise
        say(f"{unfinished[0].root} is no workspace any more.")
        return
    _refuse_while_at_work(workspace, force)
    held = holdings(workspace)
    if held and not force:
        raise CodeFrameError(
            f"The workspace {workspace.root} has {', '.join(held)}; snapshots may hold work that is nowhere else.",
            "To remove all of that: cf deinit --force",
        )
    with repository_reserved(workspace, "cf deinit"):
        _refuse_while_at_work(workspace, force)
        workspace.store.close()
        remove(workspace)
    say(f"{workspace.root} is no workspace any more." + (f" Removed {', '.join(held)}." if held else ""))


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
