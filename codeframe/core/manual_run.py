"""A run by hand: a person, or the agent in their editor, does the work, and the same gates judge it (rule 8.1).

It has no process and no lease, so no recovery ever ends it: `verify` does, or `give_up`.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from codeframe.core import config as configuration
from codeframe.core import continuing
from codeframe.core.adapters import questions
from codeframe.core.adapters.gate_check import GateCheck, changed_in_words, in_words
from codeframe.core.adapters.integrity_check import IntegrityCheck
from codeframe.core.adapters.rounds import RoundRecord
from codeframe.core.admission import (
    Request,
    by_hand,
    check_dependencies,
    check_status,
    check_tree,
    gate_suite,
)
from codeframe.core.agent_adapter import AgentResult, AgentResultStatus
from codeframe.core.errors import CodeFrameError
from codeframe.core.head_moves import own_start
from codeframe.core.leftovers import IN_TREE, OPEN_START, baseline_run, snapshots_of, without_call
from codeframe.core.models import ErrorClass, Leftover, Run, RunKind, RunStatus, Task, TaskStatus, utc_now
from codeframe.core.redaction import Redactor
from codeframe.core.run_lock import tree_reserved
from codeframe.core.run_options import RunOptions
from codeframe.core.snapshots import Snapshot, Snapshots
from codeframe.core.stop_switch import StopSwitch
from codeframe.core.trust import Trust, Untrusted
from codeframe.core.uncommitted import uncommitted
from codeframe.core.workspace import Workspace
from codeframe.core.would_run import gate_items

if TYPE_CHECKING:
    from codeframe.core.gates import GateReport, GateSuite

BY_HAND = "manual"  # stands in a run's row where others have their engine
_OPENED = (TaskStatus.READY, TaskStatus.BACKLOG, TaskStatus.FAILED)
_VERIFIED_AGAIN = {(TaskStatus.FAILED, RunStatus.FAILED), (TaskStatus.BLOCKED, RunStatus.BLOCKED)}
Say = Callable[[str], None]


class Check(NamedTuple):
    """What `verify` would do. `untrusted` is to be settled first (rule 9.1)."""

    task: Task
    options: RunOptions
    gates: GateSuite | None
    untrusted: Untrusted | None


def open_by_hand(workspace: Workspace, task: Task) -> Run | None:
    """The task's run by hand that is open now, if there is one."""
    run = workspace.store.runs.latest(task.id)
    is_open = run is not None and run.kind is RunKind.MANUAL and run.status is RunStatus.RUNNING
    return run if is_open else None


def open_run(
    workspace: Workspace, task: Task, request: Request, say: Say, stop: StopSwitch, opened: Callable[[], None]
) -> Run:
    """Begin a run by hand; one that is open already is returned as it is. `request` is of the kind MANUAL.

    `opened` is called once it is open. Then the gates run for their baseline where they are trusted; where not,
    nothing is run and nobody asked.
    Raises CodeFrameError where the task or the tree is not free.
    """
    if (run := open_by_hand(workspace, task)) is not None:
        _refuse_elsewhere(workspace, run)
        opened()
        return run
    previous = workspace.store.runs.latest(task.id)
    check_status(workspace, task, previous, request)
    if not request.force:
        check_dependencies(workspace, task)
    config = configuration.load_environment_config(workspace.root)
    options = RunOptions.merge(config, request.typed or {})
    with tree_reserved(workspace, f"opening of task {task.id[:8]}"):
        snapshots = snapshots_of(workspace)
        if (busy := snapshots.operation()) is not None:
            raise busy
        check_tree(workspace, task, request)
        base = snapshots.take(task.id, "base")
        goes_on = previous if previous is not None and previous.leftover in IN_TREE else None
        run = _claim(workspace, task, base.commit, goes_on, options)
        opened()
        if not options.no_gates and goes_on is None:
            suite = gate_suite(workspace, config, strict=options.strict)
            _baseline(workspace, run, snapshots, base, suite, say, stop)
    return run


