"""`cf commit`: what a task changed becomes a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from codeframe.cli import typed
from codeframe.cli.grammar import Commands
from codeframe.cli.here import recovered_workspace
from codeframe.cli.output import emit_json, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codeframe.core.models import Task
    from codeframe.core.task_commit import Committed

app = Commands("Commit what tasks changed.")
PATHS = typer.Argument(
    None, metavar="[-- PATHS]", help="Also these of what is left out otherwise.", show_default=False
)


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
    paths: list[str] | None = PATHS,
    json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Commit what a task changed, and only that.

    What you changed or staged yourself stays as it is. Your commit hooks and signing run. What may be yours, and files
    marked skip-worktree or assume-unchanged, are left out and listed; PATHS name those that are to be in it, too.
    """
    from codeframe.core.errors import UsageError
    from codeframe.core.models import TaskStatus
    from codeframe.core.take_back import from_top
    from codeframe.core.task_commit import commit_task
    from codeframe.core.uncommitted import uncommitted

    workspace = recovered_workspace()
    if task_id is not None:
        task = workspace.store.tasks.find(task_id)
    else:
        task = _only(
            [each for each, _ in uncommitted(workspace, workspace.store.tasks.list(TaskStatus.DONE))]
        )
    words = typed.text(message, "message") if message is not None else None
    if words is not None and not words.strip():
        raise UsageError("The message is empty.", "Leave -m out for the task's own title and summary.")
    done = commit_task(workspace, task, words, [from_top(workspace, path) for path in paths or ()])
    if json:
        emit_json(commit_json(task, done))
    else:
        tell(task, done)
    if done.signum:
        raise typer.Exit(128 + done.signum)


def commit_json(task: Task, done: Committed) -> dict[str, Any]:
    """A commit of a task, JSON-ready."""
    left_out = [{"path": path, "reason": why} for path, why in done.left_out.items()]
    return {
        "commit": done.commit,
        "task_id": task.id,
        "subject": done.subject,
        "files": list(done.paths),
        "left_out": left_out,
        "trailers": done.named,
    }


def tell(task: Task, done: Committed) -> None:
    """Say what was committed, and what of the task was not."""
    from codeframe.core.task_work import CREATE

    say(f"{done.commit[:10]} {done.subject}")
    for path in done.paths:
        say(f"  {path}")
    for line in left_out_lines(task, done.left_out, CREATE):
        say(line)
    if done.signum:
        say("Stopped in a hook that runs after the commit: the commit is made, the hook was ended.")
    if not done.named:
        say("Its message lacks the lines that name the task; a hook of yours may drop them.")
        say(f"cf patch export does not find it; use: git format-patch -1 {done.commit[:10]}")
        say("Where a later commit changes its files again, the task counts as not committed.")


def left_out_lines(task: Task, left_out: Mapping[str, str], command: str) -> Iterator[str]:
    """What of a task is not taken by `command`, each with why, and what to type where that is possible."""
    from codeframe.core.task_commit import listed
    from codeframe.core.task_work import counts_when_named, naming

    for line in listed(left_out):
        yield f"Left out: {line}"
    if names := [path for path, why in left_out.items() if counts_when_named(why)]:
        yield f"What of it is the task's, name: {naming(task, names, command)}"


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
