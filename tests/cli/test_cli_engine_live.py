"""`cf engines check NAME --live`: real work, as by `cf work start`, that leaves nothing (rules 4, 9.1, 10.1)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from codeframe.core.engine_trial import LINE
from tests.cli.conftest import Cf, refused
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.engines import start_cf
from tests.kit.repos import git, write
from tests.kit.scenario import FakeEngine, Steps, call, hang, out, touch
from tests.kit.scenario import write as writes
from tests.kit.waiting import wait_until

LOGGED_IN = call(out('{"loggedIn": true}'), argv=["auth", "status"], stdin="ignore", probe=True)
GOOD = wrote("hello.txt", f"{LINE}\n")


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cf: Cf) -> FakeEngine:
    engine = FakeEngine(tmp_path / "person", "claude")
    monkeypatch.setenv("PATH", engine.path())
    return engine


def plays(engine: FakeEngine, *rounds: Steps) -> None:
    engine.calls(*(call(session(steps, verdict("made it"))) for steps in rounds), LOGGED_IN)


def left(home: Path) -> list[Path]:
    """Files of CodeFrame's in the home folder, but for what is known of versions."""
    state = home / ".local" / "state" / "codeframe"
    found = [path for path in state.rglob("*") if path.is_file() or path.parent.name == "trials"]
    return [path for path in found if path.name != "engine-versions.json"]


def test_it_works_in_a_repository_of_its_own_that_is_gone_afterwards(
    cf: Cf, claude: FakeEngine, git_home: Path
) -> None:
    plays(claude, GOOD)
    before = git(cf.where, "status", "--porcelain", "--ignored")
    done = cf("engines", "check", "claude-code", "--live", "--model", "some-model")
    verdict_line, words = done.stdout.splitlines()[-2:]
    assert verdict_line.startswith("COMPLETED, verified; 1 engine call; ")
    assert " tokens in, " in verdict_line
    assert words.startswith("claude-code works: it did the task")
    announced = done.stderr.index(
        "claude-code now does a tiny task in a temporary repository, with your login"
    )
    assert announced < done.stderr.index("claude-code started")
    (run,) = claude.invocations()
    assert run.argv[run.argv.index("--model") + 1] == "some-model"
    assert not run.cwd.is_relative_to(cf.where)
    assert not run.cwd.exists()
    assert left(git_home) == []
    assert git(cf.where, "status", "--porcelain", "--ignored") == before
    assert cf("tasks", "list", "--json").json() == []


def test_as_json_it_is_the_check_and_the_run(cf: Cf, claude: FakeEngine, outside: Path) -> None:
    plays(claude, GOOD)
    shown = cf("engines", "check", "claude-code", "--live", "--json", where=outside).json()
    assert (shown["ready"], shown["live"]["status"], shown["live"]["verification"]) == (
        True,
        "COMPLETED",
        "verified",
    )
    assert shown["live"]["usage"]["output_tokens"] > 0


def test_what_was_done_wrong_twice_fails_with_the_gates_words(
    cf: Cf, claude: FakeEngine, git_home: Path
) -> None:
    plays(claude, wrote("hello.txt", "hm\n"), wrote("hello.txt", "hm hm\n"))
    done = cf("engines", "check", "claude-code", "--live", code=1)
    assert "FAILED (gates); 2 engine calls; " in done.stdout
    assert "hello" in done.stdout.splitlines()[-1]
    assert left(git_home) == []


def test_ctrl_c_stops_it_and_leaves_nothing(
    cf: Cf, claude: FakeEngine, git_home: Path, tmp_path: Path
) -> None:
    working = tmp_path / "working"
    claude.calls(call(session(GOOD), touch(working), hang()), LOGGED_IN)
    process = start_cf(
        "engines", "check", "claude-code", "--live", cwd=cf.where, env={**os.environ, "HOME": str(git_home)}
    )
    wait_until(working.exists)
    process.send_signal(signal.SIGINT)
    out_, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "STOPPED" in out_
    (run,) = claude.invocations()
    assert not run.cwd.exists()
    assert left(git_home) == []


def test_what_a_killed_one_left_the_next_one_ends_and_removes(
    cf: Cf, claude: FakeEngine, git_home: Path, tmp_path: Path
) -> None:
    working = tmp_path / "working"
    claude.calls(call(session(GOOD), touch(working), hang()), LOGGED_IN)
    process = start_cf(
        "engines", "check", "claude-code", "--live", cwd=cf.where, env={**os.environ, "HOME": str(git_home)}
    )
    wait_until(working.exists)
    process.kill()
    process.communicate(timeout=60)
    (killed,) = claude.invocations()
    assert killed.cwd.exists()
    engine = psutil.Process(killed.pid)
    plays(claude, GOOD)
    cf("engines", "check", "claude-code", "--live")
    assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE
    assert not killed.cwd.exists()
    assert left(git_home) == []


def test_what_is_configured_here_holds_and_has_to_be_trusted_here(
    cf: Cf, tmp_path: Path, git_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = FakeEngine(cf.where / "tools", "agent")
    tool.calls(call(writes("hello.txt", f"{LINE}\n"), out("made it")))
    monkeypatch.setenv("PATH", FakeEngine(tmp_path / "person", "other").path())
    settings = {
        "engines": {"mine": {"command": [f"./{tool.executable.relative_to(cf.where)}", "--yes"]}},
        "engine_args": {"mine": ["--deep"]},
    }
    write(cf.where, {".codeframe/config.yaml": json.dumps(settings)})
    refused(
        cf("engines", "check", "mine", "--live", "--json", code=5),
        "engine mine (new), arguments mine (new)",
        "cf trust --yes",
    )
    assert tool.invocations() == []
    cf("trust", "--yes")
    cf("engines", "check", "mine", "--live")
    (run,) = tool.invocations()
    assert run.argv == ["--yes", "--deep"]
    assert not run.cwd.is_relative_to(cf.where)


def test_options_of_a_live_check_need_one(cf: Cf, claude: FakeEngine) -> None:
    for option in (("--model", "m"), ("--timeout", "2m")):
        refused(cf("engines", "check", "claude-code", *option, code=2), "--live")
