"""Baselines kept on disk, declared commands, what is missing, what is said."""

from __future__ import annotations

import io
import threading
import time

import pytest

from codeframe.core.gates import Gate, GateOutcome, declared_gates
from codeframe.core.gates.runner import Log
from codeframe.core.lines import Line


def shell(name: str, script: str, timeout: float = 60) -> dict[str, object]:
    return {"name": name, "command": ["sh", "-c", script], "timeout": timeout}


def only(report):
    (verdict,) = report.verdicts
    return verdict


@pytest.fixture
def counting(bare):
    """A gate that says how often it ran and fails while `red` holds something."""
    bare.work.mkdir()
    script = f"echo x >> {bare.work}/runs; cat red 2>/dev/null; test ! -s red"
    bare.gates = declared_gates([shell("count", script)])
    return bare


def runs(project) -> int:
    return len((project.work / "runs").read_text().split())


def test_a_baseline_is_run_once_per_tree(counting):
    first = counting.base("one")
    assert counting.base("one") == first
    assert runs(counting) == 1
    counting.base("two")
    assert runs(counting) == 2


def test_what_verified_a_tree_is_the_baseline_of_that_tree(counting):
    counting.base("before")
    counting.based.keep("after", counting.check())
    assert counting.base("after")["count"].outcome is GateOutcome.PASSED
    assert runs(counting) == 2


def test_a_check_that_did_not_verify_is_no_baseline(counting):
    counting.base("before")
    counting.write({"red": "bad\n"})
    counting.based.keep("after", counting.check())
    assert counting.suite().cached_baseline("after") is None


def test_a_baseline_is_found_again_when_the_tree_has_changed(counting):
    counting.write({"red": "bad\n"})
    before = counting.base("one")
    counting.write({"red": "worse\n"})
    assert counting.suite().cached_baseline("one") == before
    assert counting.suite().cached_baseline("two") is None


def test_a_baseline_of_another_command_or_environment_is_not_used(counting):
    counting.base("one")
    counting.gates = declared_gates([shell("count", "true")])
    assert counting.suite().cached_baseline("one") is None


def test_another_environment_has_another_baseline(project):
    project.write({"test_it.py": "def test_a(): pass\n"})
    project.base("one")
    project.venv(project.root / "venv")
    (project.root / ".venv" / "bin" / "python").unlink()
    assert project.suite().cached_baseline("one") is None


@pytest.mark.parametrize("damage", ["", "{}", "[1]", "\x00"])
def test_a_damaged_cache_is_no_baseline(counting, damage):
    counting.base("one")
    (kept,) = (counting.work / "cache").iterdir()
    kept.write_text(damage)
    assert counting.suite().cached_baseline("one") is None


def test_a_command_passes_when_it_exits_with_0(counting):
    report = counting.check()
    assert (report.status, only(report).result.outcome) == ("verified", GateOutcome.PASSED)


def test_the_same_failure_of_a_command_is_old_though_its_lines_and_times_moved(counting):
    counting.write({"red": "a.c:10: bad thing\n2 errors in 0.31s\n"})
    counting.base()
    counting.write({"red": "2 errors in 1.5s\na.c:12: bad thing\n"})
    assert counting.check().status == "verified"
    counting.write({"red": "2 errors in 1.5s\na.c:12: another thing\n"})
    report = counting.check()
    assert report.status == "failed"
    assert "another thing" in report.feedback()
    assert "exit status 1" in report.feedback()


def test_a_red_command_that_counts_more_errors_than_before_is_a_new_failure(counting):
    counting.write({"red": "1 errors\n"})
    counting.base()
    counting.write({"red": "9 errors\n"})
    report = counting.check()
    assert report.status == "failed"
    assert "counts more problems than before (1; now 9)" in report.feedback()
    counting.write({"red": "0 errors\n"})
    assert counting.check().status == "verified"


def test_a_higher_count_that_does_not_come_back_is_flaky(bare):
    script = f"test -e {bare.work}/n && echo 2 errors || echo 1 errors; rm -f {bare.work}/n; exit 1"
    bare.gates = declared_gates([shell("count", script)])
    bare.base()
    (bare.work / "n").touch()
    report = bare.check()
    assert (report.status, len(only(report).flaky)) == ("verified", 1)


