"""May this task run now, with which engine and options? All that can refuse a run, before one exists (rule 4)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from codeframe.core import config as configuration
from codeframe.core.engine_arguments import arguments_for
from codeframe.core.engine_check import TYPED_CHAIN, check_chain, check_engine
from codeframe.core.engine_registry import EngineRegistry, resolve_engine
from codeframe.core.environment_config import EnvironmentConfig
from codeframe.core.errors import EXIT_BLOCKED, CodeFrameError, RequirementsError
from codeframe.core.leftovers import snapshots_of, unaccepted
from codeframe.core.models import (
    BlockerStatus,
    ErrorClass,
    Leftover,
    Run,
    RunKind,
    RunStatus,
    Task,
    TaskStatus,
)
from codeframe.core.run_lock import lock_run, owner_unseen
from codeframe.core.run_options import RunOptions
from codeframe.core.shown import shown
from codeframe.core.trust import Trust, Untrusted
from codeframe.core.workspace import Workspace, neighbours
from codeframe.core.would_run import would_run

if TYPE_CHECKING:
    from codeframe.core.gates import Gate, GateSuite


class Request(NamedTuple):
    """What a person asked for. `typed` holds RunOptions fields that were given (absent or None = not given)."""

    kind: RunKind = RunKind.START
    engine: str | None = None
    typed: Mapping[str, Any] | None = None
    force: bool = False
    keep: bool = False
    commit: bool = False  # of the verified result, by the command, after the run


class Plan(NamedTuple):
    """A run that would be admitted: nothing has been written or locked yet."""

    task: Task
    kind: RunKind
    engine: str
    engine_why: str
    options: RunOptions
    previous: Run | None
    gates: GateSuite | None
    untrusted: Untrusted | None = None


def plan(workspace: Workspace, task: Task, request: Request) -> Plan:
    """Check everything that does not need a lock. Raises CodeFrameError or a subclass, with what to type."""
    previous = workspace.store.runs.latest(task.id)
    check_status(workspace, task, previous, request)
    if not request.force:
        check_dependencies(workspace, task)
    config = configuration.load_environment_config(workspace.root)
    # `resume` and `retry` go on as the run before was told to, unless something else is typed.
    before = previous if request.kind is not RunKind.START else None
    if request.engine is None and before is not None and before.kind is not RunKind.MANUAL:
        engine, why = before.engine, f"the engine of run {before.id[:8]}"
    else:
        engine, why = resolve_engine(workspace, request.engine, task.engine)
    known = EngineRegistry.at(workspace.root)
    check_engine(engine, why, task, known=known)
    own = getattr(known.adapter_class(engine), "run_defaults", {})
    options = RunOptions.merge(config, request.typed or {}, before, own)
    typed_chain = (request.typed or {}).get("fallback") is not None
    check_chain(engine, options, TYPED_CHAIN if typed_chain else "the chain of engines (fallback)", known)
    refusal = getattr(known.adapter_class(engine), "refusal", None)
    if refusal is not None and (refused := refusal(workspace.root, options.model)) is not None:
        raise refused
    chain = [engine, *options.fallback]
    options = options._replace(engine_args=arguments_for(options.engine_args, chain, known))
    suite = None if options.no_gates else gate_suite(workspace, config, strict=options.strict)
    if suite is not None:
        _refuse_missing(suite.missing(look=True))
    full = config.autonomy == options.autonomy == "full" and not (request.typed or {}).get("autonomy")
    items = would_run(workspace, suite, chain, known=known, full=full, arguments=options.engine_args)
    return Plan(task, request.kind, engine, why, options, previous, suite, Trust(workspace).untrusted(items))


def admit(workspace: Workspace, planned: Plan, request: Request) -> Run:
    """Lock the tree, check what earlier runs left in it, claim the task. A CodeFrameError leaves nothing held.

    Raises RequirementsError where something would run that nobody trusts (rule 9.1).
    """
    if planned.untrusted is not None:
        raise planned.untrusted.refusal()
    if planned.gates is not None:
        _refuse_missing(planned.gates.missing())
    task, previous = planned.task, planned.previous
    run_id = os.urandom(6).hex()
    lock = lock_run(workspace, run_id, task)
    try:
        waiting = snapshots_of(workspace).operation()
        if waiting is not None:
            raise waiting
        check_tree(workspace, task, request)
        linked = request.kind is not RunKind.START and previous is not None
        process: dict[str, Any] = {"tree": workspace.tree_key, "toplevel": str(workspace.repo.toplevel)}
        from codeframe.core.process_sweep import process_identity

        process.update(process_identity())
        return workspace.store.runs.claim(
            task.id, id=run_id, engine=planned.engine, engine_why=planned.engine_why, kind=request.kind,
            model=planned.options.model, options=planned.options.to_dict(), process=process,
            previous_run_id=previous.id if linked and previous else None,
            session_id=_session_to_resume(planned), expect=_claimable(request.kind),
        )  # fmt: skip
    except BaseException:
        lock.discard()
        raise


def gate_suite(workspace: Workspace, config: EnvironmentConfig, *, strict: bool = False) -> GateSuite:
    """The gates that really run here: the declared ones, else those found (rule 6.1)."""
    from codeframe.core.gates import GateSuite, declared_gates, find_gates

    found = config.gates is None
    gates = find_gates(workspace.root) if config.gates is None else declared_gates(config.gates)
    return GateSuite(workspace.root, gates, workspace.store.baselines, strict=strict, growing=found)


def _refuse_missing(gates: tuple[Gate, ...]) -> None:
    for gate in gates:
        raise RequirementsError(
            f"Gate “{gate.name}” is declared, but {gate.command[0]} is not installed in the project's environment.",
            "Install it there, or change gates: in .codeframe/config.yaml, or add --no-gates.",
        )


def _claimable(kind: RunKind) -> tuple[TaskStatus, ...]:
    if kind is RunKind.START:
        return (TaskStatus.READY, TaskStatus.BACKLOG)
    return (TaskStatus.READY, TaskStatus.BLOCKED, TaskStatus.FAILED)


def _session_to_resume(planned: Plan) -> str | None:
    """The earlier session, where it can go on: the same engine, and a resume rather than a fresh try."""
    previous = planned.previous
    if planned.kind is not RunKind.RESUME or previous is None:
        return None
    return previous.session_id if EngineRegistry.same(previous.engine, planned.engine) else None


def check_dependencies(workspace: Workspace, task: Task) -> None:
    """Refuse a task that waits for others."""
    unmet = workspace.store.tasks.unmet_dependencies(task.id)
    if unmet:
        names = ", ".join(f"{t.id[:8]} “{t.title}” ({t.status.value})" for t in unmet)
        raise CodeFrameError(
            f"Task {task.id[:8]} depends on work that is not done: {names}.",
            f"Do that first: cf work start {unmet[0].id[:8]} --execute; or add --force.",
        )


def by_hand(workspace: Workspace, run: Run, cf: str = "cf") -> CodeFrameError:
    """The refusal where a run by hand is open, naming what ends it."""
    short, title = run.task_id[:8], workspace.store.tasks.get(run.task_id).title
    return CodeFrameError(
        f"Task {short} “{title}” is being done by hand in the working tree {run.process.get('toplevel')}.",
        f"When it is done: {cf} work verify {short}; or give it up, keeping the work: {cf} work stop {short}",
    )


def _commit_first(workspace: Workspace, task: Task) -> str:
    """What is left to do with an accepted task: a `cf` that was to commit it may have been killed before that."""
    if task.status is not TaskStatus.DONE:
        return ""
    from codeframe.core.uncommitted import uncommitted

    left = any(uncommitted(workspace, [task]))
    return f"It is not committed; type: cf commit create --task {task.id[:8]}" if left else ""


def check_status(workspace: Workspace, task: Task, previous: Run | None, request: Request) -> None:
    """Refuse a task that may not begin, or go on, in this way now (rule 4.8)."""
    short = task.id[:8]
    if task.status is TaskStatus.IN_PROGRESS:
        if previous is not None and previous.kind is RunKind.MANUAL:
            raise by_hand(workspace, previous)
        if previous is not None and (refusal := owner_unseen(workspace, previous)):
            raise refusal
        raise CodeFrameError(
            f"Task {short} is already being worked on (run {previous.id[:8] if previous else '?'}).",
            f"Watch it: cf work follow {short}; or stop it: cf work stop {short}",
        )
    if task.status is TaskStatus.BLOCKED and request.kind in (RunKind.START, RunKind.MANUAL):
        waiting = workspace.store.blockers.list(status=BlockerStatus.OPEN, task_id=task.id)
        verb = "verify" if previous is not None and previous.kind is RunKind.MANUAL else "resume"
        on = f"cf work {verb} {short}" if previous is not None else f"cf work start {short} --execute"
        hint = f"Type: {on}"
        if waiting:
            hint = f'Answer it: cf blocker answer {waiting[-1].id[:8]} "your answer", then: {on}'
        what = f": {waiting[-1].question}" if waiting else "."
        raise CodeFrameError(f"Task {short} is blocked{what}", hint, EXIT_BLOCKED)
    if request.kind in (RunKind.START, RunKind.MANUAL):
        refusals = {
            TaskStatus.FAILED: ("failed before", f"Type: cf work retry {short}"),
            TaskStatus.DONE: ("is done already", f"To do it again: cf tasks set {short} status READY"),
            TaskStatus.MERGED: ("is merged already", "Type: cf tasks list --status READY"),
        }
        if request.kind is RunKind.MANUAL:
            del refusals[TaskStatus.FAILED]  # what an engine could not do, a person may finish
        if task.status in refusals:
            what, hint = refusals[task.status]
            raise CodeFrameError(f"Task {short} {what}.", _commit_first(workspace, task) or hint)
        return
    verb = request.kind.value
    if previous is None or task.status in (TaskStatus.DONE, TaskStatus.MERGED):
        state = "has never run" if previous is None else f"is {task.status.value}"
        raise CodeFrameError(
            f"Task {short} {state}; there is nothing to {verb}.",
            _commit_first(workspace, task) or f"Type: cf work show {short}",
        )
    if request.kind is RunKind.RETRY:
        return
    resumable = previous.status in (RunStatus.BLOCKED, RunStatus.STOPPED, RunStatus.TIMEOUT)
    if not resumable and previous.error_class is not ErrorClass.CRASHED:
        over = " and was taken back" if previous.leftover is Leftover.UNDONE else ""
        failed = task.status is TaskStatus.FAILED
        again = f"retry {short}" if failed else f"start {short} --execute"
        raise CodeFrameError(
            f"The last run of task {short} ended as {previous.status.value}{over}; only a blocked, stopped, timed out "
            "or crashed one can go on.", f"Type: cf work {again}",
        )  # fmt: skip
    blocked = workspace.store.blockers.list(status=BlockerStatus.OPEN, task_id=task.id)
    # Auth, billing and quota blockers are cleared outside; typing `resume` says that they are.
    asked = [b for b in blocked if b.kind in ("question", ErrorClass.GATES.value)]
    if asked:
        raise CodeFrameError(
            f"Task {short} waits for an answer: {asked[0].question}",
            f'Type: cf blocker answer {asked[0].id[:8]} "your answer"',
            EXIT_BLOCKED,
        )


def check_tree(workspace: Workspace, task: Task, request: Request) -> None:
    """Refuse to build on unaccepted work of an earlier run, unless that work goes on or is to be kept.

    The tree is shared by all workspaces of the repository.
    """
    for owner in (workspace, *neighbours(workspace)):
        cf = owner.command(workspace)
        for run in owner.store.runs.running():
            if run.process.get("tree") == workspace.tree_key:  # and yet its lock was free
                if run.kind is RunKind.MANUAL:
                    raise by_hand(owner, run, cf)
                raise owner_unseen(owner, run, cf) or CodeFrameError(
                    f"A crashed run of task {run.task_id[:8]} in this tree is not closed yet.",
                    f"Type: {cf} work status",
                )
        found = unaccepted(owner, snapshots_of(owner))
        if found is None or (request.kind is not RunKind.START and found[0].task_id == task.id):
            continue
        if not request.keep:
            raise _unaccepted(task, request, cf, *found)
        owner.store.runs.update(found[0].id, leftover=Leftover.KEPT)


def _unaccepted(task: Task, request: Request, cf: str, run: Run, paths: list[str]) -> CodeFrameError:
    short = run.task_id[:8]
    named = ", ".join(map(shown, paths[:3])) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    go_on = (
        "retry" if run.status is RunStatus.FAILED and run.error_class is not ErrorClass.CRASHED else "resume"
    )
    execute = {RunKind.START: " --execute", RunKind.MANUAL: ""}.get(request.kind)
    execute = f"{execute} --force" if execute and request.force else execute
    keep = f"keep it: cf work start {task.id[:8]}{execute} --keep; " if execute is not None else ""
    return CodeFrameError(
        f"The tree still holds unaccepted work of task {short} ({run.status.value}): {named}.",
        f"Go on with it: {cf} work {go_on} {short}; {keep}or take it back: {cf} work undo {short}",
    )
