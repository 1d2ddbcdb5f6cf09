"""The transcript of a run: every raw line an engine printed, with its time, redacted (rule 5.6)."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, NamedTuple

from codeframe.core.lines import Line
from codeframe.core.redaction import Redactor, StreamRedactor
from codeframe.core.safe_read import open_regular

TRANSCRIPT_NAME = "transcript.jsonl"
MAX_BYTES = 64 * 1024 * 1024
PENDING_BYTES = 1024 * 1024
FLUSH_S = 0.8


class _Batch(NamedTuple):
    """Lines that came together; `size` is their characters."""

    when: float
    stream: str
    lines: Sequence[Line]
    size: int


class TranscriptWriter:
    """Appends lines to `path` (mode 0600), at most `max_bytes` in all, head and tail kept.

    The head is `path` itself, half of the room. After it come two tail files, a quarter each, that take
    turns: the older one is dropped when the newer is full. What is written survives a kill of this
    process; a thread writes at least once a second, so no more than that is ever at stake.

    `write` may be called from any thread and is cheap: encoding and redaction happen when the lines are
    written out. While the tail turns, a flood faster than 1 MiB per write-out loses its middle before it
    is even encoded, counted in a line of its own: only its end would have been kept anyway.

    Each line is a JSON object: `t` ISO time in UTC, `s` "out", "err" or "cf" (our own words), `n` the
    round, `line` the text, and `dropped` (bytes) where a line was too long to keep whole.
    """

    def __init__(
        self, path: Path, redactor: Redactor, *, round_no: int = 0, max_bytes: int = MAX_BYTES
    ) -> None:
        self._redactor = redactor
        self._streams: dict[str, StreamRedactor] = {}
        self._round = round_no
        path.parent.mkdir(parents=True, exist_ok=True)
        self._head, self._older, self._newer = files_of(path)
        self._head_room = max_bytes // 2
        self._tail_room = max_bytes // 4
        self._pending: deque[_Batch] = deque()
        self._pending_size = 0
        self._skipped = 0
        self._adding = threading.Lock()  # guards the pending lines; held for microseconds
        self._writing = threading.Lock()  # guards the file; held while encoding
        self._in_tail = self._newer.exists()
        self._fd = _open(self._newer if self._in_tail else self._head)
        self._size = os.fstat(self._fd).st_size
        self._closing = threading.Event()
        self._flusher = threading.Thread(target=self._flush_often, name="transcript", daemon=True)
        self._flusher.start()

    def write(self, stream: str, *lines: Line) -> None:
        """Add lines of `stream` ("out", "err", "cf")."""
        batch = _Batch(time.time(), stream, lines, sum(len(text) for text, _ in lines))
        with self._adding:
            self._pending.append(batch)
            self._pending_size += batch.size
            if self._pending_size <= PENDING_BYTES:
                return
            if self._in_tail:
                while self._pending_size > PENDING_BYTES and len(self._pending) > 1:
                    gone = self._pending.popleft()
                    self._pending_size -= gone.size
                    self._skipped += len(gone.lines)
                return
        self.flush()  # the head loses nothing: whoever floods waits

    def flush(self) -> None:
        """Hand all that was written to the operating system."""
        with self._writing:
            with self._adding:
                batches, self._pending, self._pending_size = self._pending, deque(), 0
                skipped, self._skipped = self._skipped, 0
            if self._fd < 0:
                return
            if skipped:
                for stream in self._streams.values():
                    stream.skip()
                batches.appendleft(_ours(batches[0].when, f"{skipped} lines of a flood were not kept"))
            with contextlib.suppress(OSError):
                # A full disk must not take the engine's work with it: the transcript is what suffers.
                self._put(batches)

    def close(self) -> None:
        """Write what is left and close the file. May be called twice."""
        self._closing.set()
        self._flusher.join()
        self.flush()
        with self._writing:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _flush_often(self) -> None:
        while not self._closing.wait(FLUSH_S):
            self.flush()

    def _put(self, batches: Iterable[_Batch]) -> None:
        # A flood is millions of short lines. What can be done for many at once is: the look for secrets,
        # the encoding, the write. Records are put together by hand: json.dumps takes five times as long.
        for batch in batches:
            stream = self._streams.setdefault(batch.stream, StreamRedactor(self._redactor))
            if stream.in_key or self._redactor.may_change("\n".join([text for text, _ in batch.lines])):
                redact = stream.redact
                batch = batch._replace(lines=[Line(redact(text), dropped) for text, dropped in batch.lines])
            records = self._records(batch)
            data = "".join(records).encode("utf-8", "backslashreplace")
            if len(data) <= self._room():
                self._append(data)
            else:
                self._put_singly(record.encode("utf-8", "backslashreplace") for record in records)

    def _put_singly(self, records: Iterable[bytes]) -> None:
        """Where not all of them have room in the current file."""
        for data in records:
            if len(data) > self._room():
                self._next_file()
                if len(data) > self._tail_room:
                    lost = _ours(time.time(), f"{len(data)} bytes in one line were not kept")
                    data = "".join(self._records(lost)).encode()
            self._append(data)

    def _room(self) -> int:
        """How many bytes the current file still takes."""
        return (self._tail_room if self._in_tail else self._head_room) - self._size

    def _records(self, batch: _Batch) -> list[str]:
        clock = datetime.fromtimestamp(batch.when, UTC).isoformat(timespec="milliseconds")
        head = f'{{"t": "{clock}", "s": "{batch.stream}", "n": {self._round}'
        heads = {dropped: f'{head}, "dropped": {dropped}, "line": ' for _, dropped in batch.lines if dropped}
        heads[0] = f'{head}, "line": '
        return [f"{heads[dropped]}{encode_basestring(text)}}}\n" for text, dropped in batch.lines]

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._fd, view)
            self._size += written
            view = view[written:]

    def _next_file(self) -> None:
        os.close(self._fd)
        self._fd = -1
        if self._in_tail:
            os.replace(self._newer, self._older)
        self._in_tail = True
        self._fd = _open(self._newer)
        self._size = os.fstat(self._fd).st_size


def _ours(when: float, text: str) -> _Batch:
    return _Batch(when, "cf", (Line(text),), len(text))


def read_transcript(path: Path) -> Iterator[dict[str, Any]]:
    """The records of the transcript at `path` in order, oldest first (shape: see TranscriptWriter).

    A line cut by a crash is skipped; a transcript that does not exist has no records.
    """
    for file in files_of(path):
        try:
            stream = open_regular(file)
        except FileNotFoundError:
            continue
        with stream:
            for raw in stream:
                try:
                    record = json.loads(raw)
                except ValueError:
                    continue
                if isinstance(record, dict):
                    yield record


def files_of(path: Path) -> tuple[Path, Path, Path]:
    """The files of a transcript in order: head, older tail, newer tail. Not all of them need be there."""
    return path, path.with_suffix(".tail1.jsonl"), path.with_suffix(".tail2.jsonl")


def _open(file: Path) -> int:
    """Open for appending, at the start of a line even after a crash in the middle of one."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        os.write(fd, b"\n")
    return fd
