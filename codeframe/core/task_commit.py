"""`cf commit create`: a commit of what a task changed, and of nothing else.

The person's own edits, before the task or since, stay as they are: unstaged what is unstaged, staged what
is staged. Their commit hooks, signing and filters run, as with `git commit`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from codeframe.core.errors import CodeFrameError
from codeframe.core.git import Git, GitError
from codeframe.core.head_state import RUN_TRAILER
from codeframe.core.leftovers import snapshots_of
from codeframe.core.models import Run, Task, TaskStatus
from codeframe.core.person_index import Step, collisions, intend_to_add, put_entries, staged_entries
from codeframe.core.process_sweep import MARKER, end_marked
from codeframe.core.raw_git import Entry
from codeframe.core.run_lock import tree_reserved
from codeframe.core.scratch import Scratch
from codeframe.core.stop_switch import StopSwitch
from codeframe.core.task_work import (
    CREATE,
    Overlap,
    TaskWork,
    counts_when_named,
    index_of_head,
    naming,
    steps,
)
from codeframe.core.uncommitted import uncommitted
from codeframe.core.workspace import Workspace

_IDENTITIES = ("GIT_AUTHOR_", "GIT_COMMITTER_")
_LOOK_S = 0.1  # how late a signal may be noticed
_POLITE_S = 5.0  # what git and its hooks have to end by themselves


class Committed(NamedTuple):
    """`commit` is the full id, `paths` what it changed, `subject` its first line, `left_out` what else the task
    changed and HEAD does not hold, each with why. `named` says that it carries our trailers. `signum` is the signal
    that ended the hooks which run after the commit, 0 for none."""

    commit: str
    paths: tuple[str, ...]
    subject: str
    left_out: Mapping[str, str]
    named: bool
    signum: int = 0


class CommitStopped(CodeFrameError):
    """A signal ended git and its hooks, and nothing is committed."""

    def __init__(self, signum: int) -> None:
        super().__init__(
            "Stopped; git and its hooks were ended, and nothing was committed.",
            "What is staged and HEAD are as they were. What a hook wrote shows: git status",
            128 + signum,
        )
        self.signum = signum


class NothingToCommit(CodeFrameError):
    """HEAD holds all that the task changed, or it changed nothing."""


def commit_task(
    workspace: Workspace, task: Task, message: str | None = None, named: Sequence[str] = ()
) -> Committed:
    """Commit what the task's runs changed and is not in HEAD yet. `message` replaces title and summary.

    What may be a person's, or is marked for git to leave it alone, is left out unless `named` holds exactly
    it, from the top of the tree. Raises NothingToCommit, UsageError for a name that is none of these,
    CodeFrameError when the task is not accepted, when a person's edits overlap with the task's, or when git
    (or a hook of theirs) refuses; the index and HEAD are then as they were.
    """
    if task.status not in (TaskStatus.DONE, TaskStatus.MERGED):
        raise CodeFrameError(
            f"Task {task.id[:8]} is {task.status.value}, not DONE: its work is not accepted.",
            f"Type: cf work show {task.id[:8]}",
        )
    with tree_reserved(workspace, f"commit of task {task.id[:8]}"):
        work = TaskWork(workspace, task, named, filters=True)
        if busy := snapshots_of(workspace).operation():
            raise busy
        try:
            wanted = work.wanted()
        except Overlap as overlap:
            raise _explained(workspace, task, overlap) from None
        left_out = work.left_out()
        if not wanted:
            raise nothing(work, left_out)
        done = _commit(work, work.runs[-1], wanted, message_of(task, work.runs[-1], message), left_out)
    workspace.store.events.add(
        "commit", f"{done.commit[:10]} {done.subject}", run_id=work.runs[-1].id, task_id=task.id,
        metadata={"commit": done.commit},
    )  # fmt: skip
    return done


def check_committer(workspace: Workspace) -> None:
    """Raise GitError where git would refuse a commit as it does not know whose it is."""
    own = {n: v for n, v in os.environ.items() if n.startswith(_IDENTITIES)}
    git = Git(workspace.repo.toplevel)
    for identity in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        if git.run("var", identity, env=own, check=False).exit_code:
            raise _nobody()


def _nobody() -> GitError:
    return GitError(
        "git does not know who commits.",
        "Type: git config user.name YOU && git config user.email YOU@EXAMPLE.COM",
    )


def nothing(work: TaskWork, left_out: Mapping[str, str]) -> CodeFrameError:
    """That `work` holds nothing, with the true reason."""
    begin = (
        f"There is nothing of task {work.task.id[:8]} to {'commit' if work.command == CREATE else 'export'}"
    )
    if left_out:
        names = [path for path, why in left_out.items() if counts_when_named(why)]
        return CodeFrameError(
            f"{begin}; left out: {', '.join(listed(left_out))}.",
            f"To take it all the same: {naming(work.task, names, work.command)}"
            if names
            else "Type: git status",
        )
    held = "a commit of it is in HEAD" if work.in_head else "HEAD holds it already"
    nothing_done = "what it changed was taken back" if work.undone else "it changed nothing"
    why = held if work.states or work.in_head else nothing_done
    return NothingToCommit(f"{begin}; {why}.", "Type: git status")


def listed(left_out: Mapping[str, str]) -> list[str]:
    """What is left out, each path with why, at most 20 and a count of the rest."""
    lines = [f"{path} ({why})" for path, why in left_out.items()]
    return lines[:20] + ([f"{len(lines) - 20} more"] if len(lines) > 20 else [])


def _explained(workspace: Workspace, task: Task, overlap: Overlap) -> CodeFrameError:
    """Where it is another task's change that has to be committed first, say which."""
    for other, work in uncommitted(workspace, workspace.store.tasks.list(status=TaskStatus.DONE)):
        if other.id == task.id:
            break
        if overlap.path in work.states:
            return CodeFrameError(
                f"{overlap.path} was changed by task {other.id[:8]} before, and that is not committed.",
                f"Commit that first: cf commit create --task {other.id[:8]}",
            )
    return overlap


