"""What earlier runs left in the tree: which runs belong together, and whether their work is still there (rule 4.3)."""

from __future__ import annotations

from typing import Any

from codeframe.core.heartbeat import watched_until
from codeframe.core.history import History
from codeframe.core.models import ErrorClass, Leftover, Run, RunStatus
from codeframe.core.snapshots import Snapshots, in_short
from codeframe.core.workspace import Workspace

# What is noted of an engine call in `Run.process` while it is open: its start snapshot and the engine's session.
OPEN_START, ENGINE = "open_start", "engine"

# Leftovers whose changes may still be in the tree.
IN_TREE = frozenset({Leftover.PENDING, Leftover.KEPT})


def snapshots_of(workspace: Workspace) -> Snapshots:
    """The snapshots of the working tree `workspace` lies in; its index copy is kept per tree."""
    return Snapshots(workspace.repo, workspace.id, workspace.state_dir / "index" / workspace.tree_key)


def history_of(workspace: Workspace, run: Run) -> History:
    """What becomes of branches, tags and stashes in a run."""
    prefix = f"refs/codeframe/{workspace.id}/{run.task_id}"
    return History(workspace.repo, prefix, workspace.run_dir(run.id))


def engine_calls(workspace: Workspace, run: Run) -> list[tuple[str, str]]:
    """(start, end) snapshot commits of each engine call of a run, in order, without what gates changed after it."""
    return [(r["start"], r["end"]) for r in workspace.store.runs.rounds(run.id)]


def spans(workspace: Workspace, run: Run) -> list[tuple[str, str]]:
    """(start, end) snapshot commits of each engine call of a run, and of the gates after it where they changed
    the tree: they run the engine's code. In order; only these are the run's doing."""
    found = []
    for record in workspace.store.runs.rounds(run.id):
        found.append((record["start"], record["end"]))
        if record.get("gates_end"):
            found.append((record["end"], record["gates_end"]))
    return found


def made_by_gates(workspace: Workspace, snapshots: Snapshots, run: Run) -> set[str]:
    """Files that only the gates of a run created, such as reports: nobody's work, and written anew by the next
    to run the tests."""
    rounds = workspace.store.runs.rounds(run.id)
    by_engine = {c.path for r in rounds for c in snapshots.changes(r["start"], r["end"])}
    checked = [(r["end"], r["gates_end"]) for r in rounds if r.get("gates_end")]
    by_gates = [change for start, end in checked for change in snapshots.changes(start, end)]
    return {change.path for change in by_gates if change.kind == "created"} - by_engine


def close_open_call(workspace: Workspace, snapshots: Snapshots, run: Run) -> Run:
    """Record the engine call of a run that CodeFrame did not see end, if there is one, as ending now.

    What people did outside engine calls is not its doing; what they may have done inside is noted.
    Raises CodeFrameError when the tree cannot be snapshotted; the call stays open, to be closed later.
    """
    start = run.process.get(OPEN_START)
    if start is None:
        return run
    watched = start, watched_until(workspace.run_dir(run.id))
    crash = snapshots.take(run.task_id, "crash", watched=watched)
    changes = snapshots.changes(start, crash.commit)
    moved = history_of(workspace, run).moved_before_a_crash(snapshots.load(start), crash)
    number = len(workspace.store.runs.rounds(run.id))
    process = without_call(run)
    with workspace.store.write():  # one step: doing it again after a kill must not count it twice
        workspace.store.runs.add_round(
            run.id, number,
            {"round": number, "reason": "crashed", "start": start, "end": crash.commit, "status": "failed",
             "error_class": ErrorClass.CRASHED.value, "error": "CodeFrame was ended during this engine call.",
             **in_short(changes), "moved": list(moved)},
        )  # fmt: skip
        return workspace.store.runs.update(run.id, process=process, end=crash.commit)


def doubtful(workspace: Workspace, run: Run) -> dict[str, tuple[str, ...]]:
    """The end of each call that nobody saw end -> the paths that a person may have changed in it."""
    crashes = [r["end"] for r in workspace.store.runs.rounds(run.id) if r["reason"] == "crashed"]
    snapshots = snapshots_of(workspace)
    return {end: snapshots.load(end).uncertain for end in crashes}


def uncertain(workspace: Workspace, run: Run) -> tuple[str, ...]:
    """Paths a crashed run is said to have changed that a person may have changed after `cf` was killed."""
    return tuple(sorted({path for paths in doubtful(workspace, run).values() for path in paths}))


def without_call(run: Run) -> dict[str, Any]:
    """`Run.process` without what is noted of an open engine call."""
    return {key: value for key, value in run.process.items() if key not in (OPEN_START, ENGINE)}


def chain(workspace: Workspace, run: Run) -> list[Run]:
    """The runs whose work `run` goes on with, back to the last one that was completed or undone;
    oldest first, `run` last. Runs that were undone together with `run` belong to it."""
    runs = [run]
    while runs[0].previous_run_id is not None:
        previous = workspace.store.runs.get(runs[0].previous_run_id)
        undone = previous.leftover is Leftover.UNDONE and run.leftover is not Leftover.UNDONE
        if undone or previous.status is RunStatus.COMPLETED:
            break
        runs.insert(0, previous)
    return runs


def baseline_run(workspace: Workspace, run: Run) -> Run:
    """The run whose base is the baseline of `run`: the first of those whose work it stands on (rule 6.4).

    A task's own failures must never become "old", so neither a resumed nor a kept run starts a new
    baseline; a run after a verified or an undone one does.
    """
    earlier = sorted(workspace.store.runs.list(task_id=run.task_id), key=lambda r: r.attempt)
    first = run
    for candidate in reversed([r for r in earlier if r.attempt < run.attempt]):
        if candidate.leftover not in IN_TREE or candidate.status is RunStatus.COMPLETED:
            break
        first = candidate
    return first


def still_there(workspace: Workspace, snapshots: Snapshots, run: Run) -> list[str]:
    """Paths of a run's change that are in the tree as the run left them and are not committed."""
    done = spans(workspace, run)
    if not done:
        return []
    now = snapshots.take(run.task_id, "check")
    changed = {c.path for start, end in done for c in snapshots.changes(start, end)}
    moved_on = {c.path for c in snapshots.changes(done[-1][1], now.commit)}
    kept = changed - moved_on - made_by_gates(workspace, snapshots, run)
    if kept and now.head is not None:
        kept &= {path for path, _, _ in snapshots.compare(now.head, now.commit)}
    return sorted(kept)


def unaccepted(workspace: Workspace, snapshots: Snapshots) -> tuple[Run, list[str]] | None:
    """The newest run whose unaccepted work is still in this tree, with its paths; None when the tree is free.

    A run whose work has since been committed or changed away is marked as kept, so that it is asked about once.
    """
    for run in workspace.store.runs.with_leftovers():
        if run.process.get("tree") != workspace.tree_key:
            continue
        paths = still_there(workspace, snapshots, close_open_call(workspace, snapshots, run))
        if paths:
            return run, paths
        workspace.store.runs.update(run.id, leftover=Leftover.KEPT)
    return None
