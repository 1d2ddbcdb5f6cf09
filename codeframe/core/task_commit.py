"""`cf commit create`: a commit of what a task changed, and of nothing else.

The person's own edits, before the task or since, stay as they are: unstaged what is unstaged, staged what
is staged. Their commit hooks, signing and filters run, as with `git commit`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from codeframe.core.errors import CodeFrameError
from codeframe.core.git import Git, GitError
from codeframe.core.leftovers import snapshots_of
from codeframe.core.models import Run, Task, TaskStatus
from codeframe.core.person_index import Step, collisions, put_entries, staged_entries
from codeframe.core.raw_git import Entry, rows
from codeframe.core.run_lock import tree_reserved
from codeframe.core.task_work import RUN_TRAILER, Overlap, TaskWork, index_of_head
from codeframe.core.workspace import Workspace


class Committed(NamedTuple):
    """`commit` is the full id, `paths` what it changed, `subject` its first line."""

    commit: str
    paths: tuple[str, ...]
    subject: str


def uncommitted(workspace: Workspace) -> list[Task]:
    """The DONE tasks of which something is not in HEAD yet, the one that ended first first."""
    done = workspace.store.tasks.list(status=TaskStatus.DONE)
    found = []
    for task in sorted(done, key=lambda each: each.updated_at):
        try:
            if TaskWork(workspace, task).wanted():
                found.append(task)
        except Overlap:
            found.append(task)
    return found


def commit_task(workspace: Workspace, task: Task, message: str | None = None) -> Committed:
    """Commit what the task's runs changed and is not in HEAD yet. `message` replaces title and summary.

    Raises CodeFrameError when there is nothing to commit, when a person's edits overlap with the task's, or
    when git (or a hook of theirs) refuses; the index and HEAD are then as they were.
    """
    if task.status not in (TaskStatus.DONE, TaskStatus.MERGED):
        raise CodeFrameError(
            f"Task {task.id[:8]} is {task.status.value}, not DONE: its work is not accepted.",
            f"Type: cf work show {task.id[:8]}",
        )
    with tree_reserved(workspace, f"commit of task {task.id[:8]}"):
        work = TaskWork(workspace, task, filters=True)
        if busy := snapshots_of(workspace).operation():
            raise busy
        try:
            wanted = work.wanted()
        except Overlap as overlap:
            raise _explained(workspace, task, overlap) from None
        if not wanted:
            raise CodeFrameError(
                f"There is nothing of task {task.id[:8]} to commit"
                + ("; HEAD holds it already." if work.states or work.in_head else "; it changed nothing."),
                "Type: git status",
            )
        done = _commit(work, work.runs[-1], wanted, message_of(task, work.runs[-1], message))
    workspace.store.events.add(
        "commit", f"{done.commit[:10]} {done.subject}", run_id=work.runs[-1].id, task_id=task.id,
        metadata={"commit": done.commit},
    )  # fmt: skip
    return done


def _explained(workspace: Workspace, task: Task, overlap: Overlap) -> CodeFrameError:
    """Where it is another task's change that has to be committed first, say which."""
    for other in uncommitted(workspace):
        if other.id == task.id:
            break
        if overlap.path in TaskWork(workspace, other).states:
            return CodeFrameError(
                f"{overlap.path} was changed by task {other.id[:8]} before, and that is not committed.",
                f"Commit that first: cf commit create --task {other.id[:8]}",
            )
    return overlap


