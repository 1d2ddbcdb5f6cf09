"""An engine that is a command line printing JSON lines: all but build, parse and finish (rules 4.5, 5)."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from codeframe.core.adapters.event_stream import EventStream
from codeframe.core.adapters.heard import Heard, Terminal
from codeframe.core.adapters.json_values import object_in
from codeframe.core.adapters.transcript import TRANSCRIPT_NAME, TranscriptWriter
from codeframe.core.adapters.verdict_report import parse_fenced
from codeframe.core.agent_adapter import (
    DEFAULT_TIMEOUT_MS,
    AgentContext,
    AgentEvent,
    AgentResult,
    AgentResultStatus,
    Capabilities,
    Unenforced,
    not_enforced,
)
from codeframe.core.engine_arguments import with_arguments
from codeframe.core.lines import Line
from codeframe.core.models import ErrorClass
from codeframe.core.process import EndedBy, Limits, OpenStdin, ProcessOutcome, run_process
from codeframe.core.redaction import Redactor

# What every engine gets (rule 5.5): nothing that waits for a person, colours a pipe or takes git's locks.
ENV_ADD: Mapping[str, str] = {
    "NO_COLOR": "1",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
# Dropped: what would force colours, and what ties git to one repository (`git rev-parse
# --local-env-vars`, set where we run inside a git hook). An activated virtual environment stays: the
# engine is to find what the person's own shell finds.
ENV_DROP = frozenset(
    {
        "FORCE_COLOR",
        "CLICOLOR_FORCE",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
MAX_TEXT_CHARS = 64 * 1024
MAX_MESSAGE_CHARS = 8 * 1024
MAX_STDERR_CHARS = 2000


class Launch(NamedTuple):
    """How to start an engine: what `build` returns.

    `stdin` is sent, then closed; one that stays open is written to by `parse`; None is /dev/null. `session_id`
    is the session as far as it is known before the start. `notices` are told to the person. `farewell` says into an
    open stdin that the engine has to stop, before a signal does.
    """

    argv: tuple[str, ...]
    stdin: bytes | OpenStdin | None = None
    env_add: Mapping[str, str] = {}
    env_drop: frozenset[str] = frozenset()
    session_id: str | None = None
    notices: tuple[str, ...] = ()
    farewell: Callable[[], None] | None = None


class SubprocessAdapter(ABC):
    """Base of adapters for command lines that print one JSON object a line.

    A subclass sets `name`, `capabilities` and what differs of the class attributes, and writes `build`
    and `parse`; `finish` is there to be extended. It need not be used: an adapter inherits nothing.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    polite_signal: ClassVar[signal.Signals] = signal.SIGTERM
    first_event_s: ClassVar[float | None] = 120.0
    linger_s: ClassVar[float] = 15.0  # from the announced end to the exit
    env_add: ClassVar[Mapping[str, str]] = {}
    env_drop: ClassVar[frozenset[str]] = frozenset()
    commands: ClassVar[tuple[str, ...]] = ()  # names the program has on PATH, best first
    tested: ClassVar[str] = ""  # the version all of this was tried on
    unenforced: ClassVar[tuple[Unenforced, ...]] = ()
    takes_arguments: ClassVar[bool] = True  # those of `engine_args`

    def __init__(self) -> None:
        self._events = EventStream()
        self._cancel = threading.Event()
        self._redactor = Redactor({})
        self.begin(Path())

    @property
    @abstractmethod
    def name(self) -> str:
        """The name people type after --engine."""

    @property
    def requires_api_key(self) -> dict[str, str]:
        """Nothing must be set: engines bring their own login."""
        return {}

    @classmethod
    def requirements(cls) -> dict[str, bool]:
        """Whether the program is there. It is not started."""
        return {f"{' or '.join(cls.commands)} on PATH": any(map(shutil.which, cls.commands))}

    def begin(self, workspace: Path) -> None:
        """Forget the last launch; a subclass that keeps more than `heard` extends this."""
        self.heard = Heard(workspace)

    @abstractmethod
    def build(self, prompt: str, workspace: Path, context: AgentContext) -> Launch:
        """The command for one engine call."""

    @abstractmethod
    def parse(self, obj: dict[str, Any]) -> Iterable[AgentEvent]:
        """Take in one object of the stream: update `self.heard`, return events. Must stand any input."""

    def read(self, stream: str, text: str) -> Iterable[AgentEvent]:
        """Take in one whole line. Here what is no JSON object, or came on stderr, is for the transcript only."""
        if stream != "stdout" or (obj := object_in(text)) is None:
            return ()
        return self.parse(obj)

    def finish(self, outcome: ProcessOutcome) -> AgentResult:
        """The verdict, from how the process ended and what was heard, in the order of rule 4.5."""
        if (stopped := self._stopped(outcome)) is not None:
            return stopped
        terminal = self.heard.terminal
        if terminal is None and self.capabilities.terminal_signal == "exit" and outcome.exit_code == 0:
            terminal = Terminal()
        if terminal is None:
            how = _how_it_ended(outcome)
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
        if report.status == "failed":
            error = report.summary or f"{self.name} reports that it failed"
            return self.result(AgentResultStatus.FAILED, outcome, summary=report.summary, error=error)
        if report.status == "blocked":
            question = report.question or report.summary or f"{self.name} is blocked and does not say why"
            return self.result(AgentResultStatus.BLOCKED, outcome, summary=report.summary, question=question)
        return self.result(
            AgentResultStatus.COMPLETED,
            outcome,
            summary=report.summary,
            already_satisfied=report.already_satisfied,
        )

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

    def execute(
        self,
        task_prompt: str,
        workspace_path: Path,
        context: AgentContext,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> AgentResult:
        """Run the engine once; see AgentAdapter."""
        self._events.open()
        try:
            workspace = Path(os.path.abspath(workspace_path))
            result = self._execute(task_prompt, workspace, context, timeout_ms)
        finally:
            self._events.close()
        if result.error_class is ErrorClass.CANCELLED:
            self._cancel.clear()  # used up; one that came too late for this call counts for the next
        return result

    def stream_events(self) -> Iterator[AgentEvent]:
        """Events of the current or next `execute`; see AgentAdapter."""
        return map(self._shown, iter(self._events))

    def cancel(self) -> None:
        """Make the running `execute`, or else the next one, return soon as cancelled. From any thread."""
        self._cancel.set()

    def _execute(self, prompt: str, workspace: Path, context: AgentContext, timeout_ms: int) -> AgentResult:
        self.begin(workspace)
        if self._cancel.is_set():
            return self.finish(ProcessOutcome(EndedBy.CANCELLED))
        launch = self.build(prompt, workspace, context)
        own = context.options.get("engine_args", {}).get(self.name, ())
        launch = launch._replace(argv=with_arguments(launch.argv, own))
        self.heard.session_id = launch.session_id
        env = self._environment(workspace, launch)
        self._redactor = Redactor(env)
        # Once in a run: its later rounds are no news.
        limits = not_enforced(self.unenforced, context.options) if context.round == 0 else ()
        for notice in (*launch.notices, *limits):
            self._say(AgentEvent("progress", notice, metadata={"notice": True}))
        transcript = None
        if context.run_dir is not None:
            transcript = TranscriptWriter(
                context.run_dir / TRANSCRIPT_NAME, self._redactor, round_no=context.round
            )
        log = transcript.write if transcript is not None else _nowhere
        done = threading.Event()

        def on_lines(stream: str, lines: list[Line]) -> None:
            log("out" if stream == "stdout" else "err", *lines)
            events: list[AgentEvent] = []
            for text, dropped in lines:
                if dropped:
                    continue
                try:
                    events += self.read(stream, text)
                except Exception as error:
                    # A line nobody foresaw must not cost the run whose work is already on disk.
                    log("cf", Line(f"this line was not understood: {error!r}"))
            self._say(*events)
            if self.heard.terminal is not None:
                done.set()
            elif done.is_set():
                done.clear()

        def on_start(pid: int) -> None:
            log("cf", Line(f"process {pid}: {shlex.join(launch.argv)[:MAX_MESSAGE_CHARS]}"))
            metadata = {"pid": pid, "session_id": launch.session_id}
            self._say(AgentEvent("progress", f"{self.name} started", metadata=metadata))

        try:
            outcome = run_process(
                launch.argv,
                cwd=workspace,
                env=env,
                marker=f"{context.run_id or 'adhoc'}/{context.round}-{uuid.uuid4().hex[:8]}",
                on_lines=on_lines,
                stdin=launch.stdin,
                limits=Limits(
                    timeout_s=timeout_ms / 1000,
                    stall_s=context.stall_timeout_ms / 1000 if context.stall_timeout_ms else None,
                    first_output_s=self.first_event_s,
                    linger_s=self.linger_s,
                ),
                cancel=self._cancel,
                polite_signal=self.polite_signal,
                busy=lambda: bool(self.heard.open_tools),
                finished=done,
                on_start=on_start,
                on_stop=launch.farewell,
            )
            log("cf", Line(_how_it_ended(outcome)))
        finally:
            if transcript is not None:
                transcript.close()
        result = self.finish(outcome)
        if result.error:
            self._say(AgentEvent("error", result.error))
        return result

    def _say(self, *events: AgentEvent) -> None:
        # Made presentable when somebody reads it: in a flood nobody does. Only what is long does not wait.
        self._events.put(*[e if len(e.message) <= MAX_MESSAGE_CHARS else self._shown(e) for e in events])

    def _shown(self, event: AgentEvent) -> AgentEvent:
        message = self._presentable(event.message)[:MAX_MESSAGE_CHARS]
        return event if message == event.message else replace(event, message=message)

    def _presentable(self, text: str) -> str:
        """`text` as it may be shown and stored: free of secrets (rule 9.2) and of what UTF-8 cannot hold.

        Cut it afterwards, not before: half a secret is not found.
        """
        return self._redactor.redact(text.encode("utf-8", "replace").decode())

    def _environment(self, workspace: Path, launch: Launch) -> dict[str, str]:
        return engine_environment(
            {**self.env_add, **launch.env_add, "PWD": str(workspace)}, self.env_drop | launch.env_drop
        )


def engine_environment(add: Mapping[str, str], drop: frozenset[str]) -> dict[str, str]:
    """The person's own environment as an engine gets it: ours for all engines, then `drop`, then `add`."""
    kept = {key: value for key, value in os.environ.items() if key not in ENV_DROP and key not in drop}
    return {**kept, **ENV_ADD, **add}


def _nowhere(stream: str, *lines: Line) -> None:
    """The log of a run that keeps none."""


def _how_it_ended(outcome: ProcessOutcome) -> str:
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
