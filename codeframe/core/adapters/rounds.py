"""A run as the gate loop sees it: its calls so far, the evidence of each, and where that is put at once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from codeframe.core.agent_adapter import AgentContext, AgentResult
from codeframe.core.models import TokenUsage
from codeframe.core.snapshots import FileChange, Snapshot, in_short

if TYPE_CHECKING:
    from codeframe.core.gates.integrity import Finding

FINDINGS_IN_EVIDENCE = 200


class RoundRecord(NamedTuple):
    """The evidence of one engine call: the snapshots around it, how it ended, what the gates said after it.

    `gates_end` is the snapshot after the gates where they changed anything, `gates_changes` what they did;
    `weaker` is what the run's calls so far did to the checks themselves (rule 6.5).
    """

    round: int
    reason: str
    start: str
    end: str
    result: AgentResult
    changes: tuple[FileChange, ...]
    commits: tuple[str, ...]
    gates: Mapping[str, Any] | None = None
    moved: tuple[str, ...] = ()  # lines of `History.moved`
    gates_end: str | None = None
    gates_changes: tuple[FileChange, ...] = ()
    weaker: tuple[Finding, ...] = ()

    @property
    def left(self) -> str:
        """The last snapshot of the round."""
        return self.gates_end or self.end

    @property
    def changed(self) -> bool:
        """Whether the tree may hold work of it. Files that gates make, such as reports, are none."""
        by_gates = any(change.kind != "created" for change in self.gates_changes)
        return bool(self.changes or self.commits or self.moved or by_gates)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; long file lists are cut, with the full count beside them."""
        usage = self.result.token_usage or TokenUsage()
        return {
            "round": self.round,
            "reason": self.reason,
            "start": self.start,
            "end": self.end,
            "status": self.result.status.value,
            "error_class": self.result.error_class.value if self.result.error_class else None,
            "error": self.result.error,
            "summary": self.result.summary,
            "session_id": self.result.session_id,
            **in_short(self.changes),
            "commits": list(self.commits),
            "moved": list(self.moved),
            "duration_ms": self.result.duration_ms,
            "input_tokens": usage.input_tokens,
            "cached_input_tokens": usage.cached_input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
            "engine": dict(self.result.evidence),
            "gates": self.gates,
            "gates_end": self.gates_end,
            "gates_changed": in_short(self.gates_changes),
            "integrity": [each._asdict() for each in self.weaker[:FINDINGS_IN_EVIDENCE]],
        }


@dataclass(eq=False, repr=False)
class Progress:
    """What one `execute` of the wrapper has seen so far; `deadline` is on the monotonic clock, in seconds."""

    deadline: float
    context: AgentContext
    task_prompt: str
    summary: str = ""
    usage: TokenUsage | None = None
    duration_ms: int = 0
    round: int = 0
    first_start: Snapshot | None = None
    last_end: str | None = None
    gates_changed: dict[str, FileChange] = field(default_factory=dict)
    gates_also: str = ""  # what they changed beside files, in words
    notes: list[str] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        """Seconds to the deadline; negative after it."""
        return self.deadline - time.monotonic()


class Recorder(Protocol):
    """Where the wrapper puts on disk what a crash must not lose."""

    def launched(self, start: str, session_id: str | None) -> None:
        """Called before each engine call with its start snapshot and the session id it will use, if known."""
        ...

    def engine_changed(self, name: str, why: str) -> None:
        """Called when another engine takes over, before it is called."""
        ...

    def returned(self, index: int, record: RoundRecord) -> None:
        """Called after each engine call, and again when its gates have run; `index` counts calls from 0."""
        ...
