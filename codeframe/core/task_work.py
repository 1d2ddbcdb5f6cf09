"""What a task's runs did to the tree, path by path, set against HEAD: what a commit or a patch of it holds."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from codeframe.core.errors import CodeFrameError, UsageError
from codeframe.core.git import Git
from codeframe.core.head_state import HeadState
from codeframe.core.leftovers import doubtful, engine_calls, snapshots_of, uncertain
from codeframe.core.models import Leftover, Run, Task
from codeframe.core.person_index import Step, marked
from codeframe.core.raw_git import CONVERTING, GITLINK, Entry, nul, records, rows
from codeframe.core.scratch import Scratch, scratch
from codeframe.core.undo import MAYBE_OLDER, REPOSITORY, UNCERTAIN, is_ignore_file
from codeframe.core.workspace import Workspace

CREATE, EXPORT = "commit create --task", "patch export"  # of `cf`, to be followed by the task's id

_NO_MERGE = frozenset({"120000", GITLINK})
# Why a commit leaves out what the task changed, beside what undo keeps for the same reason.
_MARKED = "marked {} for git to leave it alone"
_AS_IN_HEAD = "the same as in HEAD: taken back since, or committed with later changes"


def counts_when_named(reason: str) -> bool:
    """Whether a path left out for this reason is committed once a person names it."""
    return reason in (UNCERTAIN, MAYBE_OLDER) or reason.startswith(_MARKED.partition("{")[0])


def naming(task: Task, paths: Iterable[str], command: str) -> str:
    """What to type so that these paths are not left out, wherever it is typed."""
    return f"cf {command} {task.id[:8]} -- {' '.join(shlex.quote(f':/{path}') for path in paths)}"


Changes = list[tuple[str, Entry | None, Entry | None]]
States = list[Entry | None]  # what a path held before and after each engine call that changed it, in order


class Overlap(CodeFrameError):
    """What the task changed at `path` stands on a change that is not committed."""

    def __init__(self, path: str, hint: str) -> None:
        super().__init__(
            f"{path} was changed by the task where it has another change that is not committed.",
            hint,
        )
        self.path = path


class TaskWork:
    """What a task's runs did to the tree, path by path, against HEAD and the person's index."""

    def __init__(
        self,
        workspace: Workspace,
        task: Task,
        named: Sequence[str] = (),
        *,
        command: str = CREATE,
        head: HeadState | None = None,
        filters: bool = False,
    ) -> None:
        """`named` are the paths that a person says are the task's (see `left_out`), whatever a commit of it
        carried before; `command` is what this is for. `filters`: the person's filter programs may run, as in a
        commit of theirs. Raises UsageError for a name that is not left out."""
        self.task, self.command = task, command
        self._filters = filters
        self._snapshots = snapshots_of(workspace)
        self._named = frozenset(named)
        self.git = self._snapshots.git
        self.folder = workspace.state_dir
        runs = sorted(workspace.store.runs.list(task_id=task.id), key=lambda run: run.attempt)
        self.undone = any(run.leftover is Leftover.UNDONE for run in runs)
        runs = [run for run in runs if run.leftover is not Leftover.UNDONE]
        self.head = head or HeadState.for_runs(self.git, runs, task.created_at)
        # What a commit carries is committed, whatever became of it since.
        last = max((at for at, run in enumerate(runs) if run.id in self.head.carried), default=-1)
        self.in_head = last >= 0  # some of it, at least
        self.runs: list[Run] = runs if named else runs[last + 1 :]
        self.states: dict[str, States] = {}
        self._doubtful: dict[str, str] = {}  # path -> why; unless it is named, that is as a person's edit
        self._calls: list[tuple[str, str]] = []
        for at, run in enumerate(runs, start=-last - 1):
            if at >= 0 or named:
                self._add(workspace, run, carried=at < 0)
            else:
                self._doubtful.update(dict.fromkeys(uncertain(workspace, run), UNCERTAIN))
        marks = marked(self.git, self._named).values() if named else ()
        self._unmarked = frozenset[str]().union(*marks)  # what git is to take all the same
        for path in self._named - (self.states.keys() & (self._doubtful.keys() | self._unmarked)):
            raise UsageError(
                f"{path or '.'} is not among what a commit of task {task.id[:8]} leaves out.",
                "Name files as the command itself lists them; of all others it takes what the task changed.",
            )
        self._convert()

    def _add(self, workspace: Workspace, run: Run, *, carried: bool) -> None:
        """The calls of a run to the states; of one that a commit carries, only where a person names the path."""
        crashed = doubtful(workspace, run)
        for start, end in engine_calls(workspace, run):
            changes = self._snapshots.compare(start, end)
            doubt = dict.fromkeys(crashed.get(end, ()), UNCERTAIN) | self._formerly_ignored(start, changes)
            self._calls += [] if carried else [(start, end)]
            for path, before, after in changes:
                if path in doubt:
                    self._doubtful[path] = doubt[path]
                if path in self._named or not (carried or path in doubt):
                    self.states.setdefault(path, []).extend((before, after))

    def wanted(self) -> dict[str, Step]:
        """Path -> (what HEAD holds, what the commit is to hold), where these differ. Raises Overlap."""
        wanted = {}
        for path in self.states.keys() & (self.head.changed | self._unmarked):  # see `left_out`
            states = self.states[path]
            now = self.head.entry(path)
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

    def left_out(self) -> dict[str, str]:
        """Path -> why, of all that the task changed, that HEAD does not hold and that `wanted` does not."""
        doubtful = self._doubtful.keys() & self.head.changed - self._named
        found = {path: self._doubtful[path] for path in doubtful}
        settled = self.head.changed | self._unmarked
        rest = {p for p in self.states.keys() - settled if self.head.entry(p) != self.states[p][-1]}
        options = {path: option for option, paths in marked(self.git, rest).items() for path in paths}
        for path in rest:
            there = os.path.lexists(self.git.tree / path)
            if option := options.get(path):
                found[path] = _MARKED.format(option.removeprefix("--"))
            elif GITLINK in {entry.mode for entry in self.states[path] if entry}:
                found[path] = REPOSITORY
            elif self.head.entry(path) is not None:
                found[path] = _AS_IN_HEAD
            else:
                found[path] = "ignored now" if there else "deleted since"
        for change in (each for call in self._calls for each in self._snapshots.changes(*call)):
            stored = change.before or change.after
            if not stored and self.head.changed & {change.path, f"{change.path}/"}:
                found[change.path] = change.note.partition(";")[0]
        return dict(sorted(found.items()))

    def also_staged(
        self, path: str, staged: Entry | None, head: Entry | None, then: Entry | None
    ) -> Entry | None:
        """What the index is to hold, so that what the person staged is still staged after the commit."""
        if staged in (head, then):
            return then
        return self._merged(path, staged, head, then)

    def overlap(self, path: str) -> Overlap:
        """The refusal, with what gets past it."""
        if path in self._doubtful.keys() - self._named:
            return Overlap(path, f"If both are the task's: {naming(self.task, [path], self.command)}")
        name = shlex.quote(f":/{path}")
        return Overlap(
            path,
            f"Commit both together: git add -- {name} && git commit -- {name}; "
            f"then the rest: cf {self.command} {self.task.id[:8]}",
        )

    def _formerly_ignored(self, start: str, changes: Changes) -> dict[str, str]:
        """New files that the rules from before the call ignored: they may be older, as undo says of them."""
        created = [path for path, before, _ in changes if before is None]
        if not created or not any(is_ignore_file(path) for path, _, _ in changes):
            return {}
        with scratch(self.folder, {"purpose": "rules"}) as made:
            folder = str(made.folder / "tree")
            os.mkdir(folder)
            with self.git.blobs() as blobs:
                for record in records(self.git.run("ls-tree", "-r", "-z", "--full-tree", start).stdout):
                    meta, path = record.split("\t", 1)
                    mode, _, oid = meta.split(" ")
                    if is_ignore_file(path) and mode not in _NO_MERGE:
                        place = Path(folder, path)
                        place.parent.mkdir(parents=True, exist_ok=True)
                        with place.open("wb") as file:
                            blobs.copy(oid, file)
            env = {"GIT_DIR": str(self._snapshots.repo.git_dir), "GIT_WORK_TREE": folder}
            asked = ("check-ignore", "-z", "--stdin", "--no-index")
            said = Git(Path(folder)).run(*asked, stdin=nul(created), env=env, check=False).stdout
        return dict.fromkeys(records(said), MAYBE_OLDER)

    def _convert(self) -> None:
        """Snapshots hold the bytes on disk; a commit holds what git makes of them (line ends, filters)."""
        if not self.states:
            return
        said = self.git.run("check-attr", "-z", "--stdin", *CONVERTING, stdin=nul(self.states)).stdout
        told = {path for path, _, value in rows(said, 3) if value not in ("unspecified", "unset")}
        if self.head.converts_all:
            told = set(self.states)
        for path in told:
            self.states[path] = [self._as_committed(path, entry) for entry in self.states[path]]
        if self.head.keeps_modes:
            for path, states in self.states.items():
                self.states[path] = [self._with_its_mode(path, entry) for entry in states]

    def _with_its_mode(self, path: str, entry: Entry | None) -> Entry | None:
        there = self.head.entry(path)
        if entry is None or entry.mode in _NO_MERGE or (there and there.mode in _NO_MERGE):
            return entry
        return Entry(there.mode if there else "100644", entry.oid)

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
        overlap = self.overlap(path)
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
        with scratch(self.folder, {"purpose": "merge"}) as made:
            for name, entry in (("mine", mine), ("before", before), ("after", after)):
                content = self.git.run("cat-file", "blob", entry.oid).stdout
                (made.folder / name).write_bytes(content)
            files = [str(made.folder / name) for name in ("mine", "before", "after")]
            done = self.git.run("merge-file", "-p", "-q", *files, check=False)
        if done.exit_code != 0:  # the number of conflicts; more than 127 for binary files
            raise overlap
        return Entry(mode, self.git.text("hash-object", "-w", "--stdin", stdin=done.stdout))


@contextmanager
def index_of_head(work: TaskWork) -> Iterator[tuple[Path, Scratch]]:
    """An index that holds HEAD, and the folder it lies in: of this call alone."""
    with scratch(work.folder, {"purpose": work.command, "tree": str(work.git.tree)}) as made:
        index = made.folder / "index"
        work.git.run("read-tree", work.head.commit or "--empty", env={"GIT_INDEX_FILE": str(index)})
        yield index, made


def steps(git: Git, old: str | None, new: str) -> dict[str, Step]:
    """Path -> (what the commit `old` holds, None for nothing at all; what `new` holds), where these differ."""
    trees = (old or git.text("hash-object", "-t", "tree", os.devnull), new)
    listing = git.run("diff-tree", "-r", "-z", "--no-renames", *trees).stdout
    found = {}
    for meta, path in rows(listing, 2):
        old_mode, mode, old_oid, oid, _ = meta[1:].split(" ")
        found[path] = _entry(old_mode, old_oid), _entry(mode, oid)
    return found


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == "000000" else Entry(mode, oid)
