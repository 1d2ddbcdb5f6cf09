"""How a run ends for the person who started it: the verdict, what to type next, the commit that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import typer

from codeframe.cli import work_views
from codeframe.cli.output import STATUS_COLOURS, emit_json, note, say
from codeframe.cli.run_words import verdict_line, why_unverified

if TYPE_CHECKING:
    from codeframe.core.models import Run, Task
    from codeframe.core.workspace import Workspace


def tell(workspace: Workspace, task: Task, run: Run, *, commits: bool) -> None:
    """The verdict in a few lines, and what to type next; `commits`: the commit comes by itself."""
    from codeframe.cli.next_step import next_step
    from codeframe.core.leftovers import chain
    from codeframe.core.models import BlockerStatus, RunStatus

    short, store = task.id[:8], workspace.store
    done = run.status is RunStatus.COMPLETED
    changed = any(each.evidence.get("changed") for each in chain(workspace, run))
    questions = [b.question for b in store.blockers.list(status=BlockerStatus.OPEN, task_id=task.id)]
    said = [run.summary.strip(), "" if done else (run.error or "").strip()]
    say(verdict_line(run), STATUS_COLOURS.get(run.status.value, ""))
    for words in _once(said, questions):
        say(words)
    if run.verification == "unverified":
        say(f"Unverified: {why_unverified(run)}.")
    for line in run.evidence.get("notes", []):
        say(f"Note: {line}")
    for line in work_views.change_lines(workspace, run):
        say(f"  {line}")
    for line in work_views.moved_lines(workspace, run):
        say(f"Moved: {line}")
    for question in questions:
        say(f"Blocked: {question}")
    steps = [str(step)] if (step := next_step(store, store.tasks.get(task.id))) else []
    if done and changed and not commits:
        steps.append(f"commit it: cf commit create --task {short}")
    if not questions:  # which say why
        steps.append(f"{'the evidence' if done else 'why'}: cf work why {short}")
    if changed and not done:
        steps.append(f"take it back: cf work undo {short}")
    say("    ".join(steps))


def _once(texts: list[str], said_later: list[str]) -> list[str]:
    """`texts` without those that are empty, or with which another one begins that is said as well."""
    kept: list[str] = []
    for text in texts:
        if text and not any(other.startswith(text.rstrip(".")) for other in (*kept, *said_later)):
            kept.append(text)
    return kept


def warn_of_overlap(workspace: Workspace) -> None:
    """Say before a run that is to be committed what of the person's own may be in its way."""
    from codeframe.core.git import Git
    from codeframe.core.head_state import HeadState
    from codeframe.core.models import utc_now

    edited = sorted(HeadState(Git(workspace.repo.toplevel), utc_now()).edited)
    if edited:
        listed = ", ".join(edited[:3]) + (f" and {len(edited) - 3} more" if len(edited) > 3 else "")
        note(f"Not committed yet: {listed}. What the task changes in the same lines, --commit will refuse.")


def leave(workspace: Workspace, task: Task, run: Run, *, commit: bool, as_json: bool) -> NoReturn:
    """End with the run's exit status, or with that of the commit where one was asked for and failed."""
    from codeframe.core.verdict import exit_status

    if commit:
        _commit(workspace, task, run, as_json=as_json)
    raise typer.Exit(exit_status(run))


def _commit(workspace: Workspace, task: Task, run: Run, *, as_json: bool) -> None:
    """Commit what a run that has just ended did, if it was verified; with `as_json` the run is printed with it.

    Raises CodeFrameError where there is no such commit then; the run and its verdict stay what they are.
    """
    from codeframe.cli.commit_commands import commit_json
    from codeframe.cli.commit_commands import tell as tell_commit
    from codeframe.cli.views import run_json
    from codeframe.core.errors import CodeFrameError
    from codeframe.core.models import RunStatus
    from codeframe.core.task_commit import NothingToCommit, commit_task

    done, by_hand = None, f"cf commit create --task {task.id[:8]}"
    try:
        if run.status is not RunStatus.COMPLETED:
            return
        if run.verification != "verified":
            raise CodeFrameError(
                f"It is not committed, as it is unverified: {why_unverified(run)}.",
                f"To commit it all the same: {by_hand}",
            )
        try:
            done = commit_task(workspace, workspace.store.tasks.get(task.id))
        except NothingToCommit as e:
            note(e.problem)
        except CodeFrameError:
            note(f"Task {task.id[:8]} is DONE, but not committed. When that is mended: {by_hand}")
            raise
        if done and not as_json:
            tell_commit(task, done)
    finally:
        if as_json:
            emit_json({**run_json(run), "commit": commit_json(task, done) if done else None})
    if done and done.signum:
        raise typer.Exit(128 + done.signum)
