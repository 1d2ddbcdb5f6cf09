"""Which state may follow which, as data (rule 8.1)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from codeframe.core.errors import CodeFrameError
from codeframe.core.models import RunStatus, TaskStatus

TASK_TRANSITIONS: Mapping[TaskStatus, tuple[TaskStatus, ...]] = {
    TaskStatus.BACKLOG: (TaskStatus.READY, TaskStatus.BLOCKED),
    TaskStatus.READY: (TaskStatus.IN_PROGRESS, TaskStatus.BLOCKED),
    TaskStatus.IN_PROGRESS: (TaskStatus.DONE, TaskStatus.FAILED, TaskStatus.BLOCKED, TaskStatus.READY),
    TaskStatus.DONE: (TaskStatus.READY, TaskStatus.MERGED),
    TaskStatus.FAILED: (TaskStatus.READY, TaskStatus.BLOCKED),
    TaskStatus.BLOCKED: (TaskStatus.READY,),
    TaskStatus.MERGED: (),
}

RUN_TRANSITIONS: Mapping[RunStatus, tuple[RunStatus, ...]] = {
    RunStatus.RUNNING: (
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.BLOCKED,
        RunStatus.TIMEOUT,
        RunStatus.STOPPED,
    ),
    RunStatus.COMPLETED: (),
    RunStatus.FAILED: (),
    RunStatus.BLOCKED: (),
    RunStatus.TIMEOUT: (),
    RunStatus.STOPPED: (),
}


def check(kind: str, frm: StrEnum, to: StrEnum, hint: str = "") -> None:
    """Return when a `kind` ("task" or "run") may go from `frm` to `to`; else raise CodeFrameError with `hint`."""
    legal: tuple[StrEnum, ...]
    legal = TASK_TRANSITIONS[TaskStatus(frm)] if kind == "task" else RUN_TRANSITIONS[RunStatus(frm)]
    if to in legal:
        return
    words = f"only {', '.join(legal)} may follow" if legal else f"{frm} is final"
    raise CodeFrameError(f"A {kind} cannot go from {frm} to {to}: {words}.", hint)
