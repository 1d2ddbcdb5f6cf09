"""`cf status`: where the workspace stands, on one screen."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import typer

from codeframe.cli.grammar import Commands
from codeframe.cli.here import recovered_workspace, tell_trouble
from codeframe.cli.output import columns, emit_json, say

if TYPE_CHECKING:
    from codeframe.core.models import Task
    from codeframe.core.store import Store
    from codeframe.core.workspace import Workspace

app = Commands()
_BEGUN, _NOT_COMMITTED = 10, 5  # tasks at most


@app.command()
def status(json: bool = typer.Option(False, "--json", help="Print as JSON.")) -> None:
    """Show how many tasks there are, what runs, what waits, what comes next."""
    from codeframe.cli.next_step import answer_step, next_of_all, next_step
    from codeframe.cli.run_words import done_by
    from codeframe.core.models import BlockerStatus, RunKind

    workspace = recovered_workspace()
    tell_trouble(workspace)
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
    for line in _not_committed(workspace):
        say(line)
    after = None if running else next_of_all(workspace)  # a tree holds one run at a time
    for line in _begun(store, but=after[0].id if after else ""):
        say(line)
    if running:
        return
    if after is not None:
        task, step = after
        say(f"Next: {step.command}    (“{task.title}”)")
        if step.command.endswith(" --execute"):
            _tell_missing(workspace, task)
    elif not any(counts.values()):
        say('Next: cf tasks add "what is to be done"')


def _not_committed(workspace: Workspace) -> list[str]:
    """DONE tasks that `cf commit create` would take something of, the first ones. Where all was committed with it,
    git is not asked at all."""
    perhaps = workspace.store.tasks.done_without_commit()
    if not perhaps:
        return []
    from codeframe.core.uncommitted import uncommitted

    found = [task for task, _ in islice(uncommitted(workspace, perhaps), _NOT_COMMITTED + 1)]
    lines = [
        f"Not committed: {task.id[:8]} “{task.title}”\n  cf commit create --task {task.id[:8]}"
        for task in found[:_NOT_COMMITTED]
    ]
    return lines + (["and more of them"] if len(found) > _NOT_COMMITTED else [])


def _tell_missing(workspace: Workspace, task: Task) -> None:
    """Say that the engine which was chosen cannot run, where that shows without starting it."""
    from codeframe.core.engine_check import check_engine
    from codeframe.core.engine_registry import DEFAULT_WHY, EngineRegistry, resolve_engine
    from codeframe.core.errors import CodeFrameError

    try:
        engine, why = resolve_engine(workspace, None, task.engine)
        if why != DEFAULT_WHY:  # that one comes with us, and lacks a key at most
            check_engine(engine, why, task, known=EngineRegistry.at(workspace.root))
    except CodeFrameError as e:
        say(f"  {e.problem}\n  {e.hint}")


def _begun(store: Store, *, but: str) -> list[str]:
    """READY tasks of which a run can go on, without the task `but`, each with what to type."""
    from codeframe.cli.next_step import next_step

    tasks = [store.tasks.get(run.task_id) for run in store.runs.of_ready() if run.task_id != but]
    steps = [(task, next_step(store, task)) for task in tasks]
    lines = [
        f"Begun: {task.id[:8]} “{task.title}”\n  {step}"
        for task, step in steps
        if step is not None and step.command.startswith("cf work resume ")
    ]
    more = [f"and {len(lines) - _BEGUN} more"] if len(lines) > _BEGUN else []
    return lines[:_BEGUN] + more
