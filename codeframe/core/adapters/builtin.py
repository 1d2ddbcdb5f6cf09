"""The built-in engine, `built-in` or `react`: what the registry and the runtime see of it.

One call of it is in `builtin_call.py`. That and all it needs is imported when it is called: who lists
the engines does not pay for the agent and its tools.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from codeframe.core.adapters.event_stream import EventStream
from codeframe.core.agent_adapter import (
    DEFAULT_TIMEOUT_MS,
    AgentContext,
    AgentEvent,
    AgentResult,
    Capabilities,
    Unenforced,
    not_enforced,
)
from codeframe.core.models import ErrorClass

if TYPE_CHECKING:
    from codeframe.adapters.llm.base import LLMProvider
    from codeframe.core.adapters.builtin_call import Caller

_ENVIRONMENT = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")


class BuiltInReactAdapter:
    """Needs a key for the API, or the address of a server that speaks it (see docs/engines/built-in.md)."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        description="CodeFrame's own agent, on the Anthropic Messages API (also called react)",
        resume=True,
        preassigned_session=True,
        structured_verdict=True,
        terminal_signal="event",
    )
    unenforced: ClassVar[tuple[Unenforced, ...]] = (
        Unenforced(
            {"autonomy": "full"},
            "this engine's file tools stay inside the workspace all the same",
        ),
        Unenforced(
            {"network": "off"},
            "there are no web tools; what shell commands reach is not enforced",
        ),
    )
    install_hint: ClassVar[str] = (
        "Set one: export ANTHROPIC_API_KEY=..., or for a server of your own export ANTHROPIC_BASE_URL=http://..."
    )
    login_hint: ClassVar[str] = (
        "Set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL to a server that speaks the Messages API"
    )

    def __init__(
        self, provider: Callable[[], LLMProvider] | None = None, max_steps: int | None = None
    ) -> None:
        """`provider` makes the model provider of one engine call; by default that of the Anthropic API."""
        self._provider, self._max_steps = provider, max_steps
        self._events = EventStream()
        self._cancel = threading.Event()

    @cached_property
    def _caller(self) -> Caller:
        from codeframe.core.adapters.builtin_call import Caller

        return Caller(self.name, self._provider, self._max_steps)

    @property
    def name(self) -> str:
        """The name people type after --engine."""
        return "built-in"

    @property
    def requires_api_key(self) -> dict[str, str]:
        """No variable must be set: one of several will do, see `requirements`."""
        return {}

    @classmethod
    def requirements(cls) -> dict[str, bool]:
        """What must be there -> is it."""
        return {" or ".join(_ENVIRONMENT): any(map(os.environ.get, _ENVIRONMENT))}

    def stream_events(self) -> Iterator[AgentEvent]:
        """Events of the current or next `execute`; see AgentAdapter."""
        return iter(self._events)

    def cancel(self) -> None:
        """Make the running `execute`, or else the next one, return soon as cancelled. From any thread."""
        self._cancel.set()

    def execute(
        self,
        task_prompt: str,
        workspace_path: Path,
        context: AgentContext,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> AgentResult:
        """Run the agent once; see AgentAdapter."""
        started = time.monotonic()
        self._events.open()
        try:
            for notice in not_enforced(self.unenforced, context.options) if context.round == 0 else ():
                self._events.put(AgentEvent("progress", notice, metadata={"notice": True}))
            workspace = Path(os.path.abspath(workspace_path))
            deadline = started + timeout_ms / 1000
            result = self._caller.call(task_prompt, workspace, context, self._cancel, deadline, self._events)
        finally:
            self._events.close()
        if result.error_class is ErrorClass.CANCELLED:
            self._cancel.clear()  # used up; one that came too late for this call counts for the next
        return replace(result, duration_ms=int((time.monotonic() - started) * 1000))
