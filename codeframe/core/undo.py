"""Undo: take back what happened between two snapshots, and nothing a person did since (rule 4.2).

A path is restored only while it still is what the `end` snapshot holds; everything else is kept and
listed. The tree is snapshotted first. Killed half-way it can simply be run again.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import NamedTuple

from codeframe.core.errors import UsageError
from codeframe.core.git import BlobReader
from codeframe.core.git_locks import index_locked
from codeframe.core.permissions import changed_bits
from codeframe.core.person_index import collisions, put_entries, put_marks, staged_entries
from codeframe.core.raw_git import ABSENT, GITLINK, Entry, nul, records
from codeframe.core.replacing import Replacing
from codeframe.core.safe_read import open_regular
from codeframe.core.snapshot_scan import NESTED, in_real_folders
from codeframe.core.snapshots import FileChange, LeftOut, Snapshot, Snapshots, changed_marks
from codeframe.core.undo_folders import Folders

SYMLINK = "120000"
# Why a path is kept although nobody changed it since: asking again would not help.
NOT_COVERED = "not covered by snapshots"
MAYBE_OLDER = "ignored before the run, so it may be older"
UNCERTAIN = "changed after CodeFrame was killed: maybe yours"
REPOSITORY = "a nested repository"


class UndoResult(NamedTuple):
    """`restored` are paths now as before the run (folders end in "/"), `kept` (path, reason) those left
    alone, `safety` the snapshot taken first, `note` what a person may still want to do (may be empty)."""

    restored: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]
    safety: Snapshot
    note: str = ""


def undo(
    snapshots: Snapshots,
    task_id: str,
    spans: Sequence[tuple[Snapshot, Snapshot]],
    only: Sequence[str] = (),
) -> UndoResult:
    """Take back the changes of each (start, end) span, the newest first. HEAD and its branch do not move.

    `spans` are in the order they happened; what changed between two of them was not the run's and
    stays. `only` are files and folders, relative to the top, to which the undo is limited. What may be a
    person's (see `Snapshot.uncertain`) stays unless it is itself among these, not just below one. Raises
    UsageError when one of these was not changed, CodeFrameError when no snapshot can be taken (say, during
    a merge) or another git holds the index; nothing has changed then.
    """
    works = [_Span(snapshots, start, end, only) for start, end in reversed(spans)]
    touched = {path for work in works for path in work.touched()}
    for name in only:
        if not any(_covers(name, path) for path in touched):
            raise UsageError(
                f"{name or '.'} is not among what the task changed.",
                f"See what is: cf work diff {task_id[:8]} --stat",
            )
    # Before anything is touched: met at the end, the tree would be restored and what was staged not.
    if any(work.stages() for work in works) and (refusal := index_locked(snapshots.repo)):
        raise refusal
    sweep(snapshots)
    safety = snapshots.take(task_id, "undo")
    restored: set[str] = set()
    kept: dict[str, str] = {}
    uncovered: dict[str, LeftOut] = {}  # as the newest span left it
    there = {each.path: each for each in safety.left_out}
    for work in works:
        work.run(restored, kept, uncovered, there)
    for path in uncovered.keys() - restored - kept.keys():
        kept[path] = f"{NOT_COVERED}: {uncovered[path].reason}"
    note = _note(spans, safety) if spans and not only else ""
    restored -= kept.keys()  # a later span given back, an earlier one not
    return UndoResult(tuple(sorted(restored)), tuple(sorted(kept.items())), safety, note)


def sweep(snapshots: Snapshots) -> None:
    """Remove what an undo that was killed left half-made. Hold the lock of the tree."""
    _replacing(snapshots).sweep()


class _Span:
    """What happened in one engine call, and how it is taken back."""

    def __init__(self, snapshots: Snapshots, start: Snapshot, end: Snapshot, only: Sequence[str]) -> None:
        self._snapshots = snapshots
        self._start, self._end = start, end
        self._only = only
        self._git = snapshots.git
        self._top = snapshots.repo.toplevel
        self._sha256 = len(start.commit) == 64
        self._marks = changed_marks(start, end)
        # What a sparse checkout keeps off the disk is in the snapshot all the same.
        self._changes = [
            replace(change, before=None) if ABSENT in self._marks.get(change.path, ("",))[0] else change
            for change in snapshots.changes(start.commit, end.commit)
        ]
        self._staged = snapshots.compare(start.index_tree, end.index_tree)
        self._left_out = {each.path: each for each in (*start.left_out, *end.left_out)}
        stored = {change.path for change in self._changes if change.before and change.before.mode != GITLINK}
        self._outgrown = {
            each.path for each in end.left_out if each.path in stored and not each.reason.startswith(NESTED)
        }
        before, after = snapshots.permissions(start), snapshots.permissions(end)
        self._bits = changed_bits(before, after) if before and after else set[str]()
        self._before = before.files if before else {}
        self._after = after.files if after else {}
        self._folders = Folders(self._top, before, after)
        self._gone = before.empty if before else frozenset[str]()
        self._doubtful = frozenset(end.uncertain) - set(only)
        self._replacing = _replacing(snapshots)

    def touched(self) -> set[str]:
        """Every path with a difference between start and end, and those that no snapshot covers."""
        paths = {change.path for change in self._changes} | {path for path, _, _ in self._staged}
        return paths | self._marks.keys() | self._bits | self._left_out.keys() | self._gone

    def stages(self) -> bool:
        """Whether something of the index is to be put back."""
        return any(map(self._wanted, {*self._marks, *(path for path, _, _ in self._staged)}))

    def run(
        self,
        restored: set[str],
        kept: dict[str, str],
        uncovered: dict[str, LeftOut],
        there: Mapping[str, LeftOut],
    ) -> None:
        """Ignore rules first, as they tell which new files are not the run's; then removals, to make room."""
        self.restored, self.kept = restored, kept
        self._uncovered, self._there = uncovered, there
        for path, left in self._left_out.items():
            if self._wanted(path):
                uncovered.setdefault(path, left)
        # What neither of the snapshots holds cannot be restored.
        held = [change for change in self._changes if change.before or change.after]
        changes = [change for change in held if self._wanted(change.path)]
        bits = {path for path in self._bits - self._doubtful if self._wanted(path)}
        self._folders.open([change.path for change in changes], bits)
        with self._git.blobs() as blobs:
            rules = [change for change in changes if is_ignore_file(change.path)]
            others = [change for change in changes if not is_ignore_file(change.path)]
            self._restore(rules, blobs)
            if rules:
                others = self._without_formerly_ignored(others)
            self._restore(others, blobs)
        self._restore_bits(bits - {change.path for change in changes})
        made = self._folders.make_empty(filter(self._wanted, self._gone))
        self.restored.update(f"{folder}/" for folder in (*made, *self._folders.close()))
        for path in self._doubtful - {change.path for change in changes}:
            if self._wanted(path):
                self.kept.setdefault(path or "./", UNCERTAIN)
        # Of a nested repository what was staged comes back all the same: with that, git can bring back the rest.
        as_left = {path for path, why in self.kept.items() if not why.startswith(REPOSITORY)}
        as_left |= self._left_out.keys() - self.restored
        staged = [each for each in self._staged if self._wanted(each[0]) and each[0] not in as_left]
        _restore_index(self._snapshots, staged)
        marks = {
            path: marks for path, marks in self._marks.items() if self._wanted(path) and path not in as_left
        }
        put_marks(self._git, {path: (now, was) for path, (was, now) in marks.items()})

    def _wanted(self, path: str) -> bool:
        return not self._only or any(_covers(name, path) for name in self._only)

    def _restore(self, changes: list[FileChange], blobs: BlobReader) -> None:
        for change in sorted(changes, key=lambda each: each.before is not None):
            now = self._look(change.path)
            if now == change.before or change.path in self.kept:
                if now is None and change.after and change.path not in self.kept:
                    self._folders.prune((self._top / change.path).parent)
                continue  # an earlier undo was here, and may have been killed
            if GITLINK in {entry.mode for entry in (change.before, change.after) if entry}:
                how = f"git submodule update --init -- {shlex.quote(f':/{change.path}')}"
                self.kept[change.path] = (
                    f"{REPOSITORY}; a submodule comes back with: {how}" if now is None else REPOSITORY
                )
            elif change.path in self._doubtful:
                self.kept[change.path] = UNCERTAIN
            elif change.path in self._outgrown:
                self._restore_outgrown(change, blobs)
            elif isinstance(now, str):
                self.kept[change.path] = now
            elif now != change.after:
                self.kept[change.path] = "changed after the run"
            elif why := self._put(change.path, change.before, blobs):
                self.kept[change.path] = why
            else:
                self.restored.add(change.path)

    def _restore_outgrown(self, change: FileChange, blobs: BlobReader) -> None:
        """A file of which `start` has the content and `end` only that it was there, as it had grown too large or
        was none any more: what is there now is in no snapshot, and stays beside it."""
        place, left = self._top / change.path, self._uncovered[change.path]
        now = self._there.get(change.path)  # which lists no FIFO or socket that no index holds
        same = not now.differs(left) if now else self._look(change.path) in (None, left.reason)
        if not same or not change.before:
            how = f"git show {self._start.ref}:{shlex.quote(change.path)}"
            self.kept[change.path] = f"changed after the run; to see how it was before the run type: {how}"
            return
        beside = None
        try:
            if place.is_file() and not place.is_symlink():  # else there is nothing in it
                beside = _free_name(place)
                place.rename(beside)
        except OSError as error:
            self.kept[change.path] = f"cannot be renamed ({error.strerror})"
            return
        if why := self._put(change.path, change.before, blobs):
            self.kept[change.path] = why
        else:
            self.restored.add(change.path)
        if beside:
            self.kept[str(beside.relative_to(self._top))] = (
                f"{NOT_COVERED}: what the run left at {change.path}"
            )

    def _restore_bits(self, paths: Iterable[str]) -> None:
        """Permissions that the run changed and nobody since; a person's later ones stay without a word."""
        for path in paths:
            place = self._top / path
            if path not in self._before or not in_real_folders(self._top, path):
                continue
            try:
                found = place.lstat().st_mode
                if stat.S_ISREG(found) and stat.S_IMODE(found) == self._after[path]:
                    place.chmod(self._before[path])
                    self.restored.add(path)
            except OSError as error:
                self.kept[path] = f"cannot be changed ({error.strerror})"

    def _without_formerly_ignored(self, changes: list[FileChange]) -> list[FileChange]:
        """What the run's edits of .gitignore uncovered may be older than the run: it stays."""
        created = [change.path for change in changes if change.before is None]
        asked = self._git.run("check-ignore", "-z", "--stdin", "--no-index", stdin=nul(created), check=False)
        ignored = set(records(asked.stdout))
        self.kept.update((path, MAYBE_OLDER) for path in ignored)
        return [change for change in changes if change.path not in ignored]

    def _look(self, path: str) -> Entry | str | None:
        """What is at a path now: an entry, None for nothing, or words for what git could not hold."""
        if not in_real_folders(self._top, path):
            return None
        place = self._top / path
        try:
            found = place.lstat()
            if stat.S_ISLNK(found.st_mode):
                return Entry(SYMLINK, self._blob_id(os.fsencode(os.readlink(place))))
            if stat.S_ISDIR(found.st_mode):
                return None if _holds_nothing(place) else "a folder is in its place"
            if not stat.S_ISREG(found.st_mode):
                return "not a regular file"
            mode = "100755" if found.st_mode & stat.S_IXUSR else "100644"
            return Entry(mode, self._file_id(place))
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"cannot be read ({error.strerror})"

    def _blob_id(self, content: bytes) -> str:
        return self._hash(len(content), [content])

    def _file_id(self, place: Path) -> str:
        with open_regular(place) as file:
            size = os.fstat(file.fileno()).st_size
            return self._hash(size, iter(lambda: file.read(1 << 20), b""))

    def _hash(self, size: int, chunks: Iterable[bytes]) -> str:
        """git's id of a blob, of which nothing is stored."""
        digest = hashlib.sha256() if self._sha256 else hashlib.sha1(usedforsecurity=False)
        digest.update(b"blob %d\0" % size)
        for chunk in chunks:
            digest.update(chunk)
        return digest.hexdigest()

    def _put(self, path: str, entry: Entry | None, blobs: BlobReader) -> str:
        """Make `path` hold `entry` in one step; returns why it could not."""
        place = self._top / path
        try:
            if entry is None:
                place.unlink()
                self._folders.prune(place.parent)
                return ""
            self._folders.make(path.rpartition("/")[0])
            bits = self._wanted_bits(path, entry)
            if place.is_dir() and not place.is_symlink():
                _remove_empty(place)
            self._replacing.put(place, lambda new: _write(new, entry, bits, blobs))
        except (FileExistsError, NotADirectoryError):
            return "a file or symlink is in the way"
        except IsADirectoryError:
            return "a folder is in its place"
        except OSError as error:
            return f"cannot be written ({error.strerror})"
        return ""

    def _wanted_bits(self, path: str, entry: Entry) -> int | None:
        """The permissions a file gets back: a person's where they changed them since, else those from
        before the run; None for those of any new file."""
        executable = entry.mode == "100755"
        place = self._top / path
        if place.is_file() and not place.is_symlink():
            now = stat.S_IMODE(place.stat().st_mode)
            if path not in self._before or self._after.get(path) != now:
                plain = now & ~0o111
                return plain | (plain & 0o444) >> 2 if executable else plain
        return self._before.get(path)


