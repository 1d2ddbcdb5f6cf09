"""After a crash of CodeFrame itself: find runs whose process is gone, end what they left running, keep their work.

Every step can be repeated: a recovery that is killed half-way is simply done again (rule 4.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from codeframe.core.errors import CodeFrameError
from codeframe.core.lease import Lease
from codeframe.core.leftovers import ENGINE, close_open_call, snapshots_of, spans
from codeframe.core.models import ErrorClass, Leftover, Run, RunStatus, TaskStatus
from codeframe.core.run_lock import is_alive, lease_path, tree_lock_path
from codeframe.core.workspace import Workspace

if TYPE_CHECKING:
    import psutil


def recover(workspace: Workspace) -> list[str]:
    """Close every run of this working tree whose lease is free. Returns a line for each, for stderr."""
    notes = []
    for run in workspace.store.runs.running():
        if is_alive(workspace, run.id) or not _ours(workspace, run):
            continue
        note = _close(workspace, run)
        if note is not None:
            notes.append(note)
    return notes


def _ours(workspace: Workspace, run: Run) -> bool:
    """Whether the run's process lived where we can judge it: this tree, this host, this pid namespace."""
    from codeframe.core.process_sweep import process_identity

    here = process_identity()
    there = run.process
    return there.get("tree") == workspace.tree_key and all(
        there.get(key) == here.get(key) for key in ("host", "pid_ns")
    )


def _close(workspace: Workspace, run: Run) -> str | None:
    # Holding both locks keeps a second recovery and a new run out while this one works.
    tree = Lease.acquire(tree_lock_path(workspace), {"purpose": "recovery", "run": run.id})
    if tree is None:
        return None
    try:
        lease = Lease.acquire(lease_path(workspace, run.id), {"purpose": "recovery"})
        if lease is None:
            return None
        try:
            if workspace.store.runs.get(run.id).status is not RunStatus.RUNNING:
                return None
            ended = _end_left(workspace, run)
            end, changed = _keep_work(workspace, run)
            workspace.store.runs.finish(
                run.id, RunStatus.FAILED, TaskStatus.READY, error_class=ErrorClass.CRASHED,
                error="CodeFrame was ended in the middle of this run.", end=end,
                leftover=Leftover.PENDING if changed else Leftover.NONE,
                evidence={**run.evidence, "recovered": True, "survivors": ended, "changed": changed},
            )  # fmt: skip
        finally:
            lease.release()
    finally:
        tree.release()
    still = f", ended {len(ended)} process{'es' if len(ended) != 1 else ''} it left" if ended else ""
    return (
        f"Run {run.id[:8]} of task {run.task_id[:8]} had crashed: kept its work{still}. "
        f"Go on with: cf work resume {run.task_id[:8]}"
    )


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
    try:
        run = close_open_call(workspace, snapshots, run)
    except (CodeFrameError, OSError):
        return run.end, True  # the work is in the tree; the call is closed when the repository is whole again
    return run.end, any(snapshots.changes(a, b) for a, b in spans(workspace, run))
