"""One round's engine work: a call, and what passing faults, used-up quotas and lost sessions make necessary.

Where the engine cannot go on at all the next of the chain takes over, in the same tree (rule 4.6).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from codeframe.core.adapters import endings, followups, questions
from codeframe.core.adapters.event_stream import EventStream
from codeframe.core.adapters.rounds import Progress, Recorder, RoundRecord
from codeframe.core.agent_adapter import (
    AgentAdapter,
    AgentContext,
    AgentEvent,
    AgentResult,
    AgentResultStatus,
    Capabilities,
)
from codeframe.core.budget import Breach, Budget
from codeframe.core.engine_versions import learn
from codeframe.core.history import History
from codeframe.core.models import ErrorClass, TokenUsage
from codeframe.core.redaction import Redactor
from codeframe.core.snapshots import Snapshot, Snapshots
from codeframe.core.stop_switch import set_within

# Faults that pass by themselves: the engine is called again, and it costs no round.
TRANSIENT = frozenset({ErrorClass.RATE_LIMITED, ErrorClass.OVERLOADED, ErrorClass.NETWORK})
MAX_TRANSIENT_RETRIES = 5
# What another engine need not suffer from.
FALLBACK = frozenset(
    {ErrorClass.AUTH, ErrorClass.BILLING, ErrorClass.QUOTA, ErrorClass.SPAWN_FAILED, ErrorClass.OVERLOADED}
)
QUOTA_LOOK_S = 15 * 60.0  # where nobody says when a quota is there again
MAX_DIFF_CHARS = 30_000  # of what is handed to the next engine


class Policy(NamedTuple):
    """How far to go. `backoff_s` is the first wait after a passing fault in seconds; each next one doubles.
    `wait_for_quota_s` is how long in all a used-up quota is waited for, over the run's own limit."""

    max_corrections: int = 3
    require_gates: bool = False
    stall_action: str = "blocker"
    backoff_s: float = 2.0
    wait_for_quota_s: float = 0.0


class Successor(NamedTuple):
    """The next engine of the chain; `make` gives a new adapter and the task as a prompt for it."""

    name: str
    make: Callable[[], tuple[AgentAdapter, str]]


class NotLaunched(Exception):
    """The engine is not called again before a person has answered `question`."""

    def __init__(self, question: str, error_class: ErrorClass | None = None) -> None:
        super().__init__(question)
        self.question, self.error_class = question, error_class


