"""The verdict on one engine call: from how its process ended and what was heard of it (rule 4.5)."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from codeframe.core.adapters.heard import Heard, Terminal
from codeframe.core.adapters.verdict_report import parse_fenced, reported
from codeframe.core.agent_adapter import AgentResult, AgentResultStatus, Capabilities
from codeframe.core.models import ErrorClass
from codeframe.core.process import EndedBy, ProcessOutcome
from codeframe.core.redaction import Redactor

MAX_TEXT_CHARS = 64 * 1024
MAX_MESSAGE_CHARS = 8 * 1024
MAX_STDERR_CHARS = 2000


class EngineVerdict(ABC):
    """The half of a `SubprocessAdapter` that judges: it needs a name, what was heard, and what is secret."""

    capabilities: ClassVar[Capabilities] = Capabilities()

    def __init__(self) -> None:
        self.heard = Heard(Path())
        self._redactor = Redactor({})

    @property
    @abstractmethod
    def name(self) -> str:
        """The name people type after --engine."""

    def finish(self, outcome: ProcessOutcome) -> AgentResult:
        """The verdict, from how the process ended and what was heard, in the order of rule 4.5."""
        if (stopped := self._stopped(outcome)) is not None:
            return stopped
        terminal = self.heard.terminal
        if terminal is None and self.capabilities.terminal_signal == "exit" and outcome.exit_code == 0:
            terminal = Terminal()
        if terminal is None:
            how = how_it_ended(outcome)
            said = self._presentable(outcome.stderr_tail.strip())[-MAX_STDERR_CHARS:]
            return self.failed(
                ErrorClass.CRASHED, f"{self.name} {how} without reporting an end. {said}".strip(), outcome
            )
        if terminal.error is not None:
            return self.failed(
                terminal.error_class, terminal.error, outcome, retry_after_s=terminal.retry_after_s
            )
        # A success counts whatever the exit status: the gates look at the work itself.
        report = self.heard.report or parse_fenced(self.heard.text)
        if report is None:
            return self.result(AgentResultStatus.COMPLETED, outcome, summary=self.heard.text)
        self.heard.evidence["report"] = report.status
        told = reported(report, self.name)
        return self.result(
            told.status, outcome, summary=told.summary, error=told.error, question=told.blocker_question,
            already_satisfied=told.already_satisfied,
        )  # fmt: skip

    def _stopped(self, outcome: ProcessOutcome) -> AgentResult | None:
        """The result where we ended it, or it never began: whatever it printed does not matter then."""
        ended = outcome.ended_by
        if ended is EndedBy.CANCELLED:
            return self.failed(ErrorClass.CANCELLED, "stopped", outcome)
        if ended is EndedBy.TIMEOUT:
            text = f"{self.name} was stopped: its time was up"
            return self.failed(ErrorClass.TIMEOUT, text, outcome, AgentResultStatus.TIMEOUT)
        if ended in (EndedBy.STALLED, EndedBy.NO_FIRST_OUTPUT):
            what = "said nothing for too long" if ended is EndedBy.STALLED else "never said anything"
            text = f"{self.name} was stopped: it {what}"
            return self.failed(ErrorClass.STALLED, text, outcome, AgentResultStatus.TIMEOUT)
        if ended is EndedBy.SPAWN_FAILED:
            return self.failed(
                ErrorClass.SPAWN_FAILED, f"{self.name} could not be started: {outcome.error}", outcome
            )
        return None

    def failed(
        self,
        error_class: ErrorClass | None,
        error: str,
        outcome: ProcessOutcome,
        status: AgentResultStatus = AgentResultStatus.FAILED,
        retry_after_s: float | None = None,
    ) -> AgentResult:
        """A result that is no success, with all that was heard."""
        result = self.result(status, outcome, summary=self.heard.text, error=error)
        return replace(result, error_class=error_class, retry_after_s=retry_after_s)

    def result(
        self,
        status: AgentResultStatus,
        outcome: ProcessOutcome,
        *,
        summary: str,
        error: str | None = None,
        question: str | None = None,
        already_satisfied: bool = False,
    ) -> AgentResult:
        """A result with files, usage, session and evidence filled in from what was heard."""

        stderr = self._presentable(outcome.stderr_tail.strip())[-MAX_STDERR_CHARS:]

        def changed(kind: str) -> tuple[str, ...]:
            return tuple(sorted(path for path, change in self.heard.files.items() if change == kind))

        def text(value: str | None) -> str | None:
            return None if value is None else self._presentable(value)[-MAX_TEXT_CHARS:]

        return AgentResult(
            status=status,
            files_modified=changed("modified"),
            files_created=changed("created"),
            files_deleted=changed("deleted"),
            summary=text(summary) or "",
            error=text(error),
            blocker_question=text(question),
            already_satisfied=already_satisfied,
            token_usage=self.heard.usage,
            duration_ms=outcome.duration_ms,
            session_id=self.heard.session_id,
            evidence={
                "ended_by": str(outcome.ended_by),
                "exit_code": outcome.exit_code,
                "survivors": list(outcome.survivors),
                **({"stderr": stderr} if stderr else {}),
                **self.heard.evidence,
            },
        )

    def _presentable(self, text: str) -> str:
        """`text` as it may be shown and stored: free of secrets (rule 9.2) and of what UTF-8 cannot hold.

        Cut it afterwards, not before: half a secret is not found.
        """
        return self._redactor.redact(text.encode("utf-8", "replace").decode())


def how_it_ended(outcome: ProcessOutcome) -> str:
    """In words, for the transcript and for errors."""
    if outcome.ended_by is EndedBy.SPAWN_FAILED:
        return f"could not be started: {outcome.error}"
    code = outcome.exit_code
    if code is not None and code < 0:
        try:
            how = f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            how = f"was ended by signal {-code}"
    else:
        how = f"ended with status {code}"
    return how if outcome.ended_by is EndedBy.EXIT else f"{how} ({outcome.ended_by})"
