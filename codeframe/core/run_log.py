"""What was told about a run while it ran, line by line: written by the run, read or followed from any terminal.

Kept as `events.jsonl` beside the raw transcript, with the same bounds. `s` of a record is the event's type,
or "cf" for CodeFrame's own words.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from codeframe.core.adapters.transcript import TranscriptWriter, files_of, read_transcript
from codeframe.core.agent_adapter import AgentEvent
from codeframe.core.lines import Line as RawLine
from codeframe.core.redaction import Redactor

MAX_BYTES = 64 * 1024 * 1024
OURS = "cf"
TOOLS = frozenset({"command_run", "file_changed", "progress"})
TEXT = frozenset({"output"})
_NAME = "events.jsonl"
_POLL_S = 0.2


class Line(NamedTuple):
    """`when` is ISO time in UTC, `kind` an event's type or OURS."""

    when: str
    kind: str
    text: str


class RunLog:
    """Writes the log of one run; from any thread."""

    def __init__(self, run_dir: Path, redactor: Redactor) -> None:
        self._writer = TranscriptWriter(run_dir / _NAME, redactor, max_bytes=MAX_BYTES)

    def add(self, event: AgentEvent) -> None:
        """Keep one event's message."""
        ours = event.metadata.get("source") == "codeframe"
        self._writer.write(OURS if ours else event.type, RawLine(event.message))

    def close(self) -> None:
        """Write what is left. May be called twice."""
        self._writer.close()


def read_log(run_dir: Path) -> Iterator[Line]:
    """The lines so far, oldest first; none for a run that has no log."""
    return map(_line, read_transcript(run_dir / _NAME))


def follow_log(run_dir: Path, is_over: Callable[[], bool]) -> Iterator[Line]:
    """The lines so far and then each as it comes, until `is_over` and all is read."""
    read: dict[int, int] = {}  # inode -> how far: the files change their names when the log is long
    while True:
        over = is_over()  # before reading: what was written until then is in the files
        for file in files_of(run_dir / _NAME):
            try:
                stream = file.open("rb")
            except FileNotFoundError:
                continue
            with stream:
                inode = os.fstat(stream.fileno()).st_ino
                stream.seek(read.get(inode, 0))
                for raw in stream:
                    if not raw.endswith(b"\n"):
                        break  # still being written
                    read[inode] = read.get(inode, 0) + len(raw)
                    try:
                        record = json.loads(raw)
                    except ValueError:
                        continue
                    yield _line(record)
        if over:
            return
        time.sleep(_POLL_S)


def _line(record: dict[str, Any]) -> Line:
    return Line(str(record.get("t", "")), str(record.get("s", "")), str(record.get("line", "")))
