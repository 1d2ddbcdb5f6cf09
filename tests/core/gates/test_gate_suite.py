"""Baselines kept on disk, declared commands, what is missing, what is said."""

from __future__ import annotations

import io
import threading
import time

import pytest

from codeframe.core.gates import Gate, GateOutcome, declared_gates
from codeframe.core.gates.runner import Log
from codeframe.core.gates.suite import NOT_MEASURED
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


def test_what_is_new_by_a_baseline_that_was_not_measured_now_is_told_so(counting):
    """A file that git ignores may be what is missing since: nobody's tree shows it."""
    counting.base("one")
    counting.write({"red": "gone.dat is missing\n"})
    assert NOT_MEASURED not in counting.check().feedback()
    counting.base("one")
    report = counting.check()
    assert NOT_MEASURED in report.feedback()
    assert NOT_MEASURED in report.summary_lines()[0]


def test_a_check_that_found_something_red_is_no_baseline(counting):
    counting.base("before")
    counting.write({"red": "bad\n"})
    counting.based.keep("after", counting.check())
    counting.base("old")
    counting.based.keep("after", counting.check())
    assert counting.recalled("after") == {}


def test_a_baseline_is_found_again_when_the_tree_has_changed(counting):
    counting.write({"red": "bad\n"})
    before = counting.base("one")
    counting.write({"red": "worse\n"})
    assert counting.recalled("one") == before
    assert counting.recalled("two") == {}


def test_what_was_red_on_a_tree_is_measured_again_by_the_next_run_on_it(counting):
    """The cause need not be in the tree: a database was down, a file that git ignores was missing."""
    counting.write({"red": "no database\n"})
    counting.base("one")
    counting.write({"red": ""})
    assert not counting.base("one", "second")["count"].failures
    assert not counting.recalled("one")["count"].failures  # green on this very tree: for the first, too


def test_a_red_run_of_others_on_the_same_tree_is_not_old_for_the_first(counting):
    counting.write({"red": "no database\n"})
    before = counting.base("one")
    counting.write({"red": "no network\n"})
    assert counting.base("one", "second") != before
    assert counting.recalled("one") == before


def test_what_was_red_and_passes_when_the_work_goes_on_is_no_old_failure_any_more(counting):
    counting.write({"red": "no database\n"})
    counting.base("one")
    counting.write({"red": ""})
    counting.base("one", here=False)  # work stands on the tree: nothing red could become old by it
    counting.write({"red": "no database\n"})
    counting.base("one", here=False)
    assert counting.check().status == "failed"


def test_what_passed_in_a_round_is_new_when_it_is_broken_later(counting):
    counting.write({"red": "no database\n"})
    counting.base("one")
    counting.write({"red": ""})
    counting.check()
    counting.write({"red": "no database\n"})
    counting.bases = counting.recalled("one")
    assert counting.check().status == "failed"


def test_fewer_problems_on_the_way_are_all_that_is_old(counting):
    counting.write({"red": "9 errors, 1 warnings\n"})
    counting.base("one")
    counting.write({"red": "1 errors, 2 warnings\n"})
    assert counting.check().status == "failed"
    counting.write({"red": "2 errors, 1 warnings\n"})
    counting.bases = counting.recalled("one")
    assert counting.check().status == "failed"
    counting.write({"red": "1 errors, 1 warnings\n"})
    assert counting.check().status == "verified"


def test_what_was_measured_while_the_tree_changed_is_not_for_others(counting):
    suite = counting.suite()
    suite.recall("one", "first")
    suite.baseline(counting.work / "out", marker=counting.marker)
    suite.keep_baseline(unchanged=False)
    assert counting.recalled("one") != {}
    assert counting.recalled("one", "second") == {}


def test_a_baseline_of_another_command_or_environment_is_not_used(counting):
    counting.base("one")
    counting.gates = declared_gates([shell("count", "true")])
    assert counting.recalled("one") == {}


def test_another_environment_has_another_baseline(project):
    project.write({"test_it.py": "def test_a(): pass\n"})
    project.base("one")
    project.venv(project.root / "venv")
    (project.root / ".venv" / "bin" / "python").unlink()
    assert project.recalled("one") == {}


@pytest.mark.parametrize("damage", ["", "{}", "[1]", "\x00"])
def test_a_damaged_cache_is_no_baseline(counting, damage):
    counting.base("one")
    (key,) = counting.kept
    counting.kept[key] = damage
    assert counting.recalled("one") == {}


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
    assert " s more, as new failures are run twice" in report.summary_lines()[0]


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
    report = bare.suite().check(bare.work, marker=bare.marker, timeout_s=0.5)
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
    suite.baseline(bare.work / "out", marker=bare.marker)
    assert suite.base["pytest"].outcome is GateOutcome.TOOL_MISSING
    bare.venv()
    monkeypatch.undo()
    assert suite.check(bare.work / "out", marker=bare.marker).status == "verified"


def test_a_stop_in_the_middle_ends_the_gate_and_starts_no_other(bare):
    bare.gates = declared_gates([shell("long", "touch started; sleep 600"), shell("next", "touch never")])
    cancel = threading.Event()

    def stop_once_started() -> None:
        while not (bare.root / "started").exists():
            time.sleep(0.01)
        cancel.set()

    thread = threading.Thread(target=stop_once_started)
    thread.start()
    suite = bare.suite()
    suite.recall("tree", "first")
    suite.baseline(bare.work / "out", marker=bare.marker, cancel=cancel)
    thread.join()
    assert suite.base["long"].failures[0].title == "stopped before it ended"
    assert not (bare.root / "never").exists()