def plan_check(workspace: Workspace, task: Task, typed: Mapping[str, Any]) -> Check:
    """What `verify` would do with the RunOptions fields that were typed. Raises CodeFrameError where there is
    nothing to verify."""
    run = _to_verify(workspace, task)
    config = configuration.load_environment_config(workspace.root)
    options = RunOptions.merge(config, typed, run)
    suite = None if options.no_gates else gate_suite(workspace, config, strict=options.strict)
    untrusted = Trust(workspace).untrusted(gate_items(workspace, suite)) if suite is not None else None
    return Check(task, options, suite, untrusted)


def verify(workspace: Workspace, check: Check, say: Say, stop: StopSwitch) -> Run:
    """Judge the work by the gates and close the run; when `stop` was thrown it is returned open.

    After a failure the next call judges what was mended since, as a run of its own. Raises CodeFrameError
    where there is nothing to verify or the tree is in use, RequirementsError where gates are not trusted.
    """
    if check.untrusted is not None:
        raise check.untrusted.refusal()
    task, options = check.task, check.options
    with tree_reserved(workspace, f"verification of task {task.id[:8]}"):
        run = _to_verify(workspace, task)
        _end_gates(run)
        snapshots = snapshots_of(workspace)
        if (busy := snapshots.operation()) is not None:
            raise busy
        if run.status is not RunStatus.RUNNING:
            run = _claim(workspace, task, run.end or run.base or "", run, options)
        record, end = _record(workspace, run, snapshots)
        if not record.changed and not continuing.stands_on_work(workspace, run):
            raise CodeFrameError(
                f"Nothing has changed since task {task.id[:8]} was opened, so there is nothing to verify.",
                f"Do the work, then: cf work verify {task.id[:8]}; or give it up: cf work stop {task.id[:8]}",
            )
        report = integrity = None
        if check.gates is not None:
            first = baseline_run(workspace, run)
            check.gates.recall(snapshots.load(first.base or end.commit).tree, first.id)
            no_baseline = not check.gates.base
            deadline = time.monotonic() + options.timeout_s
            checked = GateCheck(check.gates, snapshots, stop.event, say).run(
                task.id, end, {change.path for change in record.changes}, workspace.run_dir(run.id) / "gates-0",
                f"{run.id}/gates-0", lambda: deadline - time.monotonic(), record.start,
            )  # fmt: skip
            if stop.event.is_set():
                return run
            report = checked.report
            record = record._replace(gates=report.to_evidence())
            if checked.left is not end:
                record = record._replace(gates_end=checked.left.commit, gates_changes=checked.changes)
            for line in report.summary_lines():
                say(line)
            if no_baseline and report.status == "failed":
                say("There is no baseline from before the work began, so every failure counts.")
            integrity = IntegrityCheck(
                snapshots, workspace.root, Redactor(os.environ).redact,
                continuing.checks_before(workspace, snapshots, run), policy=options.integrity,
            )  # fmt: skip
            integrity.look([record], report)
            record = record._replace(weaker=integrity.found)
        return _conclude(workspace, run, record, report, integrity, options)


def give_up(workspace: Workspace, run: Run, *, force: bool = False) -> Run:
    """Close an open run by hand without a verdict; the work is kept. `force`: even if its tree cannot be seen."""
    if not force:
        _refuse_elsewhere(workspace, run)
    with tree_reserved(workspace, f"closing of task {run.task_id[:8]}"):
        _end_gates(run)
        record = None
        if run.process.get("tree") == workspace.tree_key:
            record, _ = _record(workspace, run, snapshots_of(workspace))
        return _finish(
            workspace, run, record, RunStatus.STOPPED, TaskStatus.READY,
            error="Stopped on request.", error_class=ErrorClass.CANCELLED,
        )  # fmt: skip


def hand_over(workspace: Workspace, task: Task) -> bool:
    """Close the task's open run by hand for an engine to begin, where nothing was done in it; False if none is open.

    Raises CodeFrameError where there is work: it is verified or given up first.
    """
    run = open_by_hand(workspace, task)
    if run is None:
        return False
    start, now = span_now(workspace, run)
    if snapshots_of(workspace).changes(start, now):
        raise by_hand(workspace, run)
    give_up(workspace, run)
    return True


