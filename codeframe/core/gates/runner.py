"""Runs one gate: a process, its log on disk in bounded size, and what its kind reads from it."""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from codeframe.core.gates.kind import Kind, Missing, Reading, Tool
from codeframe.core.gates.model import Failure, Gate, GateOutcome, GateResult
from codeframe.core.gates.project import Project
from codeframe.core.gates.text import clip
from codeframe.core.gates.tree import tail_of
from codeframe.core.lines import Line
from codeframe.core.process import EndedBy, Limits, ProcessOutcome, run_process
from codeframe.core.redaction import Redactor, StreamRedactor

LOG_HEAD_CHARS = 64 * 1024 * 1024
LOG_TAIL_CHARS = 1024 * 1024
_BATCH_CHARS = 32 * 1024  # looked through for secrets at once: line by line it would cost ten times as much
_SHORT_TAIL = 4096

Command = Callable[[Path], tuple[str, ...]]  # scratch folder -> argv


def not_run(gate: Gate, missing: Missing) -> GateResult:
    """The result of a gate that cannot run here."""
    return GateResult(gate, gate.command, GateOutcome.TOOL_MISSING, note=missing.why)


def run_gate(
    gate: Gate,
    kind: Kind,
    project: Project,
    tool: Tool,
    command: Command,
    log: Path,
    *,
    marker: str,
    cancel: threading.Event | None,
    timeout_s: float,
) -> GateResult:
    """Runs `command`, which starts `tool`, for at most `timeout_s` seconds; all it prints goes to `log`.
    Secrets are taken out first, and out of what its kind reads, names of tests and files excepted:
    they are compared, and the repository has them anyway (rule 9.2).

    Caches and reports of the tools go to a temporary folder that is removed: a gate leaves nothing
    of its own in the project's tree.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    redactor = Redactor(project.env)
    with tempfile.TemporaryDirectory(prefix="codeframe-gate-") as folder:
        scratch = Path(folder)
        argv = command(scratch)
        env = project.env | {
            "COVERAGE_FILE": str(scratch / ".coverage"),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis"),
        }
        with log.open("w", encoding="utf-8", errors="replace") as stream:
            writer = Log(stream, redactor=redactor)
            ended = run_process(
                argv,
                cwd=project.root,
                env=env,
                marker=marker,
                on_lines=writer.add,
                limits=Limits(timeout_s=timeout_s),
                cancel=cancel,
            )
            writer.finish()
        reading = _read(ended, kind, scratch, log, project.root, timeout_s)
    left = f"; {len(ended.survivors)} process(es) it left running were ended" if ended.survivors else ""
    return GateResult(
        gate=gate,
        command=argv,
        outcome=reading.outcome,
        exit_code=ended.exit_code if ended.ended_by is EndedBy.EXIT else None,
        failures=tuple(_safe(failure, redactor) for failure in reading.failures),
        passed=reading.passed,
        skipped=reading.skipped,
        comparable=reading.comparable,
        duration_ms=ended.duration_ms,
        output_path=log,
        output_tail=tail_of(log, _SHORT_TAIL),
        note=redactor.redact(reading.note + left).removeprefix("; "),
        plain_command=tool.argv,
    )


def _read(
    ended: ProcessOutcome, kind: Kind, scratch: Path, log: Path, root: Path, timeout_s: float
) -> Reading:
    if ended.ended_by is EndedBy.EXIT and ended.exit_code is not None:
        return kind.read(ended.exit_code, scratch, log, root)
    if ended.ended_by is EndedBy.SPAWN_FAILED:
        return Reading(GateOutcome.TOOL_MISSING, note=ended.error or "it could not be started")
    if ended.ended_by is EndedBy.CANCELLED:
        outcome, title = GateOutcome.FAILED, "stopped before it ended"
    else:
        outcome, title = GateOutcome.TIMEOUT, f"did not end within {timeout_s:g} s"
    return Reading(outcome, (Failure(title, title, clip(tail_of(log))),), comparable=False)


def _safe(failure: Failure, redactor: Redactor) -> Failure:
    key = failure.key if failure.key == failure.title else redactor.redact(failure.key)
    return replace(failure, key=key, detail=redactor.redact(failure.detail))


def out_of_time(gate: Gate, tool: Tool, why: str) -> GateResult:
    """The result of a gate for which no time was left, or that was stopped before it started."""
    failure = Failure(why, why)
    return GateResult(gate, tool.argv, GateOutcome.TIMEOUT, failures=(failure,), comparable=False)


class Log:
    """Writes lines as they come, without secrets where there is a `redactor`; after `head` characters only
    the last `tail` ones are kept."""

    def __init__(
        self,
        stream: TextIO,
        head: int = LOG_HEAD_CHARS,
        tail: int = LOG_TAIL_CHARS,
        redactor: Redactor | None = None,
    ) -> None:
        self._stream = stream
        self._room = head
        self._tail_room = tail
        self._redactor = StreamRedactor(redactor) if redactor else None
        self._batch: list[str] = []
        self._batch_size = 0
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._dropped = 0

    def add(self, _stream: str, lines: Iterable[Line]) -> None:
        """Takes lines of either output."""
        for line in lines:
            self._add(line)

    def _add(self, line: Line) -> None:
        text = (
            f"{line.text} [... {line.dropped_bytes} bytes left out]\n"
            if line.dropped_bytes
            else f"{line.text}\n"
        )
        if self._room > 0:
            self._room -= len(text)
            self._batch.append(text)
            self._batch_size += len(text)
            if self._batch_size >= _BATCH_CHARS or self._room <= 0:
                self._write(self._batch)
                self._batch, self._batch_size = [], 0
            return
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size > self._tail_room and len(self._tail) > 1:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._dropped += gone

    def finish(self) -> None:
        """Writes what was kept of the end."""
        self._write(self._batch)
        if self._dropped:
            self._stream.write(f"[... {self._dropped} characters left out ...]\n")
            if self._redactor is not None:
                self._redactor.skip()
        self._write(self._tail)

    def _write(self, lines: Iterable[str]) -> None:
        text = "".join(lines)
        self._stream.write(self._redactor.redact(text) if self._redactor else text)
