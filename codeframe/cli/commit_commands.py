"""`cf commit`: what a task changed becomes a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from codeframe.cli import typed
from codeframe.cli.grammar import Commands
from codeframe.cli.here import recovered_workspace
from codeframe.cli.output import emit_json, say

if TYPE_CHECKING:
    from codeframe.core.models import Task

app = Commands("Commit what tasks changed.")


@app.callback()
def group() -> None:
    """Commit what tasks changed."""


@app.command()
def create(
    task_id: str | None = typer.Option(
        None, "--task", metavar="ID", help="Task; the only one with something to commit unless given."
    ),
    message: str | None = typer.Option(
        None,
        "-m",
        "--message",
        metavar="TEXT",
        help="Instead of the task's title and summary; - reads stdin.",
    ),
    json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Commit what a task changed, and only that.

    What you changed or staged yourself stays as it is. Your commit hooks and signing run.
    """
    from codeframe.core.errors import UsageError
    from codeframe.core.task_commit import commit_task, uncommitted

    workspace = recovered_workspace()
    if task_id is not None:
        task = workspace.store.tasks.find(task_id)
    else:
        task = _only(uncommitted(workspace))
    words = typed.text(message, "message") if message is not None else None
    if words is not None and not words.strip():
        raise UsageError("The message is empty.", "Leave -m out for the task's own title and summary.")
    done = commit_task(workspace, task, words)
    if json:
        emit_json(
            {"commit": done.commit, "task_id": task.id, "subject": done.subject, "files": list(done.paths)}
        )
        return
    say(f"{done.commit[:10]} {done.subject}")
    for path in done.paths:
        say(f"  {path}")


def _only(tasks: list[Task]) -> Task:
    from codeframe.core.errors import CodeFrameError, UsageError

    if not tasks:
        raise CodeFrameError("No task has anything to commit.", "Type: cf tasks list")
    if len(tasks) > 1:
        listed = ", ".join(f"{task.id[:8]} “{task.title}”" for task in tasks)
        raise UsageError(
            f"Several tasks have something to commit: {listed}.",
            f"Name one: cf commit create --task {tasks[0].id[:8]}",
        )
    return tasks[0]