def span_now(workspace: Workspace, run: Run) -> tuple[str, str]:
    """(start, the tree as it is now) of an open run by hand, as snapshots."""
    _refuse_elsewhere(workspace, run)
    snapshots = snapshots_of(workspace)
    now = snapshots.take(run.task_id, "check")
    start = own_start(snapshots, run.task_id, snapshots.load(run.process[OPEN_START]), now)
    return start.commit, now.commit


# -- the parts --------------------------------------------------------------------------------------


def _claim(workspace: Workspace, task: Task, start: str, previous: Run | None, options: RunOptions) -> Run:
    process = {"tree": workspace.tree_key, "toplevel": str(workspace.repo.toplevel), OPEN_START: start}
    asked = previous is not None and previous.status is RunStatus.BLOCKED
    return workspace.store.runs.claim(
        task.id, engine=BY_HAND, engine_why="by hand", kind=RunKind.MANUAL, options=options.to_dict(),
        process=process, base=start, end=start, previous_run_id=previous.id if previous else None,
        expect=(*_OPENED, TaskStatus.BLOCKED) if asked else _OPENED,
    )  # fmt: skip


def _baseline(
    workspace: Workspace, run: Run, snapshots: Snapshots, base: Snapshot, suite: GateSuite, say: Say, stop: StopSwitch
) -> None:  # fmt: skip
    """Measure the baseline. What changes meanwhile is the task's: a person need not wait, and nothing tells their
    work from what the gates do."""
    if not suite.names:
        return
    if Trust(workspace).untrusted(gate_items(workspace, suite)) is not None:
        say(
            "The gates are not trusted (cf trust), so they do not run now; at the end every failure will count."
        )
        return
    suite.recall(base.tree, run.id)
    if not (names := suite.to_run()):
        return
    say("Running the gates once before you begin: " + ", ".join(names) + ".")
    out = workspace.run_dir(run.id) / "gates-base"
    suite.baseline(out, marker=f"{run.id}/gates-base", cancel=stop.event)
    after = snapshots.take(run.task_id, "gates", unless=base)
    if after is not base:
        if changed := changed_in_words(snapshots, base, after):
            say(f"While they ran, this changed: {changed}. It counts as the task's.")
        if red := suite.to_run():
            say(
                f"Whether {', '.join(red)} failed before that is not known; at the end every failure will count."
            )
            suite.base = {name: result for name, result in suite.base.items() if name not in red}
    if not stop.event.is_set():
        suite.keep_baseline(unchanged=after is base)


def _to_verify(workspace: Workspace, task: Task) -> Run:
    """The open run by hand, or the last one if it failed or asked something; else CodeFrameError."""
    run = open_by_hand(workspace, task)
    if run is None:
        run = workspace.store.runs.latest(task.id)
        again = run is not None and (task.status, run.status) in _VERIFIED_AGAIN
        if run is None or run.kind is not RunKind.MANUAL or not again:
            raise CodeFrameError(
                f"Task {task.id[:8]} ({task.status.value}) is not being done by hand.",
                _instead(workspace, task),
            )
    _refuse_elsewhere(workspace, run)
    return run


def _instead(workspace: Workspace, task: Task) -> str:
    """What to type for a task that there is nothing to verify of."""
    short = task.id[:8]
    if task.status is TaskStatus.DONE and any(uncommitted(workspace, [task])):
        return f"It is done; commit it: cf commit create --task {short}"
    return (
        f"Open it: cf work start {short}" if task.status in _OPENED else f"Look at it: cf work show {short}"
    )


def _end_gates(run: Run) -> None:
    """End what gates of this run left when `cf` was killed in the middle of them: there is no recovery to do it."""
    from codeframe.core.process_sweep import end_marked

    end_marked(f"{run.id}/", prefix=True)


