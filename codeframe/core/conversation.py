"""The conversation of one session: in memory as the model gets it, on disk line by line as it grows.

A session's file is JSON lines, mode 0600, only ever appended to, each line on disk before the next thing is
done: a header, then messages and, once it is settled, the model. After a kill at any moment it can go on: an
unfinished last line is cut off, a tool call without a result is answered "interrupted".
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from codeframe.adapters.llm.base import Block, Message, Model
from codeframe.core.redaction import Redactor

INTERRUPTED = (
    "Interrupted: the session was stopped before this call returned. It may have had its effect or part of "
    "it; look before you repeat it."
)
SESSIONS = "sessions"  # the folder of their files, in a workspace's state
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_FORMAT = 1
# Signed by the model: they go back as they came or not at all.
_SIGNED = frozenset({"thinking", "redacted_thinking"})


def forget(folder: Path, session_ids: Iterable[str]) -> None:
    """Delete the files of these sessions, where `folder` has them: other engines keep theirs elsewhere."""
    for session_id in session_ids:
        if _ID.fullmatch(session_id):
            (folder / f"{session_id}.jsonl").unlink(missing_ok=True)


class SessionLost(Exception):
    """The session cannot be had: unknown, damaged from the start, or its id is taken."""


class Conversation:
    """Messages in the form of the API, roles alternating. Secrets are taken out as they are added (rule 9.2).

    `model` is the one the session began with, None until `settle`. Not thread-safe.
    """

    def __init__(
        self, session_id: str, redactor: Redactor, file: int | None = None, path: Path = Path()
    ) -> None:
        """A conversation without words; use `begin` or `resume`. `file` is a descriptor that becomes its own."""
        self.session_id = session_id
        self.messages: list[Message] = []
        self.model: Model | None = None
        self._redactor = redactor
        self._file = file
        self._path = path

    @classmethod
    def begin(cls, folder: Path | None, session_id: str, redactor: Redactor, prompt: str) -> Conversation:
        """A new session that opens with `prompt`, kept in `folder` (None: in memory only).

        Raises SessionLost when its id is no id or is taken, OSError when it cannot be written.
        """
        path = _path(folder, session_id)
        if path is None:
            conversation = cls(session_id, redactor)
        else:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            try:
                conversation = cls(session_id, redactor, os.open(path, flags, 0o600), path)
            except FileExistsError:
                raise SessionLost(f"the session {session_id} exists already") from None
            _sync_folder(path.parent)
        conversation._keep({"session": session_id, "format": _FORMAT})
        conversation.say(prompt)
        return conversation

    @classmethod
    def resume(cls, folder: Path, session_id: str, redactor: Redactor) -> Conversation:
        """The session as far as it got. Raises SessionLost, OSError."""
        path = _path(folder, session_id)
        assert path is not None
        try:
            conversation = cls(
                session_id,
                redactor,
                os.open(path, os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC),
                path,
            )
        except FileNotFoundError:
            raise SessionLost(f"there is no session {session_id}") from None
        try:
            conversation._read()
        except BaseException:
            conversation.close()
            raise
        return conversation

    def say(self, text: str) -> None:
        """Add the person's next words; open tool calls are answered first, as the API wants it."""
        for call in self.open_calls():
            self.answer(call, INTERRUPTED, is_error=True)
        self.add("user", [{"type": "text", "text": text}])

    def answer(self, call: Block, text: str, *, is_error: bool = False) -> None:
        """Add the result of the tool call `call`."""
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
        self.add("user", [{**result, "is_error": True} if is_error else result])

    def add(self, role: str, content: list[Block]) -> None:
        """Add blocks said by `role` ("user" or "assistant"); nothing where nothing is left to say."""
        content = [block for block in map(self._clean_block, content) if block is not None]
        if content:
            self._keep({"role": role, "content": content})
            self._join(role, content)

    def settle(self, model: Model) -> None:
        """Note which model the session talks to."""
        self.model = model
        self._keep({"model": model.id, "max_tokens": model.max_tokens})

    def open_calls(self) -> list[Block]:
        """The tool calls of the last answer that have no result yet."""
        at = max((n for n, m in enumerate(self.messages) if m["role"] == "assistant"), default=None)
        if at is None:
            return []
        answered = {block.get("tool_use_id") for m in self.messages[at + 1 :] for block in m["content"]}
        return [
            block
            for block in self.messages[at]["content"]
            if block.get("type") == "tool_use" and block["id"] not in answered
        ]

    def close(self) -> None:
        """Close the file; the conversation stays readable."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _keep(self, line: dict[str, Any]) -> None:
        if self._file is None:
            return
        view = memoryview(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        try:
            while view:
                view = view[os.write(self._file, view) :]
            os.fsync(self._file)
        except OSError as error:
            error.filename = str(self._path)  # the system does not say which file it was
            raise

    def _join(self, role: str, content: list[Block]) -> None:
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"].extend(content)
        else:
            self.messages.append({"role": role, "content": list(content)})

    def _read(self) -> None:
        """Take in the file, and cut off what a crash left unfinished."""
        assert self._file is not None
        with open(os.dup(self._file), "rb") as stream:
            stream.seek(0)
            whole = 0
            for number, raw in enumerate(stream):
                line = _object(raw) if raw.endswith(b"\n") else None
                if line is None or (number == 0 and line.get("format") != _FORMAT) or not self._take(line):
                    break
                whole += len(raw)
        if not self.messages:
            raise SessionLost(f"the session {self.session_id} is damaged")
        if whole < os.fstat(self._file).st_size:
            os.ftruncate(self._file, whole)
            os.fsync(self._file)

    def _take(self, line: dict[str, Any]) -> bool:
        """Take in one line; False when it is none of ours."""
        if "session" in line:
            return True
        if isinstance(name := line.get("model"), str):
            longest = line.get("max_tokens")
            self.model = Model(name, longest if isinstance(longest, int) else None)
            return True
        role, content = line.get("role"), line.get("content")
        if role not in ("user", "assistant") or not isinstance(content, list) or not content:
            return False
        if not all(isinstance(block, dict) for block in content):
            return False
        self._join(str(role), content)
        return True

    def _clean_block(self, block: Block) -> Block | None:
        cleaned: Block = self._clean(block)
        return None if block.get("type") in _SIGNED and cleaned != block else cleaned

    def _clean(self, value: Any) -> Any:
        """`value` with every string free of secrets and of what UTF-8 cannot hold."""
        if isinstance(value, str):
            return self._redactor.redact(value.encode("utf-8", "replace").decode())
        if isinstance(value, dict):
            return {self._clean(key): self._clean(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._clean(item) for item in value]
        return value


def _path(folder: Path | None, session_id: str) -> Path | None:
    if not _ID.fullmatch(session_id):
        raise SessionLost(f"{session_id!r} is no id of a session")
    return None if folder is None else folder / f"{session_id}.jsonl"


def _object(raw: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(raw)
        return value if isinstance(value, dict) else None
    return None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