def test_a_command_that_passes_when_run_again_is_flaky(bare):
    bare.gates = declared_gates(
        [shell("flaky", f"test -e {bare.work}/once || {{ touch {bare.work}/once; exit 1; }}")]
    )
    report = bare.check()
    assert (report.status, len(only(report).flaky)) == ("verified", 1)


def test_a_command_gone_missing_after_the_baseline_blocks(bare):
    tool = bare.executable(bare.root / "tool", "#!/bin/sh\n")
    bare.gates = declared_gates([{"name": "own", "command": "./tool"}])
    assert bare.base()["own"].outcome is GateOutcome.PASSED
    tool.unlink()
    report = bare.check()
    assert report.status == "failed"


def test_missing_lists_declared_gates_without_their_tool(bare):
    bare.gates = [
        *declared_gates(
            [
                {"name": "a", "command": "no-such-tool --all"},
                {"name": "b", "command": "./none"},
                shell("c", ""),
            ]
        ),
        Gate("pytest", ("pytest",), "pytest"),
    ]
    assert [gate.name for gate in bare.suite().missing()] == ["a", "b"]


def test_describe_tells_what_is_really_run(project):
    project.gates = [
        Gate("pytest", ("pytest",), "pytest"),
        *declared_gates([{"name": "x", "command": "nothing-here"}]),
    ]
    assert project.suite().describe() == (
        "pytest: .venv/bin/python -m pytest",
        "x: cannot run: nothing-here is not there",
    )


def test_the_limit_of_all_gates_is_shared(bare):
    bare.gates = declared_gates([shell("slow", "sleep 600"), shell("next", "true")])
    report = bare.suite().check(None, bare.work, marker=bare.marker, timeout_s=0.5)
    assert [v.result.outcome for v in report.verdicts] == [GateOutcome.TIMEOUT] * 2
    assert report.status == "failed"


def test_a_flood_is_kept_with_head_and_tail():
    stream = io.StringIO()
    log = Log(stream, head=100, tail=50)
    for number in range(10_000):
        log.add("stdout", [Line(f"line {number}")])
    log.finish()
    lines = stream.getvalue().splitlines()
    assert (lines[0], lines[-1]) == ("line 0", "line 9999")
    assert len(stream.getvalue()) < 250
    assert any("characters left out" in line for line in lines)


def test_a_line_that_was_cut_says_so():
    stream = io.StringIO()
    log = Log(stream)
    log.add("stdout", [Line("text", dropped_bytes=7)])
    log.finish()
    assert stream.getvalue() == "text [... 7 bytes left out]\n"


def test_logs_of_earlier_rounds_are_kept(counting):
    counting.check()
    counting.check()
    assert sorted(path.name for path in (counting.work / "out").iterdir()) == ["count.2.log", "count.log"]


def test_an_environment_made_meanwhile_is_found(bare, monkeypatch):
    monkeypatch.setenv("PATH", str(bare.work))
    bare.write({"test_it.py": "def test_a(): pass\n"})
    suite = bare.suite()
    base = suite.baseline("tree", bare.work / "out", marker=bare.marker)
    assert base["pytest"].outcome is GateOutcome.TOOL_MISSING
    bare.venv()
    monkeypatch.undo()
    assert suite.check(base, bare.work / "out", marker=bare.marker).status == "verified"


def test_a_stop_in_the_middle_ends_the_gate_and_keeps_no_baseline(bare):
    bare.gates = declared_gates([shell("long", "touch started; sleep 600"), shell("next", "touch never")])
    cancel = threading.Event()

    def stop_once_started() -> None:
        while not (bare.root / "started").exists():
            time.sleep(0.01)
        cancel.set()

    thread = threading.Thread(target=stop_once_started)
    thread.start()
    suite = bare.suite()
    results = suite.baseline("tree", bare.work / "out", marker=bare.marker, cancel=cancel)
    thread.join()
    assert results["long"].failures[0].title == "stopped before it ended"
    assert not (bare.root / "never").exists()
    assert suite.cached_baseline("tree") is None
