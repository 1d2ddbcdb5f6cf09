"""`cf blocker`: what waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from codeframe.cli import typed
from codeframe.cli.grammar import Commands
from codeframe.cli.here import recovered_workspace, workspace_here
from codeframe.cli.output import ago, columns, emit_json, note, say

if TYPE_CHECKING:
    from codeframe.core.models import Blocker
    from codeframe.core.store import Store

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
        say(f"\n{answer_step(store, blocker)}")


@app.command()
def create(
    task_id: str = typer.Argument(..., metavar="TASK", help="Task, by the beginning of its id."),
    question: str = typer.Argument(..., metavar="TEXT|-", help="What has to be settled; - reads stdin."),
    json: bool = JSON,
) -> None:
    """Hold a task back until a question is settled. The answer becomes part of its prompt."""
    from codeframe.cli.views import blocker_json
    from codeframe.core.blockers import raise_blocker
    from codeframe.core.errors import UsageError

    store = recovered_workspace().store
    task = store.tasks.find(task_id)
    words = typed.text(question, "question").strip()
    if not words:
        raise UsageError("The question is empty.", f'Type: cf blocker create {task.id[:8]} "your question"')
    blocker = raise_blocker(store, task, words)
    if json:
        emit_json(blocker_json(blocker))
    else:
        say(f"{blocker.id[:8]}  task {task.id[:8]} is blocked until it is answered or resolved.")


@app.command()
def answer(
    blocker_id: str = ID,
    text: str = typer.Argument(..., metavar="TEXT|-", help="Your answer; - reads standard input."),
    json: bool = JSON,
) -> None:
    """Answer a blocker; the engine hears it when the task goes on."""
    from codeframe.cli.views import blocker_json
    from codeframe.core import blockers

    store = workspace_here().store
    before = store.blockers.find(blocker_id)
    blocker = blockers.answer(store, before, typed.text(text, "answer"))
    if json:
        emit_json(blocker_json(blocker))
    else:
        done = "Answered" if before.answer is None else f"The earlier answer, “{before.answer}”, is replaced"
        say(f"{done}. {_on(store, blocker)}")


@app.command()
def resolve(blocker_id: str = ID, json: bool = JSON) -> None:
    """Declare a blocker settled, with nothing to tell the engine."""
    from codeframe.cli.views import blocker_json
    from codeframe.core import blockers

    store = workspace_here().store
    blocker = blockers.resolve(store, store.blockers.find(blocker_id))
    if json:
        emit_json(blocker_json(blocker))
    else:
        say(f"Resolved. {_on(store, blocker)}")


def _on(store: Store, blocker: Blocker) -> str:
    from codeframe.cli.next_step import next_step

    step = next_step(store, store.tasks.get(blocker.task_id))
    return str(step) if step is not None else ""