def _commit(work: TaskWork, run: Run, wanted: Mapping[str, Step], message: str) -> Committed:
    """Stage it for the person, then commit it from an index of our own.

    Killed in between, the task's change is staged, and nothing else is different.
    """
    git = work.git
    everything = staged_entries(git)
    staged = {path: everything.get(path) for path in wanted}
    then = {path: work.also_staged(path, staged[path], *pair) for path, pair in wanted.items()}
    new = {path for path, entry in then.items() if entry is not None} - everything.keys()
    if in_the_way := collisions(everything, new):
        raise Overlap(min(in_the_way))
    with index_of_head(work) as index:
        put_entries(git, wanted, index)
        put_entries(git, {path: (staged[path], new) for path, new in then.items()})
        try:
            _git_commit(git, index, message)
        except BaseException:
            if _made(work, run) is None:  # else it is done, and what is staged is as it should be
                now = staged_entries(git)
                back = {path: (then[path], staged[path]) for path in wanted if now.get(path) == then[path]}
                put_entries(git, back)
            raise
    commit = _made(work, run)
    if commit is None:
        raise CodeFrameError("git made no commit of it; a hook may have changed it.", "Type: git log -3")
    parent = git.text("rev-parse", "-q", "--verify", f"{commit}^", check=False) or None
    if parent != work.head:
        # Somebody committed between our look at HEAD and git's own: ours would take that back.
        if git.text("rev-parse", "HEAD") == commit:
            git.run("update-ref", "-m", "codeframe: HEAD had moved", "HEAD", *filter(None, (parent, commit)))
            raise CodeFrameError(
                "HEAD moved while the commit was made; it was not kept.", "Type the same again."
            )
        raise CodeFrameError(
            f"HEAD moved while the commit {commit[:10]} was made, and it may take back what came between.",
            f"Look at it: git show {commit[:10]}",
        )
    _follow_hooks(work, wanted, then, commit, parent)
    return Committed(commit, tuple(sorted(wanted)), message.split("\n", 1)[0])


def _made(work: TaskWork, run: Run) -> str | None:
    """The newest commit since `work.head` that carries the run's trailer; hooks may have put others on top."""
    span = ("HEAD", f"^{work.head}") if work.head else ("HEAD",)
    grep = ("--fixed-strings", f"--grep={RUN_TRAILER}: {run.id}")
    return work.git.text("log", "-1", "--format=%H", *grep, *span, "--", check=False) or None


def _git_commit(git: Git, index: Path, message: str) -> None:
    """`git commit` as the person would type it: hooks, signing and templates are theirs."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_"))
    }
    env |= {"GIT_INDEX_FILE": str(index), "GIT_EDITOR": "true"}
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="codeframe-message-") as file:
        file.write(message)
        file.flush()
        argv = ["git", "commit", "-q", "-F", file.name]
        done = subprocess.run(argv, cwd=git.tree, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        said = done.stdout.decode("utf-8", "replace").strip()
        if "Please tell me who you are" in said:
            raise GitError("git does not know who commits.", "Type: git config user.email YOU@EXAMPLE.COM")
        raise GitError(
            f"git refused the commit: {said or 'it said nothing'}",
            "Mend that, or commit by hand; what is staged and HEAD are as they were.",
        )


def _follow_hooks(
    work: TaskWork,
    wanted: Mapping[str, Step],
    then: Mapping[str, Entry | None],
    commit: str,
    parent: str | None,
) -> None:
    """What a hook made of the files is in the commit: the person's index follows where it is as HEAD had it, or
    as we left it. What the person has staged of them stays."""
    trees = (parent or work.git.text("hash-object", "-t", "tree", os.devnull), commit)
    listing = work.git.run("diff-tree", "-r", "-z", "--no-renames", *trees).stdout
    made: dict[str, Step] = {}  # path -> (what HEAD held, what the commit holds)
    for meta, path in rows(listing, 2):
        old_mode, mode, old_oid, oid, _ = meta[1:].split(" ")
        made[path] = _entry(old_mode, old_oid), _entry(mode, oid)
    for path, (old, _new) in wanted.items():
        made.setdefault(path, (old, old))  # a hook took the change back
    now = staged_entries(work.git)
    steps = {}
    for path, (old, new) in made.items():
        left = wanted[path][1] if path in wanted else old
        if new != left and now.get(path) == then.get(path, old) == left:
            steps[path] = left, new
    put_entries(work.git, steps)


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == "000000" else Entry(mode, oid)


def message_of(task: Task, run: Run, given: str | None) -> str:
    """The commit's message: `given`, else the task's title and what the engine said of `run`; trailers name both."""
    said = "\n".join(map(_harmless, run.summary.strip().splitlines()))
    words = given.strip() if given is not None else f"{task.title}\n\n{said}".strip()
    trailers = (("Task", task.id), (RUN_TRAILER.removeprefix("CodeFrame-"), run.id), ("Engine", run.engine))
    return words + "\n\n" + "".join(f"CodeFrame-{key}: {value}\n" for key, value in trailers)


def _harmless(line: str) -> str:
    """A line of an engine's words, so that `git am` does not take it for the end of the message or for a patch."""
    return f" {line}" if line.startswith(("---", "diff -", "Index: ", "From ", "@@", "***")) else line
