"""The lines the fake prints have the keys of the real ones, no more and no fewer, and tell the same story."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import claude_lines as lines
from tests.kit import claude_runs as runs
from tests.kit.scenario import FakeEngine, call, flat, hang, out, touch
from tests.kit.waiting import wait_until

RECORDED = Path(__file__).parents[1] / "fixtures" / "claude-code"
Line = dict[str, Any]


def recorded(name: str) -> list[Line]:
    return [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()]


def pick(name: str, kind: str, number: int = 0) -> Line:
    return [line for line in recorded(name) if kind in (line["type"], line.get("subtype"))][number]


def shape(value: Any, path: str = "") -> Iterator[str]:
    """Every key with where it stands; what a tool was given and the names of models are not part of it."""
    if isinstance(value, dict) and not path.endswith((".input", ".structured_output", ".tool_input")):
        for key, inner in value.items():
            name = "MODEL" if path.endswith(".modelUsage") else key
            yield f"{path}.{name}"
            yield from shape(inner, f"{path}.{name}")
    if isinstance(value, list):
        for inner in value:
            yield from shape(inner, f"{path}[]")


def printed(steps: Any) -> list[Line]:
    return [step["out"] for step in flat(steps) if isinstance(step.get("out"), dict)]


DENIAL = {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "c"}}
UNKNOWN = "No conversation found with session ID: 1"
PAIRS = {
    "init": (lines.init(structured=False), pick("ok_stdin", "init")),
    "init with a schema": (lines.init(), pick("reco", "init")),
    "init without a key": (lines.init(structured=False, api_key=False), pick("bad_nocreds", "init")),
    "text": (lines.text("t"), pick("ok_stdin", "assistant", 0)),
    "tool call": (lines.tool_use("Write", {}, "t"), pick("ok_stdin", "assistant", 1)),
    "file written": (printed(runs.wrote("a", "b"))[-1], pick("ok_stdin", "user", 0)),
    "command run": (printed(runs.ran("true"))[-1], pick("ok_stdin", "user", 2)),
    "tool refused": (printed(runs.tool_failed("Bash", {}, "no"))[-1], pick("perm_acceptEdits", "user", 1)),
    "verdict given": (printed(runs.verdict("s"))[1], pick("reco", "user", 1)),
    "nudge": (lines.injected("[structured-output-enforce]"), pick("js_structured_never", "user")),
    "retry": (lines.api_retry(429, "rate_limit"), pick("mr1_e429", "api_retry")),
    "API error": (lines.api_error("e", "rate_limit"), pick("mr1_e429", "assistant")),
    "no login": (lines.api_error("e", "authentication_failed", False), pick("bad_nocreds", "assistant")),
    "result": (lines.result("r"), pick("ok_stdin", "result")),
    "result with a verdict": (lines.result("r", structured_output={}), pick("reco", "result")),
    "result with denials": (
        lines.result("r", permission_denials=[DENIAL]),
        pick("perm_acceptEdits", "result"),
    ),
    "result of an API error": (lines.result_api_error("e", 429), pick("mr1_e429", "result")),
    "result without a session": (
        lines.result_error("error_during_execution", [UNKNOWN]),
        pick("m_badresume", "result"),
    ),
    "result of too many turns": (
        lines.result_error("error_max_turns", ["e"], terminal_reason="max_turns", spent=lines.Spent()),
        pick("m_maxturns1", "result"),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_line_has_the_keys_of_the_recorded_one(name: str):
    fake, real = PAIRS[name]
    assert set(shape(fake)) == set(shape(real))
    for key in (
        "type",
        "subtype",
        "is_error",
        "api_error_status",
        "terminal_reason",
        "tools",
        "apiKeySource",
    ):
        assert fake.get(key) == real.get(key), key


def run(engine: FakeEngine, *argv: str) -> tuple[int, list[Line], str]:
    done = subprocess.run(
        [engine.executable, *argv],
        cwd=engine.bin.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path)


def test_a_whole_run_is_told_as_the_recorded_one(engine: FakeEngine, tmp_path: Path):
    steps = [out(lines.text("work")), runs.wrote("s.txt", "s"), out(lines.text("finishing"))]
    engine.calls(call(runs.session(*steps, runs.verdict("did it"))))
    code, told, _ = run(engine, "--session-id", "b888fff3")

    assert code == 0
    assert (tmp_path / "s.txt").read_text() == "s"
    assert [line["type"] for line in told] == [line["type"] for line in recorded("reco")]
    assert {line["session_id"] for line in told} == {"b888fff3"}
    assert told[0]["cwd"] == str(tmp_path)
    assert told[2]["message"]["content"][0]["input"]["file_path"] == f"{tmp_path}/s.txt"
    assert told[-1]["structured_output"] == pick("reco", "result")["structured_output"]


def test_a_refusing_api_ends_as_recorded(engine: FakeEngine):
    real = recorded("mr1_e429")
    engine.calls(call(runs.session(runs.api_failed(429, "rate_limit", real[-1]["result"]), structured=False)))
    code, told, _ = run(engine)
    assert code == 1
    assert [set(line) for line in told] == [set(line) for line in real]
    assert told[-1]["result"] == real[-1]["result"]


def test_an_unknown_session_ends_as_recorded(engine: FakeEngine):
    session = "11111111-1111-4111-8111-111111111111"
    code, told, err = run(engine.calls(call(runs.unknown_session())), "--resume", session)
    assert code == 1
    assert err.strip() == (RECORDED / "m_badresume.stderr.txt").read_text().strip()
    assert [line["errors"] for line in told] == [line["errors"] for line in recorded("m_badresume")]


def test_an_interrupted_run_ends_as_recorded(engine: FakeEngine, tmp_path: Path):
    ready = tmp_path / "ready"
    engine.calls(call(runs.session(runs.interruptible(), touch(ready), hang())))
    process = subprocess.Popen(
        [engine.executable], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    wait_until(ready.exists)
    process.send_signal(signal.SIGINT)
    told = [json.loads(line) for line in process.communicate(timeout=60)[0].splitlines()]
    assert process.returncode == 0
    real = recorded("sig_int")
    assert [set(shape(line)) for line in told[1:]] == [set(shape(line)) for line in real[-3:]]
