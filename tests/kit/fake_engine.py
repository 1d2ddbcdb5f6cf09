#!/usr/bin/env python3
"""A fake coding-agent CLI: one executable that plays calls from a scenario file and logs what it was given.

It stands alone (standard library, no import of ours) and imports little, so that it starts in some 30 ms.
`tests/kit/scenario.py` installs it under the name of a CLI, writes scenarios and reads logs; what a
scenario may hold is in the README beside this file. The scenario is `$FAKE_ENGINE_SCENARIO`, else
`<itself>.scenario.json`; the log is `$FAKE_ENGINE_LOG`, else `<itself>.log.jsonl`.
"""

from __future__ import annotations

import binascii
import fcntl
import json
import os
import re
import signal
import sys
import time

TYPE_CHECKING = False  # as typing has it, whose import alone would cost 7 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Call = dict[str, Any]
    Step = dict[str, Any]

NO_SESSION = "00000000-0000-4000-8000-000000000000"
WAIT_LIMIT_S = 120.0  # no wait for a file outlives a forgotten test
PUT_THERE_BY_PYTHON = ("LC_CTYPE", "C.UTF-8")  # PEP 538; not what we were given
BAD_SCENARIO = 97  # exit status when the scenario itself is wrong, so that it is never taken for the engine's

SCENARIO = os.environ.get("FAKE_ENGINE_SCENARIO") or os.path.abspath(sys.argv[0]) + ".scenario.json"
LOG = os.environ.get("FAKE_ENGINE_LOG") or os.path.abspath(sys.argv[0]) + ".log.jsonl"


def bad_scenario(problem: str) -> None:
    """Leave at once, saying what is wrong with the scenario."""
    os.write(2, f"fake engine: {problem}\n".encode())
    os._exit(BAD_SCENARIO)


class Log:
    """Appends events of this invocation, one JSON object per line, whole even with many writers."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # Pids are used again; a random name per invocation is not.
        self._id = os.urandom(8).hex()

    def add(self, event: str, **data: Any) -> None:
        line = json.dumps({"id": self._id, "event": event, "at": time.time(), **data}) + "\n"
        rest = line.encode()
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)


def as_logged(data: bytes) -> dict[str, Any]:
    """Bytes as {length, text} or, where they are not UTF-8, {length, base64}."""
    try:
        return {"length": len(data), "text": data.decode()}
    except UnicodeDecodeError:
        return {"length": len(data), "base64": binascii.b2a_base64(data, newline=False).decode()}


class Stdin:
    """Our stdin, read to its end at most once, however long that takes, and logged when it was."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._data: bytes | None = None

    def read(self) -> bytes:
        if self._data is None:
            chunks = []
            while chunk := os.read(0, 1 << 20):
                chunks.append(chunk)
            self._data = b"".join(chunks)
            self._log.add("stdin", **as_logged(self._data))
        return self._data


class Talk:
    """JSON-RPC on stdin, a message a line: each one is logged as it is read."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._unread = b""
        self._ids: dict[str, Any] = {}  # method -> id of its latest call

    def hear(self, wanted: Any) -> None:
        """Read on until a call or notification of this method comes, or (not a text) the answer with this id.

        At the end of stdin the engine ends, as the real ones do.
        """
        while True:
            message = self._next()
            if "id" in message and "method" in message:
                self._ids[message["method"]] = message["id"]
            if wanted == message.get("method", message.get("id")):
                return

    def id_of(self, method: str) -> Any:
        """The id of the latest call of this method that was heard."""
        if method not in self._ids:
            bad_scenario(f"{method} was not heard, so it cannot be answered")
        return self._ids[method]

    def _next(self) -> dict[str, Any]:
        while b"\n" not in self._unread:
            chunk = os.read(0, 1 << 16)
            if not chunk:
                self._log.add("exit", code=0)
                os._exit(0)
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        self._log.add("heard", message=message)
        return message


# -- which call to play ---------------------------------------------------------------------------


def matches(call: Call, argv: list[str], stdin: Stdin) -> bool:
    """Whether every condition of the call's `match` holds; stdin is read only if one is about it."""
    wanted = call["match"]
    return (
        all(word in argv for word in wanted.get("argv", []))
        and wanted.get("cwd", "") in os.getcwd()
        and ("stdin" not in wanted or wanted["stdin"].encode() in stdin.read())
    )


