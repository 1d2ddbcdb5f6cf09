"""The private index of one working tree, kept between snapshots so that only changed files are read again."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from codeframe.core.errors import CodeFrameError
from codeframe.core.git import Completed, Git, GitError, GitStuck, Repo
from codeframe.core.git_watch import HURRIED_S, blocking_file, hurried
from codeframe.core.later import later
from codeframe.core.permissions import Look
from codeframe.core.raw_git import (
    ABSENT,
    CONVERTING,
    GITLINK,
    SKIPPED,
    Entry,
    Ignored,
    RawGit,
    nul,
    records,
    rows,
)
from codeframe.core.safe_read import open_regular, read_regular
from codeframe.core.snapshot_scan import LeftOut, Scan, UserIndex
from codeframe.core.whole_file import write_whole

LOCK_WAIT_S = 60.0  # for another snapshot of the tree to be finished
_LOOK_AFTER_S = 2.0  # then it is asked whether that will ever be
_MAX_CONFIG_BYTES = 10_000_000
_MAX_MARKS_BYTES = 1_000_000_000
# The id of a file without content; of both kinds of repository.
_EMPTY = (
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
)


class SnapshotIndex:
    """Turns what is on disk in `repo` into a git tree. Its files are in `cache_dir`, one per working tree.

    Call everything inside `locked()`.
    """

    def __init__(self, repo: Repo, cache_dir: Path, large_file_bytes: int) -> None:
        self._repo = repo
        self._git = Git(repo.toplevel)
        self._cache = cache_dir
        self._limit = large_file_bytes
        self._kept = cache_dir / "index"
        self._copy = cache_dir / "index.user"  # the person's index as it was when the snapshot began
        self._lock_fd = -1
        self._looked = cache_dir / "permissions"
        self._user: UserIndex | None = None
        self._rules: Ignored | None = None
        self._marked = cache_dir / "marks"
        self._base_marks: dict[str, str] | None = None
        self.permissions: dict[str, Any] = {}  # of what `working_tree` stored last
        self.marks: dict[str, list[str]] = {}  # path -> [at `base`, then], where that differs
        self._user_seen: tuple[object, object] = (None, None)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the tree's snapshot lock. git children inherit it: it outlives a killed parent as they do.

        Raises CodeFrameError naming who holds it when it does not become free, and when the repository is gone:
        a folder of ours made in its place would look like the rest of it.
        """
        if not (self._repo.common_dir / "objects").is_dir():
            raise CodeFrameError(
                f"The git repository {self._repo.common_dir} was taken away or replaced while it was in use.",
                f"Bring it back from where it is now, or from a copy; then type: cf -C "
                f"{shlex.quote(str(self._repo.toplevel))} doctor",
            )
        self._cache.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._cache / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._wait_for(fd)
            os.ftruncate(fd, 0)
            os.pwrite(fd, str(os.getpid()).encode(), 0)
            self._lock_fd = fd
            for left_by_a_killed_git in self._cache.glob("index*.lock"):
                left_by_a_killed_git.unlink()
            yield
        finally:
            os.close(fd)

    def _wait_for(self, fd: int) -> None:
        began = time.monotonic()
        looked = False
        while True:
            try:
                return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.02)
            waited = time.monotonic() - began
            culprit = None
            if waited >= _LOOK_AFTER_S and not looked:
                looked = True
                culprit = blocking_file(self._repo.toplevel)
            if culprit or waited >= (HURRIED_S if hurried() else LOCK_WAIT_S):
                raise self._never_free(culprit)

    def _never_free(self, culprit: Path | None) -> CodeFrameError:
        """Names the processes that hold the lock, and what ends them (git is started deaf to all but -9)."""
        holders = _holders(self._cache / "lock")
        who = " and ".join(f"process {pid} ({name})" for pid, name in holders.items()) or "another process"
        words = f"Another snapshot of this tree is not finished; {who} holds {self._cache / 'lock'}"
        ending = f"kill -9 {' '.join(map(str, holders))}" if holders else "ps -ef | grep git"
        if culprit is None:
            return CodeFrameError(f"{words}.", f"Wait for it, or end it: {ending}")
        return CodeFrameError(
            f"{words}, and {culprit} is a FIFO, which git cannot read.",
            f"Type: rm {shlex.quote(str(culprit))}, then: {ending}",
        )

    def read_user_index(self) -> UserIndex:
        """Copy the person's index and read the copy, so that all that follows sees one state of it.

        Not read again while nobody wrote it: git replaces the file whenever it writes.
        """
        self._raw.prepare(self._repo)
        theirs = self._repo.git_dir / "index"
        seen = _identity(theirs)
        if self._user is None or self._user_seen != (seen, _identity(self._copy)):
            _copy_index(theirs, self._copy)
            self._user = self._read_copy()
            self._user_seen = (seen, _identity(self._copy))
        return self._user

    def _read_copy(self) -> UserIndex:
        if any(self._repo.git_dir.glob("sharedindex.*")):
            # Only here is the other half found.
            self._on_copy("update-index", "--no-split-index", env=self._git.unfiltered())
        entries: dict[str, Entry] = {}
        links, skipped, assumed, conflicts, empty = set(), set(), set(), set(), set()
        for record in records(self._on_copy("ls-files", "-z", "-s", "-v").stdout):
            meta, path = record.split("\t", 1)
            tag, mode, oid, stage = meta.split(" ")
            if stage != "0":
                conflicts.add(path)
            entries[path] = Entry(mode, oid)
            if mode == GITLINK:
                links.add(path)
            if tag in "Ss":
                skipped.add(path)
            if tag.islower():
                assumed.add(path)
            if oid in _EMPTY and self._holds_something(path):
                empty.add(path)
        # Raw, as writing an index may run the repository's filters. Objects that are missing here, in a
        # partial clone, are the person's own affair.
        raw = self._raw.on(index=self._copy)
        raw.put({path: entries[path].removal() for path in conflicts})
        tree = raw.run("write-tree", "--missing-ok").stdout.decode().strip()
        if empty:  # or `git add -N`, which no tree holds
            empty -= set(records(raw.run("ls-tree", "-r", "-z", "--name-only", tree).stdout)) | conflicts
        return UserIndex(tree, entries, *map(frozenset, (links, skipped, assumed, conflicts, empty)))

    def _holds_something(self, path: str) -> bool:
        try:
            return os.lstat(self._repo.toplevel / path).st_size > 0
        except OSError:
            return False

    def _look_at_marks(self, user: UserIndex, fresh: bool) -> set[str]:
        """Set `marks`; returns the paths a sparse checkout keeps off the disk: those that were off it at `base`.

        What is marked so and removed later is a deletion all the same.
        """
        now = user.marks()
        if self._base_marks is None:
            with contextlib.suppress(OSError, ValueError):
                self._base_marks = json.loads(read_regular(self._marked, _MAX_MARKS_BYTES))
        if fresh or self._base_marks is None:
            there = {path: marks + self._absent(path) * (SKIPPED in marks) for path, marks in now.items()}
            if there != self._base_marks:
                write_whole(self._marked, json.dumps(there))
            self._base_marks = there
        base = self._base_marks
        sparse = {path for path, marks in base.items() if ABSENT in marks}
        for path in sparse:
            now[path] = now.get(path, "") + self._absent(path)
        paths = sorted({*base, *now})
        self.marks = {
            p: [base.get(p, ""), now.get(p, "")] for p in paths if base.get(p, "") != now.get(p, "")
        }
        return sparse

    def _absent(self, path: str) -> str:
        return "" if os.path.lexists(self._repo.toplevel / path) else ABSENT

    def working_tree(self, user: UserIndex, fresh: bool) -> tuple[str, tuple[LeftOut, ...]]:
        """Store what is on disk; return the tree's id and what was left out.

        An untracked file once stored stays covered when it becomes ignored or leaves the person's
        index (else an engine that edits .gitignore would seem to delete it); `fresh` ends that. What git
        ignores outside of the tree is read when `fresh` only: an engine could hide there what it does.
        """
        if fresh or self._rules is None:
            self._rules = (None if fresh else self._raw.ignoring()) or self._ignored()
        self._raw.ignore(self._rules)
        try:
            if not self._kept.exists():
                self._seed(user)
            return self._store(user, fresh)
        except GitStuck:
            raise
        except GitError:
            # A file changed while it was read, or objects only the kept index knew were collected.
            self._kept.unlink(missing_ok=True)
            self._seed(user)
            return self._store(user, fresh)

    def with_entries(self, tree: str, entries: Mapping[str, Entry | None]) -> str:
        """The id of `tree` with other entries (None: nothing there)."""
        gone = Entry("0", "0" * len(tree))
        raw = self._raw.on(index=self._cache / "index.restated")
        raw.run("read-tree", tree)
        raw.put({path: entry or gone for path, entry in entries.items()})
        return raw.run("write-tree", "--missing-ok").stdout.decode().strip()

    def _on_copy(self, *args: str, env: Mapping[str, str] | None = None) -> Completed:
        env = {**(env or {}), "GIT_INDEX_FILE": str(self._copy)}
        return self._git.run(*args, env=env, pass_fds=(self._lock_fd,))

    @property
    def _raw(self) -> RawGit:
        return RawGit(
            folder=self._cache / "git",
            tree=self._repo.toplevel,
            objects=self._repo.common_dir / "objects",
            index=self._kept,
            lock_fd=self._lock_fd,
        )

    def _ignored(self) -> Ignored:
        """What the repository says now. core.excludesFile where it matters: what the person's own configuration
        says holds by itself."""
        files = (self._repo.common_dir / "config", self._repo.git_dir / "config.worktree")
        said = b"".join(read_regular(file, _MAX_CONFIG_BYTES) for file in files if file.exists()).lower()
        asked = b"excludesfile" in said or b"include" in said
        named = self._user_config.get("core.excludesfile") if asked else None
        places = (self._repo.common_dir / "info" / "exclude", self._repo.toplevel / named if named else None)
        return Ignored(*(_ignoring(place) for place in places))

    @cached_property
    def _user_config(self) -> dict[str, str]:
        """The two settings of the person that matter here: core.autocrlf and core.excludesfile."""
        pattern = r"^core\.(autocrlf|excludesfile)$"
        said = self._git.run("config", "-z", "--type=path", "--get-regexp", pattern, check=False)
        pairs = (record.partition("\n") for record in records(said.stdout))
        return {key: value if given else "true" for key, given, value in pairs}

    def _seed(self, user: UserIndex) -> None:
        """Start from the person's index for its stat data, except where that cannot be believed."""
        self._looked.unlink(missing_ok=True)
        fresh = self._kept.with_name("index.new")
        _copy_index(self._copy, fresh)
        if fresh.exists():
            doubtful = user.skipped | user.assumed | self._converted(user)
            self._raw.on(index=fresh).put({path: user.entries[path] for path in doubtful})
            fresh.replace(self._kept)

    def _converted(self, user: UserIndex) -> frozenset[str]:
        """Tracked paths whose bytes on disk may differ from their blob."""
        if self._user_config.get("core.autocrlf", "false").lower() not in ("false", "no", "off", "0"):
            return frozenset(user.entries)
        said = self._git.run("check-attr", "-z", "--stdin", *CONVERTING, stdin=nul(user.entries)).stdout
        return frozenset(path for path, _, value in rows(said, 3) if value not in ("unspecified", "unset"))

    def _store(self, user: UserIndex, fresh: bool) -> tuple[str, tuple[LeftOut, ...]]:
        scan = Scan(self._raw, user, self._look_at_marks(user, fresh), self._limit)
        scan.plan(fresh)
        look = Look(self._repo.toplevel, self._looked)
        permissions = later(lambda: look.facts(scan.covered(), scan.files))
        try:
            self._raw.put(scan.entries)
            if scan.files:
                reading = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
                self._raw.run(*reading, stdin=nul(scan.files))
            # A partial clone lacks the blobs of what a sparse checkout leaves out.
            missing = ("--missing-ok",) if user.skipped else ()
            tree = self._raw.run("write-tree", *missing).stdout.decode().strip()
        finally:
            self.permissions = permissions()
        return tree, tuple(scan.left_out[path] for path in sorted(scan.left_out))


