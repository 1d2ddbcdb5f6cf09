"""What a running run holds while it lives: its lease and the lock of its working tree (rules 4.3, 4.4).

Both are `flock`s, so the kernel frees them with the process, however it ends.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from codeframe.core.errors import CodeFrameError
from codeframe.core.lease import Lease, is_held, read_info
from codeframe.core.models import Run, RunKind, Task, utc_now
from codeframe.core.workspace import Workspace, registration_lock

_HELD: dict[str, RunLock] = {}


class RunLock:
    """The two locks of one run of this process."""

    def __init__(self, run_id: str, tree: Lease, lease: Lease) -> None:
        self._run_id = run_id
        self._leases = (lease, tree)
        _HELD[run_id] = self

    def release(self) -> None:
        """Free both. Releasing twice is harmless."""
        _HELD.pop(self._run_id, None)
        for lease in self._leases:
            lease.release()

    def discard(self) -> None:
        """Free both for a run that came to nothing: the folder made for its lease goes as well."""
        own = self._leases[0].path
        own.unlink(missing_ok=True)  # still held, and nobody else has heard of this run
        with suppress(OSError):
            own.parent.rmdir()
        self.release()


def tree_lock_path(workspace: Workspace, run: Run | None = None) -> Path:
    """The lock file of the working tree `workspace` lies in, or of the one `run` was made in."""
    tree = run.process.get("tree") if run is not None else None
    return workspace.locks_dir / f"tree-{tree or workspace.tree_key}.lock"


def lease_path(workspace: Workspace, run_id: str) -> Path:
    """The lease file of a run."""
    return workspace.run_dir(run_id) / "lease"


@contextmanager
def gates_folder(workspace: Workspace) -> Iterator[Path]:
    """A folder for what gates print that belong to no run; it goes afterwards. Its name begins their markers, and
    its lease tells, as a run's does, whether they are left over."""
    from codeframe.core.scratch import scratch

    with scratch(workspace.state_dir, {"purpose": "cf gates run"}, "gates-") as made:
        yield made.folder


def lock_run(workspace: Workspace, run_id: str, task: Task) -> RunLock:
    """Take the tree's lock and the run's lease. Raises CodeFrameError saying who is at work in the tree."""
    from codeframe.core.process_sweep import process_identity

    info: dict[str, Any] = {
        **process_identity(), "run": run_id, "task": task.id, "title": task.title,
        "workspace": workspace.id, "root": str(workspace.root), "since": utc_now().isoformat(),
    }  # fmt: skip
    tree = _take_tree(workspace, info)
    lease = Lease.acquire(lease_path(workspace, run_id), info)
    if lease is None:
        tree.release()
        raise CodeFrameError(
            f"Run {run_id[:8]} is being worked on by another process.", "Type: cf work status"
        )
    return RunLock(run_id, tree, lease)


def tree_busy(workspace: Workspace, lock: Path | None = None) -> CodeFrameError:
    """The refusal for a second run in one tree (of this `lock`), naming the first and what to type."""
    holder = read_info(lock or tree_lock_path(workspace))
    task = str(holder.get("task", ""))
    title = f" “{holder['title']}”" if holder.get("title") else ""
    who = f"task {task[:8]}{title}" if task else "another command"
    other = holder.get("workspace", workspace.id) != workspace.id
    where = f" of the workspace {holder.get('root')}" if other else ""
    cf = f"cf -C {shlex.quote(str(holder.get('root')))}" if other else "cf"
    stop = f", or stop it: {cf} work stop {task[:8]}" if task else ""
    tree = "This" if lock in (None, tree_lock_path(workspace)) else "Another"
    return CodeFrameError(
        f"{tree} working tree is in use by {who}{where}; a tree holds one run at a time.",
        f"Wait until it ends ({cf} work status){stop}",
    )


