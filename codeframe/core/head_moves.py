"""What came into a tree because HEAD went to commits that were not made there meanwhile (rule 8.1).

Who works by hand pulls, merges and switches branches in the middle of it. git's own log of HEAD tells which
steps made a commit here; what any other step brought is not the task's.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from codeframe.core.raw_git import Entry
from codeframe.core.snapshots import Snapshot, Snapshots

# How the log calls steps that made a commit of what was in the tree. A merge's result is not among them: it
# holds what came in, and the two cannot be told apart. A rebase is named as it was typed, with any words:
# "pull --rebase ../up feature/x (pick): subject".
_MADE_HERE = re.compile(
    r"(commit( \((?!merge)[\w-]+\))?|cherry-pick|revert|am"
    r"|(?!commit\b).+ \((pick|reword|edit|fixup|squash|continue)\)):"
)


class _Step(NamedTuple):
    old: str | None
    new: str
    how: str


def own_start(snapshots: Snapshots, task_id: str, start: Snapshot, end: Snapshot) -> Snapshot:
    """The snapshot from which the work up to `end` counts: `start`, where nothing came in; else one kept anew that
    holds what came in as well, as of the last time it came.

    A file that came in and was worked on since counts from how it came. Without a log, all that HEAD
    gained came in.
    """
    if end.head is None or end.head == start.head:
        return start
    came: dict[str, Entry | None] = {}
    made: dict[str, set[Entry | None]] = {}  # by path: what commits made here left
    head = start.head
    for step in _steps(snapshots, start, end.head):
        here = _MADE_HERE.match(step.how) is not None
        for path, _, after in _changed(snapshots, step):
            if here:
                made.setdefault(path, set()).add(after)
            elif after not in made.get(path, ()):  # else it is back from where it had been switched away
                came[path] = after
        if not here:
            head = step.new
    if not came:
        return start
    counted = snapshots.restate(task_id, start, end, came, head)
    moved = (counted.tree, counted.index_tree) != (start.tree, start.index_tree)
    return counted if moved else start  # switched away and back


def _steps(snapshots: Snapshots, start: Snapshot, head: str) -> list[_Step]:
    """The moves of HEAD from the snapshot `start` to the commit `head`, oldest first."""
    git = snapshots.git
    since = int(git.text("log", "-1", "--format=%ct", start.commit))
    form = ("--date=unix", "--format=%H %gd %gs")
    said = git.text("log", "-g", *form, "HEAD", "--", check=False).splitlines()
    moves: list[tuple[int, _Step]] = []
    old: str | None = None
    for line in reversed(said):
        new, when, how = line.split(" ", 2)
        if new != old:
            moves.append((int(when.rpartition("{")[2].rstrip("}")), _Step(old, new, how)))
        old = new
    left = [n for n, (_, step) in enumerate(moves) if step.old == start.head]
    recent = next((n for n, (seconds, _) in enumerate(moves) if seconds >= since), len(moves))
    # A commit's time may be any: where none of this time leads on from the start, the last that does.
    first = min((n for n in left if n >= recent), default=max(left, default=len(moves)))
    steps = [step for _, step in moves[first:]]
    return steps if steps and steps[-1].new == head else [_Step(start.head, head, "")]


def _changed(snapshots: Snapshots, step: _Step) -> list[tuple[str, Entry | None, Entry | None]]:
    old = step.old or snapshots.git.text("mktree")  # before the first commit: the empty tree
    return snapshots.compare(old, step.new)
