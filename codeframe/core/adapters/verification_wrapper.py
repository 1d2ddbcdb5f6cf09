"""The gate loop around any adapter: call the engine, see what changed, run the gates, send it back.

The wrapper is itself an AgentAdapter. It believes nothing it can measure: the change is the
difference of two snapshots, success is what the gates say (rules 4.5 to 4.7).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeframe.core.adapters import endings, followups, questions
from codeframe.core.adapters.engine_calls import EngineCalls, NotLaunched, Policy, Successor, again
from codeframe.core.adapters.event_stream import EventStream
from codeframe.core.adapters.gate_check import Checked, GateCheck, changed_in_words, in_words
from codeframe.core.adapters.integrity_check import IntegrityCheck
from codeframe.core.adapters.rounds import Progress, Recorder
from codeframe.core.agent_adapter import (
    DEFAULT_TIMEOUT_MS,
    AgentAdapter,
    AgentContext,
    AgentEvent,
    AgentResult,
    AgentResultStatus,
)
from codeframe.core.blocker_detection import question_in_prose
from codeframe.core.budget import Budget
from codeframe.core.history import History
from codeframe.core.models import ErrorClass
from codeframe.core.redaction import Redactor
from codeframe.core.snapshots import FileChange, Snapshot, Snapshots

if TYPE_CHECKING:
    from codeframe.core.gates import GateReport, GateSuite


class VerificationWrapper:
    """Any adapter, with gates around it.

    After `execute`, `report` holds the last GateReport (None when no gate ran), `rounds` the
    evidence of each engine call, and `notes` what a person should be told beside the verdict.
    """

    def __init__(
        self,
        inner: AgentAdapter,
        *,
        snapshots: Snapshots,
        gates: GateSuite | None,
        policy: Policy,
        new_session: Callable[[], str],
        recorder: Recorder,
        redactor: Redactor,
        opening: str | None = None,
        changed_before: bool = False,
        summary_before: str = "",
        start: Snapshot | None = None,
        history: History | None = None,
        integrity: IntegrityCheck | None = None,
        untrusted: Callable[[], str] = str,
        successors: Sequence[Successor] = (),
        budget: Budget | None = None,
    ) -> None:
        """`opening` is said first where the session of an earlier run goes on, in place of the whole prompt.

        `changed_before` says that an earlier run of the same work already changed something,
        `summary_before` is what that run said last. `start` is a snapshot to begin with, where nothing
        has run in the tree since. `history` tells what became of branches and the like; it has begun.
        `integrity` looks at what became of the checks themselves wherever gates run. `untrusted` is asked before
        each call: in words, what the engine would execute of the tree, its own doing perhaps, that nobody trusts.
        `successors` take over one by one where an engine cannot go on; `budget` is what all of them may use up.
        """
        self._snapshots = snapshots
        self._policy = policy
        self._recorder = recorder
        self._opening = opening
        self._history = history
        self._integrity = integrity
        self._events = EventStream()
        self._calls = EngineCalls(
            inner, snapshots=snapshots, policy=policy, new_session=new_session, recorder=recorder, redactor=redactor,
            events=self._events, start=start, history=history, untrusted=untrusted, changed_before=changed_before,
            summary_before=summary_before, successors=successors, budget=budget,
        )  # fmt: skip
        self._cancel = self._calls.cancelled
        self._gates = GateCheck(gates, snapshots, self._cancel, self._say) if gates is not None else None
        self.rounds = self._calls.rounds
        self.report: GateReport | None = None
        self.asked = False
        self.notes: list[str] = []

    @property
    def name(self) -> str:
        return self._calls.engine.name

    @property
    def requires_api_key(self) -> dict[str, str]:
        return self._calls.engine.requires_api_key

    def cancel(self) -> None:
        """End the engine or the gates that run now; `execute` then returns soon. Thread-safe."""
        self._calls.cancel()

    def stream_events(self) -> Iterator[AgentEvent]:
        return iter(self._events)

    def execute(
        self,
        task_prompt: str,
        workspace_path: Path,
        context: AgentContext,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> AgentResult:
        """Rounds of engine and gates until the work is verified or there is no point in going on.

        `timeout_ms` covers all rounds and gates (rule 4.7).
        """
        progress = Progress(time.monotonic() + timeout_ms / 1000, context, task_prompt)
        self.notes = progress.notes
        self._events.open()
        try:
            return self._rounds(progress, workspace_path)
        except NotLaunched as refused:
            unlaunched = AgentResult(AgentResultStatus.BLOCKED)
            return self._ask(progress, unlaunched, refused.question, error_class=refused.error_class)
        finally:
            self._events.close()

    # -- the loop ---------------------------------------------------------------------------------

    def _rounds(self, p: Progress, workspace: Path) -> AgentResult:
        prompt, reason = p.task_prompt, "first"
        if p.context.resume_session and self._opening is not None:
            prompt = self._opening
        told_no_change = told_weaker = False
        last_failure: tuple[object, ...] | None = None
        while True:
            result, end = self._calls.run(p, workspace, prompt, reason)
            if result.status is not AgentResultStatus.COMPLETED:
                return self._final(p, result)
            if end.unfinished:
                return self._ask(p, result, questions.unfinished(end))
            if p.first_start is not None and end.branch != p.first_start.branch:
                return self._ask(p, result, questions.branch_switched(p.first_start, end))
            if not self._calls.changed and not result.already_satisfied:
                question = None if result.evidence.get("report") else question_in_prose(result.summary)
                if question is not None:
                    return self._ask(p, result, question)
                if told_no_change:
                    return self._final(p, endings.no_change(result))
                told_no_change = True
                self._say("The engine reported success but changed nothing; telling it so.")
                p.round += 1
                prompt, reason = again(p, followups.NO_CHANGE), "no_change"
                continue
            if self._gates is None:
                return self._final(p, result)
            report, left, gates_changes = self._check(p, self._gates, end)
            if self._cancel.is_set() or p.left_s <= 0:
                return self._cut_short(p, result)
            if left.branch != end.branch:  # the engine's code did it, whoever ran that
                return self._ask(p, result, questions.branch_switched(end, left, by="Running the gates"))
            weaker = self._integrity.open if self._integrity else ()
            more = p.round < self._policy.max_corrections
            if report.status != "failed":
                if not weaker:
                    return self._passed(p, result, report)
                if told_weaker or not more:
                    return self._ask_whether_wanted(p, result)
            else:
                failure = (report.signature(), end.tree, *(each.mark for each in end.left_out))
                if not more or failure == last_failure:
                    return self._gates_failed(p, result, report, stuck=failure == last_failure)
                last_failure = failure
            told_weaker = told_weaker or bool(weaker)
            p.round += 1
            to_go = self._policy.max_corrections - p.round
            changed = in_words(gates_changes)
            feedback = report.feedback() if report.status == "failed" else ""
            prompt = again(p, followups.correction(feedback, to_go, changed, list(map(str, weaker))))
            reason = "correction"
            self._calls.start = None if left.unfinished else left
            what = "the failures" if feedback else "what it did to the checks"
            self._say(
                f"Sending the engine back with {what} (correction {p.round} of {self._policy.max_corrections})."
            )

    def _check(self, p: Progress, gates: GateCheck, end: Snapshot) -> Checked:
        checked = gates.run(
            p.context.task_id,
            end,
            {change.path for record in self.rounds for change in record.changes},
            (p.context.run_dir or Path()) / f"gates-{p.round}",
            f"{p.context.run_id}/gates-{p.round}",
            lambda: p.left_s,
            self.rounds[0].start,
        )
        self.report = checked.report
        moved = self._history.moved(self._history.look(), end, checked.left) if self._history else ()
        record = self.rounds[-1]
        record = record._replace(gates=checked.report.to_evidence(), moved=(*record.moved, *moved))
        if checked.left is not end:
            record = record._replace(gates_end=checked.left.commit, gates_changes=checked.changes)
            p.gates_changed |= {change.path: change for change in checked.changes}
            p.gates_also = changed_in_words(self._snapshots, end, checked.left)
        if self._integrity:
            self._integrity.look(self.rounds, checked.report)
            record = record._replace(weaker=self._integrity.found)
        self.rounds[-1] = record
        self._recorder.returned(len(self.rounds) - 1, record)
        for line in checked.report.summary_lines():
            self._say(line)
        return checked

    # -- how it ends ------------------------------------------------------------------------------

    def _final(
        self, p: Progress, result: AgentResult, status: AgentResultStatus | None = None, **fields: Any
    ) -> AgentResult:
        """The result of the whole run: the last call's words, the totals, and the measured change."""
        if done := in_words(list(p.gates_changed.values())) or p.gates_also:
            p.notes.append(f"Running the gates changed: {done}. cf work undo takes that back, too.")
        if self._integrity and not self.asked:
            p.notes += self._integrity.notes()
        changes: Sequence[FileChange] = self.rounds[0].changes if self.rounds else ()
        if len(self.rounds) > 1 and p.first_start and p.last_end:
            changes = self._snapshots.changes(p.first_start.commit, p.last_end)
        return replace(
            result,
            status=status or result.status,
            summary=p.summary,
            token_usage=p.usage,
            duration_ms=p.duration_ms,
            session_id=p.context.session_id,
            files_modified=tuple(c.path for c in changes if c.kind == "modified"),
            files_created=tuple(c.path for c in changes if c.kind == "created"),
            files_deleted=tuple(c.path for c in changes if c.kind == "deleted"),
            **fields,
        )

    def _ask(self, p: Progress, result: AgentResult, question: str, **fields: Any) -> AgentResult:
        return self._final(p, result, AgentResultStatus.BLOCKED, blocker_question=question, **fields)

    def _ask_whether_wanted(self, p: Progress, result: AgentResult) -> AgentResult:
        assert self._integrity is not None
        question = questions.checks_changed(list(map(str, self._integrity.open)))
        self.asked = True
        return self._ask(p, result, question, error_class=ErrorClass.GATES)

    def _passed(self, p: Progress, result: AgentResult, report: GateReport) -> AgentResult:
        if report.status == "unverified" and self._policy.require_gates:
            from codeframe.core.gates import untold

            why = "; ".join(untold(report.to_evidence())) or "no gate ran"
            return self._final(p, endings.unverified(result, why))
        question = None if result.evidence.get("report") else question_in_prose(result.summary)
        if question is not None:
            p.notes.append(f"The engine also asked: {question}")
        return self._final(p, result)

    def _gates_failed(
        self, p: Progress, result: AgentResult, report: GateReport, *, stuck: bool
    ) -> AgentResult:
        if report.only_gone:
            gone = [test for verdict in report.verdicts for test in verdict.gone]
            return self._ask(p, result, questions.tests_gone(gone), error_class=ErrorClass.GATES)
        allowed = self._policy.max_corrections
        return self._final(p, endings.gates_failed(result, p.round, allowed=allowed, stuck=stuck))

    def _cut_short(self, p: Progress, result: AgentResult) -> AgentResult:
        ending = endings.cancelled if self._cancel.is_set() else endings.time_up
        return self._final(p, ending(result))

    # -- events -----------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self._events.put(AgentEvent("progress", text, metadata={"source": "codeframe"}))
