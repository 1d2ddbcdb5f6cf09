"""`cf work`: start, resume, retry, stop and undo a task's work. The looking is in work_views.py."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import typer

from codeframe.cli import work_views
from codeframe.cli.grammar import Commands
from codeframe.cli.here import recovered_workspace
from codeframe.cli.output import emit_json, note, say
from codeframe.cli.run_end import leave, tell, warn_of_overlap
from codeframe.cli.work_options import (
    COMMIT,
    ENGINE,
    FORCE,
    JSON,
    NO_GATES,
    REQUIRE,
    RUN_OPTIONS,
    STRICT,
    TIMEOUT,
    check_commit,
    chosen,
    takes_run_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codeframe.core.admission import Plan, Request
    from codeframe.core.models import Run, Task
    from codeframe.core.take_back import TakenBack
    from codeframe.core.workspace import Workspace

_NAMED = 10  # files in a command to be typed

app = Commands("Run tasks and see what came of them.")


@app.command()
@takes_run_options
def start(
    task_id: str | None = typer.Argument(None, metavar="ID", help="Task; the next READY one unless given."),
    execute: bool = typer.Option(
        False, "--execute", help="Start the engine; without it you do the work by hand."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Check and show the whole plan with its prompt."),
    engine: str | None = ENGINE,
    options: dict[str, Any] = RUN_OPTIONS,
    force: bool = FORCE,
    commit: bool = COMMIT,
    keep: bool = typer.Option(False, "--keep", help="Keep what an earlier run left in the tree, and start."),
    json: bool = JSON,
) -> None:
    """Hand a task to an engine, check its work, record the verdict.

    Without --execute the task named is opened to be done by hand, by you or the agent in your editor; cf work verify
    then checks the work as it checks an engine's. With --dry-run, or without ID, its prompt is shown.
    """
    from codeframe.core.admission import Request, plan
    from codeframe.core.errors import UsageError
    from codeframe.core.models import RunKind, TaskStatus

    if commit and not execute:
        raise UsageError(
            "--commit is for what an engine does, and without --execute you do the work by hand.",
            f"Add --execute, or when the work is done: cf work verify {task_id or 'ID'} --commit",
        )
    check_commit(commit, options["no_gates"])
    workspace = recovered_workspace()
    # An empty ID is a variable that was not set, not a wish for the next task.
    task = workspace.store.tasks.find(task_id) if task_id is not None else _next_ready(workspace)
    request = Request(RunKind.START, engine, options, force, keep, commit)
    if not execute or dry_run:
        from codeframe.cli.work_preview import show_plan

        by_hand = request._replace(kind=RunKind.MANUAL) if task_id is not None and not dry_run else None
        show_plan(workspace, task, request, dry_run=dry_run, as_json=json, by_hand=by_hand)
        return
    if task.status is TaskStatus.IN_PROGRESS:
        from codeframe.cli.trusting import had_to_ask
        from codeframe.core.manual_run import hand_over, open_by_hand

        if open_by_hand(workspace, task):  # it stays open where the engine would be refused
            freed = task._replace(status=TaskStatus.READY)
            while had_to_ask(workspace, plan(workspace, freed, request).untrusted):
                pass
        if hand_over(workspace, task):
            note(f"Nothing was done in task {task.id[:8]} by hand; it goes to the engine.")
            task = workspace.store.tasks.get(task.id)
    _work(workspace, plan(workspace, task, request), request, as_json=json)


@app.command()
@takes_run_options
def resume(
    task_id: str = typer.Argument(..., metavar="ID", help="Task whose last run can go on."),
    engine: str | None = ENGINE,
    options: dict[str, Any] = RUN_OPTIONS,
    force: bool = FORCE,
    commit: bool = COMMIT,
    json: bool = JSON,
) -> None:
    """Go on with a blocked, stopped, timed out or crashed run.

    The engine goes on in its own session, with the answers that were given.
    """
    from codeframe.core.admission import Request, plan
    from codeframe.core.models import RunKind

    check_commit(commit, options["no_gates"])
    workspace = recovered_workspace()
    request = Request(RunKind.RESUME, engine, options, force, commit=commit)
    task = workspace.store.tasks.find(task_id)
    _work(workspace, plan(workspace, task, request), request, as_json=json)


@app.command()
@takes_run_options
def retry(
    task_id: str = typer.Argument(..., metavar="ID", help="Task whose last run failed."),
    engine: str | None = ENGINE,
    options: dict[str, Any] = RUN_OPTIONS,
    from_base: bool = typer.Option(
        False, "--from-base", help="First take back what the earlier runs changed."
    ),
    force: bool = FORCE,
    commit: bool = COMMIT,
    json: bool = JSON,
) -> None:
    """Try a failed task again in a fresh session.

    The engine is told what went wrong before.
    """
    from codeframe.core.admission import Request, plan
    from codeframe.core.errors import CodeFrameError
    from codeframe.core.models import RunKind

    check_commit(commit, options["no_gates"])
    workspace = recovered_workspace()
    request = Request(RunKind.RETRY, engine, options, force, commit=commit)
    task = workspace.store.tasks.find(task_id)
    planned = plan(workspace, task, request)
    if from_base and not _undo(workspace, task, to=note)["complete"]:
        raise CodeFrameError(
            "Not everything could be taken back, so nothing was started.",
            f"Undo your own edits of what was kept, or go on from there: cf work retry {task.id[:8]}",
        )
    _work(workspace, planned, request, as_json=json)


@app.command()
def verify(
    task_id: str = typer.Argument(..., metavar="ID", help="Task that was done by hand."),
    timeout: str | None = TIMEOUT,
    strict: bool | None = STRICT,
    require_gates: bool | None = REQUIRE,
    no_gates: bool | None = NO_GATES,
    commit: bool = COMMIT,
    json: bool = JSON,
) -> None:
    """Check what was done by hand since cf work start ID, and record the verdict.

    The same gates decide as for an engine. After a failure mend the work and type it again.
    """
    from codeframe.cli.failures import failure_lines
    from codeframe.cli.trusting import had_to_ask
    from codeframe.cli.views import run_json
    from codeframe.core import git_watch, manual_run
    from codeframe.core.models import RunStatus
    from codeframe.core.stop_switch import StopSwitch
    from codeframe.core.task_commit import check_committer

    check_commit(commit, no_gates)
    workspace = recovered_workspace()
    task = workspace.store.tasks.find(task_id)
    if commit:
        check_committer(workspace)
    options = chosen(timeout=timeout, strict=strict, require_gates=require_gates, no_gates=no_gates)
    check = manual_run.plan_check(workspace, task, options)
    while had_to_ask(workspace, check.untrusted):
        check = manual_run.plan_check(workspace, task, options)
    stop = StopSwitch()
    stop.on_throw(git_watch.hurry)
    with stop.on_signals():
        run = manual_run.verify(workspace, check, note, stop)
    if run.status is RunStatus.RUNNING:
        note(f"Interrupted; the task is still open. Type: cf work verify {task.id[:8]}")
        raise typer.Exit(128 + (stop.signal or 2))
    if not json:
        tell(workspace, task, run, commits=commit)
        for line in failure_lines(run):
            say(line)
    elif not commit:
        emit_json(run_json(run))
    leave(workspace, task, run, commit=commit, as_json=json)


@app.command()
def stop(
    task_id: str = typer.Argument(..., metavar="ID", help="Task that is being worked on."),
    force: bool = typer.Option(
        False, "--force", help="Close a run whose owner cannot be seen from here, such as in a container."
    ),
) -> None:
    """Stop a task's run from any terminal; the work so far is kept."""
    import time

    from codeframe.core.errors import CodeFrameError
    from codeframe.core.models import RunKind, RunStatus
    from codeframe.core.recovery import close_unseen, in_another_tree
    from codeframe.core.run_lock import is_alive, owner_unseen

    workspace = recovered_workspace()
    task = workspace.store.tasks.find(task_id)
    run = workspace.store.runs.latest(task.id)
    if run is None or run.status is not RunStatus.RUNNING:
        raise CodeFrameError(f"Task {task.id[:8]} is not running.", "Type: cf work status")
    if run.kind is RunKind.MANUAL:
        from codeframe.core.manual_run import give_up

        run = give_up(workspace, run, force=force)
        say(_ended(workspace, run))
        return
    if force:
        say(close_unseen(workspace, run))
        return
    if not is_alive(workspace, run.id) and workspace.store.runs.get(run.id).status is RunStatus.RUNNING:
        raise owner_unseen(workspace, run) or in_another_tree(run)
    workspace.store.runs.request_stop(run.id)
    note(f"Asked run {run.id[:8]} to stop.")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        run = workspace.store.runs.get(run.id)
        if run.status is not RunStatus.RUNNING:
            say(_ended(workspace, run))
            return
        time.sleep(0.1)
    raise CodeFrameError(f"Run {run.id[:8]} has not stopped after 30 seconds.", "Type: cf work status")


