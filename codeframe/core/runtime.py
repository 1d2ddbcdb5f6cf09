"""One task: `execute_agent()` is the only way an engine is ever run. A pipeline of small steps (rule 4)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from codeframe.core import config as configuration
from codeframe.core import continuing, verdict
from codeframe.core.adapters.engine_calls import Policy, Successor
from codeframe.core.adapters.gate_check import changed_in_words
from codeframe.core.adapters.integrity_check import IntegrityCheck
from codeframe.core.adapters.rounds import RoundRecord
from codeframe.core.adapters.verification_wrapper import VerificationWrapper
from codeframe.core.admission import gate_suite
from codeframe.core.agent_adapter import AgentAdapter, AgentContext, AgentEvent, AgentResult, Capabilities
from codeframe.core.context_packager import TaskContextPackager
from codeframe.core.durations import format_duration
from codeframe.core.engine_registry import EngineRegistry
from codeframe.core.errors import CodeFrameError, RequirementsError, writing
from codeframe.core.heartbeat import beat
from codeframe.core.later import later
from codeframe.core.leftovers import (
    ENGINE,
    OPEN_START,
    baseline_run,
    close_open_call,
    history_of,
    snapshots_of,
    without_call,
)
from codeframe.core.models import (
    ErrorClass,
    Leftover,
    Run,
    RunKind,
    RunStatus,
    TaskStatus,
    TokenUsage,
)
from codeframe.core.process_sweep import become_subreaper
from codeframe.core.redaction import Redactor
from codeframe.core.run_budget import budget_of
from codeframe.core.run_lock import held_by_us, lock_run
from codeframe.core.run_log import RunLog
from codeframe.core.run_options import RunOptions, spent_limit
from codeframe.core.shown import shown
from codeframe.core.snapshots import Snapshot, Snapshots
from codeframe.core.stop_switch import StopSwitch
from codeframe.core.trust import Trust
from codeframe.core.workspace import Workspace
from codeframe.core.would_run import gate_items, would_run

if TYPE_CHECKING:
    from codeframe.core.gates import GateSuite

OnEvent = Callable[[AgentEvent], None]


def execute_agent(
    workspace: Workspace,
    run: Run,
    engine: str | None = None,
    on_event: OnEvent | None = None,
    *,
    stop: StopSwitch | None = None,
) -> Run:
    """Do an admitted run to its verdict and return it finished.

    `engine` overrides the run's engine name; `on_event` is called on another thread with every event;
    throwing `stop` ends the engine, keeps its work and gives STOPPED. An engine's misbehaviour never
    raises. Raises CodeFrameError when the tree cannot be worked on (say, during a merge); the task is
    then as it was.
    """
    lock = held_by_us(run.id) or lock_run(workspace, run.id, workspace.store.tasks.get(run.task_id))
    job = _Job(workspace, run, engine or run.engine, on_event, stop or StopSwitch())
    try:
        return job.execute()
    finally:
        lock.release()


class _Job:
    """The state of one `execute_agent` call; each step is a method, in the order they are called."""

    def __init__(
        self, workspace: Workspace, run: Run, engine: str, on_event: OnEvent | None, stop: StopSwitch
    ) -> None:
        self.workspace = workspace
        self.store = workspace.store
        self.run = run
        self.engine = engine
        self.options = RunOptions.from_dict(run.options)
        self.stop = stop
        self.on_event = on_event
        self.snapshots: Snapshots = snapshots_of(workspace)
        self.history = history_of(workspace, run)
        self.run_dir = workspace.run_dir(run.id)
        self.redactor = Redactor(os.environ)
        self._log: RunLog | None = None
        self.engines = EngineRegistry  # read once, in `execute`: what was trusted is what runs
        self._deadline = time.monotonic() + self.options.timeout_s  # covers gates and all rounds (rule 4.7)
        self.wrapper: VerificationWrapper | None = None
        self.integrity: IntegrityCheck | None = None

    def execute(self) -> Run:
        """pack -> base snapshot -> baseline -> wrapper -> verdict."""
        try:
            self.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._log = RunLog(self.run_dir, self.redactor)
            self._say_limit()
            suite = self._suite()
            self.engines = EngineRegistry.at(self.workspace.root)
            adapter: AgentAdapter = self.engines.get(self.engine)
            prompt, context = self._pack(suite, getattr(type(adapter), "capabilities", Capabilities()))
            adopting = later(become_subreaper)  # it loads ctypes: while git is waited for
            base = self._base()
            adopting()
            with self.stop.polling(self._asked_to_stop):
                start = self._baseline(suite, base)
                wrapper = self._wrap(adapter, suite, start=start)
                stopped = self.stop.event.is_set()
                result = self._cancelled() if stopped else self._work(wrapper, prompt, context)
            return self._conclude(result)
        except BaseException as e:
            self._give_up(e)
            raise
        finally:
            if self._log is not None:
                self._log.close()

    def _asked_to_stop(self) -> bool:
        beat(self.run_dir)
        return self.store.runs.stop_requested(self.run.id)

    def _left_s(self) -> float:
        return max(0.001, self._deadline - time.monotonic())

    def _say_limit(self) -> None:
        """After a run that used up a limit: which one holds now, typed or not."""
        before = self.run.previous_run_id
        if self.run.kind is RunKind.START or before is None:
            return
        previous = self.store.runs.get(before)
        if limit := spent_limit(previous):
            now, then = (getattr(o, limit) for o in (self.options, RunOptions.from_dict(previous.options)))
            what = "Time limit" if limit == "timeout_s" else "Longest silence"
            self._say(f"{what}: {format_duration(now)}; the run before used up its {format_duration(then)}.")

    # -- the steps --------------------------------------------------------------------------------

    def _base(self) -> Snapshot:
        begun = self.history.begin()
        base = self.snapshots.take(self.run.task_id, "base")
        begun()
        self.run = self.store.runs.update(self.run.id, base=base.commit, end=base.commit)
        for left in base.left_out:
            self._say(f"Not covered by snapshots: {shown(left.path)} ({left.reason}).")
        return base

    def _suite(self) -> GateSuite | None:
        if self.options.no_gates:
            self._say("Gates are switched off; the result will be unverified.")
            return None
        config = configuration.load_environment_config(self.workspace.root)
        suite = gate_suite(self.workspace, config, strict=self.options.strict)
        # The file may say something else by now than when a person was asked.
        if untrusted := Trust(self.workspace).untrusted(gate_items(self.workspace, suite)):
            raise untrusted.refusal()
        return suite

    def _successors(self, suite: GateSuite | None) -> Iterator[Successor]:
        def make(name: str) -> tuple[AgentAdapter, str]:
            adapter = self.engines.get(name)
            return adapter, self._pack(suite, getattr(type(adapter), "capabilities", Capabilities()))[0]

        for name in self.options.fallback:
            yield Successor(name, partial(make, name))

    def _untrusted(self) -> str:
        """In words, what the engine would execute of the tree, launched now, that nobody trusts (rule 9.1)."""
        try:
            known, own = self.engines, self.options.engine_args
            items = would_run(self.workspace, None, [self.engine], known=known, arguments=own)
            found = Trust(self.workspace).untrusted(items)
        except RequirementsError as error:
            return error.problem
        return found.named() if found else ""

    def _baseline(self, suite: GateSuite | None, base: Snapshot) -> Snapshot:
        """Find out what the gates said before the work began; returns the snapshot the engine starts from: `base`,
        unless they changed something, which is not the engine's doing.

        A continued run reuses its first run's; of what was red then it looks whether it still is (rule 6.4).
        """
        if suite is None or not suite.names:
            return base
        first = baseline_run(self.workspace, self.run)
        goes_on = first.id != self.run.id and first.base is not None
        tree = self.snapshots.load(first.base).tree if goes_on and first.base else base.tree
        suite.recall(tree, first.id)
        to_run = suite.to_run(here=tree == base.tree)
        if not to_run:
            if not goes_on:
                self._say("The gates ran on this very tree before; what they said then is the baseline.")
            return base
        self._say(f"Running the gates once before the engine starts: {', '.join(to_run)}.")
        suite.baseline(
            self.run_dir / "gates-base", marker=f"{self.run.id}/gates-base", here=tree == base.tree,
            cancel=self.stop.event, timeout_s=self._left_s(),
        )  # fmt: skip
        start = self.snapshots.take(self.run.task_id, "start", unless=base)
        if not self.stop.event.is_set():
            suite.keep_baseline(unchanged=start is base and tree == base.tree)
        if changed := changed_in_words(self.snapshots, base, start):
            self._say(f"Running the gates before the engine started changed: {changed}.")
        return start

    def _wrap(self, adapter: AgentAdapter, suite: GateSuite | None, start: Snapshot) -> VerificationWrapper:
        options, here = self.options, (self.workspace, self.run)
        if suite is not None:
            before = continuing.checks_before(self.workspace, self.snapshots, self.run)
            self.integrity = IntegrityCheck(
                self.snapshots, self.workspace.root, self.redactor.redact, before, policy=options.integrity
            )
        return VerificationWrapper(
            adapter, snapshots=self.snapshots, gates=suite, untrusted=self._untrusted,
            policy=Policy(
                options.max_corrections, options.require_gates, options.stall_action, options.backoff_s,
                options.wait_for_quota_s,
            ),
            new_session=lambda: str(uuid.uuid4()), recorder=self, redactor=self.redactor, start=start,
            opening=continuing.opening(*here, self.options.note), history=self.history, integrity=self.integrity,
            changed_before=continuing.stands_on_work(*here), summary_before=continuing.summary_before(*here),
            successors=tuple(self._successors(suite)), budget=budget_of(*here, options),
        )  # fmt: skip

    def _work(self, wrapper: VerificationWrapper, prompt: str, context: AgentContext) -> AgentResult:
        self.wrapper = wrapper
        self.stop.on_throw(wrapper.cancel)
        consumer = threading.Thread(target=self._consume, args=(wrapper,), daemon=True)
        consumer.start()
        try:
            return wrapper.execute(prompt, self.workspace.root, context, int(self._left_s() * 1000))
        finally:
            consumer.join(timeout=10)

    def _pack(self, suite: GateSuite | None, capabilities: Capabilities) -> tuple[str, AgentContext]:
        packager = TaskContextPackager(
            self.workspace,
            gates=suite.describe() if suite else (),
            structured_report=capabilities.structured_verdict,
            report_line=capabilities.verdict_line,
        )
        prompt, context = packager.build(
            self.run.task_id, attempt=self.run.attempt, note=self.options.note, snapshots=self.snapshots,
            previous_errors=continuing.previous_errors(self.workspace, self.run),
        )  # fmt: skip
        with writing(self.run_dir / "prompt.md"):
            (self.run_dir / "prompt.md").write_text(prompt, encoding="utf-8")
        told = ("autonomy", "network", "engine_args")  # these by engine: another may take over
        options = {name: getattr(self.options, name) for name in told}
        resumed = self.run.session_id is not None and capabilities.resume
        model = self.options.model or (
            continuing.session_model(self.workspace, self.run) if resumed else None
        )
        return prompt, replace(
            context, run_id=self.run.id, run_dir=self.run_dir, model=model, options=options,
            session_id=self.run.session_id if resumed else None, resume_session=resumed,
            stall_timeout_ms=int(self.options.stall_timeout_s * 1000),
        )  # fmt: skip

    # -- Recorder: what a crash must not lose -----------------------------------------------------

    def launched(self, start: str, session_id: str | None) -> None:
        beat(self.run_dir)
        with self.store.write():
            process = {**self.store.runs.get(self.run.id).process, OPEN_START: start}
            self.run = self.store.runs.update(self.run.id, process=process, session_id=session_id)

    def engine_changed(self, name: str, why: str) -> None:
        self.engine = name
        self.run = self.store.runs.update(self.run.id, engine=name, engine_why=why, session_id=None)

    def returned(self, index: int, record: RoundRecord) -> None:
        calls = self.wrapper.rounds if self.wrapper else []
        usage = sum((c.result.token_usage for c in calls if c.result.token_usage), TokenUsage())
        with self.store.write():
            self.store.runs.add_round(self.run.id, index, self.redactor.redact_all(record.to_dict()))
            process = without_call(self.store.runs.get(self.run.id))
            self.run = self.store.runs.update(
                self.run.id, process=process, end=record.left, rounds=index + 1, usage=usage,
                session_id=record.result.session_id or self.run.session_id,
            )  # fmt: skip

    def _heard(self, metadata: Mapping[str, Any]) -> None:
        """Note what recovery and resume need of a call that may never return: the engine's session and model."""
        noted: dict[str, Any] = {}
        session = metadata.get("session_id")
        if model := metadata.get("model"):
            noted[continuing.MODEL] = str(model)
        if pid := metadata.get("pid"):
            from codeframe.core.engine_session import session_note

            with contextlib.suppress(ProcessLookupError):  # it has ended, and all it left with it
                noted[ENGINE] = session_note(pid)
        if not noted and not session:
            return
        with contextlib.suppress(CodeFrameError), self.store.write():
            run = self.store.runs.get(self.run.id)
            if OPEN_START in run.process:  # else this was told after the call
                session = str(session) if session else run.session_id
                self.store.runs.update(run.id, process={**run.process, **noted}, session_id=session)

    # -- the end ----------------------------------------------------------------------------------

    def _cancelled(self) -> AgentResult:
        from codeframe.core.agent_adapter import AgentResultStatus

        return AgentResult(
            AgentResultStatus.FAILED, error="Stopped on request.", error_class=ErrorClass.CANCELLED
        )

    def _conclude(self, result: AgentResult) -> Run:
        """The verdict transaction: run, task, blocker and the leftovers of earlier runs change together."""
        wrapper = self.wrapper
        rounds = wrapper.rounds if wrapper else []
        report = wrapper.report if wrapper else None
        adapter_class = self.engines.adapter_class(self.engine)
        decided = verdict.decide(
            result,
            stall_action=self.options.stall_action,
            login_hint=getattr(adapter_class, "login_hint", ""),
        )
        changed = any(r.changed for r in rounds)
        if not any(r.moved for r in rounds):
            self.history.forget()
        done = decided.run is RunStatus.COMPLETED
        leftover = Leftover.PENDING if changed and not done else Leftover.NONE
        verification = report.status if report else ("unverified" if done else None)
        if report is not None and report.status == "failed":
            continuing.keep_feedback(self.run_dir, self.redactor.redact(report.feedback()))
        evidence = {
            "changed": changed,
            "notes": wrapper.notes if wrapper else [],
            "gates": report.to_evidence() if report else None,
            "stopped_by": self.stop.reason,
            "commits": [c for r in rounds for c in r.commits],
            **(self.integrity.evidence(asked=bool(wrapper and wrapper.asked)) if self.integrity else {}),
        }
        evidence = self.redactor.redact_all(evidence)
        with self.store.write():
            if done:
                continuing.accept(self.workspace, self.run)
            elif decided.run is RunStatus.BLOCKED:
                continuing.settle_blockers(self.workspace, self.run)
            else:
                continuing.settle_overcome(self.workspace, self.run, result.error_class)
            return self.store.runs.finish(
                self.run.id, decided.run, decided.task, blocker=decided.blocker, leftover=leftover,
                verification=verification, error=result.error, error_class=result.error_class,
                summary=result.summary, usage=result.token_usage or TokenUsage(), duration_ms=result.duration_ms,
                session_id=result.session_id or self.run.session_id, evidence=evidence,
            )  # fmt: skip

    def _give_up(self, error: BaseException) -> None:
        """CodeFrame itself failed: close the run so that the task is free, and keep what the engine did."""
        try:
            run = self.store.runs.get(self.run.id)
            if run.status is not RunStatus.RUNNING:
                return
            refused = isinstance(error, CodeFrameError)
            words = f"{type(error).__name__}: {error}"
            if isinstance(error, CodeFrameError):
                words = f"{error.problem} {error.hint}".strip()
            beat(self.run_dir)
            try:
                run = close_open_call(self.workspace, self.snapshots, run)
            except (CodeFrameError, OSError):
                pass  # it stays open, and is closed once the repository is whole again
            done = self.store.runs.rounds(run.id)
            is_open = OPEN_START in run.process
            changed = is_open or any(r.get("changed") for r in done)
            began = is_open or bool(done)
            self.store.runs.finish(
                run.id, RunStatus.FAILED, TaskStatus.READY, error=words,
                error_class=ErrorClass.CRASHED if began or not refused else ErrorClass.SPAWN_FAILED,
                leftover=Leftover.PENDING if changed else Leftover.NONE,
                evidence={"changed": changed, "internal_error": words},
            )  # fmt: skip
        except CodeFrameError:
            pass  # the first error is the one to show; the next command's recovery closes the run

    # -- events -----------------------------------------------------------------------------------

    def _consume(self, wrapper: VerificationWrapper) -> None:
        for event in wrapper.stream_events():
            self._publish(event)

    def _publish(self, event: AgentEvent) -> None:
        if self._log is not None:
            self._log.add(event)
        self._heard(event.metadata)
        coarse = event.type == "error" or event.metadata.get("source") == "codeframe"
        if coarse:  # the transcript has the rest (rule 8.2)
            with contextlib.suppress(CodeFrameError):  # what cannot be told of must not end the run
                self.store.events.add(event.type, event.message, run_id=self.run.id, task_id=self.run.task_id)
        if self.on_event is not None:
            self.on_event(event)

    def _say(self, text: str) -> None:
        self._publish(AgentEvent("progress", text, metadata={"source": "codeframe"}))