def _write(new: Path, entry: Entry, bits: int | None, blobs: BlobReader) -> None:
    """Make the file `new`, never open to more people than it will be."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    usual = 0o777 if entry.mode == "100755" else 0o666
    with os.fdopen(os.open(new, flags, usual if bits is None else 0o600), "wb") as file:
        blobs.copy(entry.oid, file)
        if bits is not None:
            file.flush()
            os.fchmod(file.fileno(), bits)
    if entry.mode == SYMLINK:
        target = new.read_bytes()
        new.unlink()
        os.symlink(target, os.fsencode(new))


def _free_name(place: Path) -> Path:
    """A name beside it that nothing has."""
    names = (place.with_name(f"{place.name}.after-run{n or ''}") for n in count())
    return next(name for name in names if not os.path.lexists(name))


def _replacing(snapshots: Snapshots) -> Replacing:
    return Replacing(snapshots.cache_dir / "undo")


def _covers(name: str, path: str) -> bool:
    """Whether `path` is what a person named, or lies in it; "" is the top."""
    return not name or path == name or path.startswith(f"{name}/")


def _holds_nothing(folder: Path) -> bool:
    """Whether there are only folders in it: git knows none of them, and nothing is lost with them."""
    with os.scandir(folder) as inside:
        return all(each.is_dir(follow_symlinks=False) and _holds_nothing(Path(each.path)) for each in inside)


def _remove_empty(folder: Path) -> None:
    for inner, _, _ in os.walk(folder, topdown=False):
        os.rmdir(inner)


def _restore_index(snapshots: Snapshots, changes: Iterable[tuple[str, Entry | None, Entry | None]]) -> None:
    """Put back what was staged, wherever the index still is what the run left, and nothing of a person's is in
    the way."""
    changed = {path: (after, before) for path, before, after in changes}
    if not changed:
        return
    now = staged_entries(snapshots.git)
    steps = {path: step for path, step in changed.items() if now.get(path) == step[0]}
    gone = {path for path, (_, before) in steps.items() if before is None}
    back = steps.keys() - gone
    for path in collisions(now.keys() - gone, back):
        del steps[path]
    put_entries(snapshots.git, steps)


def _note(spans: Sequence[tuple[Snapshot, Snapshot]], now: Snapshot) -> str:
    """What undo leaves to the person: another branch, commits the run made by itself."""
    base, end = spans[0][0], spans[-1][1]
    if base.branch != now.branch:
        where, was = ((each.branch or "no branch").removeprefix("refs/heads/") for each in (now, base))
        return f"HEAD is on {where} and was on {was} before the run; to go back type: git switch {was}"
    heads = [(start.head, end.head) for start, end in spans]
    if all(before == after for before, after in heads) or base.head is None:
        return ""
    others = any(before[1] != after[0] for before, after in pairwise(heads))
    if now.head == end.head and not others:
        return f"The run's own commits are kept; to drop them type: git reset --soft {base.head}"
    return f"The run's own commits are kept, among others; to see them type: git log {base.head}.."


def is_ignore_file(path: str) -> bool:
    """Whether git reads rules of what to ignore there."""
    return path.rsplit("/", 1)[-1] == ".gitignore"
