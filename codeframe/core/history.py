"""What an engine did to refs, stashes and the HEADs of worktrees beyond adding commits, and to what was staged and
the settings, and what puts each back.

Before the engine starts, all tips but those of tags and remote branches are made parents of a commit
below the task's refs, so that no `git gc` takes what it lets go of; a tag's object is kept once the tag
was seen to move. Of remote branches only the loss is told: what a fetch moves is no news. Our own refs
are left out. All of it goes with the task's snapshots. The list as it was lies in the run's folder
while the run lasts, for the recovery after a crash, and stays there when something moved.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from codeframe.core.errors import CodeFrameError
from codeframe.core.git import IDENTITY, Git, GitError, Repo
from codeframe.core.git_settings import GitSettings
from codeframe.core.later import later
from codeframe.core.safe_read import read_regular
from codeframe.core.snapshots import Snapshot
from codeframe.core.staged_moves import staged_moved
from codeframe.core.whole_file import write_whole

MAX_LINES = 50
_OID = re.compile("[0-9a-f]{40,64}")
_MAX_BYTES = 100_000_000  # of a list of refs
_PARENTS = 5_000  # of one commit: they go through its command line
_BRANCHES, _TAGS, _STASH, _REMOTES = "refs/heads/", "refs/tags/", "refs/stash", "refs/remotes/"
_OURS = "codeframe"
# Nothing of it may differ from run to run: where the tips are the same, the commit is.
_IDENTITY = IDENTITY | {f"GIT_{who}_DATE": "@0 +0000" for who in ("AUTHOR", "COMMITTER")}


class Refs(NamedTuple):
    """`tips` maps full names of refs, and `worktrees/NAME/HEAD` where that is no branch, to object ids; `stashes`
    maps the ids of all stashes to their messages, the oldest first; `current` is the branch that is checked out
    ("" for none); `stamp` tells when they are to be read again."""

    tips: dict[str, str]
    stashes: dict[str, str]
    current: str = ""
    stamp: object = None


class History:
    """The refs of `repo` in one run. `prefix` is where the task's refs are, `folder` the run's folder."""

    def __init__(self, repo: Repo, prefix: str, folder: Path) -> None:
        self._repo = repo
        self._git = Git(repo.toplevel)
        self._prefix = prefix
        self._record = folder / "refs"
        self._run = folder.name
        self._before: Refs | None = None
        self._settings = GitSettings(repo, folder)

    def begin(self) -> later[None]:
        """Note how everything is, and keep it. The result has to be waited for before the engine starts."""
        return later(self._begin)

    def look(self) -> later[Refs]:
        """How everything is now, to be asked for later."""
        return later(self._read_again)

    def moved(self, after: later[Refs], start: Snapshot, end: Snapshot) -> tuple[str, ...]:
        """A line for each thing that moved since the look before, with what to type to put it back.

        Commits on top of the current branch are no such thing. Raises nothing.
        """
        try:
            before, now = self._before, after()
            if before is None:
                return ()
            self._before = now
            staged = staged_moved(self._git, start, end, self._record.parent)
            lines = [*self._lines(before, now, start, end), *staged, *self._settings.moved()]
        except CodeFrameError as error:
            return (f"What became of branches, tags and stashes cannot be told: {error.problem}",)
        if len(lines) > MAX_LINES:
            everything = f"git update-ref --stdin < {shlex.quote(str(self._record))}"
            more = f"and {len(lines) - MAX_LINES} more; to put all branches and tags back type: {everything}"
            lines[MAX_LINES:] = [more]
        return tuple(lines)

    def moved_before_a_crash(self, start: Snapshot, end: Snapshot) -> tuple[str, ...]:
        """The same for a run that did not come to its end, from what it had noted; () where that is gone."""
        try:
            self._before = self._noted()
        except (OSError, ValueError):
            return ()
        return self.moved(self.look(), start, end)

    def forget(self) -> None:
        """Remove the list of a run in which nothing moved."""
        for file in (self._record, self._stash_record):
            with contextlib.suppress(OSError):
                file.unlink()

    # -- looking ------------------------------------------------------------------------------------

    @property
    def _stash_record(self) -> Path:
        return self._record.with_name("stashes")

    def _read_again(self) -> Refs:
        """The same object as before while nothing was written: that needs no git process."""
        before = self._before
        return before if before is not None and before.stamp == self._stamped() else self._read()

    def _stamped(self) -> object:
        """Differs once anybody wrote a ref, a stash or another worktree's HEAD."""
        common = self._repo.common_dir
        places = [common / "packed-refs", common / "reftable" / "tables.list", common / "logs" / _STASH]
        places += self._heads().values()
        for folder, folders, files in os.walk(common / "refs"):
            folders[:] = [name for name in folders if name != _OURS]
            places += [Path(folder, name) for name in files]
        found = []
        for place in places:
            with contextlib.suppress(OSError):
                about = place.stat()
                found.append((place, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns))
        return sorted(found)

    def _heads(self) -> dict[str, Path]:
        """Name -> file of the HEADs of the repository's other worktrees."""
        common = self._repo.common_dir
        found = {f"worktrees/{file.parent.name}/HEAD": file for file in common.glob("worktrees/*/HEAD")}
        found["main-worktree/HEAD"] = common / "HEAD"
        return {name: file for name, file in found.items() if file.parent != self._repo.git_dir}

    def _read(self) -> Refs:
        stamp = self._stamped()  # first: what is written meanwhile is looked at again
        said = self._git.text("for-each-ref", "--format=%(HEAD) %(objectname) %(refname)")
        tips, current = {}, ""
        for line in said.split("\n") if said else ():
            oid, ref = line[2:].split(" ", 1)
            if not ref.startswith(f"refs/{_OURS}/"):
                tips[ref] = oid
                current = ref if line[0] == "*" else current
        for name, file in self._heads().items():
            with contextlib.suppress(OSError, ValueError):
                if _OID.fullmatch(oid := read_regular(file, 1000).decode().strip()):  # else it is a branch
                    tips[name] = oid
        return Refs(tips, self._stashes() if _STASH in tips else {}, current, stamp)

    def _stashes(self) -> dict[str, str]:
        """Only the log of refs/stash knows of any but the newest."""
        try:
            log = os.fsdecode(read_regular(self._repo.common_dir / "logs" / _STASH, _MAX_BYTES))
        except OSError:
            return {}
        entries = (line.partition("\t") for line in log.split("\n") if line)
        return {entry[0].split(" ")[1]: entry[2] for entry in entries}

    # -- keeping ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        refs = self._before = self._read()
        self._settings.begin()
        # As `git update-ref --stdin` takes it.
        lines = (f"update {ref} {oid}\n" for ref, oid in refs.tips.items() if ref.startswith("refs/"))
        write_whole(self._record, "".join(lines))
        if refs.stashes:
            write_whole(
                self._stash_record, "".join(f"{oid}\t{words}\n" for oid, words in refs.stashes.items())
            )
        # What is checked out is a parent of the run's first snapshot.
        branches = {oid for ref, oid in refs.tips.items() if not ref.startswith((_TAGS, _REMOTES))}
        tips = sorted({*branches, *refs.stashes} - {refs.tips.get(refs.current)})
        try:
            self._keep_tips(tips)
        except GitError:  # one of them names a commit that is missing
            said = self._git.text(
                "cat-file", "--batch-check", stdin="".join(f"{oid}\n" for oid in tips).encode()
            )
            self._keep_tips([line.split(" ")[0] for line in said.split("\n") if " commit " in line])

    def _keep_tips(self, tips: list[str]) -> None:
        groups = [tips[at : at + _PARENTS] for at in range(0, len(tips), _PARENTS)]
        self._keep((f"tips-{self._run}-{n}", self._commit(group)) for n, group in enumerate(groups))

    def _commit(self, parents: list[str]) -> str:
        flags = [flag for parent in parents for flag in ("-p", parent)]
        tree = f"{parents[0]}^{{tree}}"
        return self._git.text(
            "commit-tree", tree, *flags, stdin=b"tips of branches and stashes\n", env=_IDENTITY
        )

    def _keep(self, named: Iterable[tuple[str, str]]) -> None:
        """Make refs below the task's own, so that what they name stays."""
        lines = "".join(f"update {self._prefix}/{name} {oid}\n" for name, oid in named)
        if lines:
            self._git.run("update-ref", "--stdin", stdin=lines.encode())

    def _noted(self) -> Refs:
        lines = os.fsdecode(read_regular(self._record, _MAX_BYTES)).splitlines()
        tips = {ref: oid for _, ref, oid in (line.split(" ") for line in lines)}
        stashes = {}
        with contextlib.suppress(FileNotFoundError):
            listed = os.fsdecode(read_regular(self._stash_record, _MAX_BYTES))
            stashes = dict(line.split("\t", 1) for line in listed.split("\n") if line)
        return Refs(tips, stashes)

    # -- telling ------------------------------------------------------------------------------------

    def _lines(self, before: Refs, now: Refs, start: Snapshot, end: Snapshot) -> Iterator[str]:
        if start.branch != end.branch:
            was, is_now = ((each.branch or "no branch").removeprefix(_BRANCHES) for each in (start, end))
            back = shlex.quote(was) if start.branch else f"--detach {start.head}"
            yield f"HEAD was on {was} and is on {is_now}; to go back type: git switch {back}"
        elif start.branch is None and self._left(start.head, end.head):
            back = _back(f"git reset --soft {start.head}")
            yield f"HEAD went from {_short(start.head)} to {_short(end.head)}; {back}"
        changed = {ref for ref in {*before.tips, *now.tips} if before.tips.get(ref) != now.tips.get(ref)}
        self._keep_tags(
            before.tips[ref] for ref in sorted(changed & before.tips.keys()) if ref.startswith(_TAGS)
        )
        for ref in sorted(changed - {_STASH}):
            was_at, is_at = before.tips.get(ref), now.tips.get(ref)
            if not ref.startswith("refs/"):
                if was_at is not None and self._lost(was_at, is_at):
                    name, keep = ref.split("/")[-2], f"git branch kept-{_short(was_at)} {was_at}"
                    yield f"worktree {name} was at {_short(was_at)}, which no branch has; to keep it type: {keep}"
                continue
            if ref.startswith(_REMOTES) and is_at is not None:
                continue
            stayed = ref == start.branch == end.branch
            if not (stayed and (was_at is None or (is_at is not None and not self._left(was_at, is_at)))):
                yield _ref_line(ref, was_at, is_at, checked_out=ref == end.branch)
        yield from self._stash_lines(before, now)

    def _stash_lines(self, before: Refs, now: Refs) -> Iterator[str]:
        was = before.tips.get(_STASH)
        if was and was != now.tips.get(_STASH) and not before.stashes and not now.stashes:  # there is no log
            yield f"the stash {_short(was)} is gone; {_back(f'git stash store {was}')}"
        for oid, words in before.stashes.items():
            if oid not in now.stashes:
                back = _back(f"git stash store -m {shlex.quote(words)} {oid}")
                yield f"the stash {_short(oid)} “{words}” is gone; {back}"
        for oid, words in now.stashes.items():
            if oid not in before.stashes:
                yield f"the stash {_short(oid)} “{words}” is new; {_back(f'git stash apply --index {oid}')}"

    def _lost(self, was: str, now: str | None) -> bool:
        """Whether neither `now` nor anything that has a name leads to the commit `was`."""
        named = "for-each-ref", "--count=1", f"--contains={was}", _BRANCHES, _TAGS, _REMOTES
        return self._left(was, now) and not self._git.text(*named)

    def _left(self, was: str | None, now: str | None) -> bool:
        """Whether `now` does without the commit `was`."""
        if was is None or was == now:
            return False
        if now is None:
            return True
        return self._git.run("merge-base", "--is-ancestor", was, now, check=False).exit_code != 0

    def _keep_tags(self, oids: Iterable[str]) -> None:
        with contextlib.suppress(CodeFrameError):  # collected already, or the repository is ruined
            self._keep((f"tag-{oid}", oid) for oid in dict.fromkeys(oids))


def _ref_line(ref: str, was: str | None, now: str | None, *, checked_out: bool) -> str:
    kind, name = "ref", ref
    for each, prefix in (("branch", _BRANCHES), ("tag", _TAGS)):
        if ref.startswith(prefix):
            kind, name = each, ref[len(prefix) :]
    quoted = shlex.quote(ref)
    if was is None:
        return f"{kind} {name} is new, at {_short(now)}; to remove it type: git update-ref -d {quoted} {now}"
    if now is None:
        command = (
            f"git branch {shlex.quote(name)} {was}" if kind == "branch" else f"git update-ref {quoted} {was}"
        )
        return f"{kind} {name} is gone, it was at {_short(was)}; {_back(command)}"
    command = f"git reset --soft {was}" if checked_out else f"git update-ref {quoted} {was} {now}"
    return f"{kind} {name} went from {_short(was)} to {_short(now)}; {_back(command)}"


def _back(command: str) -> str:
    return f"to put it back type: {command}"


def _short(oid: str | None) -> str:
    return (oid or "nothing")[:10]
