"""`cf work`: start, resume, retry, stop and undo a task's work. The looking is in work_views.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from codeframe.cli import work_views
from codeframe.cli.here import recovered_workspace
from codeframe.cli.output import colour, emit_json, note, say

if TYPE_CHECKING:
    from codeframe.core.admission import Plan, Request
    from codeframe.core.models import Run, Task
    from codeframe.core.workspace import Workspace

app = typer.Typer(help="Run tasks and see what came of them.", no_args_is_help=True, rich_markup_mode=None)

ENGINE = typer.Option(None, "--engine", metavar="NAME", help="Engine to use (cf engines list).")
MODEL = typer.Option(None, "--model", metavar="M", help="Model, in the engine's own terms.")
NOTE = typer.Option(None, "-m", "--message", metavar="TEXT", help="Something more to tell the engine.")
TIMEOUT = typer.Option(
    None, "--timeout", metavar="D", help="Limit for all rounds and gates, e.g. 90s, 15m, 2h."
)
STALL = typer.Option(None, "--stall-timeout", metavar="D", help="Longest silence of the engine.")
STALL_ACTION = typer.Option(
    None, "--stall-action", metavar="A", help="After a stall: blocker, retry or fail."
)
CORRECTIONS = typer.Option(
    None, "--max-corrections", min=0, max=20, metavar="N", help="Rounds after failed gates."
)
STRICT = typer.Option(None, "--strict", help="Failures that were there before count too.")
REQUIRE = typer.Option(None, "--require-gates", help="Unverified work is a failure.")
NO_GATES = typer.Option(None, "--no-gates", help="Run no gates; the result is unverified.")
AUTONOMY = typer.Option(None, "--autonomy", metavar="A", help="workspace (default) or full.")
NETWORK = typer.Option(None, "--network", metavar="N", help="on (default) or off.")
JSON = typer.Option(False, "--json", help="Print the finished run as JSON.")


@app.command()
def start(
    task_id: str | None = typer.Argument(None, metavar="[ID]", help="Task; without it, the next READY one."),
    execute: bool = typer.Option(
        False, "--execute", help="Start the engine. Without it, only the prompt is shown."
    ),
    engine: str | None = ENGINE,
    model: str | None = MODEL,
    message: str | None = NOTE,
    timeout: str | None = TIMEOUT,
    stall_timeout: str | None = STALL,
    stall_action: str | None = STALL_ACTION,
    max_corrections: int | None = CORRECTIONS,
    strict: bool | None = STRICT,
    require_gates: bool | None = REQUIRE,
    no_gates: bool | None = NO_GATES,
    autonomy: str | None = AUTONOMY,
    network: str | None = NETWORK,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Show engine, gates, snapshot and prompt; start nothing."
    ),
    force: bool = typer.Option(False, "--force", help="Start although dependencies are not done."),
    keep: bool = typer.Option(
        False, "--keep", help="Keep an earlier run's unaccepted work in the tree and go on."
    ),
    json: bool = JSON,
) -> None:
    """Hand a task to an engine, check what comes back, and record the verdict."""
    from codeframe.core.admission import Request, plan
    from codeframe.core.models import RunKind

    workspace = recovered_workspace()
    task = workspace.store.tasks.find(task_id) if task_id else _next_ready(workspace)
    typed = _typed(model, message, timeout, stall_timeout, stall_action, max_corrections, strict, require_gates,
                   no_gates, autonomy, network)  # fmt: skip
    request = Request(RunKind.START, engine, typed, force, keep)
    if not execute or dry_run:
        _show_plan(workspace, task, request, dry_run=dry_run)
        return
    _work(workspace, plan(workspace, task, request), request, as_json=json)


@app.command()
def resume(
    task_id: str = typer.Argument(..., metavar="ID", help="Task whose last run can go on."),
    engine: str | None = ENGINE,
    model: str | None = MODEL,
    message: str | None = NOTE,
    timeout: str | None = TIMEOUT,
    stall_timeout: str | None = STALL,
    stall_action: str | None = STALL_ACTION,
    max_corrections: int | None = CORRECTIONS,
    strict: bool | None = STRICT,
    require_gates: bool | None = REQUIRE,
    no_gates: bool | None = NO_GATES,
    autonomy: str | None = AUTONOMY,
    network: str | None = NETWORK,
    force: bool = typer.Option(False, "--force", help="Go on although dependencies are not done."),
    json: bool = JSON,
) -> None:
    """Go on with a blocked, stopped, timed out or crashed run, in the engine's own session."""
    from codeframe.core.admission import Request, plan
    from codeframe.core.models import RunKind

    workspace = recovered_workspace()
    typed = _typed(model, message, timeout, stall_timeout, stall_action, max_corrections, strict, require_gates,
                   no_gates, autonomy, network)  # fmt: skip
    request = Request(RunKind.RESUME, engine, typed, force)
    task = workspace.store.tasks.find(task_id)
    _work(workspace, plan(workspace, task, request), request, as_json=json)


