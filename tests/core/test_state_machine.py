"""Rule 8.1: which state may follow which."""

from __future__ import annotations

import pytest

from codeframe.core.errors import CodeFrameError
from codeframe.core.models import RunStatus, TaskStatus
from codeframe.core.state_machine import RUN_TRANSITIONS, TASK_TRANSITIONS, check

T, R = TaskStatus, RunStatus

LEGAL_TASKS = {
    (T.BACKLOG, T.READY),
    (T.READY, T.IN_PROGRESS),
    (T.IN_PROGRESS, T.DONE),
    (T.IN_PROGRESS, T.FAILED),
    (T.IN_PROGRESS, T.BLOCKED),
    (T.IN_PROGRESS, T.READY),
    (T.BACKLOG, T.BLOCKED),
    (T.READY, T.BLOCKED),
    (T.FAILED, T.BLOCKED),
    (T.FAILED, T.READY),
    (T.BLOCKED, T.READY),
    (T.DONE, T.READY),
    (T.DONE, T.MERGED),
}


@pytest.mark.parametrize("frm", TaskStatus)
@pytest.mark.parametrize("to", TaskStatus)
def test_a_task_moves_only_as_the_rule_says(frm: TaskStatus, to: TaskStatus) -> None:
    if (frm, to) in LEGAL_TASKS:
        check("task", frm, to)
    else:
        with pytest.raises(CodeFrameError):
            check("task", frm, to)


@pytest.mark.parametrize("frm", RunStatus)
@pytest.mark.parametrize("to", RunStatus)
def test_a_run_ends_once(frm: RunStatus, to: RunStatus) -> None:
    if frm == R.RUNNING and to != R.RUNNING:
        check("run", frm, to)
    else:
        with pytest.raises(CodeFrameError):
            check("run", frm, to)


def test_every_state_has_its_line() -> None:
    assert set(TASK_TRANSITIONS) == set(TaskStatus)
    assert set(RUN_TRANSITIONS) == set(RunStatus)


def test_the_error_names_the_legal_steps() -> None:
    with pytest.raises(CodeFrameError, match="from DONE to FAILED: only READY, MERGED may follow"):
        check("task", T.DONE, T.FAILED)
    with pytest.raises(CodeFrameError, match="MERGED is final"):
        check("task", T.MERGED, T.READY)
