"""Our side of JSON-RPC 2.0, one object a line, over the pipes of a process that `run_process` runs."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from codeframe.core.adapters.json_values import dict_of, text_of
from codeframe.core.process import OpenStdin

METHOD_NOT_FOUND = -32601


class Request(NamedTuple):
    """They ask; it has to be answered. `id` is theirs, given back as it came."""

    id: object
    method: str
    params: dict[str, Any]


class Notification(NamedTuple):
    """They tell."""

    method: str
    params: dict[str, Any]


class Response(NamedTuple):
    """They answer our call of `method`; `error` is their words where they refused, None where they did not."""

    method: str
    result: dict[str, Any]
    error: str | None = None


class JsonRpc:
    """Writes what we say into `stdin`, tells what an object of theirs is. Never blocks, keeps no threads.

    `version` false leaves out the member `"jsonrpc": "2.0"`, as some servers do.
    """

    def __init__(self, stdin: OpenStdin, *, version: bool = True) -> None:
        self._stdin = stdin
        self._head: dict[str, Any] = {"jsonrpc": "2.0"} if version else {}
        self._calls = 0
        self._open: dict[int, str] = {}  # id of a call of ours -> its method, until it is answered

    def call(self, method: str, params: dict[str, Any]) -> None:
        """Ask; the answer is heard as a Response."""
        self._calls += 1
        self._open[self._calls] = method
        self._say({"id": self._calls, "method": method, "params": params})

    def notify(self, method: str) -> None:
        """Tell."""
        self._say({"method": method})

    def answer(self, request: Request, result: dict[str, Any]) -> None:
        """Give them what they asked for."""
        self._say({"id": request.id, "result": result})

    def refuse(self, request: Request, message: str, code: int = METHOD_NOT_FOUND) -> None:
        """Tell them that there is no answer, and why."""
        self._say({"id": request.id, "error": {"code": code, "message": message}})

    def hear(self, obj: dict[str, Any]) -> Request | Notification | Response | None:
        """What `obj` is; None for what is no message, or answers nothing we asked."""
        if method := text_of(obj.get("method")):
            params = dict_of(obj.get("params"))
            return Request(obj["id"], method, params) if "id" in obj else Notification(method, params)
        number = obj.get("id")
        called = self._open.pop(number, "") if isinstance(number, int) else ""
        if not called:
            return None
        if "error" not in obj:
            return Response(called, dict_of(obj.get("result")))
        return Response(called, {}, text_of(dict_of(obj["error"]).get("message")) or "an error without words")

    def _say(self, message: dict[str, Any]) -> None:
        # Not in ASCII: an escaped lone surrogate is refused as a whole by stricter readers than Python's.
        line = json.dumps(self._head | message, ensure_ascii=False, separators=(",", ":")) + "\n"
        self._stdin.write(line.encode("utf-8", "replace"))