def choose(calls: list[Call], argv: list[str], stdin: Stdin) -> tuple[int, Call]:
    """The call to play now, counted under a lock beside the scenario.

    Probes (`--version` and the like) go first, then calls whose `match` holds, then calls without one.
    Among the candidates each is played once, in order, and the last one again and again.
    """
    numbered = list(enumerate(calls))
    candidates = (
        [i for i, call in numbered if call.get("probe") and matches(call, argv, stdin)]
        or [i for i, call in numbered if "match" in call and matches(call, argv, stdin)]
        or [i for i, call in numbered if "match" not in call]
    )
    if not candidates:
        bad_scenario(f"no call of {SCENARIO} fits {argv}")
    with open(SCENARIO + ".count", "a+") as state:
        fcntl.flock(state, fcntl.LOCK_EX)
        state.seek(0)
        played = state.read().split()
        index = next((i for i in candidates if str(i) not in played), candidates[-1])
        state.write(f"{index} ")
    return index, calls[index]


def fill(value: Any, argv: list[str]) -> Any:
    """Strings with `{cwd}`, `{arg:--flag}`, `{arg:--a|--b}` and `{env:NAME}` replaced, at any depth."""

    def replaced(found: re.Match[str]) -> str:
        kind, _, name = found.group(1).partition(":")
        if kind == "cwd":
            return os.getcwd()
        if kind == "env":
            return os.environ.get(name, "")
        for flag in name.split("|"):
            for number, word in enumerate(argv):
                if word == flag:
                    return "".join(argv[number + 1 : number + 2])
                if word.startswith(flag + "="):
                    return word[len(flag) + 1 :]
        return NO_SESSION

    if isinstance(value, str):
        return re.sub(r"\{(cwd|env:\w+|arg:[\w|-]+)\}", replaced, value)
    if isinstance(value, list):
        return [fill(item, argv) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, argv) for key, item in value.items()}
    return value


# -- the steps ------------------------------------------------------------------------------------


def emit(data: bytes, to: str = "stdout") -> None:
    """Write all the bytes. A reader that went away does not stop us, as it does not stop the real CLIs."""
    fd = {"stdout": 1, "stderr": 2}[to]
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except BrokenPipeError:
        pass


def line(value: Any) -> bytes:
    """One line: text as it is, anything else as compact JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode() + b"\n"


def content(step: Step) -> bytes:
    return binascii.a2b_base64(step["base64"]) if "base64" in step else str(step.get("text", "")).encode()


def put(path: str, data: bytes, mode: str) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, mode) as file:
        file.write(data)


def flood(step: Step) -> None:
    """`flood` bytes in lines of `line` bytes each (newline included); `line` 0 makes one single line."""
    total, width = int(step["flood"]), int(step.get("line", 120))
    to = step.get("to", "stdout")
    unit = b"x" * (width - 1) + b"\n" if width else b"x"
    block = unit * max(1, (1 << 16) // len(unit))
    whole, rest = divmod(total, len(block))
    for _ in range(whole):
        emit(block, to)
    emit(block[:rest], to)
    if not width:
        emit(b"\n", to)


def shell(command: str) -> None:
    """Run a command as the engine's own tool would; its output is not the engine's."""
    import subprocess

    done = subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        bad_scenario(f"{command!r} exited {done.returncode}: {done.stdout + done.stderr!r}")


def spawn(spec: dict[str, Any], log: Log) -> None:
    """Leave a child behind: `/bin/sh -c command`, sleeping for a minute unless told otherwise.

    `session` puts it into a session of its own, `daemon` forks twice so that it is nobody's child,
    `hold_stdout` lets it keep our stdout and stderr open, `ignore` names signals it is deaf to, `env`
    replaces its environment ({} is `env -i`). Returns once the child runs its command.
    """
    read_end, write_end = os.pipe()  # close-on-exec: its end tells that exec happened
    pid = os.fork()
    if pid == 0:
        try:
            if spec.get("daemon"):
                os.setsid()
                if os.fork():
                    os._exit(0)
            elif spec.get("session"):
                os.setsid()
            os.write(write_end, str(os.getpid()).encode())
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0,) if spec.get("hold_stdout") else (0, 1, 2):
                os.dup2(null, fd)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            for name in spec.get("ignore", []):
                signal.signal(signal.Signals[name], signal.SIG_IGN)
            command = spec.get("command", "exec sleep 60")
            os.execve("/bin/sh", ["sh", "-c", command], spec.get("env", dict(os.environ)))
        finally:
            os._exit(BAD_SCENARIO)
    os.close(write_end)
    if spec.get("daemon"):
        os.waitpid(pid, 0)
    child = b""
    while chunk := os.read(read_end, 64):
        child += chunk
    os.close(read_end)
    log.add("child", pid=int(child))


def wait_for(path: str) -> None:
    """Hold until the file is there."""
    deadline = time.monotonic() + WAIT_LIMIT_S
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            bad_scenario(f"nobody made {path} within {WAIT_LIMIT_S:.0f} s")
        time.sleep(0.01)


def hang() -> None:
    """For ever, as tests go: a forgotten process is gone after an hour.

    Short sleeps, since a signal that comes just before `signal.pause()` would be handled after the next one.
    """
    deadline = time.monotonic() + 3600
    while time.monotonic() < deadline:
        time.sleep(0.05)


def close(stream: str) -> None:
    """Let go of stdout or stderr; the number stays taken, so that no later file lands on it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, {"stdout": 1, "stderr": 2}[stream])
    os.close(null)


