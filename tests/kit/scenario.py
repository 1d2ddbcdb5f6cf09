"""Scenarios for the fake engine: its steps as functions, and `FakeEngine`, installed and its log read."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit.engines import clean_path

Call = dict[str, Any]
Step = dict[str, Any]
Steps = Step | Sequence["Steps"]


# -- steps: each is one dict of the scenario's JSON -------------------------------------------------


def out(line: Mapping[str, Any] | str) -> Step:
    """Print one line on stdout: text as it is, a mapping as JSON."""
    return {"out": line}


def err(line: Mapping[str, Any] | str) -> Step:
    """Print one line on stderr."""
    return {"err": line}


def raw(data: bytes, to: str = "stdout") -> Step:
    """Write exactly these bytes: no newline is added, nothing has to be UTF-8."""
    return {"raw": base64.b64encode(data).decode(), "to": to}


def half_a_character(to: str = "stdout") -> Step:
    """The first byte of a two-byte UTF-8 character, and no more of it."""
    return raw("é".encode()[:1], to)


def flood(size: int, line: int = 120, to: str = "stdout") -> Step:
    """`size` bytes in lines of `line` bytes; `line=0` makes one line of `size` bytes."""
    return {"flood": size, "line": line, "to": to}


def close(stream: str = "stdout") -> Step:
    """Close stdout or stderr and live on."""
    return {"close": stream}


def write(path: str, text: str | bytes) -> Step:
    """Write a file (relative to the working directory), folders included."""
    return {"write": path, **_content(text)}


def append(path: str, text: str | bytes) -> Step:
    """Append to a file, made if it is not there."""
    return {"append": path, **_content(text)}


def touch(path: Path | str) -> Step:
    """Make a file, mostly to tell the test how far the call has come."""
    return {"touch": str(path)}


def delete(path: str) -> Step:
    """Delete a file that must be there."""
    return {"delete": path}


def sh(command: str) -> Step:
    """Run a shell command that must succeed, as the engine's own tool; its output goes nowhere."""
    return {"sh": command}


def spawn(
    *,
    session: bool = False,
    daemon: bool = False,
    hold_stdout: bool = False,
    ignore: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    command: str = "exec sleep 60",
) -> Step:
    """Leave a child behind; its pid is in `Invocation.children`.

    `session`: in a session of its own. `daemon`: forked twice, nobody's child. `hold_stdout`: keeps our
    stdout and stderr open. `ignore`: signals it is deaf to. `env`: its whole environment ({} is `env -i`).
    """
    spec: dict[str, Any] = {"session": session, "daemon": daemon, "hold_stdout": hold_stdout}
    spec |= {"ignore": list(ignore), "command": command}
    if env is not None:
        spec["env"] = dict(env)
    return {"spawn": spec}


def sleep(seconds: float) -> Step:
    return {"sleep": seconds}


def wait_for(path: Path | str) -> Step:
    """Hold until the file is there: how a test orders what would else be a race."""
    return {"wait_for": str(path)}


def read_stdin() -> Step:
    """Read stdin to its end here, in a call made with `stdin="ignore"`."""
    return {"read_stdin": True}


def hear(wanted: str | int) -> Step:
    """Read JSON-RPC messages until a call or notification of this method comes, or (a number) an answer to our call.

    For calls made with `stdin="ignore"`. All that is read is in `Invocation.heard`; at its end the engine ends.
    """
    return {"hear": wanted}


def answer(method: str, result: Mapping[str, Any] | None = None, error: str | None = None) -> Step:
    """Answer the latest call of this method that was heard: with a result, or with an error's words."""
    if error is not None:
        return {"answer": method, "error": {"code": -32600, "message": error}}
    return {"answer": method, "result": dict(result or {})}


def on_signal(*names: str, steps: Steps = ()) -> Step:
    """From here on a signal plays these steps, then the call goes on. No steps: deaf to it. Always logged."""
    return {"on_signal": list(names), "steps": flat(steps)}


def leave(code: int) -> Step:
    """Exit with this status. A call that runs out of steps exits 0."""
    return {"exit": code}


def die(signal_name: str = "SIGKILL") -> Step:
    """Kill itself with a signal."""
    return {"kill": signal_name}


def hang() -> Step:
    """Wait for ever."""
    return {"hang": True}


def _content(text: str | bytes) -> Step:
    if isinstance(text, str):
        return {"text": text}
    return {"base64": base64.b64encode(text).decode()}


def flat(steps: Steps) -> list[Step]:
    """Steps and lists of steps, nested as they come, as one list."""
    if isinstance(steps, dict):
        return [steps]
    return [step for part in steps for step in flat(part)]