@app.command()
def retry(
    task_id: str = typer.Argument(..., metavar="ID", help="Task whose last run failed."),
    engine: str | None = ENGINE,
    model: str | None = MODEL,
    message: str | None = NOTE,
    timeout: str | None = TIMEOUT,
    stall_timeout: str | None = STALL,
    stall_action: str | None = STALL_ACTION,
    max_corrections: int | None = CORRECTIONS,
    strict: bool | None = STRICT,
    require_gates: bool | None = REQUIRE,
    no_gates: bool | None = NO_GATES,
    autonomy: str | None = AUTONOMY,
    network: str | None = NETWORK,
    from_base: bool = typer.Option(
        False, "--from-base", help="First take back what the earlier runs changed."
    ),
    force: bool = typer.Option(False, "--force", help="Go on although dependencies are not done."),
    json: bool = JSON,
) -> None:
    """Try a failed task again in a fresh session, telling the engine what went wrong before."""
    from codeframe.core.admission import Request, plan
    from codeframe.core.models import RunKind

    workspace = recovered_workspace()
    typed = _typed(model, message, timeout, stall_timeout, stall_action, max_corrections, strict, require_gates,
                   no_gates, autonomy, network)  # fmt: skip
    request = Request(RunKind.RETRY, engine, typed, force)
    task = workspace.store.tasks.find(task_id)
    planned = plan(workspace, task, request)
    if from_base:
        _undo(workspace, task, to=note)
    _work(workspace, planned, request, as_json=json)


@app.command()
def stop(task_id: str = typer.Argument(..., metavar="ID", help="Task that is being worked on.")) -> None:
    """Stop a task's run from any terminal; the work so far is kept."""
    import time

    from codeframe.core.errors import CodeFrameError, UsageError
    from codeframe.core.models import RunStatus

    workspace = recovered_workspace()
    task = workspace.store.tasks.find(task_id)
    run = workspace.store.runs.latest(task.id)
    if run is None or run.status is not RunStatus.RUNNING:
        raise UsageError(f"Task {task.id[:8]} is not running.", "Type: cf work status")
    workspace.store.runs.request_stop(run.id)
    note(f"Asked run {run.id[:8]} to stop.")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        run = workspace.store.runs.get(run.id)
        if run.status is not RunStatus.RUNNING:
            say(
                f"Run {run.id[:8]} ended as {run.status.value}, its work is kept. Go on: cf work resume {task.id[:8]}"
            )
            return
        time.sleep(0.1)
    raise CodeFrameError(f"Run {run.id[:8]} has not stopped after 30 seconds.", "Type: cf work status")


