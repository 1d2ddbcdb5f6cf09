"""The scripted model's side of HTTP: takes requests, sends answers, errors and streams in the asked dialect."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from codeframe.demo.dialects import DIALECTS, MESSAGES
from codeframe.demo.dialects.dialect import Answer, Dialect, Event
from codeframe.demo.meter import tokens
from codeframe.demo.model_script import Turn, error


@dataclass
class Request:
    """One request as it came, and what was made of it.

    `dialect` is None where it asks for no answer of the model. `prompts` are the person's in the conversation
    so far, `turn` counts the answers since the last one, `is_title` marks a side request, `session_id` is what
    the CLI tells of its own, `at` is seconds since the epoch. `status` is the HTTP status, None until (or
    unless) one is sent; `usage` is what was charged, in the Messages API's terms.
    """

    number: int
    at: float
    scenario: str
    method: str
    path: str
    headers: dict[str, str]
    size: int
    body: dict[str, Any]
    dialect: str | None = None
    prompts: tuple[str, ...] = ()
    turn: int = 0
    cwd: str = ""
    is_title: bool = False
    session_id: str | None = None
    status: int | None = None
    usage: dict[str, int] | None = None


class Model(Protocol):
    """What the handler asks of the scripted model."""

    @property
    def models(self) -> Sequence[str]: ...

    def arrive(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> Request: ...

    def write_down(self, request: Request) -> None: ...

    def turn_for(self, request: Request) -> Turn: ...

    def charge(self, request: Request, turn: Turn) -> dict[str, int]: ...

    def pause(self, seconds: float) -> None: ...

    def pause_until(self, path: Path) -> None: ...


class HttpServer(ThreadingHTTPServer):
    """Listens for a scripted model."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], model: Model) -> None:
        self.model = model
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news: engines are killed all the time. The rest is a bug of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HttpServer

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are kept, not printed."""

    def do_HEAD(self) -> None:
        with self._noted(b""):
            self._head(200, {"content-length": "0"})

    def do_GET(self) -> None:
        with self._noted(b"") as request:
            if self.headers.get("upgrade"):
                self._refuse(request, error(426, "upgrade_required", "no websocket here"))
            elif request.path == "/v1/models":
                self._json(200, {"object": "list", "data": self._models(), "has_more": False})
            else:
                self._refuse(request, error(404, "not_found_error", f"no {self.path} here"))

    def do_POST(self) -> None:
        with self._noted(self._content()) as request:
            if request.path == "/v1/messages/count_tokens":
                self._json(200, {"input_tokens": tokens(request.size)})
            elif request.dialect is not None:
                self._play(request)
            else:
                self._refuse(request, error(404, "not_found_error", f"no {self.path} here"))

    @contextlib.contextmanager
    def _noted(self, raw: bytes) -> Iterator[Request]:
        headers = {key.lower(): value for key, value in self.headers.items()}
        self._request = self.server.model.arrive(self.command, self.path, headers, raw)
        yield self._request
        if self._request.status is None:
            self.server.model.write_down(self._request)

    def _content(self) -> bytes:
        """The body, of a known length or in chunks."""
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        content = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def _models(self) -> list[dict[str, Any]]:
        """In the words of both makers at once."""
        return [
            {"type": "model", "object": "model", "id": name, "display_name": name, "owned_by": "script"}
            for name in self.server.model.models
        ]

    def _play(self, request: Request) -> None:
        model = self.server.model
        turn = model.turn_for(request)
        if "wait_for" in turn:
            model.pause_until(Path(turn["wait_for"]))
        model.pause(turn.get("delay", 0))
        if "hang" in turn:
            model.pause(turn["hang"])
            self.close_connection = True
        elif "error" in turn:
            self._refuse(request, turn)
        else:
            self._answer(request, turn)

    def _answer(self, request: Request, turn: Turn) -> None:
        called = any(block["type"] == "tool_use" for block in turn["blocks"])
        stop = turn.get("stop_reason") or ("tool_use" if called else "end_turn")
        answer = self._begun(request, turn["blocks"], stop, self.server.model.charge(request, turn))
        dialect = DIALECTS[request.path]
        if request.body.get("stream"):
            self._stream(dialect, answer, turn)
        else:
            self._json(200, dialect.whole(answer))

    def _stream(self, dialect: Dialect, answer: Answer, turn: Turn) -> None:
        self._start_stream()
        for event in dialect.blocks(answer):
            self._send(event)
            if event.is_delta and turn.get("cut") == "block":
                return
        self.server.model.pause(turn.get("stall", 0))
        if turn.get("cut") != "end":
            self._send_all(dialect.closing(answer, self._request.body))

    def _refuse(self, request: Request, turn: Turn) -> None:
        dialect = DIALECTS.get(request.path, MESSAGES)
        refusal = dialect.refusal(turn["error"])
        if refusal.status == 200 and request.body.get("stream"):
            self._start_stream()
            self._send_all(dialect.failing(self._begun(request, [], "end_turn", {}), refusal))
        else:
            self._json(refusal.status, refusal.body, turn["error"]["headers"])

    def _begun(
        self, request: Request, blocks: list[dict[str, Any]], stop: str, usage: Mapping[str, int]
    ) -> Answer:
        serial, made = uuid.uuid4().hex[:20], int(time.time())
        return Answer(serial, made, str(request.body.get("model")), blocks, stop, usage)

    def _start_stream(self) -> None:
        self._head(200, {"content-type": "text/event-stream", "connection": "close"})
        self.close_connection = True

    def _send_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._send(event)

    def _send(self, event: Event) -> None:
        name = f"event: {event.name}\n" if event.name else ""
        data = event.data if isinstance(event.data, str) else json.dumps(event.data)
        self.wfile.write(f"{name}data: {data}\n\n".encode())

    def _json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        length = {"content-type": "application/json", "content-length": str(len(data))}
        self._head(status, length | dict(headers or {}))
        self.wfile.write(data)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self._request.status = status
        # Before the answer: who has read the answer finds the request in the log.
        self.server.model.write_down(self._request)
        self.send_response(status)
        self.send_header("request-id", f"req_{uuid.uuid4().hex[:24]}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