def unseen(workspace: Workspace, run: Run) -> str | None:
    """Where the owner of a RUNNING run is, if it cannot be told from here whether it lives; None if it can.

    A held lease tells that it lives, wherever that is. A free one tells that it is dead only where the
    locks of both are the same kernel's, and is final only for a tree that is still there (rule 4.4).
    """
    from codeframe.core.process_sweep import process_identity

    if run.kind is RunKind.MANUAL or is_alive(workspace, run.id):  # by hand there is no owner to live
        return None
    here, there = process_identity(), run.process
    if not there:
        return "without a process that was noted"
    if there.get("host") != here["host"]:
        return f"on the host {there.get('host')}"
    if there.get("pid_ns") != here["pid_ns"]:
        return "in another container (pid namespace)"
    tree = Path(str(there.get("toplevel", "")))
    if there.get("tree") != workspace.tree_key and not tree.is_dir():
        return f"in the working tree {tree}, which is gone"
    return None


def owner_unseen(workspace: Workspace, run: Run, cf: str = "cf") -> CodeFrameError | None:
    """The refusal where the owner of a RUNNING run is `unseen`: names the command that closes it."""
    where = unseen(workspace, run)
    if where is None:
        return None
    return CodeFrameError(
        f"Task {run.task_id[:8]} is being worked on by run {run.id[:8]} {where}; from here it cannot be seen "
        "whether that still lives.",
        f"If it is over, close it: {cf} work stop {run.task_id[:8]} --force",
    )


def tree_in_use(workspace: Workspace) -> bool:
    """Whether a run (of any process) holds the working tree now."""
    return is_held(tree_lock_path(workspace))


def is_alive(workspace: Workspace, run_id: str) -> bool:
    """Whether some process holds the run's lease."""
    return is_held(lease_path(workspace, run_id))


def held_by_us(run_id: str) -> RunLock | None:
    """The locks this process holds for a run, if any."""
    return _HELD.get(run_id)


@contextmanager
def tree_reserved(workspace: Workspace, purpose: str) -> Iterator[None]:
    """Hold the tree's lock for a short work of our own, such as an undo. Raises CodeFrameError when in use."""
    from codeframe.core.process_sweep import process_identity

    tree = _take_tree(workspace, {**process_identity(), "purpose": purpose})
    try:
        yield
    finally:
        tree.release()


def _take_tree(workspace: Workspace, info: Mapping[str, Any]) -> Lease:
    tree = Lease.acquire(tree_lock_path(workspace), info)
    if tree is None:
        raise tree_busy(workspace)
    if busy := commit_at_work(workspace):
        tree.release()
        raise busy
    return tree


def commit_at_work(workspace: Workspace) -> CodeFrameError | None:
    """The refusal where a commit is being made in the tree whose `cf` was killed: it lands when its hooks are done."""
    from codeframe.core.scratch import orphans

    for info in orphans(workspace.state_dir.parent):
        if info.get("tree") == str(workspace.repo.toplevel):
            pid = info.get("git", {}).get("pid")
            return CodeFrameError(
                "The git of a commit is still at work, in a hook or waiting for you; what started it was killed.",
                "Wait for it, then look: git log -1" + (f"; or end it: kill {pid}" if pid else ""),
            )
    return None


@contextmanager
def repository_reserved(workspace: Workspace, purpose: str) -> Iterator[None]:
    """Hold all locks of the repository: no run begins in any of its working trees, and no workspace is made.

    Raises CodeFrameError naming the run that is there.
    """
    from codeframe.core.process_sweep import process_identity

    paths = {tree_lock_path(workspace), registration_lock(workspace.repo)}
    paths.update(workspace.locks_dir.glob("tree-*.lock"))
    with ExitStack() as held:
        for path in sorted(paths):
            lease = Lease.acquire(path, {**process_identity(), "purpose": purpose})
            if lease is None:
                raise tree_busy(workspace, path)
            held.enter_context(lease)
        yield
