"""A scripted model on loopback: what a real CLI talks to in tests, offline and free.

    with ScriptedModel({"work": {"prompts": [[tool("Write", {...}), verdict()]]}}) as server:
        env["ANTHROPIC_BASE_URL"] = server.url("work")
        env["OPENAI_BASE_URL"] = server.url("work") + "/v1"

or `python -m codeframe.demo.model_server --scenario FILE [--port 0] [--log FILE]`, where FILE maps names to
scenarios. Scenarios: see `model_script.py`. It speaks every API of `dialects/`, on one port; each scenario has
a base URL of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from codeframe.demo.asked import Asked
from codeframe.demo.dialects import DIALECTS
from codeframe.demo.meter import Meter, tokens
from codeframe.demo.model_http import HttpServer, Request
from codeframe.demo.model_script import Scenario, Turn, due_turn, error

MODELS = ("claude-opus-4-8", "claude-sonnet-4-5")
SECRET_HEADERS = ("x-api-key", "authorization")
# In which header CLIs name their session.
SESSION = re.compile(r".*[-_]session[-_]id|session[-_]id|x-session-affinity")


class ScriptedModel:
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
        self._answered: dict[str, int] = {}
        self._requests: list[Request] = []
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._http = HttpServer(("127.0.0.1", port), self)
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
            self._answered.pop(name, None)
        return self.url(name)

    def requests(self, name: str | None = None) -> list[Request]:
        """The requests for an answer so far, of one scenario or of all, in order of arrival.

        Those for a title are left out: they come beside the work, and at any time.
        """
        with self._changed:
            return [
                request
                for request in self._requests
                if request.dialect and not request.is_title and name in (None, request.scenario)
            ]

    def all_requests(self) -> list[Request]:
        """Every request, HEAD, GET and those for a title included."""
        with self._changed:
            return list(self._requests)

    def wait_for(self, count: int, name: str | None = None, timeout: float = 60.0) -> list[Request]:
        """Block until `count` model requests have arrived; AssertionError when they do not in time."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self.requests(name)) >= count, timeout)
        assert arrived, f"{len(self.requests(name))} of {count} requests came within {timeout} s"
        return self.requests(name)

    # -- for the handler ------------------------------------------------------------------------------

    def arrive(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> Request:
        """Note a request. The first part of its path is the scenario."""
        name, _, rest = target.split("?")[0].lstrip("/").partition("/")
        body = json.loads(raw) if raw else {}
        dialect = DIALECTS.get(f"/{rest}") if method == "POST" else None
        asked = dialect.read(body) if dialect else Asked()
        shown = {
            key: f"<{len(value)} characters>" if key in SECRET_HEADERS else value
            for key, value in headers.items()
        }
        with self._changed:
            request = Request(
                number=len(self._requests),
                at=time.time(),
                scenario=name,
                method=method,
                path=f"/{rest}",
                headers=shown,
                size=len(raw),
                body=body,
                dialect=dialect.name if dialect else None,
                prompts=asked.prompts,
                turn=asked.turn,
                cwd=asked.cwd,
                is_title=asked.is_title,
                session_id=next((value for key, value in headers.items() if SESSION.fullmatch(key)), None),
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
        """The scripted turn, or an injected error in its place, which a request for a title never meets."""
        asked = DIALECTS[request.path].read(request.body)
        with self._changed:
            scenario = self._scenarios.get(request.scenario)
            earlier = self._answered.get(request.scenario, 0)
            if not asked.is_title:
                self._answered[request.scenario] = earlier + 1
        if scenario is None:
            return error(404, "not_found_error", f"no scenario {request.scenario!r} in this test")
        return (None if asked.is_title else _failure(scenario, request, earlier)) or due_turn(scenario, asked)

    def charge(self, request: Request, turn: Turn) -> dict[str, int]:
        """The usage of an answer: the turn's own, else the scenario's, else measured."""
        usage = turn.get("usage") or self._scenarios[request.scenario].get("usage", "measured")
        if usage == "measured":
            with self._changed:
                meter = self._meters.setdefault(request.scenario, Meter())
            parts = DIALECTS[request.path].parts(request.body)
            usage = meter.measure(list(parts), turn["blocks"])
        request.usage = dict(usage)
        return request.usage

    def pause(self, seconds: float) -> None:
        """Sleep, but not past the end of the test."""
        self._ended.wait(seconds)

    def pause_until(self, path: Path) -> None:
        """Hold until a file is there or the test ends."""
        while not path.exists() and not self._ended.wait(0.01):
            pass


def _failure(scenario: Scenario, request: Request, earlier: int) -> Turn | None:
    """What stands in the way of an answer, after `earlier` requests."""
    for failure in scenario.get("errors", []):
        first = failure.get("after", 0)
        times = failure.get("times")
        if earlier >= first and (times is None or earlier < first + times):
            return error(failure["status"], failure["type"], failure.get("message"), failure.get("headers"))
    window = scenario.get("context_window")
    size = tokens(request.size)
    if window is not None and size > window:
        return error(400, "invalid_request_error", f"prompt is too long: {size} tokens > {window} maximum")
    return None


@contextlib.contextmanager
def refused_url() -> Iterator[str]:
    """A base URL at which every connection is refused. The port is held, so nobody else can open it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted model on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--scenario", type=Path, required=True, help="JSON file: name -> scenario")
    parser.add_argument("--log", type=Path, help="gets one JSON line per request")
    given = parser.parse_args()
    scenarios = json.loads(given.scenario.read_text())
    with ScriptedModel(scenarios, log=given.log, port=given.port) as server:
        for name in scenarios:
            print(name, server.url(name), flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
