"""The contract between CodeFrame and a coding agent. Read this file first to add an engine.

An adapter inherits nothing: any object with these members is one. It runs one engine call at a
time, says what happens through `stream_events()`, and returns what the engine reported. What the
engine *changed* is measured by CodeFrame from git snapshots, never taken from the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from codeframe.core.models import ErrorClass, TokenUsage

__all__ = [
    "AgentAdapter",
    "AgentContext",
    "AgentEvent",
    "AgentResult",
    "AgentResultStatus",
    "Capabilities",
    "Unenforced",
]

DEFAULT_TIMEOUT_MS = 3_600_000


class AgentResultStatus(StrEnum):
    """How an engine call ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    TIMEOUT = "timeout"


class Capabilities(NamedTuple):
    """What an engine can do, declared on the adapter class (rule 3.2).

    `terminal_signal` is "event" when a good end is always announced in the stream, "exit" when
    only the exit status tells. Without `structured_verdict` the verdict is asked for in words: as a fenced
    block, or with `verdict_line` as a bare line, for engines that take any block for an edit.
    """

    description: str = ""
    resume: bool = False
    preassigned_session: bool = False
    structured_verdict: bool = False
    stdin_prompt: bool = False
    cost: bool = False
    terminal_signal: str = "exit"
    verdict_line: bool = False


class Unenforced(NamedTuple):
    """What an engine cannot hold its agent to (rule 5.7): under which options of a run, and what it is."""

    options: Mapping[str, str]
    words: str

    def __str__(self) -> str:
        return f"{', '.join(f'{name} {value}' for name, value in self.options.items())}: {self.words}"


def not_enforced(declared: Iterable[Unenforced], options: Mapping[str, Any]) -> tuple[str, ...]:
    """What of it a run with these options (`AgentContext.options`) has to be told."""
    switch = {True: "on", False: "off"}
    given = {name: switch[value] if isinstance(value, bool) else value for name, value in options.items()}
    return tuple(str(each) for each in declared if each.options.items() <= given.items())


@dataclass(frozen=True)
class AgentContext:
    """What an engine may need to know beside the prompt.

    `relevant_files` are paths relative to the workspace; `file_contents` maps such a path to text.
    `attempt` is which run of the task this is (0 = first), `round` the engine call within the run.
    `run_dir` is where the adapter keeps its transcript; None keeps none. Times are milliseconds.
    """

    task_id: str
    task_title: str
    task_description: str = ""
    prd_content: str = ""
    tech_stack: str = ""
    project_preferences: str = ""
    relevant_files: tuple[str, ...] = ()
    file_contents: Mapping[str, str] = field(default_factory=dict)
    blocker_history: tuple[str, ...] = ()
    dependency_context: str = ""
    verification_gates: tuple[str, ...] = ()
    attempt: int = 0
    previous_errors: tuple[str, ...] = ()
    round: int = 0
    session_id: str | None = None
    resume_session: bool = False
    run_id: str = ""
    run_dir: Path | None = None
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    stall_timeout_ms: int | None = None


@dataclass(frozen=True)
class AgentResult:
    """What came back from one engine call, as the engine and its process told it."""

    status: AgentResultStatus
    files_modified: tuple[str, ...] = ()
    files_created: tuple[str, ...] = ()
    files_deleted: tuple[str, ...] = ()
    summary: str = ""
    error: str | None = None
    error_class: ErrorClass | None = None
    blocker_question: str | None = None
    token_usage: TokenUsage | None = None
    duration_ms: int = 0
    session_id: str | None = None
    already_satisfied: bool = False
    retry_after_s: float | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class AgentEvent:
    """One thing that happened. `type` is progress, file_changed, command_run, output or error.

    Not to be changed once made; that nothing enforces it halves the time of making one, and a flood makes millions.
    """

    type: str
    message: str
    timestamp: datetime = field(default_factory=partial(datetime.now, UTC))
    metadata: Mapping[str, Any] = field(default_factory=dict)


def used_so_far(usage: TokenUsage) -> AgentEvent:
    """The event by which an adapter tells, in the middle of `execute`, what this call has used up: it has no message
    and is for the budget alone."""
    return AgentEvent("progress", "", metadata={"usage": asdict(usage)})


@runtime_checkable
class AgentAdapter(Protocol):
    """A coding agent CodeFrame can drive.

    Optional members, looked up where present: `cancel()` (thread-safe, makes `execute` return
    soon), and on the class `capabilities: Capabilities`,
    `requirements() -> dict[str, bool]` (what must be there -> is it), `commands: tuple[str, ...]` (names its program
    has on PATH, best first; with it `--version` prints the version), `tested: str` (the version it was tried on),
    `unenforced: tuple[Unenforced, ...]`, `sandbox_trouble() -> tuple[str, str] | None` (what is wrong with the sandbox
    that it works in, and what to type; starts a process), `takes_arguments: bool` (those of `engine_args`, which are
    in `context.options`),
    `run_defaults: Mapping[str, Any]` (fields of RunOptions that it does better with, where nobody says
    otherwise), `refusal(workspace, model) -> CodeFrameError | None` (why a run with this model, None where none
    was chosen, must not start; it executes nothing) and `project_config: tuple[str, ...]` (files and folders of
    a project, relative to it, that the
    engine executes something of by itself: they have to be trusted, rule 9.1).
    """

    @property
    def name(self) -> str:
        """The name people type after --engine."""
        ...

    @property
    def requires_api_key(self) -> dict[str, str]:
        """Environment variables that must be set -> what each is for. Empty when a login is enough."""
        ...

    def execute(
        self,
        task_prompt: str,
        workspace_path: Path,
        context: AgentContext,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> AgentResult:
        """Run the engine once in `workspace_path`, at most `timeout_ms` milliseconds.

        Never raises for what an engine does; a failure is a result.
        """
        ...

    def stream_events(self) -> Iterator[AgentEvent]:
        """Events of the current (or next) `execute`; ends when it returns. One consumer."""
        ...