def _commit(
    work: TaskWork, run: Run, wanted: Mapping[str, Step], message: str, left_out: Mapping[str, str]
) -> Committed:
    """Stage it for the person, then commit it from an index of our own.

    Killed in between, the task's change is staged, and nothing else is different.
    """
    git = work.git
    everything = {p: entry for p, entry in staged_entries(git).items() if p not in work.head.intended}
    staged = {path: everything.get(path) for path in wanted}
    then = {path: work.also_staged(path, staged[path], *pair) for path, pair in wanted.items()}
    new = {path for path, entry in then.items() if entry is not None} - everything.keys()
    removed = {
        path for path, entry in then.items() if entry is None
    }  # a file may become a folder of its name
    if in_the_way := collisions(everything.keys() - removed, new):
        raise work.overlap(min(in_the_way))
    signum = 0
    with index_of_head(work) as (index, own):
        put_entries(git, wanted, index)
        put_entries(git, {path: (staged[path], new) for path, new in then.items()})
        try:
            _git_commit(git, index, own, message)
        except BaseException as error:
            made = _made(work, run, index)
            if made is None:  # else it is done, and what is staged is as it should be
                _put_back(work, staged, then)
            signum = error.signum if made and isinstance(error, CommitStopped) else 0
            if isinstance(error, GitError) and _head(git) != work.head.commit:
                raise GitError(
                    "HEAD moved while the commit was made, and git refused it.",
                    "See what is there: git log -3",
                ) from error
            if not signum:
                raise
        made = _made(work, run, index)
    if made is None:
        raise CodeFrameError("git made no commit of it; a hook may have changed it.", "Type: git log -3")
    commit, named = made
    parent = git.text("rev-parse", "-q", "--verify", f"{commit}^", check=False) or None
    moved = parent != work.head.commit  # somebody committed before git looked: ours would take that back
    changed = steps(git, parent, commit)
    gone = {
        path for path, (old, new) in changed.items() if old and not new and wanted.get(path, (old, old))[1]
    }
    if moved or gone:
        said = (
            "HEAD moved while the commit was made"
            if moved
            else f"The commit would remove {min(gone)} as well"
        )
        if not _taken_back(git, commit, parent):
            raise CodeFrameError(
                f"{said}; it is {commit[:10]}, and other commits are on top of it.",
                f"Look at what it removes: git show --stat {commit[:10]}",
            )
        _put_back(work, staged, then)
        raise CodeFrameError(
            f"{said}; it was not kept.",
            "Type the same again."
            if moved
            else "If that is what a hook is to do, commit by hand: git commit",
        )
    _follow_hooks(work, wanted, then, changed)
    return Committed(commit, tuple(sorted(changed)), message.split("\n", 1)[0], left_out, named, signum)


def _head(git: Git) -> str | None:
    return git.text("rev-parse", "-q", "--verify", "HEAD^{commit}", check=False) or None


def _made(work: TaskWork, run: Run, index: Path) -> tuple[str, bool] | None:
    """Our commit on top of `work.head` (hooks may have put others on top), and whether it carries the run's trailer.
    Where a hook took that away it is the one that holds what our index does."""
    head = work.head.commit
    span = ("HEAD", f"^{head}", "--") if head else ("HEAD", "--")
    grep = ("--fixed-strings", f"--grep={RUN_TRAILER}: {run.id}")
    if named := work.git.text("log", "-1", "--format=%H", *grep, *span, check=False):
        return named, True
    tree = work.git.text("write-tree", env={"GIT_INDEX_FILE": str(index)}, check=False)
    ours = [tree, head] if head else [tree]
    lines = work.git.text("log", "--format=%H %T %P", *span, check=False).splitlines()
    return next(((commit, False) for commit, *rest in map(str.split, lines) if rest == ours), None)


