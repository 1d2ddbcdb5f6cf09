"""The next step of a task: one answer for the end of a run, `cf status`, `cf work show`, `why` and `stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from codeframe.core.models import (
    Blocker,
    BlockerStatus,
    ErrorClass,
    Leftover,
    Run,
    RunKind,
    RunStatus,
    Task,
    TaskStatus,
)

if TYPE_CHECKING:
    from codeframe.core.store import Store
    from codeframe.core.workspace import Workspace


class Step(NamedTuple):
    """`words` say what for, `command` is what to type."""

    words: str
    command: str

    def __str__(self) -> str:
        return f"{self.words}: {self.command}"


def next_step(store: Store, task: Task) -> Step | None:
    """What to type next about `task` as it is now; None when there is nothing left to do."""
    short = task.id[:8]
    if task.status is TaskStatus.MERGED:
        return None
    if task.status is TaskStatus.DONE:
        return Step("See the change", f"cf work diff {short}")
    run = store.runs.latest(task.id)
    by_hand = run is not None and run.kind is RunKind.MANUAL
    if task.status is TaskStatus.IN_PROGRESS:
        if by_hand:
            return Step("It is done by hand; when it is ready", f"cf work verify {short}")
        return Step("Watch it", f"cf work follow {short}")
    if task.status is TaskStatus.BLOCKED:
        waiting = store.blockers.list(status=BlockerStatus.OPEN, task_id=task.id)
        if waiting:
            return answer_step(store, waiting[-1])
    over = run is None or run.leftover is Leftover.UNDONE or run.status is RunStatus.COMPLETED
    if run is None or (over and task.status in (TaskStatus.READY, TaskStatus.BACKLOG)):
        return _start(store, task, by_hand=by_hand)
    if by_hand and task.status in (TaskStatus.FAILED, TaskStatus.BLOCKED):
        mend = "Mend it and check" if task.status is TaskStatus.FAILED else "Check"
        return Step(f"{mend} again", f"cf work verify {short}")
    if by_hand and run.status is RunStatus.STOPPED:
        left = run.leftover is Leftover.PENDING
        return Step("Go on by hand", f"cf work start {short}") if left else _start(store, task, by_hand=True)
    if run.status in (RunStatus.BLOCKED, RunStatus.STOPPED) or run.error_class is ErrorClass.CRASHED:
        return Step("Go on", f"cf work resume {short}")
    if run.status is RunStatus.TIMEOUT:
        return Step("Go on with more time", f"cf work resume {short}{_more_time(run)}")
    if task.status is TaskStatus.FAILED or run.leftover is Leftover.PENDING:
        return Step("Try again", f"cf work retry {short}")
    return _start(store, task)


def next_of_all(workspace: Workspace) -> tuple[Task, Step] | None:
    """The task to go on with in this tree, and how; None when there is none, or it waits for an answer.

    What a run left in the tree comes first: nothing else starts before it is dealt with (rule 4.3).
    """
    store = workspace.store
    left = [r for r in store.runs.with_leftovers() if r.process.get("tree") == workspace.tree_key]
    waiting = {b.task_id for b in store.blockers.list(status=BlockerStatus.OPEN)}
    if left:
        task: Task | None = store.tasks.get(left[0].task_id)
        if left[0].task_id in waiting:
            return None
    else:
        answered = (t for t in store.tasks.list(status=TaskStatus.BLOCKED) if t.id not in waiting)
        failed = store.tasks.list(status=TaskStatus.FAILED, limit=1)
        task = next(answered, None) or store.tasks.next_ready() or (failed[0] if failed else None)
    step = next_step(store, task) if task is not None else None
    return (task, step) if task is not None and step is not None else None


def answer_step(store: Store, blocker: Blocker) -> Step:
    """How to get past a blocker: an answer, or just the next try where the obstacle lies outside."""
    answer = f'cf blocker answer {blocker.id[:8]} "…"'
    if blocker.run_id is None:
        return Step("Answer", answer)
    resume = f"cf work resume {blocker.task_id[:8]}"
    if blocker.kind in (ErrorClass.AUTH.value, ErrorClass.BILLING.value, ErrorClass.QUOTA.value):
        return Step("When that is settled", resume)
    if store.runs.get(blocker.run_id).kind is RunKind.MANUAL:
        return Step("Put it right, or answer", f"{answer}, then: cf work verify {blocker.task_id[:8]}")
    return Step("Answer", f"{answer}, then: {resume}")


def _start(store: Store, task: Task, *, by_hand: bool = False) -> Step:
    unmet = store.tasks.unmet_dependencies(task.id)
    if unmet:
        return Step(f"First “{unmet[0].title}” has to be done", f"cf work show {unmet[0].id[:8]}")
    return Step("Start it", f"cf work start {task.id[:8]}{'' if by_hand else ' --execute'}")


def _more_time(run: Run) -> str:
    """A limit that is longer than the one that ran out, as an option."""
    from codeframe.core.durations import format_duration
    from codeframe.core.run_options import RunOptions, spent_limit

    limit = spent_limit(run) or "timeout_s"
    option = "--timeout" if limit == "timeout_s" else "--stall-timeout"
    used_up: float = getattr(RunOptions.from_dict(run.options), limit)
    return f" {option} {format_duration(max(3600.0, 2 * used_up))}"