def _ended(workspace: Workspace, run: Run) -> str:
    from codeframe.cli.next_step import next_step

    step = next_step(workspace.store, workspace.store.tasks.get(run.task_id))
    return f"Run {run.id[:8]} ended as {run.status.value}; its work is kept. {step or ''}".rstrip()


@app.command()
def undo(
    task_id: str = typer.Argument(..., metavar="ID", help="Task whose work to take back."),
    paths: list[str] | None = typer.Argument(
        None, metavar="[-- PATHS]", help="Only these files and folders.", show_default=False
    ),
    json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Take back what the task changed, where nobody changed it since.

    What was changed after CodeFrame was killed may be yours: it is taken back only where PATHS name exactly it.
    The exit status is 1 when something was changed after the run and had to be kept.
    """
    from codeframe.core.take_back import from_top

    workspace = recovered_workspace()
    task = workspace.store.tasks.find(task_id)
    only = [from_top(workspace, path) for path in paths or ()]
    result = _undo(workspace, task, only, to=None if json else say)
    if json:
        emit_json(result)
    elif not result["complete"]:
        note(
            f"What was changed after the run is kept: undo your edit of it, then: cf work undo {task.id[:8]}"
        )
    if not result["complete"]:
        raise typer.Exit(1)


def _undo(workspace: Workspace, task: Task, only: Sequence[str] = (), *, to: Any) -> dict[str, Any]:
    import shlex

    from codeframe.core.shown import shown
    from codeframe.core.staged_moves import STAGED
    from codeframe.core.take_back import take_back
    from codeframe.core.undo import UNCERTAIN

    result = take_back(workspace, task, only)
    if to is not None:
        for path in result.restored:
            there = os.path.lexists(workspace.repo.toplevel / path)
            to(f"{'restored' if there else 'removed '}  {shown(path)}")
        for path, reason in result.kept:
            to(f"kept      {shown(path)} ({reason})")
        if result.note:
            to(result.note)
        if back := _bring_back(workspace, result):
            to(f"Bring it back: {back}")
        if result.commits and not only:
            first = f"{back} && " if back else ""  # git reverts nothing where the tree differs
            to(
                f"It is committed as {', '.join(result.commits)}, which stays; to take that back: "
                f"{first}git revert {' '.join(result.commits)}"
            )
        run = workspace.store.runs.latest(task.id)
        for line in work_views.moved_lines(workspace, run) if run else ():
            if only or not result.complete or not line.startswith(STAGED):  # which came back with the files
                to(f"Not undone: {line}")
        doubtful = [path for path, reason in result.kept if reason == UNCERTAIN and shown(path) == path]
        if doubtful := [shlex.quote(f":/{path}") for path in doubtful]:
            to(f"What of it is not yours, take back: cf work undo {task.id[:8]} -- {' '.join(doubtful)}")
        if not result.restored and not result.kept:
            to("There was nothing to take back.")
    return {"restored": list(result.restored), "kept": [{"path": p, "reason": r} for p, r in result.kept],
            "note": result.note, "safety": result.safety, "complete": result.complete}  # fmt: skip


def _bring_back(workspace: Workspace, result: TakenBack) -> str:
    """What brings back what was taken back; "" where that is nothing. Paths from the top of the tree (:/), wherever
    it is typed."""
    import shlex

    from codeframe.core.git import Git
    from codeframe.core.shown import shown

    asked = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", result.safety)
    stored = set(os.fsdecode(Git(workspace.repo.toplevel).run(*asked).stdout).split("\0"))
    paths = [path for path in result.restored if path in stored]
    if len(paths) > _NAMED or any(shown(path) != path for path in paths):
        # All files, as they were a moment ago; none of them is removed.
        return f"git restore --overlay --source={result.safety} -- :/"
    names = " ".join(shlex.quote(f":/{path}") for path in paths)
    return f"git restore --source={result.safety} -- {names}" if paths else ""


def _next_ready(workspace: Workspace) -> Task:
    from codeframe.core.errors import CodeFrameError

    task = workspace.store.tasks.next_ready()
    if task is None:
        raise CodeFrameError(
            "No task is ready.", 'Type: cf tasks list, or add one: cf tasks add "what is to be done"'
        )
    return task


def _work(workspace: Workspace, planned: Plan, request: Request, *, as_json: bool) -> None:
    """Admit and execute a plan, with progress on stderr and the verdict on stdout; exits with its status."""
    from codeframe.cli.progress import Progress
    from codeframe.cli.trusting import had_to_ask
    from codeframe.cli.views import run_json
    from codeframe.core import git_watch
    from codeframe.core.admission import admit, plan
    from codeframe.core.models import RunKind
    from codeframe.core.runtime import execute_agent
    from codeframe.core.stop_switch import StopSwitch

    if request.commit:
        from codeframe.core.task_commit import check_committer

        check_committer(workspace)
    while had_to_ask(workspace, planned.untrusted):
        planned = plan(workspace, planned.task, request)
    if request.commit and request.kind is RunKind.START:  # later the tree holds the task's own work
        warn_of_overlap(workspace)
    stop = StopSwitch()
    stop.on_throw(git_watch.hurry)
    with stop.on_signals():
        run = admit(workspace, planned, request)
        with Progress() as progress:
            progress.begin(planned.task, run)
            finished = execute_agent(workspace, run, on_event=progress.event, stop=stop)
        if not as_json:
            tell(workspace, planned.task, finished, commits=request.commit)
        elif not request.commit:
            emit_json(run_json(finished))
    leave(workspace, planned.task, finished, commit=request.commit, as_json=as_json)


work_views.register(app)
