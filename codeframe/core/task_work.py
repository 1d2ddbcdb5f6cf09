"""What a task's runs did to the tree, path by path, set against HEAD: what a commit or a patch of it holds."""

from __future__ import annotations

import secrets
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from codeframe.core.errors import CodeFrameError
from codeframe.core.git import Git
from codeframe.core.leftovers import engine_calls, snapshots_of
from codeframe.core.models import Leftover, Run, Task
from codeframe.core.person_index import Step
from codeframe.core.raw_git import CONVERTING, GITLINK, Entry, nul, records, rows
from codeframe.core.workspace import Workspace

RUN_TRAILER = "CodeFrame-Run"
_NO_MERGE = frozenset({"120000", GITLINK})

States = list[Entry | None]  # what a path held before and after each engine call that changed it, in order


class Overlap(CodeFrameError):
    """What the task changed at `path` stands on a change that is not committed."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} was changed by the task where it has another change that is not committed.",
            f"Commit that first, or both by hand: git add -p {shlex.quote(path)}",
        )
        self.path = path


class TaskWork:
    """What a task's runs did to the tree, path by path, against HEAD and the person's index."""

    def __init__(self, workspace: Workspace, task: Task, *, filters: bool = False) -> None:
        """`filters`: the person's filter programs may run, as in a commit of theirs."""
        self._filters = filters
        self.git = Git(workspace.repo.toplevel)
        self.folder = workspace.state_dir
        self.head = self.git.text("rev-parse", "--verify", "-q", "HEAD^{commit}", check=False) or None
        snapshots = snapshots_of(workspace)
        runs = sorted(workspace.store.runs.list(task_id=task.id), key=lambda run: run.attempt)
        runs = [run for run in runs if run.leftover is not Leftover.UNDONE]
        committed = self._committed(runs)
        # What a commit carries is committed, whatever became of it since.
        last = max((at for at, run in enumerate(runs) if run.id in committed), default=-1)
        self.in_head = last >= 0  # some of it, at least
        self.runs: list[Run] = runs[last + 1 :]
        self.states: dict[str, States] = {}
        for start, end in (call for run in self.runs for call in engine_calls(workspace, run)):
            for path, before, after in snapshots.compare(start, end):
                self.states.setdefault(path, []).extend((before, after))
        self._convert()

    def wanted(self) -> dict[str, Step]:
        """Path -> (what HEAD holds, what the commit is to hold), where these differ."""
        wanted = {}
        open_ = self._not_as_in_head()
        for path, now in self._in_head().items():
            if path not in open_:
                continue  # others have changed it since, and committed that: there is nothing left to commit
            states = self.states[path]
            # Where HEAD holds a state in between, an earlier part of the work is committed already.
            at = len(states) - 1 - states[::-1].index(now) if now in states else 0
            then = now
            for before, after in zip(states[0::2], states[1::2], strict=True):
                if at <= 0:
                    then = self._merged(path, then, before, after)
                at -= 2
            if then != now:
                wanted[path] = now, then
        return wanted

    def also_staged(
        self, path: str, staged: Entry | None, head: Entry | None, then: Entry | None
    ) -> Entry | None:
        """What the index is to hold, so that what the person staged is still staged after the commit."""
        if staged in (head, then):
            return then
        return self._merged(path, staged, head, then)

    def _committed(self, runs: Sequence[Run]) -> set[str]:
        """Ids of runs that a commit names in its trailer."""
        if not runs or self.head is None:
            return set()
        since = min(run.started_at for run in runs) - timedelta(days=1)
        form = f"--format=%(trailers:key={RUN_TRAILER},valueonly)"
        return set(self.git.text("log", f"--since={since.isoformat()}", form, self.head, "--").split())

    def _not_as_in_head(self) -> set[str]:
        """Paths where the working tree or the index differs from HEAD, untracked ones among them."""
        if not self.states:
            return set()
        form = ("--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignored=no")
        return {
            record[3:] for record in records(self.git.run("status", *form, env=self.git.unfiltered()).stdout)
        }

    def _in_head(self) -> dict[str, Entry | None]:
        found: dict[str, Entry | None] = dict.fromkeys(self.states)
        if self.head is not None and found:
            listing = self.git.run("ls-tree", "-r", "-z", "--full-tree", self.head).stdout
            for record in records(listing):
                meta, path = record.split("\t", 1)
                if path in found:
                    mode, _, oid = meta.split(" ")
                    found[path] = Entry(mode, oid)
        return found

    def _convert(self) -> None:
        """Snapshots hold the bytes on disk; a commit holds what git makes of them (line ends, filters)."""
        if not self.states:
            return
        said = self.git.run("check-attr", "-z", "--stdin", *CONVERTING, stdin=nul(self.states)).stdout
        told = {path for path, _, value in rows(said, 3) if value not in ("unspecified", "unset")}
        if self.git.text("config", "core.autocrlf", check=False) in ("true", "input"):
            told = set(self.states)
        for path in told:
            self.states[path] = [self._as_committed(path, entry) for entry in self.states[path]]

    def _as_committed(self, path: str, entry: Entry | None) -> Entry | None:
        if entry is None or entry.mode in _NO_MERGE:
            return entry
        raw = self.git.run("cat-file", "blob", entry.oid).stdout
        env = None if self._filters else self.git.unfiltered()
        asked = ("hash-object", "-w", "--stdin", "--path", path)
        return Entry(entry.mode, self.git.text(*asked, stdin=raw, env=env))

    def _merged(
        self, path: str, mine: Entry | None, before: Entry | None, after: Entry | None
    ) -> Entry | None:
        """`mine` with the step from `before` to `after` made in it as well."""
        if mine in (before, after):
            return after
        if before == after:
            return mine
        overlap = Overlap(path)
        if (
            mine is None
            or before is None
            or after is None
            or _NO_MERGE & {mine.mode, before.mode, after.mode}
        ):
            raise overlap
        mode = after.mode if after.mode != before.mode else mine.mode
        if mine.oid == before.oid or before.oid == after.oid:
            return Entry(mode, after.oid if mine.oid == before.oid else mine.oid)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="merge-") as folder:
            for name, entry in (("mine", mine), ("before", before), ("after", after)):
                content = self.git.run("cat-file", "blob", entry.oid).stdout
                (Path(folder) / name).write_bytes(content)
            files = [f"{folder}/{name}" for name in ("mine", "before", "after")]
            done = self.git.run("merge-file", "-p", "-q", *files, check=False)
        if done.exit_code != 0:  # the number of conflicts; more than 127 for binary files
            raise overlap
        return Entry(mode, self.git.text("hash-object", "-w", "--stdin", stdin=done.stdout))


@contextmanager
def index_of_head(work: TaskWork) -> Iterator[Path]:
    """An index that holds HEAD; the file is gone afterwards, and what a kill left of others as well."""
    for left in work.folder.glob("commit-*.index*"):
        left.unlink(missing_ok=True)
    index = work.folder / f"commit-{secrets.token_hex(4)}.index"
    try:
        work.git.run("read-tree", work.head or "--empty", env={"GIT_INDEX_FILE": str(index)})
        yield index
    finally:
        index.unlink(missing_ok=True)
