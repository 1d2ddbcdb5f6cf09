"""Undo: take back what happened between two snapshots, and nothing a person did since (rule 4.2).

A path is restored only while it still is what the `end` snapshot holds; everything else is kept and
listed. The tree is snapshotted first. Killed half-way it can simply be run again.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from codeframe.core.git import BlobReader
from codeframe.core.raw_git import GITLINK, Entry, index_info, nul, records
from codeframe.core.safe_read import open_regular
from codeframe.core.snapshot_scan import in_real_folders
from codeframe.core.snapshots import FileChange, Snapshot, Snapshots

SYMLINK = "120000"
# Why a path is kept although nobody changed it since: asking again would not help.
NOT_COVERED = "not covered by snapshots"
MAYBE_OLDER = "ignored before the run, so it may be older"


class UndoResult(NamedTuple):
    """`restored` are paths now as before the run, `kept` (path, reason) those left alone, `safety` the
    snapshot taken first, `note` what a person may still want to do (may be empty)."""

    restored: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]
    safety: Snapshot
    note: str = ""


def undo(snapshots: Snapshots, task_id: str, spans: Sequence[tuple[Snapshot, Snapshot]]) -> UndoResult:
    """Take back the changes of each (start, end) span, the newest first. HEAD and its branch do not move.

    `spans` are in the order they happened; what changed between two of them was not the run's and
    stays. Raises CodeFrameError when no snapshot can be taken (say, during a merge); nothing has
    changed then.
    """
    safety = snapshots.take(task_id, "undo")
    work = _Undo(snapshots, sha256=len(safety.commit) == 64)
    for start, end in reversed(spans):
        work.run(snapshots.changes(start.commit, end.commit))
        for each in (*start.left_out, *end.left_out):
            work.kept[each.path] = f"{NOT_COVERED}: {each.reason}"
        _restore_index(snapshots, start, end, work.kept.keys())
    note = _note(spans[0][0], spans[-1][1], safety) if spans else ""
    restored = work.restored - work.kept.keys()  # a later span given back, an earlier one not
    return UndoResult(tuple(sorted(restored)), tuple(sorted(work.kept.items())), safety, note)


class _Undo:
    """The working tree's part."""

    def __init__(self, snapshots: Snapshots, *, sha256: bool) -> None:
        self.restored: set[str] = set()
        self.kept: dict[str, str] = {}
        self._git = snapshots.git
        self._top = snapshots.repo.toplevel
        self._sha256 = sha256

    def run(self, changes: list[FileChange]) -> None:
        """Ignore rules first, as they tell which new files are not the run's; then removals, to make room."""
        with self._git.blobs() as blobs:
            rules = [change for change in changes if _is_ignore_file(change.path)]
            others = [change for change in changes if not _is_ignore_file(change.path)]
            self._restore(rules, blobs)
            if rules:
                others = self._without_formerly_ignored(others)
            self._restore(others, blobs)

    def _restore(self, changes: list[FileChange], blobs: BlobReader) -> None:
        for change in sorted(changes, key=lambda each: each.before is not None):
            now = self._look(change.path)
            if now == change.before or change.path in self.kept:
                continue  # an earlier undo was here
            if GITLINK in {entry.mode for entry in (change.before, change.after) if entry}:
                self.kept[change.path] = "a nested repository"
            elif isinstance(now, str):
                self.kept[change.path] = now
            elif now != change.after:
                self.kept[change.path] = "changed after the run"
            elif why := self._put(change.path, change.before, blobs):
                self.kept[change.path] = why
            else:
                self.restored.add(change.path)

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
                self._prune(place.parent)
                return ""
            self._make_folders(path)
            temporary = place.with_name(f".codeframe-undo-{secrets.token_hex(8)}")
            try:
                self._write(temporary, place, entry, blobs)
                if place.is_dir() and not place.is_symlink():
                    _remove_empty(place)
                temporary.replace(place)
            finally:
                temporary.unlink(missing_ok=True)
        except (FileExistsError, NotADirectoryError):
            return "a file or symlink is in the way"
        except IsADirectoryError:
            return "a folder is in its place"
        except OSError as error:
            return f"cannot be written ({error.strerror})"
        return ""

    def _write(self, temporary: Path, place: Path, entry: Entry, blobs: BlobReader) -> None:
        executable = entry.mode == "100755"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(temporary, flags, 0o777 if executable else 0o666), "wb") as file:
            blobs.copy(entry.oid, file)
            if place.is_file() and not place.is_symlink():  # git knows of one bit only: keep the others
                mode = stat.S_IMODE(place.stat().st_mode) & ~0o111
                os.fchmod(file.fileno(), mode | (mode & 0o444) >> 2 if executable else mode)
        if entry.mode == SYMLINK:
            target = temporary.read_bytes()
            temporary.unlink()
            os.symlink(target, os.fsencode(temporary))

    def _make_folders(self, path: str) -> None:
        """The folders above `path`, one by one: `mkdir -p` would follow a symlink out of the tree."""
        folder = self._top
        for part in path.split("/")[:-1]:
            folder = folder / part
            if not os.path.lexists(folder):
                folder.mkdir()
            elif folder.is_symlink() or not folder.is_dir():
                raise NotADirectoryError

    def _prune(self, folder: Path) -> None:
        while folder != self._top:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent


def _holds_nothing(folder: Path) -> bool:
    """Whether there are only folders in it: git knows none of them, and nothing is lost with them."""
    with os.scandir(folder) as inside:
        return all(each.is_dir(follow_symlinks=False) and _holds_nothing(Path(each.path)) for each in inside)


def _remove_empty(folder: Path) -> None:
    for inner, _, _ in os.walk(folder, topdown=False):
        os.rmdir(inner)


def _restore_index(snapshots: Snapshots, base: Snapshot, end: Snapshot, kept: Iterable[str]) -> None:
    """Put back what was staged, wherever the index still is what the run left."""
    staged = {
        path: (before, after) for path, before, after in snapshots.compare(base.index_tree, end.index_tree)
    }
    for path in kept:
        staged.pop(path, None)
    if not staged:
        return
    now: dict[str, Entry] = {}
    for record in records(snapshots.git.run("ls-files", "-z", "-s").stdout):
        meta, path = record.split("\t", 1)
        mode, oid, _ = meta.split(" ")
        now[path] = Entry(mode, oid)
    entries = {
        path: before or cast(Entry, after).removal()
        for path, (before, after) in staged.items()
        if now.get(path) == after
    }
    if entries:
        unfiltered = snapshots.git.unfiltered()
        snapshots.git.run("update-index", "-z", "--index-info", stdin=index_info(entries), env=unfiltered)


def _note(base: Snapshot, end: Snapshot, now: Snapshot) -> str:
    """What undo leaves to the person: another branch, commits the run made by itself."""
    if base.branch != now.branch:
        where, was = ((each.branch or "no branch").removeprefix("refs/heads/") for each in (now, base))
        return f"HEAD is on {where} and was on {was} before the run; to go back type: git switch {was}"
    if base.head == end.head or base.head is None:
        return ""
    if now.head == end.head:
        return f"The run's own commits are kept; to drop them type: git reset --soft {base.head}"
    return f"The run's own commits are kept, with later ones on top; to see them type: git log {base.head}.."


def _is_ignore_file(path: str) -> bool:
    return path.rsplit("/", 1)[-1] == ".gitignore"
