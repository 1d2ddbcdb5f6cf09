"""`cf work undo`: take back what the engine did in a task's latest runs, call by call, newest first (rule 4.2)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from codeframe.core.errors import CodeFrameError, UsageError
from codeframe.core.head_state import HeadState
from codeframe.core.leftovers import chain, close_open_call, made_by_gates, snapshots_of, spans
from codeframe.core.models import Leftover, RunStatus, Task, TaskStatus
from codeframe.core.run_lock import owner_unseen, tree_reserved
from codeframe.core.undo import MAYBE_OLDER, NOT_COVERED, REPOSITORY, UNCERTAIN, undo
from codeframe.core.workspace import Workspace


class TakenBack(NamedTuple):
    """`safety` is the ref of the snapshot taken first; `kept` holds (path, reason).

    `complete` is False where something could be taken back once a person's later edit is out of the way.
    `commits` carry the work in HEAD, the newest first: these stay.
    """

    restored: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]
    note: str
    safety: str
    complete: bool
    commits: tuple[str, ...]


# Kept for reasons that asking again would not change: the undo is complete all the same.
_FINAL = (NOT_COVERED, MAYBE_OLDER, UNCERTAIN, REPOSITORY)


def take_back(workspace: Workspace, task: Task, only: Sequence[str] = ()) -> TakenBack:
    """Undo the task's newest run and those it went on with, or of that the files and folders `only`.

    What may be a person's is taken back only where `only` names exactly it, which can be done after a whole
    undo, too. `only` holds paths from the top of the tree (see `from_top`). Raises CodeFrameError when there is
    no run to undo, UsageError when it changed none of what `only` names.
    """
    store = workspace.store
    runs = sorted(store.runs.list(task_id=task.id), key=lambda r: -r.attempt)
    if not runs:
        raise CodeFrameError(f"Task {task.id[:8]} has no run to undo.", f"Type: cf work show {task.id[:8]}")
    # A run that changed nothing hides the one before it; one that is undone does not: going back
    # further would take accepted work that nobody named.
    newest = next((r for r in runs if spans(workspace, r) or r.leftover is not Leftover.NONE), runs[0])
    if newest.leftover is Leftover.UNDONE and not only:
        raise CodeFrameError(
            f"The last work of task {task.id[:8]} is undone already.", f"Type: cf work show {task.id[:8]}"
        )
    if newest.status is RunStatus.RUNNING:
        raise owner_unseen(workspace, newest) or CodeFrameError(
            f"Task {task.id[:8]} is running.", f"Type: cf work stop {task.id[:8]}"
        )
    snapshots = snapshots_of(workspace)
    runs = chain(workspace, newest)
    with tree_reserved(workspace, f"undo of task {task.id[:8]}"):
        runs = [close_open_call(workspace, snapshots, run) for run in runs]
        pairs = [pair for run in runs for pair in spans(workspace, run)]
        result = undo(snapshots, task.id, [(snapshots.load(a), snapshots.load(b)) for a, b in pairs], only)
        made = (
            set().union(*(made_by_gates(workspace, snapshots, run) for run in runs)) if result.kept else set()
        )
        complete = all(reason.startswith(_FINAL) or path in made for path, reason in result.kept)
        with store.write():
            for run in runs if complete and not only else ():  # else it can be asked for again
                store.runs.update(run.id, leftover=Leftover.UNDONE)
            if task.status in (TaskStatus.DONE, TaskStatus.FAILED) and result.restored:
                store.tasks.set_status(task.id, TaskStatus.READY)
            store.events.add(
                "undo",
                f"restored {len(result.restored)}, kept {len(result.kept)}",
                run_id=newest.id,
                task_id=task.id,
            )
    carried = HeadState.for_runs(snapshots.git, runs, task.created_at).carried if result.restored else {}
    commits = tuple(dict.fromkeys(carried[run.id] for run in reversed(runs) if run.id in carried))
    return TakenBack(result.restored, result.kept, result.note, result.safety.ref, complete, commits)


def from_top(workspace: Workspace, typed: str) -> str:
    """A path as a person of git types it, from the current folder or as `:/path`, relative to the top.

    It need not exist. Raises UsageError when it is empty, which git refuses too, or outside the working tree.
    """
    if not typed:
        raise UsageError("A path is empty.", "For the current folder, type: .")
    top = workspace.repo.toplevel
    place = top / typed[2:] if typed.startswith(":/") else Path.cwd() / typed
    whole = os.path.normpath(place)
    if whole == str(top):
        return ""
    if not whole.startswith(f"{top}/"):
        raise UsageError(f"{typed} is outside the working tree {top}.", "Name a path in it.")
    return whole.removeprefix(f"{top}/")
