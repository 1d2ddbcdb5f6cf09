"""The progress of a run on stderr: a plain line for each event; on a terminal, a line that shows it lives."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from types import TracebackType
from typing import Self

from codeframe.cli.output import MARKS, clean, note
from codeframe.core.agent_adapter import AgentEvent
from codeframe.core.models import Run, Task

WIDTH = 160
_TICK_S = 0.5
_CLEAR = "\r\x1b[2K"


class Progress:
    """Prints events as they come; safe to call from another thread. Used as a context: at its end nothing
    that moves is left on the terminal."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._live = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._engine = ""
        self._files = self._commands = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        if self._live:
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._live:
            self._ticker.join()
            self._draw("")

    def begin(self, task: Task, run: Run) -> None:
        """Say what starts, with which engine and why."""
        self._line(
            f"Task {task.id[:8]} “{task.title}”: run {run.id[:8]} with {run.engine} ({run.engine_why})."
        )
        self._engine = run.engine

    def event(self, event: AgentEvent) -> None:
        """One line per event; what its mark means stands at `output.MARKS`."""
        ours = event.metadata.get("source") == "codeframe"
        text = " ".join(clean(event.message).split())
        if not text:
            return
        self._files += event.type == "file_changed"
        self._commands += event.type == "command_run"
        self._line(f"{MARKS['cf'] if ours else MARKS.get(event.type, '.')} {text}")

    def _line(self, text: str) -> None:
        text = f"{self._elapsed()} {clean(text)}"
        with self._lock:
            if self._live:
                self._draw("")
            note(text if len(text) <= WIDTH else text[: WIDTH - 1] + "…")

    def _tick(self) -> None:
        while not self._over.wait(_TICK_S):
            both = ((self._files, "file"), (self._commands, "command"))
            counts = [f"{n} {what}{'s' if n != 1 else ''}" for n, what in both if n]
            with self._lock:
                self._draw(" · ".join([f"{self._elapsed()} {self._engine}", *counts, "Ctrl-C stops it"]))

    def _draw(self, text: str) -> None:
        room = shutil.get_terminal_size().columns - 1
        try:
            sys.stderr.write(_CLEAR + (text[:room]))
            sys.stderr.flush()
        except OSError:
            self._live = False  # nobody reads it any more, which is no reason to end

    def _elapsed(self) -> str:
        elapsed = int(time.monotonic() - self._began)
        return f"{elapsed // 60:02d}:{elapsed % 60:02d}"
