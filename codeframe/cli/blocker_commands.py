"""`cf blocker`: what waits for a person."""

from __future__ import annotations

import typer

from codeframe.cli import typed
from codeframe.cli.grammar import Commands
from codeframe.cli.here import recovered_workspace, workspace_here
from codeframe.cli.output import ago, columns, emit_json, note, say

app = Commands("See and answer what waits for a person.")
JSON = typer.Option(False, "--json", help="Print as JSON.")
ID = typer.Argument(..., metavar="ID", help="Blocker, by the beginning of its id.")


@app.command("list")
def list_(
    every: bool = typer.Option(False, "--all", help="Answered and resolved ones too."),
    json: bool = JSON,
) -> None:
    """List open blockers, the oldest first."""
    from codeframe.cli.views import blocker_json
    from codeframe.core.models import BlockerStatus

    store = recovered_workspace().store
    found = store.blockers.list() if every else store.blockers.list(status=BlockerStatus.OPEN)
    if json:
        emit_json([blocker_json(b) for b in found])
    elif not found:
        note("Nothing waits for a person.")
    else:
        rows = [
            (b.id[:8], b.task_id[:8], b.kind, b.status.value, ago(b.created_at), b.question) for b in found
        ]
        columns(rows, ("id", "task", "kind", "status", "since", "question"))


@app.command()
def show(blocker_id: str = ID, json: bool = JSON) -> None:
    """Show one blocker in full."""
    from codeframe.cli.next_step import answer_step
    from codeframe.cli.views import blocker_json

    store = workspace_here().store
    blocker = store.blockers.find(blocker_id)
    if json:
        emit_json(blocker_json(blocker))
        return
    task = store.tasks.get(blocker.task_id)
    say(f"{blocker.id[:8]}  {blocker.kind}  {blocker.status.value}  task {task.id[:8]} “{task.title}”")
    say(f"\n{blocker.question}")
    if blocker.answer:
        say(f"\nAnswer: {blocker.answer}")
    else:
        say(f"\n{answer_step(blocker)}")


@app.command()
def answer(
    blocker_id: str = ID,
    text: str = typer.Argument(..., metavar="TEXT|-", help="Your answer; - reads standard input."),
    json: bool = JSON,
) -> None:
    """Answer a blocker; the engine hears it when the task goes on."""
    from codeframe.cli.views import blocker_json

    store = workspace_here().store
    before = store.blockers.find(blocker_id)
    blocker = store.blockers.answer(before.id, typed.text(text, "answer"))
    if json:
        emit_json(blocker_json(blocker))
    else:
        done = "Answered" if before.answer is None else f"The earlier answer, “{before.answer}”, is replaced"
        say(f"{done}. Go on with: cf work resume {blocker.task_id[:8]}")
