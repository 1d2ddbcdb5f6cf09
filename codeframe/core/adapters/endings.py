"""How a run ends that is not verified: the last call's result with the status, the class and the words for it."""

from __future__ import annotations

from dataclasses import replace

from codeframe.core.agent_adapter import AgentResult, AgentResultStatus
from codeframe.core.models import ErrorClass


def cancelled(result: AgentResult) -> AgentResult:
    """Somebody wanted it to stop."""
    return _failed(result, ErrorClass.CANCELLED, "Stopped on request.")


def no_change(result: AgentResult) -> AgentResult:
    """Success was reported twice, and nothing changed."""
    if result.evidence.get("permission_denials"):
        return _failed(result, ErrorClass.PERMISSION_DENIED, "The engine was denied every change it tried.")
    return _failed(result, ErrorClass.NO_CHANGE, "The engine reported success twice but changed nothing.")


def time_up(result: AgentResult) -> AgentResult:
    """The limit of the run was reached while gates ran."""
    return replace(
        result, status=AgentResultStatus.TIMEOUT, error_class=ErrorClass.TIMEOUT,
        error="The time was up while the gates ran.",
    )  # fmt: skip


def over_budget(result: AgentResult, question: str) -> AgentResult:
    """The call was ended because it had used up what the run may use."""
    return replace(
        result, status=AgentResultStatus.BLOCKED, error_class=ErrorClass.BUDGET, error=None,
        blocker_question=question,
    )  # fmt: skip


def unverified(result: AgentResult, why: str) -> AgentResult:
    """Gates were required and could not tell."""
    error = f"The work is unverified and --require-gates is set: {why}"
    return _failed(result, ErrorClass.GATES, error)


def gates_failed(result: AgentResult, corrections: int, *, allowed: int, stuck: bool) -> AgentResult:
    """What blocks still blocks after so many `corrections`; `stuck`: nothing moved in the last one."""
    if stuck:
        error = "The gates fail and the same failures came back."
    elif allowed == 0:
        error = "The gates fail, and no corrections were allowed."
    else:
        said = "1 correction was" if corrections == 1 else f"{corrections} corrections were"
        error = f"The gates fail and {said} not enough."
    return _failed(result, ErrorClass.GATES, error)


def _failed(result: AgentResult, error_class: ErrorClass, error: str) -> AgentResult:
    return replace(result, status=AgentResultStatus.FAILED, error_class=error_class, error=error)
