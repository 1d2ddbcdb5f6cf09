"""The progress of a run as plain lines on stderr: what CodeFrame does, and the engine's own last words."""

from __future__ import annotations

import time

from codeframe.cli.output import clean, note
from codeframe.core.agent_adapter import AgentEvent
from codeframe.core.models import Run, Task

WIDTH = 160


class Progress:
    """Prints events as they come; safe to call from another thread."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def begin(self, task: Task, run: Run) -> None:
        """Say what starts, with which engine and why."""
        self._line(
            f"Task {task.id[:8]} “{task.title}”: run {run.id[:8]} with {run.engine} ({run.engine_why})."
        )

    def event(self, event: AgentEvent) -> None:
        """One line per event; the marks are: = ours, > the engine's words, $ command, ~ file, ! error."""
        ours = event.metadata.get("source") == "codeframe"
        marks = {"output": ">", "command_run": "$", "file_changed": "~", "error": "!", "progress": "."}
        mark = "=" if ours else marks.get(event.type, ".")
        text = " ".join(clean(event.message).split())
        if text:
            self._line(f"{mark} {text}")

    def _line(self, text: str) -> None:
        elapsed = int(time.monotonic() - self._began)
        text = clean(text)
        text = text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
        note(f"{elapsed // 60:02d}:{elapsed % 60:02d} {text}")
