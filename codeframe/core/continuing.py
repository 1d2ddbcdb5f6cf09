"""What a run takes over from the runs it goes on with: answers, failures, summary, the session's model (rule 4.8)."""

from __future__ import annotations

import contextlib
from pathlib import Path

from codeframe.core.adapters.integrity_check import ASKED, Before
from codeframe.core.leftovers import baseline_run, chain, engine_calls
from codeframe.core.models import BlockerStatus, ErrorClass, Leftover, Run, RunKind
from codeframe.core.safe_read import read_regular
from codeframe.core.snapshots import Snapshots
from codeframe.core.workspace import Workspace

FEEDBACK_FILE = "feedback.md"  # in a run's folder: its last failures as its engine was told them
MODEL = "model"  # in `Run.process`: as the engine named it, which need not be what was asked for
_MAX_FEEDBACK_BYTES = 10_000_000


def opening(workspace: Workspace, run: Run, note: str) -> str | None:
    """What a resumed session is told first: the answers a person gave, and their note. None for no resume."""
    if run.kind is not RunKind.RESUME:
        return None
    answered = workspace.store.blockers.list(status=BlockerStatus.ANSWERED, task_id=run.task_id)
    parts = [f"You asked: {blocker.question}\nThe answer: {blocker.answer}" for blocker in answered]
    if note:
        parts.append(note)
    parts.append(
        "Go on with the task from where you stopped; the working tree is as you left it, apart from what people "
        "changed. The rules for working and reporting still hold."
    )
    return "\n\n".join(parts)


def previous_errors(workspace: Workspace, run: Run) -> tuple[str, ...]:
    """What went wrong in the run this one continues, whole enough to act on."""
    if run.previous_run_id is None:
        return ()
    previous = workspace.store.runs.get(run.previous_run_id)
    parts = [previous.error or ""]
    with contextlib.suppress(OSError):
        feedback = read_regular(workspace.run_dir(previous.id) / FEEDBACK_FILE, _MAX_FEEDBACK_BYTES)
        parts.append(feedback.decode("utf-8", "replace"))
    text = "\n\n".join(filter(None, parts))
    return (text,) if text else ()


def summary_before(workspace: Workspace, run: Run) -> str:
    """What the engine said of its work in the run before; "" for nothing."""
    before = run.previous_run_id
    return workspace.store.runs.get(before).summary if before is not None else ""


def stands_on_work(workspace: Workspace, run: Run) -> bool:
    """Whether the tree holds what earlier runs of the chain changed."""
    return any(earlier.evidence.get("changed") for earlier in chain(workspace, run)[:-1])


def accept(workspace: Workspace, run: Run) -> None:
    """`run` succeeds: what earlier runs of its chain left is accepted with it, and the task's blockers are settled."""
    for earlier in chain(workspace, run)[:-1]:
        workspace.store.runs.update(earlier.id, leftover=Leftover.NONE)
    settle_blockers(workspace, run)


def settle_overcome(workspace: Workspace, run: Run, error_class: ErrorClass | None) -> None:
    """A login, a bill or a quota no longer stands in the way where the model answered all the same."""
    if error_class not in (ErrorClass.NO_CHANGE, ErrorClass.GATES, ErrorClass.PERMISSION_DENIED):
        return
    outside = tuple(
        c.value for c in (ErrorClass.AUTH, ErrorClass.BILLING, ErrorClass.QUOTA, ErrorClass.BUDGET)
    )
    for blocker in workspace.store.blockers.list(status=BlockerStatus.OPEN, task_id=run.task_id):
        if blocker.kind in outside:
            workspace.store.blockers.resolve(blocker.id)


def settle_blockers(workspace: Workspace, run: Run) -> None:
    """The task's blockers have served: the answers were used, or another takes their place."""
    for blocker in workspace.store.blockers.list(task_id=run.task_id):
        if blocker.status is not BlockerStatus.RESOLVED:
            workspace.store.blockers.resolve(blocker.id)


def keep_feedback(run_dir: Path, text: str) -> None:
    """Keep what the gates said for the next run of the task (see `previous_errors`)."""
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # engines have deleted it
    (run_dir / FEEDBACK_FILE).write_text(text, encoding="utf-8")


def checks_before(workspace: Workspace, snapshots: Snapshots, run: Run) -> Before:
    """With what to compare the checks: as with the baseline, the first run whose work this one stands on."""
    first, store = baseline_run(workspace, run), workspace.store
    if first.id == run.id or first.base is None:
        return Before()
    earlier = [r for r in store.runs.list(task_id=run.task_id) if first.attempt <= r.attempt < run.attempt]
    calls = [call for each in earlier for call in engine_calls(workspace, each)]
    paths = {path for start, end in calls for path, _, _ in snapshots.compare(start, end)}
    answered = {blocker.run_id for blocker in store.blockers.history(run.task_id) if blocker.answer}
    accepted = {key for each in earlier if each.id in answered for key in each.evidence.get(ASKED, ())}
    return Before(first.base, frozenset(paths), frozenset(accepted))


def session_model(workspace: Workspace, run: Run) -> str | None:
    """The model the session to be resumed began with, as the engine named it in an earlier run."""
    for earlier in reversed(chain(workspace, run)[:-1]):
        if earlier.session_id != run.session_id:
            continue
        rounds = workspace.store.runs.rounds(earlier.id)
        named = [r["engine"]["model"] for r in rounds if (r.get("engine") or {}).get("model")]
        if model := (named[-1] if named else earlier.process.get(MODEL)):
            return str(model)
    return None
