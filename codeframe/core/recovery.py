"""After a crash of CodeFrame itself: find runs whose process is gone, end what they left running, keep their work.

Every step can be repeated: a recovery that is killed half-way is simply done again (rule 4.4).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from codeframe.core.errors import CodeFrameError
from codeframe.core.lease import Lease
from codeframe.core.leftovers import ENGINE, close_open_call, snapshots_of, spans
from codeframe.core.models import ErrorClass, Leftover, Run, RunKind, RunStatus, TaskStatus
from codeframe.core.run_lock import is_alive, lease_path, owner_unseen, tree_busy, tree_lock_path, unseen
from codeframe.core.undo import sweep
from codeframe.core.workspace import Workspace

if TYPE_CHECKING:
    import psutil


def recover(workspace: Workspace, here: Workspace | None = None) -> list[str]:
    """Close every run of this working tree whose owner is dead. Returns lines for stderr: one for each, and one
    for each run whose owner cannot be seen. `here` is where the person is, if not in `workspace`."""
    cf = workspace.command(here or workspace)
    notes = []
    for run in workspace.store.runs.running():
        if run.kind is RunKind.MANUAL:
            if gates := _end_gates(workspace, run):
                notes.append(
                    f"CodeFrame was killed while gates ran for task {run.task_id[:8]}: ended {_count(gates)} it left."
                )
            continue
        if is_alive(workspace, run.id) or not run.process:
            continue
        if refusal := owner_unseen(workspace, run, cf):
            notes.append(f"{refusal.problem} {refusal.hint}")
        elif run.process.get("tree") == workspace.tree_key:
            ended = _close(workspace, run, "CodeFrame was ended in the middle of this run.")
            if ended is not None:
                notes.append(
                    f"Run {run.id[:8]} of task {run.task_id[:8]} had crashed: kept its work{ended}. "
                    f"Go on with: {cf} work resume {run.task_id[:8]}"
                )
    return notes


def close_unseen(workspace: Workspace, run: Run) -> str:
    """Close a RUNNING run whose owner cannot be seen from here, because a person says that it is over.

    Returns a line for people. CodeFrameError where its owner lives or where recovery or a plain stop does it.
    """
    short = run.task_id[:8]
    if is_alive(workspace, run.id):
        raise CodeFrameError(
            f"Run {run.id[:8]} is alive; it can be asked to stop.", f"Type: cf work stop {short}"
        )
    where = unseen(workspace, run)
    if where is None:
        raise in_another_tree(run)
    ended = _close(workspace, run, f"Closed by hand: its owner, {where}, could not be seen.")
    if ended is None:
        raise tree_busy(workspace)
    return f"Run {run.id[:8]} of task {short} is closed: kept its work{ended}. Go on with: cf work resume {short}"


def in_another_tree(run: Run) -> CodeFrameError:
    """The refusal for a dead run of another working tree, which is recovered by any command there."""
    return CodeFrameError(
        f"Run {run.id[:8]} was ended in the working tree {run.process.get('toplevel')}; its work is saved from there.",
        f"Type: cf -C {shlex.quote(str(run.process.get('toplevel')))} work status",
    )


def _close(workspace: Workspace, run: Run, error: str) -> str | None:
    """Do it; ", ended <n> processes it left" or "". None where somebody else is at it."""
    # Holding both locks keeps a second recovery and a new run out while this one works.
    tree = Lease.acquire(tree_lock_path(workspace, run), {"purpose": "recovery", "run": run.id})
    if tree is None:
        return None
    try:
        lease = Lease.acquire(lease_path(workspace, run.id), {"purpose": "recovery"})
        if lease is None:
            return None
        try:
            if workspace.store.runs.get(run.id).status is not RunStatus.RUNNING:
                return None
            sweep(snapshots_of(workspace))
            ended = _end_left(workspace, run)
            end, changed = _keep_work(workspace, run)
            workspace.store.runs.finish(
                run.id, RunStatus.FAILED, TaskStatus.READY, error_class=ErrorClass.CRASHED,
                error=error, end=end,
                leftover=Leftover.PENDING if changed else Leftover.NONE,
                evidence={**run.evidence, "recovered": True, "survivors": ended, "changed": changed},
            )  # fmt: skip
        finally:
            lease.release()
    finally:
        tree.release()
    return f", ended {_count(ended)} it left" if ended else ""


def _count(ended: list[str]) -> str:
    return f"{len(ended)} process{'es' if len(ended) != 1 else ''}"


def _end_gates(workspace: Workspace, run: Run) -> list[str]:
    """End what gates of a run by hand left. It has neither process nor lease, and is never over by itself; but
    while its gates run, their `cf` holds the tree."""
    from codeframe.core.process_sweep import end_marked, find_marked

    if not find_marked(f"{run.id}/", prefix=True):
        return []
    tree = Lease.acquire(tree_lock_path(workspace, run), {"purpose": "recovery", "run": run.id})
    if tree is None:
        return []
    with tree:
        return end_marked(f"{run.id}/", prefix=True)


def _end_left(workspace: Workspace, run: Run) -> list[str]:
    """End what the run left running; descriptions of it."""
    from codeframe.core.process_sweep import end_processes, find_marked

    find_more: Callable[[], list[psutil.Process]] = list
    if note := run.process.get(ENGINE):
        from codeframe.core.engine_session import leftovers_of

        find_more = leftovers_of(note, run.process, workspace.run_dir(run.id))
    # The session first: the engine is the best witness of it, as long as it lives.
    return list(
        end_processes(lambda: [*find_more(), *find_marked(f"{run.id}/", prefix=True)], grace_s=1.0).values()
    )


def _keep_work(workspace: Workspace, run: Run) -> tuple[str | None, bool]:
    """Save what the engine call that was under way had done; (the run's last snapshot, did it change anything)."""
    snapshots = snapshots_of(workspace)
    if run.base is None:
        return None, False  # it crashed before anything could have changed
    if run.process.get("tree") != workspace.tree_key:
        return run.end, True  # its tree is elsewhere: the call is closed by a start there
    try:
        run = close_open_call(workspace, snapshots, run)
    except (CodeFrameError, OSError):
        return run.end, True  # the work is in the tree; the call is closed when the repository is whole again
    return run.end, any(snapshots.changes(a, b) for a, b in spans(workspace, run))
