"""Engines that print without end: the memory of `cf` stays bounded, no line that counts is lost (rule 5.3)."""

from __future__ import annotations

import json

import pytest

from tests.hostile.stage import Outcome, Stage
from tests.kit.claude_lines import text, tool_use
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.engines import Completed
from tests.kit.memory import watched
from tests.kit.scenario import Step, call, flood, raw

MB = 1_000_000
MOST = 200 * MB


def start_measured(stage: Stage, *noise: Step) -> tuple[Outcome, int]:
    """A run whose engine makes `noise`; with it the largest resident size, in bytes, that cf ever had."""
    stage.engine.calls(call(session(wrote("work.py", "x = 1\n"), *noise, verdict("done"))))
    task = stage.task()
    process = stage.begin(task)
    assert process.stdout is not None
    assert process.stderr is not None
    with watched(process.pid) as peak:
        told = process.stderr.read()  # ends with cf: its lines are few, stdout's fit the pipe
    out = process.stdout.read()
    outcome = stage.outcome(task, Completed(process.wait(), out, told))
    assert peak.bytes > 10 * MB, "the watcher saw nothing"
    return outcome, peak.bytes


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param([flood(210 * MB, line=20_000)], id="210 MB"),
        pytest.param([flood(16 * MB, to="stderr")], id="16 MB of short lines on stderr"),
        pytest.param([flood(50 * MB, line=0)], id="a line of 50 MB"),
        pytest.param([flood(1000 * MB)], id="1 GB", marks=pytest.mark.slow),
    ],
)
def test_a_flood_passes_and_memory_stays_bounded(stage: Stage, noise: list[Step]) -> None:
    outcome, peak = start_measured(stage, *noise)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert peak < MOST
    outcome.check_work_kept("work.py", "x = 1\n")


def test_a_flood_of_events_stays_bounded(stage: Stage) -> None:
    lines = [text("a word or two " * 20), tool_use("Read", {"file_path": "a" * 200}, "toolu_1")]
    both = "".join(json.dumps(line) + "\n" for line in lines).encode()
    outcome, peak = start_measured(stage, raw(both * 3000))
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert peak < MOST
