"""One look at a working tree: what differs from the kept index, and what becomes of each path."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from codeframe.core.later import later
from codeframe.core.nested_state import nested_head, nested_state
from codeframe.core.raw_git import ASSUMED, GITLINK, INTENDED, SKIPPED, Entry, RawGit, nul, records, rows
from codeframe.core.secret_files import looks_secret

NESTED = "nested repository"  # begins the reason why one is left out


@dataclass(frozen=True)
class LeftOut:
    """A path a snapshot does not hold, why (a phrase for people), and what tells its state from another
    one ("" where that is not known)."""

    path: str
    reason: str
    mark: str = field(default="", compare=False)

    def differs(self, other: LeftOut) -> bool:
        """Whether something happened to it in between."""
        return self.reason != other.reason or bool(self.mark and other.mark and self.mark != other.mark)


class UserIndex(NamedTuple):
    """The person's index: the tree of what is staged, the entries, and which of them are submodules,
    skip-worktree, assume-unchanged, in conflict, or intended to be added (the last two are not in the tree)."""

    tree: str
    entries: Mapping[str, Entry]
    links: frozenset[str]
    skipped: frozenset[str]
    assumed: frozenset[str]
    conflicts: frozenset[str]
    intended: frozenset[str]

    def marks(self) -> dict[str, str]:
        """Path -> the letters SKIPPED, ASSUMED, INTENDED of what git is told about it; only where it is told any."""
        found: dict[str, str] = {}
        for letter, paths in ((SKIPPED, self.skipped), (ASSUMED, self.assumed), (INTENDED, self.intended)):
            for path in paths:
                found[path] = found.get(path, "") + letter
        return found


def in_real_folders(top: Path, path: str) -> bool:
    """Whether every folder above `path` is one: not missing, not a symlink that leads elsewhere."""
    folder = top
    for part in path.split("/")[:-1]:
        folder = folder / part
        try:
            if not stat.S_ISDIR(folder.lstat().st_mode):
                return False
        except OSError:
            return False
    return True


class Scan:
    """After `plan()`: `entries` go into the index as they are, `files` are to be read from disk, and
    `left_out` maps what will not be stored to the reason and a mark of its state. `sparse` are the paths that a
    sparse checkout of the person's keeps off the disk."""

    def __init__(self, raw: RawGit, user: UserIndex, sparse: Collection[str], large_file_bytes: int) -> None:
        self.entries: dict[str, Entry] = {}
        self.files: list[str] = []
        self.left_out: dict[str, LeftOut] = {}
        self._raw = raw
        self._user = user
        self._sparse = sparse
        self._limit = large_file_bytes
        self._mine: dict[str, str] = {}  # as listed: of few of the many an Entry is wanted
        self._links: set[str] = set()  # those that are nested repositories
        self._untracked: list[str] = []
        self._list()

    def _list(self) -> None:
        self._changed = later(lambda: self._raw.run("diff-files", "-z", "--ignore-submodules=dirty").stdout)
        listing = self._raw.run("ls-files", "-z", "-t", "-c", "-s", "-o", "--exclude-standard")
        mine, self._untracked = self._mine, []
        mine.clear()
        for record in records(listing.stdout):
            if record[0] == "?":
                self._untracked.append(record[2:])
            else:
                listed, _, path = record.partition("\t")
                mine[path] = listed
        self._links = {path for path, listed in mine.items() if f" {GITLINK} " in listed}
        for folder in re.findall(r"could not open directory '(.*?)/?': ", listing.stderr):
            self._leave_out(folder, "cannot be read")

    def _entry(self, path: str) -> Entry | None:
        """What the kept index holds there."""
        if path not in self._mine:
            return None
        _, mode, oid, _ = self._mine[path].split(" ")
        return Entry(mode, oid)

    def covered(self) -> set[str]:
        """After `plan()`: every path that the index is to hold."""
        gone = {path for path, entry in self.entries.items() if entry.mode == "0"}
        return {*self._mine, *self.files} - gone

    def plan(self, fresh: bool) -> None:
        """Decide about every path. `fresh`: what only earlier snapshots held is not covered for that."""
        self._drop_vanished_links()
        if fresh:
            self._drop_uncovered()
        for meta, path in rows(self._changed(), 2):
            if path in self.entries or path in self._links:
                continue
            if not meta.endswith(" D"):
                self._consider(path)
            elif path not in self._sparse:
                self._drop(path)
        links = {*self._user.links, *self._links}
        for path in self._untracked:
            if path.endswith("/"):
                links.add(path[:-1])
            else:
                self._consider(path)
        for path in links:
            self._consider_link(path)
        self._keep_sparse()
        for path in self._user.entries.keys() - {*self._mine, *self._untracked, *links, *self.entries}:
            # Tracked although ignored; but not what is gone, or where a folder is now in the file's place.
            there = in_real_folders(self._raw.tree, path) and os.path.lexists(self._raw.tree / path)
            if there and not in_real_folders(self._raw.tree, f"{path}/."):
                self._consider(path)

    def _leave_out(self, path: str, why: str, mark: str = "") -> None:
        self.left_out[path] = LeftOut(path, why, mark or self._stamp(path))

    def _stamp(self, path: str) -> str:
        try:
            found = (self._raw.tree / path).lstat()
        except OSError:
            return ""
        return f"{found.st_size} {found.st_mtime_ns}" if stat.S_ISREG(found.st_mode) else ""

    def _drop(self, path: str) -> None:
        if entry := self._entry(path):
            self.entries[path] = entry.removal()

    def _drop_vanished_links(self) -> None:
        """Remove nested repositories that are none any more, and list again what they hid."""
        gone = [path for path in self._links - self._user.links if not self._has_repository(path)]
        if gone:
            self._changed()
            self._raw.put({path: entry.removal() for path in gone if (entry := self._entry(path))})
            self._list()

    def _drop_uncovered(self) -> None:
        """Take out what earlier snapshots held and the rules for untracked files do not cover."""
        extra = [path for path in self._mine if path not in self._user.entries]
        if not extra:
            return
        said = self._raw.run("check-ignore", "-z", "--stdin", "--no-index", stdin=nul(extra), check=False)
        ignored = set(records(said.stdout))
        for path in extra:
            if path in ignored:
                self._drop(path)
            elif why := self._unwanted(path):
                self._drop(path)
                self._leave_out(path, why)

    def _consider(self, path: str) -> None:
        """A path that is new or whose stat data changed: read it, or say why not."""
        why = self._unreadable(path)
        if not why and path not in self._user.entries:
            why = self._unwanted(path)
        if why:
            self._leave_out(path, why)
            self._drop(path)
        else:
            self.files.append(path)

    def _unreadable(self, path: str) -> str:
        """Why git could not store this, tracked or not. Opens nothing: a FIFO would never return."""
        place = self._raw.tree / path
        try:
            mode = place.lstat().st_mode
        except OSError:
            return ""  # gone since the listing; `--remove` copes
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            return "not a regular file"
        if ".git" in path.lower().split("/"):
            return "git cannot store this name"
        return "" if stat.S_ISLNK(mode) or os.access(place, os.R_OK) else "cannot be read"

    def _unwanted(self, path: str) -> str:
        """Why an untracked file is listed only."""
        if looks_secret(path):
            return "looks like a secret"
        try:
            found = (self._raw.tree / path).lstat()
        except OSError:
            return ""
        large = stat.S_ISREG(found.st_mode) and found.st_size > self._limit
        return f"larger than {self._limit / 1_000_000:g} MB" if large else ""

    def _keep_sparse(self) -> None:
        """What a sparse checkout keeps off the disk is as the person's index says."""
        for path in self._sparse:
            entry = self._user.entries.get(path)
            if self._entry(path) != entry and not os.path.lexists(self._raw.tree / path):
                if entry:
                    self.entries[path] = entry
                else:
                    self._drop(path)

    # Nested repositories and submodules

    def _has_repository(self, path: str) -> bool:
        place = f"{path}/.git"
        return in_real_folders(self._raw.tree, place) and os.path.lexists(self._raw.tree / place)

    def _consider_link(self, path: str) -> None:
        """Record a nested repository by its HEAD; one not checked out as the person's index has it."""
        wanted: Entry | None = None
        if self._has_repository(path):
            wanted = self._nested_head(path)
        elif path in self._user.links and (path in self._sparse or (self._raw.tree / path).is_dir()):
            wanted = self._user.entries[path]
        if wanted is None:
            self._drop(path)
        elif wanted != self._entry(path):
            self.entries[path] = wanted

    def _nested_head(self, path: str) -> Entry | None:
        """The nested HEAD; notes what it does not cover. Runs git there only in ways that execute nothing."""
        place = self._raw.tree / path
        found = nested_head(place)
        if found is None:
            self._leave_out(path, f"{NESTED} without a commit")
            return None
        if state := nested_state(self._raw, place, *found):
            self._leave_out(path, f"{NESTED} with changes of its own", state)
        return Entry(GITLINK, found[0])
