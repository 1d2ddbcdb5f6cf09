"""`cf status`: where the workspace stands, on one screen."""

from __future__ import annotations

import typer

from codeframe.cli.here import recovered_workspace
from codeframe.cli.output import columns, emit_json, say

app = typer.Typer(rich_markup_mode=None)


@app.command()
def status(json: bool = typer.Option(False, "--json", help="Print as JSON.")) -> None:
    """Tasks by state, what runs, what waits for a person, and what to type next."""
    from codeframe.core.models import BlockerStatus

    workspace = recovered_workspace()
    store = workspace.store
    counts = {s.value: n for s, n in store.tasks.counts().items() if n}
    running = store.runs.running()
    blockers = store.blockers.list(status=BlockerStatus.OPEN)
    ready = store.tasks.next_ready()
    prd = store.prds.current()
    if json:
        emit_json({
            "workspace": workspace.root, "id": workspace.id, "tasks": counts, "running": [r.id for r in running],
            "open_blockers": [b.id for b in blockers], "next_ready": ready.id if ready else None,
            "prd": prd.title if prd else None,
        })  # fmt: skip
        return
    say(f"Workspace {workspace.root}")
    if prd:
        say(f"Requirement: {prd.title}")
    columns([(s, str(n)) for s, n in counts.items()])
    for run in running:
        say(f"Running: {run.task_id[:8]} “{store.tasks.get(run.task_id).title}” with {run.engine}")
    for blocker in blockers:
        say(f'Blocked: {blocker.task_id[:8]} {blocker.question}\n  cf blocker answer {blocker.id[:8]} "…"')
    if ready:
        say(f"Next: cf work start {ready.id[:8]} --execute    (“{ready.title}”)")
    elif not counts:
        say('Next: cf tasks add "what is to be done"')
