"""The words of the domain: tasks, runs, blockers, usage, and the states they may be in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple


def utc_now() -> datetime:
    """The current time as an aware datetime in UTC."""
    return datetime.now(UTC)


class TaskStatus(StrEnum):
    """Where a task stands (rule 8.1)."""

    BACKLOG = "BACKLOG"
    READY = "READY"
    IN_PROGRESS = "IN_PROGRESS"
    DONE = "DONE"
    FAILED = "FAILED"
    BLOCKED = "BLOCKED"
    MERGED = "MERGED"


class RunStatus(StrEnum):
    """Where one attempt at a task stands (rule 8.1)."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    BLOCKED = "BLOCKED"
    TIMEOUT = "TIMEOUT"
    STOPPED = "STOPPED"


class RunKind(StrEnum):
    """How a run came to be (rule 4.8)."""

    START = "start"
    RESUME = "resume"
    RETRY = "retry"
    MANUAL = "manual"  # by a person, or the agent in their editor: no engine, no process, no lease


class Leftover(StrEnum):
    """What became of the changes a run left in the tree (rule 4.3)."""

    NONE = "none"  # nothing changed, or the change was verified
    PENDING = "pending"  # unaccepted work still in the tree
    KEPT = "kept"  # a person chose to keep it
    UNDONE = "undone"  # taken back with `cf work undo`


class BlockerStatus(StrEnum):
    """OPEN until a person answers; ANSWERED until the next run has used the answer."""

    OPEN = "OPEN"
    ANSWERED = "ANSWERED"
    RESOLVED = "RESOLVED"


class ErrorClass(StrEnum):
    """Why a run did not succeed. The list is closed (rule 4.6)."""

    AUTH = "auth"
    BILLING = "billing"
    QUOTA = "quota"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    NETWORK = "network"
    MODEL = "model"
    CONTEXT_WINDOW = "context_window"
    PERMISSION_DENIED = "permission_denied"
    NO_CHANGE = "no_change"
    STALLED = "stalled"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    SPAWN_FAILED = "spawn_failed"
    PROTOCOL = "protocol"
    GATES = "gates"
    BUDGET = "budget"


@dataclass(frozen=True)
class TokenUsage:
    """Tokens and money of one engine call or of a whole run.

    `input_tokens` counts uncached input (cache writes included); `cached_input_tokens`
    counts input read from a prompt cache; the two never overlap. `cost_usd` is in US
    dollars, None when unknown.
    """

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    model: str | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        """The sum of two calls; an unknown cost on both sides stays unknown."""
        costs = [c for c in (self.cost_usd, other.cost_usd) if c is not None]
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=sum(costs) if costs else None,
            model=other.model or self.model,
        )


class Task(NamedTuple):
    """One piece of work. `depends_on` holds ids of tasks that must be DONE first."""

    id: str
    title: str
    description: str
    status: TaskStatus
    priority: int
    depends_on: tuple[str, ...]
    engine: str | None
    created_at: datetime
    updated_at: datetime


class Prd(NamedTuple):
    """A product requirement document as it was added; the newest one is in force."""

    id: str
    title: str
    content: str
    created_at: datetime


class Run(NamedTuple):
    """One attempt at a task.

    `attempt` counts the task's runs from 0. `base` is the commit id of the snapshot taken before
    the engine started, `end` of the last one after it; both live under `refs/codeframe/`.
    `verification` is "verified", "unverified", "failed" or None (gates did not run).
    `evidence` is JSON-ready: what the verdict was drawn from.
    """

    id: str
    task_id: str
    status: RunStatus
    engine: str
    started_at: datetime
    kind: RunKind = RunKind.START
    attempt: int = 0
    previous_run_id: str | None = None
    engine_why: str = ""
    model: str | None = None
    session_id: str | None = None
    rounds: int = 0
    base: str | None = None
    end: str | None = None
    leftover: Leftover = Leftover.NONE
    verification: str | None = None
    error_class: ErrorClass | None = None
    error: str | None = None
    summary: str = ""
    usage: TokenUsage = TokenUsage()
    duration_ms: int = 0
    options: Mapping[str, Any] = {}
    evidence: Mapping[str, Any] = {}
    process: Mapping[str, Any] = {}
    stop_requested_at: datetime | None = None
    ended_at: datetime | None = None


class Blocker(NamedTuple):
    """A question or an obstacle only a person can clear. `kind` is "question" or an ErrorClass value."""

    id: str
    task_id: str
    run_id: str | None
    question: str
    kind: str
    status: BlockerStatus
    answer: str | None
    created_at: datetime
    answered_at: datetime | None
