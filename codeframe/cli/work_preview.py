"""`cf work start` without --execute: the prompt an engine would get, with --dry-run also all the rest of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codeframe.cli.output import emit_json, note, say, verbatim

if TYPE_CHECKING:
    from codeframe.core.admission import Plan, Request
    from codeframe.core.models import Task
    from codeframe.core.workspace import Workspace


def show_plan(workspace: Workspace, task: Task, request: Request, *, dry_run: bool, as_json: bool) -> None:
    """Print the packed prompt; with `dry_run` first check the plan and print it. Starts and writes nothing.

    As JSON: `task`, `prompt`, and `plan`, which is null without `dry_run`.
    """
    from codeframe.cli.views import task_json
    from codeframe.core.admission import gate_suite, plan
    from codeframe.core.config import load_environment_config
    from codeframe.core.context_packager import TaskContextPackager
    from codeframe.core.leftovers import snapshots_of
    from codeframe.core.models import TaskStatus
    from codeframe.core.runtime_preview import preview

    typed = request.typed or {}
    planned = plan(workspace, task, request) if dry_run else None
    if planned is not None:
        suite = planned.gates
    elif typed.get("no_gates"):
        suite = None
    else:
        suite = gate_suite(workspace, load_environment_config(workspace.root))
    packager = TaskContextPackager(workspace, gates=suite.describe() if suite else ())
    prompt, _ = packager.build(task.id, note=str(typed.get("note") or ""), snapshots=snapshots_of(workspace))
    if as_json:
        shown = plan_json(workspace, planned) if planned else None
        emit_json({"task": task_json(task), "prompt": prompt, "plan": shown})
        return
    if planned is not None:
        say(preview(workspace, planned))
    verbatim(prompt.encode("utf-8", "replace"))
    way = "To hand this to an engine: cf work start {} --execute"
    if task.status not in (TaskStatus.READY, TaskStatus.BACKLOG):
        way = f"The task is {task.status}: cf work show {{}}"
    note(f"Nothing was started. {way.format(task.id[:8])}")


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
