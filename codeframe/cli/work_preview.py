"""`cf work start` without --execute: the prompt, and work by hand; with --dry-run all of the plan and nothing more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from codeframe.cli.output import emit_json, note, say, verbatim
from codeframe.cli.work_options import as_typed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codeframe.core.admission import Plan, Request
    from codeframe.core.models import Run, Task
    from codeframe.core.workspace import Workspace


def show_plan(
    workspace: Workspace, task: Task, request: Request, *, dry_run: bool, as_json: bool, by_hand: Request | None
) -> None:  # fmt: skip
    """Print the packed prompt; with `dry_run` first check the plan and print it. `by_hand` is the request with which
    the task is opened to be done by hand, and what a person needs is printed in place of the prompt; without it
    nothing is started and nothing is written.

    As JSON: `task`, `prompt`, `plan`, which is null without `dry_run`, and with `by_hand` the `run`.
    """
    from codeframe.cli.views import run_json, task_json
    from codeframe.core.admission import gate_suite, plan
    from codeframe.core.config import load_environment_config
    from codeframe.core.context_packager import TaskContextPackager
    from codeframe.core.leftovers import snapshots_of
    from codeframe.core.manual_run import open_by_hand
    from codeframe.core.models import TaskStatus
    from codeframe.core.runtime_preview import preview

    typed = request.typed or {}
    # For a task that is open by hand there is no plan; its prompt can be looked at.
    planned = plan(workspace, task, request) if dry_run and open_by_hand(workspace, task) is None else None
    if planned is not None:
        suite = planned.gates
    elif typed.get("no_gates"):
        suite = None
    else:
        suite = gate_suite(workspace, load_environment_config(workspace.root))
    if by_hand is not None and not as_json:
        _begin(workspace, task, by_hand, suite.describe() if suite else ())
        return
    packager = TaskContextPackager(workspace, gates=suite.describe() if suite else ())
    prompt, _ = packager.build(task.id, note=str(typed.get("note") or ""), snapshots=snapshots_of(workspace))
    if as_json:
        shown = plan_json(workspace, planned) if planned else None
        opened = {"run": run_json(_open(workspace, task, by_hand))} if by_hand is not None else {}
        task = workspace.store.tasks.get(task.id)
        emit_json({"task": task_json(task), "prompt": prompt, "plan": shown, **opened})
        return
    if planned is not None:
        say(preview(workspace, planned))
    verbatim(prompt.encode("utf-8", "replace"))
    short = task.id[:8]
    way = f"To hand this to an engine: {as_typed(task, request)}; to do it by hand: cf work start {short}"
    if task.status not in (TaskStatus.READY, TaskStatus.BACKLOG):
        way = f"The task is {task.status}: cf work show {short}"
    note(f"Nothing was started. {way}")


def _begin(workspace: Workspace, task: Task, request: Request, gates: Sequence[str]) -> None:
    """Open the task for a person: what is to be done, what it is held to, what to type next."""
    short = task.id[:8]

    def opened() -> None:
        say(f"Task {short} “{task.title}”")
        if task.description:
            say(f"\n{task.description}\n")
        if (requirement := workspace.store.prds.current()) is not None:
            say(f"  requirement  {requirement.title} (cf prd show)")
        for line in gates or ["none: the work will be unverified (cf gates list)"]:
            say(f"  gate  {line}")
        sys.stdout.flush()  # before the gates run

    _open(workspace, task, request, opened)
    note(
        f"It is open to be done by hand. When it is done: cf work verify {short}\n"
        f"To give it up: cf work stop {short}; to hand it to an engine: cf work start {short} --execute; "
        f"to see what one would be told: cf work start {short} --dry-run"
    )


def _open(
    workspace: Workspace, task: Task, request: Request, opened: Callable[[], None] = lambda: None
) -> Run:
    from codeframe.core.manual_run import open_run
    from codeframe.core.stop_switch import StopSwitch

    stop = StopSwitch()
    with stop.on_signals():
        run = open_run(workspace, task, request, note, stop, opened)
    if stop.signal is not None:
        note(f"Interrupted before the gates had run; the task is open. Close it: cf work stop {task.id[:8]}")
        raise typer.Exit(128 + stop.signal)
    return run


def plan_json(workspace: Workspace, planned: Plan) -> dict[str, Any]:
    """Keys: engine, engine_why, kind, options (seconds where they are durations), gates, snapshot, tree, trusted,
    untrusted (what a start would ask about)."""
    return {
        "engine": planned.engine,
        "engine_why": planned.engine_why,
        "kind": planned.kind,
        "options": planned.options.to_dict(),
        "gates": list(planned.gates.describe()) if planned.gates else [],
        "snapshot": f"refs/codeframe/{workspace.id}/{planned.task.id}/",
        "tree": workspace.repo.toplevel,
        "trusted": planned.untrusted is None,
        "untrusted": planned.untrusted.lines() if planned.untrusted else [],
    }
