"""An engine that is a command line printing JSON lines: its environment, process, stream and transcript (rule 5)."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import threading
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from codeframe.core.adapters.engine_environment import engine_environment
from codeframe.core.adapters.engine_verdict import MAX_MESSAGE_CHARS, EngineVerdict, how_it_ended
from codeframe.core.adapters.event_stream import EventStream
from codeframe.core.adapters.heard import Heard
from codeframe.core.adapters.json_values import object_in
from codeframe.core.adapters.launch import Launch
from codeframe.core.adapters.transcript import TRANSCRIPT_NAME, TranscriptWriter
from codeframe.core.agent_adapter import (
    DEFAULT_TIMEOUT_MS,
    AgentContext,
    AgentEvent,
    AgentResult,
    Unenforced,
    not_enforced,
)
from codeframe.core.engine_arguments import with_arguments
from codeframe.core.lines import Line
from codeframe.core.models import ErrorClass
from codeframe.core.process import EndedBy, Limits, ProcessOutcome, run_process
from codeframe.core.redaction import Redactor


class SubprocessAdapter(EngineVerdict):
    """Base of adapters for command lines that print one JSON object a line.

    A subclass sets `name`, `capabilities` and what differs of the class attributes, and writes `build`
    and `parse`; `finish` is there to be extended. It need not be used: an adapter inherits nothing.
    """

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
        super().__init__()
        self._events = EventStream()
        self._cancel = threading.Event()
        self.begin(Path())

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
            log("cf", Line(how_it_ended(outcome)))
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

    def _environment(self, workspace: Path, launch: Launch) -> dict[str, str]:
        return engine_environment(
            {**self.env_add, **launch.env_add, "PWD": str(workspace)}, self.env_drop | launch.env_drop
        )


def _nowhere(stream: str, *lines: Line) -> None:
    """The log of a run that keeps none."""