def call(
    *steps: Steps,
    argv: Sequence[str] = (),
    prompt: str | None = None,
    cwd: str | None = None,
    stdin: str = "read",
    probe: bool = False,
) -> Call:
    """One invocation of the engine.

    `argv` (words that must all be there), `prompt` (text that stdin must hold) and `cwd` (part of the
    working directory) make the call one for such invocations only. `stdin` is "read" (to its end, before
    the first step, as the real CLIs do) or "ignore". A `probe` is a question such as `--version`.
    """
    match: dict[str, Any] = {}
    if argv:
        match["argv"] = list(argv)
    if prompt is not None:
        match["stdin"] = prompt
    if cwd is not None:
        match["cwd"] = cwd
    made: Call = {"steps": flat(steps), "stdin": stdin}
    return made | ({"match": match} if match else {}) | ({"probe": True} if probe else {})


# -- the engine -------------------------------------------------------------------------------------


@dataclass
class Invocation:
    """What one run of the fake was given and what became of it, from its log.

    `stdin` is None when it was never read to its end, `exit_code` None when a signal ended it (or
    nothing has yet), `session` the id of its process session, `heard` the messages it read with `hear`, `children` the
    pids it left behind.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: Path
    pid: int
    session: int
    started_at: float
    argv0: str
    call: int | None = None
    probe: bool = False
    stdin: bytes | None = None
    heard: list[dict[str, Any]] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    signals: list[str] = field(default_factory=list)
    exit_code: int | None = None

    @property
    def prompt(self) -> str:
        """Stdin as text ("" when it was not read)."""
        return (self.stdin or b"").decode()


class FakeEngine:
    """A fake CLI in a bin folder of its own, ready to be put on PATH.

    `executable` runs `fake_engine.py` under the interpreter of the tests, without site packages. It finds
    its scenario beside itself and so needs nothing of the environment.
    """

    def __init__(self, folder: Path, name: str = "claude", version: str = "2.1.197 (Claude Code)") -> None:
        self.bin = folder / f"{name}-bin"
        self.bin.mkdir(parents=True)
        self.executable = self.bin / name
        # Not /bin/sh as a shim: a shell sets PWD and the like, and the log must show what we were given.
        self.executable.write_text(
            f"#!{os.path.realpath(sys.executable)} -IS\n"
            f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            "import fake_engine\nfake_engine.main()\n"
        )
        self.executable.chmod(0o755)
        self._version = version
        self.calls(call())

    @property
    def log(self) -> Path:
        return self.bin / f"{self.executable.name}.log.jsonl"

    def path(self, rest: str | None = None) -> str:
        """A value for PATH with this engine first; `rest` is `clean_path()` unless given."""
        return f"{self.bin}{os.pathsep}{clean_path() if rest is None else rest}"

    def calls(self, *calls: Call) -> FakeEngine:
        """What the next invocations play: the n-th call each, then the last one. Starts counting anew."""
        version = call(out(self._version), argv=["--version"], stdin="ignore", probe=True)
        scenario = self.bin / f"{self.executable.name}.scenario.json"
        scenario.write_text(json.dumps({"calls": [*calls, version]}))
        scenario.with_name(scenario.name + ".count").unlink(missing_ok=True)
        return self

    def invocations(self, probes: bool = False) -> list[Invocation]:
        """The invocations so far, in order of start; questions such as `--version` only with `probes`."""
        found: dict[str, Invocation] = {}
        if self.log.exists():
            with self.log.open() as log:
                fcntl.flock(log, fcntl.LOCK_SH)  # no half-written line
                for entry in map(json.loads, log):
                    _apply(entry, found)
        return [invocation for invocation in found.values() if probes or not invocation.probe]


def _apply(entry: Mapping[str, Any], found: dict[str, Invocation]) -> None:
    """Add one log entry to what is known of its invocation."""
    if entry["event"] == "start":
        found[entry["id"]] = Invocation(
            argv=entry["argv"],
            env=entry["env"],
            cwd=Path(entry["cwd"]),
            pid=entry["pid"],
            session=entry["session"],
            started_at=entry["at"],
            argv0=entry["argv0"],
        )
        return
    invocation = found[entry["id"]]
    match entry["event"]:
        case "call":
            invocation.call, invocation.probe = entry["index"], entry["probe"]
        case "stdin":
            encoded = entry.get("base64")
            invocation.stdin = base64.b64decode(encoded) if encoded is not None else entry["text"].encode()
        case "heard":
            invocation.heard.append(entry["message"])
        case "child":
            invocation.children.append(entry["pid"])
        case "signal":
            invocation.signals.append(entry["name"])
        case "exit":
            invocation.exit_code = entry["code"]