class EngineCalls:
    """The calls of one run. `rounds` is the evidence of each, `start` a snapshot to begin the next one with where
    nothing ran in the tree since, `changed` whether the run or one it goes on with changed anything."""

    def __init__(
        self,
        engine: AgentAdapter,
        *,
        snapshots: Snapshots,
        policy: Policy,
        new_session: Callable[[], str],
        recorder: Recorder,
        redactor: Redactor,
        events: EventStream,
        start: Snapshot | None,
        history: History | None,
        untrusted: Callable[[], str],
        changed_before: bool,
        summary_before: str,
        successors: Sequence[Successor] = (),
        budget: Budget | None = None,
    ) -> None:
        self._snapshots = snapshots
        self._policy = policy
        self._new_session = new_session
        self._recorder = recorder
        self._redactor = redactor
        self._events = events
        self._history = history
        self._untrusted = untrusted
        self._summary_before = summary_before
        self._successors: Iterator[Successor] = iter(successors)
        self._budget = budget or Budget()
        self._quota_waited_s = 0.0
        self.cancelled = threading.Event()
        self.start = start
        self.changed = changed_before
        self.rounds: list[RoundRecord] = []
        self._use(engine)

    def _use(self, engine: AgentAdapter) -> None:
        self.engine = engine
        self._capabilities: Capabilities = getattr(type(engine), "capabilities", Capabilities())

    def cancel(self) -> None:
        """End the call that runs now, and make no other. Thread-safe."""
        self.cancelled.set()
        self._end_call()

    def _end_call(self) -> None:
        stop = getattr(self.engine, "cancel", None)
        if stop is not None:
            stop()

    def run(self, p: Progress, workspace: Path, prompt: str, reason: str) -> tuple[AgentResult, Snapshot]:
        """One round. Raises NotLaunched."""
        asked = prompt
        transient = 0
        fresh_tried = stall_retried = False
        while True:
            result, end = self._launch(p, workspace, prompt, reason)
            failed = result.error_class if result.status is not AgentResultStatus.COMPLETED else None
            if failed is None or failed is ErrorClass.BUDGET or self.cancelled.is_set() or end.unfinished:
                return result, end
            lost = bool(result.evidence.get("session_lost"))
            if (lost or failed is ErrorClass.CONTEXT_WINDOW) and not fresh_tried:
                fresh_tried = True
                why = "The engine's session is gone" if lost else "The engine's context window is full"
                self._say(f"{why}; starting a fresh session with a summary.")
                p.notes.append(f"{why}; the run went on in a fresh session.")
                p.context = replace(p.context, session_id=None, resume_session=False)
                extra = "Go on with the task." if asked is p.task_prompt else asked
                before = p.summary or self._summary_before
                prompt, reason = followups.cold(p.task_prompt, extra, before), "fresh_session"
                continue
            if failed is ErrorClass.STALLED and self._policy.stall_action == "retry" and not stall_retried:
                stall_retried = True
                self._say("The engine fell silent; calling it once more.")
                prompt, reason = again(p, followups.after_interruption(failed)), "retry:stalled"
                continue
            if failed in TRANSIENT and transient < MAX_TRANSIENT_RETRIES:
                wait = max(self._policy.backoff_s * 2**transient, result.retry_after_s or 0.0)
                if wait < p.left_s:
                    transient += 1
                    self._say(
                        f"{failed.value}: trying again in {wait:.0f} s ({transient} of {MAX_TRANSIENT_RETRIES})."
                    )
                    if set_within(self.cancelled, wait):
                        return endings.cancelled(result), end
                    prompt = again(p, followups.after_interruption(failed))
                    reason = f"retry:{failed.value}"
                    continue
            if failed is ErrorClass.QUOTA and (wait := self._quota_wait(result)):
                self._quota_waited_s += wait
                p.deadline += wait
                until = datetime.fromtimestamp(time.time() + wait).strftime("%H:%M")
                self._say(f"quota: waiting until {until}, then trying again.")
                if set_within(self.cancelled, wait):
                    return endings.cancelled(result), end
                prompt, reason = again(p, followups.after_interruption(failed)), "retry:quota"
                continue
            if failed in FALLBACK and (successor := next(self._successors, None)) is not None:
                prompt, reason = self._hand_over(p, successor, failed, result.error or failed.value, asked)
                transient, fresh_tried, stall_retried = 0, False, False
                asked = prompt
                continue
            return result, end

    def _quota_wait(self, result: AgentResult) -> float:
        """Seconds to the quota's reset, or to the next look; 0 where that is longer than is to be waited."""
        wait = (
            QUOTA_LOOK_S
            if result.retry_after_s is None
            else max(result.retry_after_s, self._policy.backoff_s)
        )
        left = self._policy.wait_for_quota_s - self._quota_waited_s
        if result.retry_after_s is None:
            wait = min(wait, left)
        return wait if 0 < wait <= left else 0.0

    def _hand_over(
        self, p: Progress, successor: Successor, failed: ErrorClass, error: str, asked: str
    ) -> tuple[str, str]:
        """Let the next engine of the chain go on; its prompt holds what was done and what is asked now."""
        before = self.engine.name
        engine, task_prompt = successor.make()
        why = f"{before} could not go on ({failed.value})"
        self._say(f"{why}: {successor.name} takes over.")
        p.notes.append(f"{why}: {error} {successor.name} took over.")
        extra = "" if asked is p.task_prompt else asked
        self._use(engine)
        p.task_prompt = task_prompt
        p.context = replace(p.context, session_id=None, resume_session=False, model=None)
        self._recorder.engine_changed(successor.name, f"fallback: {why}")
        diff = ""
        if p.first_start and p.last_end:
            diff = self._snapshots.diff(p.first_start.commit, p.last_end)
        prompt = followups.handover(
            task_prompt, why, p.summary or self._summary_before, diff[:MAX_DIFF_CHARS], extra
        )
        return prompt, f"fallback:{successor.name}"

    def _launch(self, p: Progress, workspace: Path, prompt: str, reason: str) -> tuple[AgentResult, Snapshot]:
        """Snapshot, engine, snapshot; the record is handed on before anything else is decided."""
        if untrusted := self._untrusted():
            raise NotLaunched(questions.untrusted(untrusted))
        if breach := self._budget.breach(p.usage):
            raise NotLaunched(questions.over_budget(breach, p.context.task_id), ErrorClass.BUDGET)
        if p.context.session_id is None and self._capabilities.preassigned_session:
            p.context = replace(p.context, session_id=self._new_session(), resume_session=False)
        context = replace(p.context, round=p.round)
        start, self.start = self.start or self._snapshots.take(context.task_id, "start"), None
        self._recorder.launched(start.commit, context.session_id)
        result = self._call(p, prompt, workspace, context)
        learn(type(self.engine), result.evidence.get("engine_version"))
        refs = self._history.look() if self._history else None  # while the snapshot is taken
        end = self._snapshots.take(context.task_id, "end")
        changes = tuple(self._snapshots.changes(start.commit, end.commit))
        commits = tuple(self._snapshots.commits_between(start, end))
        moved = self._history.moved(refs, start, end) if self._history and refs else ()
        record = RoundRecord(p.round, reason, start.commit, end.commit, result, changes, commits, moved=moved)
        self.rounds.append(record)
        self._recorder.returned(len(self.rounds) - 1, record)
        self.changed = self.changed or bool(changes or commits or moved)
        p.first_start = p.first_start or start
        p.last_end = end.commit
        p.summary = result.summary or p.summary
        if result.token_usage is not None:
            p.usage = result.token_usage if p.usage is None else p.usage + result.token_usage
        p.duration_ms += result.duration_ms
        session = result.session_id or p.context.session_id
        # A session goes on with the model it began with, by the name the engine itself gave it.
        model = p.context.model or result.evidence.get("model")
        resumable = self._capabilities.resume and session is not None
        p.context = replace(p.context, model=model, session_id=session, resume_session=resumable)
        return result, end

    def _call(self, p: Progress, prompt: str, workspace: Path, context: AgentContext) -> AgentResult:
        over: list[Breach] = []
        pump = threading.Thread(target=self._pump, args=(p.usage, over), daemon=True)
        pump.start()
        try:
            # Failures, answers, notes, an engine's own last words: whatever it is told passes here (rule 9.2).
            told = self._redactor.redact(prompt)
            result = self.engine.execute(told, workspace, context, max(1, int(p.left_s * 1000)))
        finally:
            pump.join(timeout=5)
        if over and result.status is not AgentResultStatus.COMPLETED and not self.cancelled.is_set():
            return endings.over_budget(result, questions.over_budget(over[0], context.task_id))
        return result

    def _pump(self, before: TokenUsage | None, over: list[Breach]) -> None:
        """Hand on the events. What the call has used up so far comes as one that says nothing else."""
        for event in self.engine.stream_events():
            if event.message or "usage" not in event.metadata:
                self._events.put(event)
                continue
            used = TokenUsage(**event.metadata["usage"])
            if not over and (breach := self._budget.breach(used if before is None else before + used)):
                over.append(breach)
                self._end_call()

    def _say(self, text: str) -> None:
        self._events.put(AgentEvent("progress", text, metadata={"source": "codeframe"}))


def again(p: Progress, followup: str) -> str:
    """`followup` alone where the session goes on, else the whole prompt with it."""
    return followup if p.context.resume_session else followups.cold(p.task_prompt, followup, p.summary)
