"""From how the engine and the gates ended to what the run and the task become (rules 4.5, 4.6, 8.1)."""

from __future__ import annotations

from typing import NamedTuple

from codeframe.core.agent_adapter import AgentResult, AgentResultStatus
from codeframe.core.errors import (
    EXIT_BLOCKED,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TERMINATED,
    EXIT_TIMEOUT,
)
from codeframe.core.models import ErrorClass, Run, RunStatus, TaskStatus

# A person has to do something outside the repository before another try makes sense.
NEEDS_A_PERSON = frozenset({ErrorClass.AUTH, ErrorClass.BILLING, ErrorClass.QUOTA})


class Verdict(NamedTuple):
    """`blocker` is (question, kind) where a person is needed."""

    run: RunStatus
    task: TaskStatus
    blocker: tuple[str, str] | None = None


def decide(result: AgentResult, *, stall_action: str, login_hint: str = "") -> Verdict:
    """The verdict for a finished wrapper result. `login_hint` is what to type to log the engine in."""
    status, failed = result.status, result.error_class
    if status is AgentResultStatus.COMPLETED:
        return Verdict(RunStatus.COMPLETED, TaskStatus.DONE)
    if failed is ErrorClass.CANCELLED:
        return Verdict(RunStatus.STOPPED, TaskStatus.READY)
    if status is AgentResultStatus.BLOCKED:
        kind = failed.value if failed else "question"
        question = result.blocker_question or result.error or "The engine is blocked and did not say why."
        return Verdict(RunStatus.BLOCKED, TaskStatus.BLOCKED, (question, kind))
    if failed in NEEDS_A_PERSON:
        assert failed is not None
        said = (result.error or failed.value).rstrip(".")
        return Verdict(RunStatus.BLOCKED, TaskStatus.BLOCKED, (f"{said}. {login_hint}".strip(), failed.value))
    if failed is ErrorClass.STALLED:
        if stall_action == "fail":
            return Verdict(RunStatus.TIMEOUT, TaskStatus.FAILED)
        question = "The engine fell silent and was ended; its work is kept. Answer with a hint, then resume."
        return Verdict(RunStatus.TIMEOUT, TaskStatus.BLOCKED, (question, failed.value))
    if status is AgentResultStatus.TIMEOUT:
        return Verdict(RunStatus.TIMEOUT, TaskStatus.FAILED)
    if failed is ErrorClass.CRASHED:
        return Verdict(RunStatus.FAILED, TaskStatus.READY)
    return Verdict(RunStatus.FAILED, TaskStatus.FAILED)


def exit_status(run: Run) -> int:
    """The exit status of the command that did `run` (rule 10.1)."""
    if run.status is RunStatus.STOPPED:
        return EXIT_TERMINATED if run.evidence.get("stopped_by") == "SIGTERM" else EXIT_INTERRUPTED
    return {
        RunStatus.COMPLETED: EXIT_OK,
        RunStatus.BLOCKED: EXIT_BLOCKED,
        RunStatus.TIMEOUT: EXIT_TIMEOUT,
    }.get(run.status, EXIT_FAILED)
