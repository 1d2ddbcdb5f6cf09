"""A scripted Anthropic Messages server on loopback: what a real CLI talks to in tests, offline and free.

    with ScriptedAnthropic({"work": {"prompts": [[tool("Write", {...}), verdict()]]}}) as server:
        env["ANTHROPIC_BASE_URL"] = server.url("work")

or `python -m codeframe.demo.messages_server --scenario FILE [--port 0] [--log FILE]`, where FILE maps names to
scenarios. Scenarios: see `model_script.py`. Served: HEAD, /v1/messages (streamed or not),
/v1/messages/count_tokens, /v1/models. Each scenario has a base URL of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from codeframe.demo.model_script import Block, Meter, Scenario, Turn, due_turn, error, standing, tokens

MODELS = ("claude-opus-4-8", "claude-sonnet-4-5")
DELTA_SIZE = 400  # characters per content_block_delta
SECRET_HEADERS = ("x-api-key", "authorization")


@dataclass
class Request:
    """One request as it came, and what was made of it.

    `prompts` are the person's prompts in the conversation so far, `turn` counts the answers since the last
    one, `at` is seconds since the epoch. `status` is the HTTP status, None until (or unless) one is sent;
    `usage` is what was charged.
    """

    number: int
    at: float
    scenario: str
    method: str
    path: str
    headers: dict[str, str]
    size: int
    body: dict[str, Any]
    prompts: tuple[str, ...] = ()
    turn: int = 0
    cwd: str = ""
    session_id: str | None = None
    status: int | None = None
    usage: dict[str, int] | None = None


class ScriptedAnthropic:
    """The server, on a free port of 127.0.0.1 from `__enter__` to `__exit__`.

    `scenarios` maps a name to a scenario, `models` are the ids it says it serves. `log` is a file that gets
    one JSON line per request, when its answer is known; keys in headers are left out.
    """

    def __init__(
        self,
        scenarios: Mapping[str, Scenario] | None = None,
        *,
        log: Path | None = None,
        port: int = 0,
        models: Sequence[str] = MODELS,
    ) -> None:
        self.models = tuple(models)
        self._scenarios = dict(scenarios or {})
        self._log = log
        self._meters: dict[str, Meter] = {}
        self._messages: dict[str, int] = {}
        self._requests: list[Request] = []
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._http = _Server(("127.0.0.1", port), self)
        # The default poll of half a second would be paid at the end of every test.
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def url(self, name: str) -> str:
        """The base URL that stands for a scenario."""
        return f"http://127.0.0.1:{self._http.server_port}/{name}"

    def add(self, name: str, scenario: Scenario) -> str:
        """Add or replace a scenario; returns its base URL."""
        with self._changed:
            self._scenarios[name] = scenario
            self._messages.pop(name, None)
        return self.url(name)

    def requests(self, name: str | None = None) -> list[Request]:
        """The model requests (POST /v1/messages) so far, of one scenario or of all, in order of arrival."""
        with self._changed:
            return [
                request
                for request in self._requests
                if request.path == "/v1/messages" and name in (None, request.scenario)
            ]

    def all_requests(self) -> list[Request]:
        """Every request, HEAD and GET included."""
        with self._changed:
            return list(self._requests)

    def wait_for(self, count: int, name: str | None = None, timeout: float = 60.0) -> list[Request]:
        """Block until `count` model requests have arrived; AssertionError when they do not in time."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self.requests(name)) >= count, timeout)
        assert arrived, f"{len(self.requests(name))} of {count} requests came within {timeout} s"
        return self.requests(name)

    # -- for the handler ------------------------------------------------------------------------------

    def arrive(self, handler: BaseHTTPRequestHandler, raw: bytes) -> Request:
        """Note a request. The first part of its path is the scenario."""
        name, _, rest = handler.path.split("?")[0].lstrip("/").partition("/")
        body = json.loads(raw) if raw else {}
        where = standing(body)
        headers = {key.lower(): value for key, value in handler.headers.items()}
        session = next((value for key, value in headers.items() if key.endswith("-session-id")), None)
        for key in SECRET_HEADERS:
            if key in headers:
                headers[key] = f"<{len(headers[key])} characters>"
        with self._changed:
            request = Request(
                len(self._requests),
                time.time(),
                name,
                handler.command,
                f"/{rest}",
                headers,
                len(raw),
                body,
                where.prompts,
                where.turn,
                where.cwd,
                session,
            )
            self._requests.append(request)
            self._changed.notify_all()
        return request

    def write_down(self, request: Request) -> None:
        """Write the request to the log file, once what becomes of it is known."""
        if self._log is None:
            return
        with self._changed, self._log.open("a") as file:
            file.write(json.dumps(asdict(request)) + "\n")

    def turn_for(self, request: Request) -> Turn:
        """The scripted turn, or an injected error in its place."""
        with self._changed:
            scenario = self._scenarios.get(request.scenario)
            earlier = self._messages.get(request.scenario, 0)
            self._messages[request.scenario] = earlier + 1
        if scenario is None:
            return error(404, "not_found_error", f"no scenario {request.scenario!r} in this test")
        for failure in scenario.get("errors", []):
            first = failure.get("after", 0)
            times = failure.get("times")
            if earlier >= first and (times is None or earlier < first + times):
                return error(
                    failure["status"], failure["type"], failure.get("message"), failure.get("headers")
                )
        window = scenario.get("context_window")
        size = tokens(request.size)
        if window is not None and size > window:
            return error(
                400, "invalid_request_error", f"prompt is too long: {size} tokens > {window} maximum"
            )
        return due_turn(scenario, request.body)

    def charge(self, request: Request, turn: Turn) -> dict[str, int]:
        """The usage of an answer: the turn's own, else the scenario's, else measured."""
        usage = turn.get("usage") or self._scenarios[request.scenario].get("usage", "measured")
        if usage == "measured":
            with self._changed:
                meter = self._meters.setdefault(request.scenario, Meter())
            usage = meter.measure(request.body, turn["blocks"])
        request.usage = dict(usage)
        return request.usage

    def pause(self, seconds: float) -> None:
        """Sleep, but not past the end of the test."""
        self._ended.wait(seconds)

    def pause_until(self, path: Path) -> None:
        """Hold until a file is there or the test ends."""
        while not path.exists() and not self._ended.wait(0.01):
            pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], owner: ScriptedAnthropic) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news: engines are killed all the time. The rest is a bug of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are kept, not printed."""

    def do_HEAD(self) -> None:
        with self._noted(b""):
            self._head(200, {"content-length": "0"})

    def do_GET(self) -> None:
        with self._noted(b"") as request:
            if request.path == "/v1/models":
                listed = [
                    {"type": "model", "id": name, "display_name": name} for name in self.server.owner.models
                ]
                self._json(200, {"data": listed, "has_more": False})
            else:
                self._error(error(404, "not_found_error", f"no {self.path} here"))

    def do_POST(self) -> None:
        with self._noted(self.rfile.read(int(self.headers.get("content-length", 0)))) as request:
            if request.path == "/v1/messages/count_tokens":
                self._json(200, {"input_tokens": tokens(request.size)})
            elif request.path == "/v1/messages":
                self._message(request)
            else:
                self._error(error(404, "not_found_error", f"no {self.path} here"))

    @contextlib.contextmanager
    def _noted(self, raw: bytes) -> Iterator[Request]:
        self._request = self.server.owner.arrive(self, raw)
        yield self._request
        if self._request.status is None:
            self.server.owner.write_down(self._request)

    def _message(self, request: Request) -> None:
        owner = self.server.owner
        turn = owner.turn_for(request)
        if "wait_for" in turn:
            owner.pause_until(Path(turn["wait_for"]))
        owner.pause(turn.get("delay", 0))
        if "hang" in turn:
            owner.pause(turn["hang"])
            self.close_connection = True
        elif "error" in turn:
            self._error(turn)
        else:
            self._answer(request, turn)

    def _answer(self, request: Request, turn: Turn) -> None:
        blocks = [self._numbered(block) for block in turn["blocks"]]
        called = any(block["type"] == "tool_use" for block in blocks)
        message = {
            "id": f"msg_{uuid.uuid4().hex[:24]}",
            "type": "message",
            "role": "assistant",
            "model": request.body.get("model"),
            "content": blocks,
            "stop_reason": turn.get("stop_reason") or ("tool_use" if called else "end_turn"),
            "stop_sequence": None,
            "usage": self.server.owner.charge(request, turn),
        }
        if request.body.get("stream"):
            self._stream(message, turn)
        else:
            self._json(200, message)

    def _stream(self, message: Mapping[str, Any], turn: Turn) -> None:
        self._head(200, {"content-type": "text/event-stream", "connection": "close"})
        self.close_connection = True
        opening = dict(message, content=[], stop_reason=None, usage=message["usage"] | {"output_tokens": 1})
        self._event("message_start", message=opening)
        for index, block in enumerate(message["content"]):
            start, deltas = _pieces(block)
            self._event("content_block_start", index=index, content_block=start)
            for delta in deltas:
                self._event("content_block_delta", index=index, delta=delta)
                if turn.get("cut") == "block":
                    return
            self._event("content_block_stop", index=index)
        self.server.owner.pause(turn.get("stall", 0))
        if turn.get("cut") == "end":
            return
        closing = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        self._event("message_delta", delta=closing, usage=message["usage"])
        self._event("message_stop")

    def _event(self, kind: str, **data: Any) -> None:
        self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode())

    def _error(self, turn: Turn) -> None:
        failure = turn["error"]
        told = {"type": failure["type"], "message": failure["message"]}
        self._json(failure["status"], {"type": "error", "error": told}, failure["headers"])

    def _json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        length = {"content-type": "application/json", "content-length": str(len(data))}
        self._head(status, length | dict(headers or {}))
        self.wfile.write(data)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self._request.status = status
        # Before the answer: who has read the answer finds the request in the log.
        self.server.owner.write_down(self._request)
        self.send_response(status)
        self.send_header("request-id", f"req_{uuid.uuid4().hex[:24]}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    @staticmethod
    def _numbered(block: Block) -> Block:
        """Tool calls get an id, a fresh one each time as a model gives it."""
        return block if block["type"] != "tool_use" else {"id": f"toolu_{uuid.uuid4().hex[:20]}", **block}


def _pieces(block: Block) -> tuple[Block, list[dict[str, str]]]:
    """A block as the stream carries it: how it starts, and its deltas."""
    if block["type"] == "tool_use":
        whole, kind, key = json.dumps(block["input"]), "input_json_delta", "partial_json"
        start = block | {"input": {}}
    else:
        whole, kind, key = block["text"], "text_delta", "text"
        start = block | {"text": ""}
    cuts = range(0, len(whole), DELTA_SIZE)
    return start, [{"type": kind, key: whole[at : at + DELTA_SIZE]} for at in cuts]


@contextlib.contextmanager
def refused_url() -> Iterator[str]:
    """A base URL at which every connection is refused. The port is held, so nobody else can open it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted Anthropic Messages server on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--scenario", type=Path, required=True, help="JSON file: name -> scenario")
    parser.add_argument("--log", type=Path, help="gets one JSON line per request")
    given = parser.parse_args()
    scenarios = json.loads(given.scenario.read_text())
    with ScriptedAnthropic(scenarios, log=given.log, port=given.port) as server:
        for name in scenarios:
            print(name, server.url(name), flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
