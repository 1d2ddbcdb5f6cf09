"""The fake engine does what its scenario says, and its log says what it was given."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.kit import scenario as do
from tests.kit.scenario import FakeEngine, Steps, call
from tests.kit.waiting import wait_until


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path / "fake")


def start(engine: FakeEngine, *argv: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([engine.executable, *argv], cwd=cwd or engine.bin.parent, env={"A": "1"}, **pipes)


def run(engine: FakeEngine, *argv: str, stdin: bytes = b"", cwd: Path | None = None):
    process = start(engine, *argv, cwd=cwd)
    out, err = process.communicate(stdin, timeout=60)
    return process.returncode, out, err


def play(engine: FakeEngine, *steps: Steps):
    return run(engine.calls(call(*steps)))


def children_of(engine: FakeEngine) -> list[psutil.Process]:
    (invocation,) = engine.invocations()
    return [psutil.Process(pid) for pid in invocation.children]


# -- what it was given --------------------------------------------------------------------------------


def test_the_log_holds_argv_environment_folder_and_stdin(engine: FakeEngine, tmp_path: Path):
    run(engine, "-p", "--model", "a b", stdin="ä".encode(), cwd=tmp_path)
    (invocation,) = engine.invocations()
    assert invocation.argv == ["-p", "--model", "a b"]
    assert invocation.env == {"A": "1"}
    assert invocation.cwd == tmp_path
    assert invocation.prompt == "ä"
    assert invocation.exit_code == 0


def test_stdin_that_is_not_text_is_logged_to_the_byte(engine: FakeEngine):
    run(engine, stdin=b"\xff\x00a")
    assert engine.invocations()[0].stdin == b"\xff\x00a"


def test_a_log_line_of_a_running_call_is_there_already(engine: FakeEngine):
    engine.calls(call(do.hang(), stdin="ignore"))
    process = start(engine)
    wait_until(lambda: bool(engine.invocations()))
    assert engine.invocations()[0].pid == process.pid
    assert engine.invocations()[0].stdin is None
    process.kill()
    process.communicate()
    assert engine.invocations()[0].exit_code is None


def test_scenario_and_log_may_be_named_in_the_environment(engine: FakeEngine, tmp_path: Path):
    named, log = tmp_path / "s.json", tmp_path / "log.jsonl"
    named.write_text(json.dumps({"calls": [call(do.out("other"))]}))
    env = {"FAKE_ENGINE_SCENARIO": str(named), "FAKE_ENGINE_LOG": str(log)}
    done = subprocess.run([engine.executable], env=env, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.stdout == b"other\n"
    assert log.exists()
    assert engine.invocations() == []


# -- which call ------------------------------------------------------------------------------------------


def test_the_nth_run_plays_the_nth_call_and_the_last_goes_on(engine: FakeEngine):
    engine.calls(call(do.out("one")), call(do.out("two")))
    assert [run(engine)[1] for _ in range(3)] == [b"one\n", b"two\n", b"two\n"]


def test_a_probe_is_answered_without_using_up_a_call(engine: FakeEngine):
    engine.calls(call(do.out("work")))
    assert run(engine, "--version")[1] == b"2.1.197 (Claude Code)\n"
    assert run(engine)[1] == b"work\n"
    assert len(engine.invocations()) == 1
    assert len(engine.invocations(probes=True)) == 2


def test_calls_are_chosen_by_argv_prompt_or_folder(engine: FakeEngine, tmp_path: Path):
    (tmp_path / "tree").mkdir()
    engine.calls(
        call(do.out("plain")),
        call(do.out("resumed"), argv=["--resume"]),
        call(do.out("resumed again"), argv=["--resume"]),
        call(do.out("task b"), prompt="b please"),
        call(do.out("in tree"), cwd="/tree"),
    )
    assert run(engine, "--resume", "x")[1] == b"resumed\n"
    assert run(engine)[1] == b"plain\n"
    assert run(engine, stdin=b"b please")[1] == b"task b\n"
    assert run(engine, cwd=tmp_path / "tree")[1] == b"in tree\n"
    assert run(engine, "--resume", "x")[1] == b"resumed again\n"


def test_many_at_once_play_each_call_once(engine: FakeEngine):
    engine.calls(*[call(do.out(str(number))) for number in range(8)])
    processes = [start(engine) for _ in range(8)]
    said = sorted(int(process.communicate()[0]) for process in processes)
    assert said == list(range(8))
    assert len(engine.invocations()) == 8


# -- what it does ------------------------------------------------------------------------------------------


def test_lines_and_placeholders(engine: FakeEngine, tmp_path: Path):
    line = {"cwd": "{cwd}", "id": "{arg:--session-id|--resume}", "env": "{env:A}", "code": "{x} {cwd}/ä"}
    engine.calls(call(do.out(line), do.err("worse"), do.leave(3)))
    code, out, err = run(engine, "--resume", "abc", cwd=tmp_path)
    assert (code, err) == (3, b"worse\n")
    assert json.loads(out) == {"cwd": f"{tmp_path}", "id": "abc", "env": "1", "code": f"{{x}} {tmp_path}/ä"}
    assert "ä".encode() in out
    assert json.loads(run(engine, "--session-id=eq")[1])["id"] == "eq"


def test_files_and_commands(engine: FakeEngine, tmp_path: Path):
    (tmp_path / "old").touch()
    steps = [
        do.write("sub/a", "1"),
        do.append("sub/a", b"\xff"),
        do.delete("old"),
        do.touch("flag"),
        do.wait_for(tmp_path / "flag"),
        do.sh("echo hidden; echo $A > from-sh"),
    ]
    code, out, _ = run(engine.calls(call(steps)), cwd=tmp_path)
    assert (code, out) == (0, b"")
    assert (tmp_path / "sub/a").read_bytes() == b"1\xff"
    assert not (tmp_path / "old").exists()
    assert (tmp_path / "from-sh").read_text() == "1\n"


@pytest.mark.parametrize(
    "step",
    [{"fly": 1}, do.sh("exit 4"), do.delete("nothing")],
    ids=["unknown step", "failed command", "missing file"],
)
def test_a_wrong_scenario_is_told_from_an_engine_that_fails(engine: FakeEngine, step: do.Step):
    code, _, err = play(engine, step)
    assert code == 97
    assert b"fake engine:" in err


def test_bytes_floods_and_half_a_character(engine: FakeEngine):
    assert play(engine, do.raw(b"\xff\x00"), do.half_a_character())[1] == b"\xff\x00\xc3"
    lines = play(engine, do.flood(1_000_000, line=100))[1]
    assert len(lines) == 1_000_000
    assert {len(line) for line in lines.splitlines()} == {99}
    one_line = play(engine, do.flood(1_000_000, line=0, to="stderr"))[2]
    assert one_line == b"x" * 1_000_000 + b"\n"


def test_a_closed_stdout_ends_while_the_engine_lives(engine: FakeEngine):
    engine.calls(call(do.out("last"), do.close(), do.hang(), stdin="ignore"))
    process = start(engine)
    assert process.stdout.read() == b"last\n"
    assert process.poll() is None
    process.kill()
    process.communicate()


def test_a_reader_that_went_away_does_not_stop_it(engine: FakeEngine, tmp_path: Path):
    engine.calls(call(do.wait_for(tmp_path / "go"), do.out("to nobody"), do.leave(5), stdin="ignore"))
    process = start(engine)
    process.stdout.close()
    (tmp_path / "go").touch()
    assert process.wait(timeout=60) == 5
    process.stderr.close()
    process.stdin.close()


def test_it_waits_for_the_end_of_stdin_unless_told_otherwise(engine: FakeEngine):
    engine.calls(call(do.out("first"), do.read_stdin(), do.out("second"), stdin="ignore"))
    process = start(engine)
    assert process.stdout.readline() == b"first\n"
    assert process.communicate(b"late")[0] == b"second\n"
    assert engine.invocations()[0].stdin == b"late"


def test_it_dies_of_a_signal(engine: FakeEngine):
    assert play(engine, do.die())[0] == -signal.SIGKILL
    assert play(engine, do.die("SIGTERM"))[0] == -signal.SIGTERM


def test_signals_are_deaf_ears_or_steps_and_always_logged(engine: FakeEngine, tmp_path: Path):
    ready = tmp_path / "ready"
    polite = do.on_signal("SIGINT", steps=[do.out("interrupted"), do.leave(0)])
    engine.calls(call(do.on_signal("SIGTERM", "SIGHUP"), polite, do.touch(ready), do.hang(), stdin="ignore"))
    process = start(engine)
    wait_until(ready.exists)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: engine.invocations()[0].signals == ["SIGTERM"])
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == b"interrupted\n"
    assert process.returncode == 0
    assert engine.invocations()[0].signals == ["SIGTERM", "SIGINT"]


def test_without_a_handler_sigint_ends_it_silently(engine: FakeEngine, tmp_path: Path):
    engine.calls(call(do.touch(tmp_path / "ready"), do.hang(), stdin="ignore"))
    process = start(engine)
    wait_until((tmp_path / "ready").exists)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == -signal.SIGINT


def test_children_of_every_kind_outlive_it(engine: FakeEngine):
    play(
        engine,
        do.spawn(session=True),
        do.spawn(daemon=True),
        do.spawn(ignore=["SIGTERM"]),
        do.spawn(env={}),
    )
    in_session, daemon, stubborn, bare = children_of(engine)
    try:
        assert os.getsid(in_session.pid) == in_session.pid
        assert os.getsid(daemon.pid) not in (daemon.pid, os.getsid(0))
        assert in_session.environ()["A"] == "1"
        assert "A" not in bare.environ()
        for child in (stubborn, bare):
            child.terminate()
        wait_until(lambda: not alive(bare))
        assert alive(stubborn)
    finally:
        for child in (in_session, daemon, stubborn, bare):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


def alive(child: psutil.Process) -> bool:
    return child.is_running() and child.status() != psutil.STATUS_ZOMBIE


def test_a_daemon_holds_stdout_open_after_the_engine_is_gone(engine: FakeEngine):
    engine.calls(call(do.spawn(daemon=True, hold_stdout=True), do.out("bye")))
    process = start(engine)
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    (daemon,) = children_of(engine)
    os.set_blocking(process.stdout.fileno(), False)
    assert process.stdout.read() == b"bye\n"
    assert process.stdout.read() is None  # no end of file: someone still holds it
    daemon.kill()
    os.set_blocking(process.stdout.fileno(), True)
    assert process.stdout.read() == b""
    process.stdout.close()
    process.stderr.close()


def test_it_runs_without_site_packages(engine: FakeEngine):
    """Fakes are started by the hundred: `site` alone would double what each costs."""
    first_line = engine.executable.read_text().splitlines()[0]
    assert first_line == f"#!{os.path.realpath(sys.executable)} -IS"


def test_it_talks_json_rpc_until_stdin_ends(engine: FakeEngine):
    steps = (
        do.hear("greet"),
        do.answer("greet", {"hello": "you"}),
        do.out({"id": 7, "method": "may I"}),
        do.hear(7),
        do.answer("greet", error="no more"),
        do.hear("never comes"),
    )
    engine.calls(call(*steps, stdin="ignore"))
    said = b'{"method": "first"}\n{"id": 3, "method": "greet"}\n{"id": 7, "result": {}}\n'
    code, stdout, _ = run(engine, stdin=said)
    assert code == 0
    assert [json.loads(line) for line in stdout.splitlines()] == [
        {"id": 3, "result": {"hello": "you"}},
        {"id": 7, "method": "may I"},
        {"id": 3, "error": {"code": -32600, "message": "no more"}},
    ]
    (invocation,) = engine.invocations()
    assert invocation.heard == [json.loads(line) for line in said.splitlines()]
