"""`cf events`: what happened in this workspace."""

from __future__ import annotations

import json as jsonlib
from typing import TYPE_CHECKING

import typer

from codeframe.cli import typed
from codeframe.cli.grammar import Commands
from codeframe.cli.here import recovered_workspace
from codeframe.cli.output import clean, somebody_reads

if TYPE_CHECKING:
    from codeframe.core.store import Event

app = Commands()
_POLL_S = 0.3


@app.command()
def events(
    task_id: str | None = typer.Option(None, "--task", metavar="ID", help="Only those of one task."),
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on with what comes, until Ctrl-C."),
    limit: int = typer.Option(
        50, "--limit", metavar="N", parser=typed.whole_number("--limit", 0),
        help="The last N; 0 for all (default 50).",
    ),
    json: bool = typer.Option(False, "--json", help="Print each event as a JSON object on a line."),
) -> None:  # fmt: skip
    """Show what happened to tasks and runs, the newest last."""
    import time

    store = recovered_workspace().store
    task = store.tasks.find(task_id).id if task_id is not None else None
    last = 0
    for event in store.events.list(task_id=task, newest=limit or None):
        _show(event, json)
        last = event.seq
    while follow and somebody_reads():
        time.sleep(_POLL_S)
        for event in store.events.list(task_id=task, after=last):
            _show(event, json)
            last = event.seq


def _show(event: Event, json: bool) -> None:
    if json:
        from codeframe.cli.views import event_json

        print(jsonlib.dumps(event_json(event)), flush=True)
    else:
        where = (event.task_id or "-")[:8]
        print(
            f"{event.created_at:%Y-%m-%d %H:%M:%S} UTC  {where:<8}  {event.type}  {clean(event.message)}",
            flush=True,
        )
