"""Which DONE tasks hold work that no commit took yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from codeframe.core.git import Git
from codeframe.core.head_state import HeadState
from codeframe.core.models import Task, utc_now
from codeframe.core.redaction import REDACTED
from codeframe.core.task_work import Overlap, TaskWork
from codeframe.core.workspace import Workspace


def uncommitted(workspace: Workspace, tasks: Iterable[Task]) -> Iterator[tuple[Task, TaskWork]]:
    """Those of `tasks` of which something is not in HEAD yet, the one that ended first first.

    One question of git for all of them, and a few for each that changed a file which differs from HEAD.
    """
    done = sorted(tasks, key=lambda each: each.updated_at)
    runs = {task.id: workspace.store.runs.list(task_id=task.id) for task in done}
    every = [run for each in runs.values() for run in each]
    head = HeadState.for_runs(Git(workspace.repo.toplevel), every, utc_now())
    for task in done:
        rounds = [record for run in runs[task.id] for record in workspace.store.runs.rounds(run.id)]
        if not any(_may_differ(record, head.changed) for record in rounds):
            continue
        work = TaskWork(workspace, task, head=head)
        try:
            if work.wanted():
                yield task, work
        except Overlap:
            yield task, work


def _may_differ(record: Mapping[str, Any], changed: frozenset[str]) -> bool:
    """Whether a round's record tells of one of the `changed` paths, or does not tell all: it is cut, it has notes, or
    a secret was taken out."""
    files = record.get("files", [])
    if len(files) < record.get("changed", 0) or any(" (" in line or REDACTED in line for line in files):
        return bool(changed)
    return any(line.partition(" ")[2] in changed for line in files)
