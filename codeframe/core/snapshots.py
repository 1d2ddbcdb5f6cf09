"""Snapshots: a whole working tree, staged and not, kept as a commit that no branch shows (rule 4.1).

A snapshot is shaped as a stash: its tree is what is on disk, its parents are HEAD and a commit of
what is staged. Taking one changes neither the tree, nor the index, nor HEAD, nor the stash list.
Not covered: ignored files, and what `Snapshot.left_out` names.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from codeframe.core.errors import CodeFrameError
from codeframe.core.git import IDENTITY, Git, Repo
from codeframe.core.later import later
from codeframe.core.permissions import Permissions, changed_bits, expand
from codeframe.core.raw_git import GITLINK, Entry, records, tree_changes
from codeframe.core.snapshot_index import SnapshotIndex
from codeframe.core.snapshot_scan import NESTED, LeftOut
from codeframe.core.uncertain import Watch

__all__ = ["LARGE_FILE_BYTES", "FileChange", "LeftOut", "Snapshot", "Snapshots", "changed_marks", "in_short"]

LARGE_FILE_BYTES = 50_000_000  # untracked files above it are listed, not stored
FILES_IN_EVIDENCE = 200

_NO_REFLOG = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.logAllRefUpdates",
    "GIT_CONFIG_VALUE_0": "false",
}

# What a git folder holds while an operation waits for the person -> its name, what ends it.
_BUSY = {
    "MERGE_HEAD": ("merge", "git merge --abort"),
    "rebase-merge": ("rebase", "git rebase --abort"),
    "rebase-apply": ("rebase", "git rebase --abort"),
    "CHERRY_PICK_HEAD": ("cherry-pick", "git cherry-pick --abort"),
    "REVERT_HEAD": ("revert", "git revert --abort"),
    "sequencer": ("cherry-pick or revert", "git cherry-pick --abort"),
    "BISECT_LOG": ("bisect", "git bisect reset"),
}

# Labels of snapshots that save what an engine did.
_WHATEVER_COMES = frozenset({"end", "gates", "crash"})


class Snapshot(NamedTuple):
    """A kept snapshot. Ids are full hex object ids; `branch` is a full ref name, None when HEAD is
    detached; `head` is None before the first commit; `index_tree` is the tree of what was staged;
    `unfinished` says in words which merge or the like was under way ("" for none); `uncertain` are the
    changes since the call began that may be a person's; `permissions` are facts for `Snapshots.permissions`,
    None in snapshots of earlier versions; `marks` maps paths to [at `base`, then] what git was told of them,
    where that differs (see `UserIndex.marks`)."""

    commit: str
    tree: str
    ref: str
    head: str | None
    branch: str | None
    index_tree: str
    left_out: tuple[LeftOut, ...]
    label: str = ""
    unfinished: str = ""
    uncertain: tuple[str, ...] = ()
    permissions: dict[str, Any] | None = None
    marks: dict[str, list[str]] | None = None


def changed_marks(start: Snapshot, end: Snapshot) -> dict[str, tuple[str, str]]:
    """Path -> (at `start`, at `end`) what git was told of it, where that differs. Both are of one run."""
    first, last = start.marks or {}, end.marks or {}
    found = {}
    for path in first.keys() | last.keys():
        base = (first.get(path) or last[path])[0]
        was, now = (marks[path][1] if path in marks else base for marks in (first, last))
        if was != now:
            found[path] = was, now
    return found


@dataclass(frozen=True)
class FileChange:
    """A path relative to the repository's top that differs between two snapshots.

    `kind` is "modified" (mode changes too), "created" or "deleted". `before` and `after` are what
    the snapshots hold, None for nothing; a path that one of them left out counts as modified. `note`
    says in words what is peculiar about it ("" for nothing).
    """

    path: str
    kind: str
    before: Entry | None = field(default=None, compare=False)
    after: Entry | None = field(default=None, compare=False)
    note: str = field(default="", compare=False)


def in_short(changes: Sequence[FileChange]) -> dict[str, Any]:
    """JSON-ready: {"changed": how many, "files": ["<kind> <path>", ... at most FILES_IN_EVIDENCE]}; a note follows
    in parentheses."""
    files = [
        f"{change.kind} {change.path}" + (f" ({change.note})" if change.note else "")
        for change in changes[:FILES_IN_EVIDENCE]
    ]
    return {"changed": len(changes), "files": files}


class Snapshots:
    """The snapshots of one working tree. `cache_dir` keeps its private index: one folder per working tree."""

    def __init__(
        self, repo: Repo, workspace_id: str, cache_dir: Path, large_file_bytes: int = LARGE_FILE_BYTES
    ) -> None:
        self.repo = repo
        self.git = Git(repo.toplevel)
        self.cache_dir = cache_dir
        self._prefix = f"refs/codeframe/{workspace_id}"
        self._index = SnapshotIndex(repo, cache_dir, large_file_bytes)
        self._taken: dict[str, Snapshot] = {}  # by commit: what was taken here need not be read back
        self._staged: tuple[tuple[str | None, ...], str] = ((), "")

    def take(
        self,
        task_id: str,
        label: str,
        *,
        watched: tuple[str, int] | None = None,
        unless: Snapshot | None = None,
    ) -> Snapshot:
        """Keep the tree as it is now under `refs/codeframe/<workspace>/<task>/<n>`.

        `label` is "base", "start", "end", "gates", "crash" or "undo"; with "base", coverage starts anew
        (see `SnapshotIndex.working_tree`). Where nothing differs from `unless`, that is returned and no
        other is kept. Raises CodeFrameError during a merge, rebase, cherry-pick, revert or bisect and
        while the index has conflicts, except for "end", "gates" and "crash": what an engine did must be
        saved however it left the repository. `watched` is given where nobody saw the call end: its start
        snapshot and the time in ns until which it was watched; what changed later is noted as uncertain.
        """
        with self._index.locked():
            unfinished = self.operation()
            if unfinished and label not in _WHATEVER_COMES:
                raise unfinished
            position = later(lambda: self._position(task_id))
            user = self._index.read_user_index()
            if user.conflicts and not unfinished:
                path = min(user.conflicts)
                unfinished = CodeFrameError(
                    f"{path} has unresolved conflicts.", f"Resolve it and type: git add {shlex.quote(path)}"
                )
                if label not in _WHATEVER_COMES:
                    raise unfinished
            staged = later(lambda: self._staged_commit(user.tree, *position()[:2]))
            tree, left_out = self._index.working_tree(user, fresh=label == "base")
            permissions, marks = self._index.permissions, self._index.marks
            doubtful = self._uncertain(*watched, user.tree, tree, permissions) if watched else []
            head, branch, number = position()
            words = f"{unfinished.problem} {unfinished.hint}" if unfinished else ""
            if unless is not None:
                same = (tree, user.tree, head, branch, tuple(left_out), words, permissions, marks)
                if same == (
                    unless.tree, unless.index_tree, unless.head, unless.branch, unless.left_out,
                    unless.unfinished, unless.permissions, unless.marks or {},
                ):  # fmt: skip
                    staged()
                    return unless
            facts: dict[str, Any] = {
                "ref": f"{self._prefix}/{task_id}/{number}",
                "head": head,
                "branch": branch,
                "index_tree": user.tree,
                "left_out": [(each.path, each.reason, each.mark) for each in left_out],
                "label": label,
                "unfinished": words,
                "uncertain": doubtful,
                "permissions": permissions,
                "marks": marks,
            }
            return self._keep(task_id, tree, facts, staged())

    def restate(
        self,
        task_id: str,
        start: Snapshot,
        end: Snapshot,
        came: Mapping[str, Entry | None],
        head: str | None,
    ) -> Snapshot:
        """Keep `start` anew as if HEAD had been at `head` and `came` (None: nothing) in the tree and staged, with
        the permissions that these files had at `end`."""
        with self._index.locked():
            tree, staged = (self._index.with_entries(of, came) for of in (start.tree, start.index_tree))
            number = self._position(task_id)[2]
            permissions = start.permissions
            if permissions is not None and (last := self.permissions(end)) is not None:
                other = {
                    bits: [p for p in paths if p not in came] for bits, paths in permissions["other"].items()
                }
                for path in came.keys() & last.files.keys():
                    other.setdefault(f"{last.files[path]:o}", []).append(path)
                permissions = {**permissions, "other": other}
            facts = {name: getattr(start, name) for name in start._fields if name not in ("commit", "tree")}
            facts |= {"ref": f"{self._prefix}/{task_id}/{number}", "head": head, "index_tree": staged}
            facts["left_out"] = [(each.path, each.reason, each.mark) for each in start.left_out]
            facts["permissions"] = permissions
            index = self._commit(staged, _parents(head), f"index on {_short(start.branch)}")
            return self._keep(task_id, tree, facts, index)

    def _keep(self, task_id: str, tree: str, facts: dict[str, Any], staged: str) -> Snapshot:
        """The commit of a snapshot and its ref; `staged` is the commit of what was staged."""
        message = (
            f"On {_short(facts['branch'])}: codeframe {facts['label']} of {task_id}\n\n{json.dumps(facts)}"
        )
        commit = self._commit(tree, [*_parents(facts["head"]), staged], message)
        # The empty old value: the ref must be new.
        self.git.run("update-ref", facts["ref"], commit, "", env=_NO_REFLOG)
        self._taken[commit] = _snapshot(commit, tree, facts)
        return self._taken[commit]

    def load(self, commit: str) -> Snapshot:
        """The snapshot kept as `commit` (full id). Raises CodeFrameError when it is none or is gone."""
        return self._load([commit])[0]

    def of_task(self, task_id: str) -> list[Snapshot]:
        """All snapshots of a task, oldest first."""
        refs = self._refs(task_id)
        return self._load([refs[ref] for ref in sorted(refs, key=_number) if _number(ref)])

    def changes(self, start: str, end: str) -> list[FileChange]:
        """What differs between two snapshots (commit ids), by path. A rename is a deletion and a creation.

        What they left out counts where something happened to it, although nothing of it can be shown.
        """
        first, last = (self._taken.get(commit) or self.load(commit) for commit in (start, end))
        hidden_first, hidden_last = ({each.path: each for each in snap.left_out} for snap in (first, last))
        found = []
        for path, before, after in self.compare(start, end):
            kind = "modified"
            if before is None and path not in hidden_first:
                kind = "created"
            elif after is None and path not in hidden_last:
                kind = "deleted"
            found.append(FileChange(path, kind, before, after, _note(before, after)))
        held = {change.path for change in found}
        for path in sorted((hidden_first.keys() | hidden_last.keys()) - held):
            was, now = hidden_first.get(path), hidden_last.get(path)
            if was and now and not was.differs(now):
                continue
            nested = (now or was or LeftOut("", "")).reason.startswith(NESTED)
            kind = "modified" if nested or (was and now) else "created" if now else "deleted"
            note = f"{now.reason}; not covered by undo" if now else "gone or ignored; not covered by undo"
            if nested and not now:
                note = f"{NESTED} whose own changes are gone or committed; not covered by undo"
            found.append(FileChange(path, kind, note=note))
        return found

    def compare(self, start: str, end: str) -> list[tuple[str, Entry | None, Entry | None]]:
        """(path, before, after) wherever two trees or commits differ, exactly as git holds them."""
        return tree_changes(self.git, start, end)

    def diff(self, start: str, end: str, paths: Sequence[str] | None = None, stat: bool = False) -> str:
        """The patch between two snapshots (or its `--stat`), limited to `paths` when given."""
        return self.diff_bytes(start, end, paths, stat).decode("utf-8", "replace")

    def diff_bytes(
        self,
        start: str,
        end: str,
        paths: Sequence[str] | None = None,
        stat: bool = False,
        binary: bool = False,
    ) -> bytes:
        """The same, exactly as git printed it, whatever the files' encodings.

        With `binary` it holds binary files too, so that `git apply` takes all of it.
        """
        form = ("--stat",) if stat else ("-p", "--binary") if binary else ("-p",)
        options = ("-r", "--no-renames", *form, start, end, "--", *(paths or ()))
        return self.git.run("diff-tree", *options, env={"GIT_LITERAL_PATHSPECS": "1"}).stdout

    def commits_between(self, start: Snapshot, end: Snapshot) -> list[str]:
        """One line ("<short id> <subject>") per commit HEAD gained between two snapshots, newest first."""
        if end.head is None or end.head == start.head:
            return []
        span = [end.head] if start.head is None else [end.head, f"^{start.head}"]
        return self.git.text("log", "--no-decorate", "--format=%h %s", *span, "--").splitlines()

    def delete_task(self, task_id: str) -> None:
        """Forget the snapshots of a task; git collects their objects in its own time."""
        doomed = "".join(f"delete {ref}\n" for ref in self._refs(task_id))
        self.git.run("update-ref", "--stdin", stdin=doomed.encode())
        self._taken.clear()
        self._staged = ((), "")

    def permissions(self, snapshot: Snapshot) -> Permissions | None:
        """The permission bits and folders a snapshot saw; None when it is of an earlier version."""
        facts = snapshot.permissions
        return None if facts is None else self._expand(facts, snapshot.tree)

    def _expand(self, facts: dict[str, Any], tree: str) -> Permissions:
        modes = {}
        for record in records(self.git.run("ls-tree", "-r", "-z", "--full-tree", tree).stdout):
            meta, path = record.split("\t", 1)
            modes[path] = meta.split(" ", 1)[0]
        return expand(facts, modes)

    def _uncertain(
        self, start: str, until: int, index_tree: str, tree: str, facts: dict[str, Any]
    ) -> list[str]:
        """Paths that differ from the snapshot `start`, on disk or staged, and may do so only since `until`."""
        began = self.load(start)
        changed = {path: after for path, _, after in self.compare(began.tree, tree)}
        watch = Watch(self.repo.toplevel, until)
        before, now = self.permissions(began), self._expand(facts, tree)
        found = watch.late({*changed, *(changed_bits(before, now) if before else ())})
        if watch.is_late(self.repo.git_dir / "index"):
            # What is staged just as the engine left it on disk goes the way of that.
            staged = self.compare(began.index_tree, index_tree)
            found |= {path for path, _, after in staged if path not in changed or changed[path] != after}
        return sorted(found)

    def operation(self) -> CodeFrameError | None:
        """The merge or the like that waits for the person, as what to tell them."""
        for name, (operation, ending) in _BUSY.items():
            if (self.repo.git_dir / name).exists():
                return CodeFrameError(
                    f"A {operation} is in progress in {self.repo.toplevel}.",
                    f"Finish it, or type: {ending}",
                )
        return None

    def _position(self, task_id: str) -> tuple[str | None, str | None, int]:
        """HEAD's commit, its branch, and the next free number of the task."""
        ask = ("rev-parse", "--revs-only", "HEAD", "--symbolic-full-name", "HEAD")
        lines = self.git.text(*ask, f"--glob={self._prefix}/{task_id}/").split("\n")
        if len(lines) < 2 or not (lines[1] == "HEAD" or lines[1].startswith("refs/heads/")):
            return self._position_asked_apart(task_id)
        head, branch, *refs_kept = lines
        return head, None if branch == "HEAD" else branch, 1 + max(map(_number, refs_kept), default=0)

    def _position_asked_apart(self, task_id: str) -> tuple[str | None, str | None, int]:
        """The same where one question is not enough: no commit yet, or a branch or tag named HEAD."""
        head = self.git.text("rev-parse", "--verify", "-q", "HEAD^{commit}", check=False) or None
        branch = self.git.text("symbolic-ref", "-q", "HEAD", check=False) or None
        return head, branch, 1 + max(map(_number, self._refs(task_id)), default=0)

    def _staged_commit(self, tree: str, head: str | None, branch: str | None) -> str:
        """The commit of what is staged; the one of the snapshot before serves again while nothing moved."""
        key = (tree, head, branch)
        if self._staged[0] != key:
            self._staged = key, self._commit(tree, _parents(head), f"index on {_short(branch)}")
        return self._staged[1]

    def _commit(self, tree: str, parents: Iterable[str], message: str) -> str:
        flags = [flag for parent in parents for flag in ("-p", parent)]
        text = message.encode("utf-8", "replace")
        return self.git.text("commit-tree", tree, *flags, stdin=text, env=IDENTITY)

    def _refs(self, task_id: str) -> dict[str, str]:
        said = self.git.text(
            "for-each-ref", "--format=%(refname) %(objectname)", f"{self._prefix}/{task_id}/"
        )
        return dict(line.split(" ") for line in said.split("\n") if line)

    def _load(self, commits: Sequence[str]) -> list[Snapshot]:
        said = self.git.run("cat-file", "--batch", stdin="".join(f"{c}\n" for c in commits).encode()).stdout
        found = []
        for commit in commits:
            header, _, said = said.partition(b"\n")
            described = re.fullmatch(rb"\S+ commit (\d+)", header)
            if not described:
                raise CodeFrameError(
                    f"The snapshot {commit[:12]} is missing from the repository.", "Type: git fsck"
                )
            size = int(described[1])
            body, said = said[:size], said[size + 1 :]
            try:
                tree = body.removeprefix(b"tree ").split(b"\n", 1)[0].decode()
                found.append(_snapshot(commit, tree, json.loads(body.rsplit(b"\n\n", 1)[1])))
            except (ValueError, LookupError, TypeError) as error:
                raise CodeFrameError(
                    f"The commit {commit[:12]} is not a snapshot.",
                    "See what is kept: git for-each-ref refs/codeframe",
                ) from error
        return found


def _snapshot(commit: str, tree: str, facts: dict[str, Any]) -> Snapshot:
    left_out = tuple(LeftOut(*each) for each in facts["left_out"])
    uncertain = tuple(facts.get("uncertain", ()))
    return Snapshot(commit, tree, **{**facts, "left_out": left_out, "uncertain": uncertain})


def _note(before: Entry | None, after: Entry | None) -> str:
    """Says of a nested repository from which commit to which it went."""
    if GITLINK not in {entry.mode for entry in (before, after) if entry}:
        return ""
    was, now = (entry.oid[:10] if entry and entry.mode == GITLINK else "nothing" for entry in (before, after))
    return f"{NESTED}, from {was} to {now}; its content is not covered by undo"


def _parents(head: str | None) -> list[str]:
    return [head] if head else []


def _short(branch: str | None) -> str:
    return (branch or "no branch").removeprefix("refs/heads/")


def _number(ref: str) -> int:
    """The number of a snapshot's ref; 0 for a ref that somebody else put there."""
    last = ref.rsplit("/", 1)[1]
    return int(last) if last.isascii() and last.isdigit() else 0
