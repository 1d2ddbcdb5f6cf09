"""One check of the work by the gates, and what running them did to the tree they checked (rule 6.6)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from codeframe.core.permissions import changed_bits
from codeframe.core.shown import shown
from codeframe.core.snapshots import FileChange, Snapshot, Snapshots

if TYPE_CHECKING:
    from codeframe.core.gates import GateReport, GateSuite

_LISTED = 10


class Checked(NamedTuple):
    """`left` is the tree as the gates left it: the snapshot they began with where nothing changed;
    `changes` is what differs between the two."""

    report: GateReport
    left: Snapshot
    changes: tuple[FileChange, ...]


class GateCheck:
    """Runs `gates`. `cancel` ends them, `say` tells a person what goes on."""

    def __init__(
        self,
        gates: GateSuite,
        snapshots: Snapshots,
        cancel: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._gates = gates
        self._snapshots = snapshots
        self._cancel = cancel
        self._say = say

    def run(
        self,
        task_id: str,
        end: Snapshot,
        engines: Iterable[str],
        out_dir: Path,
        marker: str,
        left_s: Callable[[], float],
        begun: str,
    ) -> Checked:
        """Check the tree of `end`; `engines` are the paths the engine changed since the snapshot `begun`.

        Gates run the engine's code, and a formatter is a gate, too: what they change is measured like the
        engine's own work. Where a file that was there is another now, what they said is not about the tree
        as it is: they run once more, and that counts. What then changes still is in the report.
        """

        def check(before: Snapshot) -> tuple[GateReport, Snapshot]:
            report = self._gates.check(
                out_dir, marker=marker, cancel=self._cancel, timeout_s=max(0.1, left_s())
            )
            return report, self._snapshots.take(task_id, "gates", unless=before)

        self._say(
            "Running the gates: " + ", ".join(self._gates.names) + "."
            if self._gates.names
            else "No gates to run."
        )
        checked, (report, left) = end, check(end)
        if _disturbed(self._changes(end, left)) and not self._cancel.is_set() and left_s() > 0:
            self._say("They changed what they checked; running them once more.")
            checked, (report, left) = left, check(left)
            report = replace(report, unstable=self._unstable(checked, left, frozenset(engines)))
        if undone := self._undone(end, left, begun, set(engines)):
            report = replace(report, undone=undone)
        if left is checked and not self._cancel.is_set():
            self._gates.keep(left.tree, report)
        return Checked(report, left, self._changes(end, left))

    def _undone(self, end: Snapshot, left: Snapshot, begun: str, engines: set[str]) -> tuple[str, ...]:
        """Work that the gates took away again, as a `git stash` does: they say nothing about it."""
        taken = engines.intersection(change.path for change in self._changes(end, left))
        if taken:
            taken -= {change.path for change in self._snapshots.changes(begun, left.commit)}
        return tuple(sorted(taken))

    def _changes(self, before: Snapshot, after: Snapshot) -> tuple[FileChange, ...]:
        return () if after is before else tuple(self._snapshots.changes(before.commit, after.commit))

    def _unstable(self, before: Snapshot, after: Snapshot, engines: frozenset[str]) -> tuple[str, ...]:
        """What changed in the second run as well, without what gates make for themselves: files that git
        does not track and the engine did not touch, such as a report that is written anew each time."""
        disturbed = _disturbed(self._changes(before, after))
        if not disturbed:
            return ()
        staged = self._snapshots.compare(before.index_tree, before.commit)
        own = {path for path, tracked, _ in staged if tracked is None} - engines
        return tuple(path for path in disturbed if path not in own)


def _disturbed(changes: Iterable[FileChange]) -> list[str]:
    """Files that were there and are not as they were. New ones disturb nothing that was checked."""
    return [change.path for change in changes if change.kind != "created"]


def in_words(changes: Sequence[FileChange]) -> str:
    """`modified a.py, created b.txt and 3 more`; "" for none."""
    return _listed([f"{change.kind} {change.path}" for change in changes])


def changed_in_words(snapshots: Snapshots, before: Snapshot, after: Snapshot) -> str:
    """What is different, for a person: files, or where these are the same what git knows of them and their
    permissions. "" where it is nothing but an empty folder, which is not worth a word."""
    if after is before:
        return ""
    if changes := snapshots.changes(before.commit, after.commit):
        return in_words(changes)
    found = []
    if staged := sorted({path for path, _, _ in snapshots.compare(before.index_tree, after.index_tree)}):
        found.append(f"what is staged of {_listed(staged)}")
    if (before.head, before.branch) != (after.head, after.branch):
        found.append(f"HEAD is at {(after.head or 'no commit')[:10]} of {after.branch or 'no branch'}")
    old, new = snapshots.permissions(before), snapshots.permissions(after)
    if old and new and (bits := sorted(changed_bits(old, new))):
        found.append(f"permissions of {_listed([path or './' for path in bits])}")
    if before.unfinished != after.unfinished:
        found.append("what git status says")
    return "; ".join(found)


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return ", ".join(map(shown, items[:_LISTED])) + more
