"""`cf status`: where the workspace stands, on one screen."""

from __future__ import annotations

import typer

from codeframe.cli.grammar import Commands
from codeframe.cli.here import recovered_workspace
from codeframe.cli.output import columns, emit_json, say

app = Commands()


@app.command()
def status(json: bool = typer.Option(False, "--json", help="Print as JSON.")) -> None:
    """Show how many tasks there are, what runs, what waits, what comes next."""
    from codeframe.cli.next_step import answer_step, next_of_all, next_step
    from codeframe.cli.run_words import done_by
    from codeframe.core.models import BlockerStatus, RunKind

    workspace = recovered_workspace()
    store = workspace.store
    counts = {s.value: n for s, n in store.tasks.counts().items()}
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
    columns([(s, str(n)) for s, n in counts.items() if n])
    for run in running:
        say(f"Running: {run.task_id[:8]} “{store.tasks.get(run.task_id).title}” {done_by(run)}")
    for blocker in blockers:
        say(f"Blocked: {blocker.task_id[:8]} {blocker.question}\n  {answer_step(workspace.store, blocker)}")
    for run in running:
        if run.kind is RunKind.MANUAL:
            say(f"  {next_step(store, store.tasks.get(run.task_id))}")
    if running:
        return  # a tree holds one run at a time
    after = next_of_all(workspace)
    if after is not None:
        task, step = after
        say(f"Next: {step.command}    (“{task.title}”)")
    elif not any(counts.values()):
        say('Next: cf tasks add "what is to be done"')
