"""Watching: `work logs`, `work follow`, `events`, and the line that moves on a terminal (rule 10.3)."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.terminal import on_terminal
from tests.hostile.stage import WAIT_S, Stage
from tests.kit.claude_runs import said, session, verdict, wrote
from tests.kit.engines import start_cf
from tests.kit.scenario import call, sleep, wait_for
from tests.kit.waiting import wait_until


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.build(tmp_path)


def test_logs_tell_what_was_said_and_done_apart_and_raw(stage: Stage) -> None:
    stage.engine.calls(
        call(session(said("Looking around."), wrote("work.py", "x = 1\n"), verdict("made it")))
    )
    task = stage.task()
    stage.start(task).expect(0, "COMPLETED", None, "DONE")
    whole = stage.cf("work", "logs", task.id).stdout
    assert "> Looking around." in whole
    assert "~ work.py" in whole
    assert "= Gates are switched off" in whole
    text = stage.cf("work", "logs", task.id, "--text").stdout
    assert [line[9:] for line in text.splitlines()] == ["> Looking around."]
    tools = stage.cf("work", "logs", task.id, "--tools").stdout
    assert "work.py" in tools
    assert "Looking around" not in tools
    raw = stage.cf("work", "logs", task.id, "--raw", "--json").stdout.splitlines()
    printed = [record for record in map(json.loads, raw) if record["s"] == "out"]
    assert json.loads(printed[0]["line"])["type"] == "system"
    last = json.loads(stage.cf("work", "logs", task.id, "--limit", "1", "--json").stdout)
    assert set(last) == {"t", "s", "line"}
    refused = stage.cf("work", "logs", task.id, "--raw", "--text")
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_a_run_is_followed_from_another_terminal_to_its_end(stage: Stage, tmp_path: Path) -> None:
    go = tmp_path / "go"
    stage.engine.calls(
        call(
            session(
                said("First words."),
                wait_for(str(go)),
                said("Last words."),
                wrote("work.py", "x"),
                verdict("ok"),
            )
        )
    )
    task = stage.task()
    running = stage.begin(task)
    wait_until(lambda: "First words" in stage.cf("work", "logs", task.id).stdout, WAIT_S)
    follower = start_cf("work", "follow", cwd=stage.repo, env=stage.env, stdin=subprocess.DEVNULL)
    assert follower.stdout is not None
    seen = ""
    while "First words." not in seen:
        seen = follower.stdout.readline()
        assert seen, "the follower ended early"
    given_up = start_cf("work", "follow", task.id, cwd=stage.repo, env=stage.env, stdin=subprocess.DEVNULL)
    assert given_up.stdout is not None
    given_up.stdout.readline()
    given_up.send_signal(signal.SIGINT)
    assert given_up.wait(WAIT_S) == 130
    given_up.communicate()
    go.touch()
    rest, _ = follower.communicate(timeout=WAIT_S)
    assert follower.returncode == 0
    assert "Last words." in rest
    assert "COMPLETED" in rest
    stage.ended(task, running).expect(0, "COMPLETED", None, "DONE")
    again = stage.cf("work", "follow", task.id).stdout
    assert again.index("First words.") < again.index("Last words.") < again.index("COMPLETED")


def test_follow_says_when_there_is_nothing_to_follow(stage: Stage) -> None:
    said_so = stage.cf("work", "follow")
    assert (said_so.exit_code, "Nothing is running" in said_so.stderr) == (1, True)


def test_events_are_listed_and_followed(stage: Stage) -> None:
    stage.engine.calls(call(session(wrote("work.py", "x = 1\n"), verdict("ok"))))
    task, other = stage.task("One"), stage.task("Two")
    follower = start_cf(
        "events", "--follow", "--json", cwd=stage.repo, env=stage.env, stdin=subprocess.DEVNULL
    )
    stage.start(task).expect(0, "COMPLETED", None, "DONE")
    listed = [json.loads(line) for line in stage.cf("events", "--json").stdout.splitlines()]
    assert [event["seq"] for event in listed] == sorted(event["seq"] for event in listed)
    assert {event["task_id"] for event in listed} == {task.id}
    assert follower.stdout is not None
    followed = [json.loads(follower.stdout.readline()) for _ in listed]
    assert followed == listed
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=WAIT_S)
    assert follower.returncode == 130
    assert stage.cf("events", "--task", other.id).stdout == ""
    assert len(stage.cf("events", "--limit", "1").stdout.splitlines()) == 1


def test_a_terminal_shows_that_the_run_lives_and_keeps_nothing_of_it(stage: Stage) -> None:
    stage.engine.calls(call(session(sleep(1.2), wrote("work.py", "x = 1\n"), verdict("ok"))))
    task = stage.task()
    screen = on_terminal(*stage.start_args(task), cwd=stage.repo, env=stage.env)
    assert "claude-code · Ctrl-C stops it" in screen
    left = [part.rsplit("\x1b[2K", 1)[-1] for part in screen.split("\n")]
    assert not any("Ctrl-C" in line for line in left)
    assert "COMPLETED" in screen
