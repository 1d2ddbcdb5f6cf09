"""What an engine's stream has said so far: filled in by `parse`, read by `finish`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from codeframe.core.adapters.verdict_report import Report
from codeframe.core.agent_adapter import AgentEvent
from codeframe.core.models import ErrorClass, TokenUsage


class Terminal(NamedTuple):
    """The end as an engine announced it. `error` None is success; `retry_after_s` in seconds."""

    error: str | None = None
    error_class: ErrorClass | None = None
    retry_after_s: float | None = None


@dataclass(eq=False, repr=False)  # what is left out is work at each start
class Heard:
    """What one launch has told.

    `open_tools` are ids of commands the engine has running; `files` maps a path, relative to the
    workspace where it is inside, to "created", "modified" or "deleted"; `text` is the final answer.
    """

    workspace: Path
    session_id: str | None = None
    terminal: Terminal | None = None
    report: Report | None = None
    text: str = ""
    usage: TokenUsage | None = None
    open_tools: set[str] = field(default_factory=set)
    files: dict[str, str] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)

    def relative(self, path: str) -> str:
        """`path` as seen from the workspace; unchanged where it lies outside. Follows no links."""
        for root in (self.workspace, Path(os.path.realpath(self.workspace))):
            rest = os.path.relpath(os.path.join(root, path), root)
            if rest != os.pardir and not rest.startswith(os.pardir + os.sep):
                return rest
        return path

    def file(self, path: str, change: str) -> AgentEvent:
        """Note one changed file and make its event. A file that was created stays so when edited later."""
        name = self.relative(path)
        if not (change == "modified" and self.files.get(name) == "created"):
            self.files[name] = change
        return AgentEvent("file_changed", name, metadata={"change": change})