def _ignoring(place: Path | None) -> bytes | None:
    if place is None or not os.path.lexists(place):
        return None if place is None else b""
    try:
        return read_regular(place, _MAX_CONFIG_BYTES)
    except OSError as error:
        raise CodeFrameError(
            f"{place}, which says what git ignores, cannot be read: {error.strerror}.",
            f"Put it right or take it away: ls -la {shlex.quote(str(place))}",
        ) from error


def _holders(lock: Path) -> dict[int, str]:
    """Pid -> name of the processes that hold `lock`: who wrote itself into it, and git. Others only wait."""
    import psutil  # nobody gets here who was in a hurry

    found = {}
    try:
        owner = int(read_regular(lock, 100))
    except (OSError, ValueError):
        owner = 0
    for process in psutil.process_iter():
        try:
            name = process.name()
            if process.pid == os.getpid() or not (process.pid == owner or name.startswith("git")):
                continue
            if any(os.path.realpath(each.path) == os.path.realpath(lock) for each in process.open_files()):
                found[process.pid] = name
        except (psutil.Error, OSError):
            continue
    return found


def _identity(index: Path) -> tuple[int, ...] | None:
    """Tells one version of an index file from the next; None when there is none."""
    try:
        found = index.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _copy_index(source: Path, target: Path) -> None:
    """Copy an index with its modification time, without which git would miss edits of the same second.

    Content and time come from one open file: git replaces an index by renaming another over it.
    """
    try:
        with open_regular(source) as reading:
            temporary = target.with_name(target.name + ".tmp")
            with temporary.open("wb") as writing:
                shutil.copyfileobj(reading, writing)
            made = os.fstat(reading.fileno())
            os.utime(temporary, ns=(made.st_atime_ns, made.st_mtime_ns))
            temporary.replace(target)
    except FileNotFoundError:
        target.unlink(missing_ok=True)