def _refuse_elsewhere(workspace: Workspace, run: Run) -> None:
    place = str(run.process.get("toplevel"))
    if run.process.get("tree") != workspace.tree_key:
        raise CodeFrameError(
            f"Task {run.task_id[:8]} is being done by hand in the working tree {place}.",
            f"Type it there: cf -C {shlex.quote(place)} work status"
            if Path(place).is_dir()
            else f"That is gone: cf work stop {run.task_id[:8]} --force",
        )


def _record(workspace: Workspace, run: Run, snapshots: Snapshots) -> tuple[RoundRecord, Snapshot]:
    """What was done since the run began, with its `end` snapshot."""
    end = snapshots.take(run.task_id, "end")
    start = own_start(snapshots, run.task_id, snapshots.load(run.process[OPEN_START]), end)
    changes = tuple(snapshots.changes(start.commit, end.commit))
    commits = tuple(snapshots.commits_between(start, end))
    result = AgentResult(AgentResultStatus.COMPLETED)
    return RoundRecord(0, "by hand", start.commit, end.commit, result, changes, commits), end


def _conclude(
    workspace: Workspace,
    run: Run,
    record: RoundRecord,
    report: GateReport | None,
    integrity: IntegrityCheck | None,
    options: RunOptions,
) -> Run:
    error = question = None
    if report is not None and report.status == "failed":
        error = "The gates fail."
        continuing.keep_feedback(workspace.run_dir(run.id), Redactor(os.environ).redact(report.feedback()))
    elif integrity is not None and integrity.open:
        question = questions.checks_changed(list(map(str, integrity.open)), by="this work")
    elif options.require_gates and (report is None or report.status == "unverified"):
        error = "The work is unverified and --require-gates is set."
    status = (RunStatus.FAILED, TaskStatus.FAILED) if error else (RunStatus.COMPLETED, TaskStatus.DONE)
    if question is not None:
        status = (RunStatus.BLOCKED, TaskStatus.BLOCKED)
    return _finish(
        workspace, run, record, *status, error=error, error_class=ErrorClass.GATES if error or question else None,
        blocker=(question, ErrorClass.GATES.value) if question else None, integrity=integrity,
        verification=report.status if report else "unverified",
    )  # fmt: skip


def _finish(
    workspace: Workspace,
    run: Run,
    record: RoundRecord | None,
    status: RunStatus,
    task: TaskStatus,
    *,
    integrity: IntegrityCheck | None = None,
    **values: Any,
) -> Run:
    """The evidence and the verdict, in one transaction. Without a record what was done is not known."""
    changed = record is None or record.changed
    done = status is RunStatus.COMPLETED
    kept = record if record is not None and (changed or record.gates is not None) else None
    notes = integrity.notes() if integrity and status is not RunStatus.BLOCKED else []
    start = run.process[OPEN_START]
    if kept and kept.start != start and (came := snapshots_of(workspace).changes(start, kept.start)):
        notes.append(f"came with commits made elsewhere, so it is not the task's: {in_words(came)}")
    evidence = {
        "changed": changed,
        "notes": notes,
        "gates": kept.gates if kept else None,
        "commits": list(kept.commits) if kept else [],
        **(integrity.evidence(asked=status is RunStatus.BLOCKED) if integrity else {}),
    }
    redactor = Redactor(os.environ)
    with workspace.store.write():
        if kept is not None:
            workspace.store.runs.add_round(run.id, 0, redactor.redact_all(kept.to_dict()))
        if done:
            continuing.accept(workspace, run)
        elif status is RunStatus.BLOCKED:
            continuing.settle_blockers(workspace, run)
        return workspace.store.runs.finish(
            run.id, status, task, leftover=Leftover.PENDING if changed and not done else Leftover.NONE,
            rounds=1 if kept else 0, end=kept.left if kept else run.end, process=without_call(run),
            duration_ms=int((utc_now() - run.started_at).total_seconds() * 1000),
            evidence=redactor.redact_all(evidence), **values,
        )  # fmt: skip