def play(steps: list[Step], log: Log, stdin: Stdin) -> None:
    """Play steps in order. The first key of a step names what it does."""
    talk = Talk(log)

    def answer(step: Step) -> None:
        given = {key: step[key] for key in ("result", "error") if key in step}
        emit(line({"id": talk.id_of(step["answer"]), **given}))

    def on_signal(step: Step) -> None:
        def handle(number: int, _frame: object) -> None:
            log.add("signal", name=signal.Signals(number).name)
            play(step.get("steps", []), log, stdin)

        names = step["on_signal"]
        for name in [names] if isinstance(names, str) else names:
            signal.signal(signal.Signals[name], handle)

    def leave(step: Step) -> None:
        log.add("exit", code=step["exit"])
        os._exit(step["exit"])

    def kill(step: Step) -> None:
        number = signal.Signals[step["kill"]]
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    actions: dict[str, Callable[[Step], object]] = {
        "out": lambda step: emit(line(step["out"])),
        "err": lambda step: emit(line(step["err"]), "stderr"),
        "raw": lambda step: emit(binascii.a2b_base64(step["raw"]), step.get("to", "stdout")),
        "flood": flood,
        "close": lambda step: close(step["close"]),
        "write": lambda step: put(step["write"], content(step), "wb"),
        "append": lambda step: put(step["append"], content(step), "ab"),
        "touch": lambda step: put(step["touch"], b"", "ab"),
        "delete": lambda step: os.unlink(step["delete"]),
        "sh": lambda step: shell(step["sh"]),
        "spawn": lambda step: spawn(step["spawn"], log),
        "sleep": lambda step: time.sleep(step["sleep"]),
        "wait_for": lambda step: wait_for(step["wait_for"]),
        "read_stdin": lambda _step: stdin.read(),
        "hear": lambda step: talk.hear(step["hear"]),
        "answer": answer,
        "on_signal": on_signal,
        "exit": leave,
        "kill": kill,
        "hang": lambda _step: hang(),
    }
    for step in steps:
        name = next(iter(step))
        if name not in actions:
            bad_scenario(f"unknown step {name!r}")
        actions[name](step)


def run() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own traceback is nothing a CLI would print
    argv = sys.argv[1:]
    log = Log(LOG)
    stdin = Stdin(log)
    log.add(
        "start",
        argv0=sys.argv[0],
        argv=argv,
        env={k: v for k, v in os.environ.items() if (k, v) != PUT_THERE_BY_PYTHON},
        cwd=os.getcwd(),
        pid=os.getpid(),
        session=os.getsid(0),
    )
    with open(SCENARIO) as file:
        calls = json.load(file)["calls"]
    index, call = choose(calls, argv, stdin)
    log.add("call", index=index, probe=bool(call.get("probe")))
    if call.get("stdin", "read") == "read":
        stdin.read()
    play([*fill(call["steps"], argv), {"exit": 0}], log, stdin)


def main() -> None:
    try:
        run()
    except Exception as error:
        bad_scenario(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