def _put_back(work: TaskWork, staged: Mapping[str, Entry | None], then: Mapping[str, Entry | None]) -> None:
    """The person's index without what we put there: as it was, and where HEAD is another by now, as that is."""
    head, now = _head(work.git), staged_entries(work.git)
    moved = steps(work.git, work.head.commit, head) if head and head != work.head.commit else {}
    ours = {path: entry for path, entry in then.items() if now.get(path) == entry}
    back = {path: moved[path][1] if path in moved else staged[path] for path in ours}
    put_entries(work.git, {path: (ours[path], entry) for path, entry in back.items()})
    intend_to_add(work.git, {path for path in work.head.intended & back.keys() if back[path] is None})


def _taken_back(git: Git, commit: str, parent: str | None) -> bool:
    """Whether HEAD was that commit still, and is what it stood on again."""
    to = (parent,) if parent else ()
    how = ("-m", "codeframe: not what was meant", *([] if parent else ["-d"]), "HEAD", *to, commit)
    return git.run("update-ref", *how, check=False).exit_code == 0


def _git_commit(git: Git, index: Path, own: Scratch, message: str) -> None:
    """`git commit` as the person would type it: hooks, signing and templates are theirs."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {name: value for name, value in os.environ.items() if name.startswith(_IDENTITIES)}
    marker = f"{own.folder.name}/commit"
    env |= {"GIT_INDEX_FILE": str(index), "GIT_EDITOR": "true", MARKER: marker}
    file = own.folder / "message"
    file.write_text(message, encoding="utf-8", errors="surrogateescape")
    stop = StopSwitch()
    # In our own session and process group: a passphrase is asked for on the terminal.
    with (
        stop.on_signals(),
        subprocess.Popen(
            ["git", "commit", "-q", "-F", str(file)],
            cwd=git.tree,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(own.lease.fd,),  # it uses the folder, whatever becomes of us
        ) as process,
    ):
        try:
            own.works_for_us(process.pid)
            output = _heard(process, stop)
        finally:
            if stop.signal or process.poll() is None:
                end_marked(marker, grace_s=_POLITE_S)
    if stop.signal:
        raise CommitStopped(stop.signal)
    if process.returncode:
        said = output.decode("utf-8", "replace").strip()
        if "Please tell me who you are" in said:
            raise _nobody()
        raise GitError(
            f"git refused the commit: {said or 'it said nothing.'}",
            "Mend that, or commit by hand; what is staged and HEAD are as they were.",
        )


def _heard(process: subprocess.Popen[bytes], stop: StopSwitch) -> bytes:
    """What git and its hooks print, to their end; as far as anybody waits for it once `stop` is thrown."""
    while not stop.event.is_set():
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=_LOOK_S)[0]
    return b""


def _follow_hooks(
    work: TaskWork, wanted: Mapping[str, Step], then: Mapping[str, Entry | None], changed: Mapping[str, Step]
) -> None:
    """What a hook made of the files is in the commit, which `changed` that: the person's index follows where it is
    as HEAD had it, or as we left it. What the person has staged of them stays."""
    taken_back = {path: (old, old) for path, (old, _) in wanted.items() if path not in changed}
    now = staged_entries(work.git)
    follow = {}
    for path, (old, new) in (taken_back | dict(changed)).items():
        left = wanted[path][1] if path in wanted else old
        if new != left and now.get(path) == then.get(path, old) == left:
            follow[path] = left, new
    put_entries(work.git, follow)


def message_of(task: Task, run: Run, given: str | None) -> str:
    """The commit's message: `given`, else the task's title and what the engine said of `run`; trailers name both."""
    said = "\n".join(map(_harmless, run.summary.strip().splitlines()))
    words = given.strip() if given is not None else f"{task.title}\n\n{said}".strip()
    trailers = (("Task", task.id), (RUN_TRAILER.removeprefix("CodeFrame-"), run.id), ("Engine", run.engine))
    return words + "\n\n" + "".join(f"CodeFrame-{key}: {value}\n" for key, value in trailers)


def _harmless(line: str) -> str:
    """A line of an engine's words, so that `git am` takes it neither for the end of the message or a patch, nor
    for the author, date or subject of the commit."""
    patch = ("---", "diff -", "index: ", "@@", "***")
    header = ("from ", ">from", "from:", "date:", "subject:", "[patch]")
    return f" {line}" if line.lower().startswith(patch + header) else line