@app.command()
def undo(
    task_id: str = typer.Argument(..., metavar="ID", help="Task whose work to take back."),
    json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Take back what the engine changed, path by path, where nobody has changed it since."""
    workspace = recovered_workspace()
    task = workspace.store.tasks.find(task_id)
    result = _undo(workspace, task, to=None if json else say)
    if json:
        emit_json(result)


def _undo(workspace: Workspace, task: Task, to: Any) -> dict[str, Any]:
    from codeframe.core.take_back import take_back

    result = take_back(workspace, task)
    if to is not None:
        for path in result.restored:
            to(f"restored  {path}")
        for path, reason in result.kept:
            to(f"kept      {path} ({reason})")
        if result.note:
            to(result.note)
        to(
            f"{len(result.restored)} restored, {len(result.kept)} kept. The state before this undo: {result.safety}"
        )
    return {"restored": list(result.restored), "kept": [{"path": p, "reason": r} for p, r in result.kept],
            "note": result.note, "safety": result.safety}  # fmt: skip


def _next_ready(workspace: Workspace) -> Task:
    from codeframe.core.errors import UsageError

    task = workspace.store.tasks.next_ready()
    if task is None:
        raise UsageError(
            "No task is ready.", 'Type: cf tasks list, or add one: cf tasks add "what is to be done"'
        )
    return task


def _typed(
    model: str | None, message: str | None, timeout: str | None, stall_timeout: str | None, stall_action: str | None,
    max_corrections: int | None, strict: bool | None, require_gates: bool | None, no_gates: bool | None,
    autonomy: str | None, network: str | None,
) -> dict[str, Any]:  # fmt: skip
    """The RunOptions fields that were typed, checked."""
    from codeframe.core.durations import parse_duration

    _one_of("--stall-action", stall_action, ("blocker", "retry", "fail"))
    _one_of("--autonomy", autonomy, ("workspace", "full"))
    _one_of("--network", network, ("on", "off"))
    return {
        "model": model, "note": message, "max_corrections": max_corrections, "strict": strict,
        "require_gates": require_gates, "no_gates": no_gates, "stall_action": stall_action,
        "autonomy": autonomy, "network": network,
        "timeout_s": parse_duration(timeout) if timeout is not None else None,
        "stall_timeout_s": parse_duration(stall_timeout) if stall_timeout is not None else None,
    }  # fmt: skip


def _one_of(flag: str, value: str | None, allowed: tuple[str, ...]) -> None:
    from codeframe.core.errors import UsageError

    if value is not None and value not in allowed:
        raise UsageError(
            f"{flag} takes {', '.join(allowed[:-1])} or {allowed[-1]}, not “{value}”.",
            "Type: cf work start --help",
        )


def _show_plan(workspace: Workspace, task: Task, request: Request, *, dry_run: bool) -> None:
    """The packed prompt; with --dry-run also engine, gates and snapshot. Starts and writes nothing."""
    from codeframe.core.admission import plan
    from codeframe.core.config import load_environment_config
    from codeframe.core.context_packager import TaskContextPackager
    from codeframe.core.runtime_preview import preview

    if dry_run:
        planned = plan(workspace, task, request)
        say(preview(workspace, planned))
        gates = planned.gates.describe() if planned.gates else ()
    else:
        from codeframe.core.admission import gate_suite

        typed = request.typed or {}
        suite = (
            None if typed.get("no_gates") else gate_suite(workspace, load_environment_config(workspace.root))
        )
        gates = suite.describe() if suite else ()
    prompt, _ = TaskContextPackager(workspace, gates=gates).build(
        task.id, note=str((request.typed or {}).get("note") or "")
    )
    say(prompt)
    if not dry_run:
        note(f"Nothing was started. To hand this to an engine: cf work start {task.id[:8]} --execute")


def _work(workspace: Workspace, planned: Plan, request: Request, *, as_json: bool) -> None:
    """Admit and execute a plan, with progress on stderr and the verdict on stdout; exits with its status."""
    from codeframe.cli.progress import Progress
    from codeframe.cli.views import run_json
    from codeframe.core.admission import admit
    from codeframe.core.runtime import execute_agent
    from codeframe.core.stop_switch import StopSwitch
    from codeframe.core.verdict import exit_status

    stop = StopSwitch()
    with stop.on_signals():
        run = admit(workspace, planned, request)
        progress = Progress()
        progress.begin(planned.task, run)
        finished = execute_agent(workspace, run, on_event=progress.event, stop=stop)
        if as_json:
            emit_json(run_json(finished))
        else:
            _tell(workspace, planned.task, finished)
    raise typer.Exit(exit_status(finished))


def _tell(workspace: Workspace, task: Task, run: Run) -> None:
    """The verdict in a few lines, and what to type next."""
    from codeframe.core.models import BlockerStatus, RunStatus

    short = task.id[:8]
    tint = {"COMPLETED": "green", "BLOCKED": "yellow", "STOPPED": "yellow"}.get(run.status.value, "red")
    print(colour(work_views.verdict_line(run), tint))
    if run.summary:
        say(run.summary.strip())
    if run.error and run.status is not RunStatus.COMPLETED:
        say(run.error)
    for line in run.evidence.get("notes", []):
        say(f"Note: {line}")
    for line in work_views.change_lines(workspace, run):
        say(f"  {line}")
    if run.status is RunStatus.BLOCKED or (run.status is RunStatus.TIMEOUT and run.error_class == "stalled"):
        for blocker in workspace.store.blockers.list(status=BlockerStatus.OPEN, task_id=task.id):
            say(f"Blocked: {blocker.question}")
            if blocker.kind == "question" or blocker.kind == "gates":
                say(f'Answer with: cf blocker answer {blocker.id[:8]} "…", then: cf work resume {short}')
            else:
                say(f"Then: cf work resume {short}")
    elif run.status is RunStatus.COMPLETED:
        say(f"See the change: cf work diff {short}    the evidence: cf work why {short}")
    elif run.status in (RunStatus.STOPPED, RunStatus.TIMEOUT) or run.error_class == "crashed":
        say(f"Go on: cf work resume {short}    take it back: cf work undo {short}")
    else:
        say(f"Why: cf work why {short}    again: cf work retry {short}    take it back: cf work undo {short}")


work_views.register(app)
