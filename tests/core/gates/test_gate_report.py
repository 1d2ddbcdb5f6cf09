"""What the engine is told, what people see, what is kept."""

from __future__ import annotations

import json
from pathlib import Path

from codeframe.core.gates import Failure, Gate, GateOutcome, GateReport, GateResult, GateVerdict


def verdict(
    new: tuple[Failure, ...] = (),
    old: tuple[Failure, ...] = (),
    gone: tuple[str, ...] = (),
    skipped: frozenset[str] = frozenset(),
) -> GateVerdict:
    result = GateResult(
        Gate("tests", ("pytest",), "pytest"),
        ("python", "-m", "pytest", "--junitxml=x"),
        GateOutcome.FAILED,
        exit_code=1,
        skipped=skipped,
        output_path=Path("out") / "tests.log",
        plain_command=("python", "-m", "pytest"),
    )
    return GateVerdict(result, new=new, old=old, gone=gone, blocking=bool(new or gone))


ASSERTION = "t.py:3: in test_a\nE   assert 1 == 2"


def test_feedback_names_command_test_assertion_and_place() -> None:
    report = GateReport((verdict(new=(Failure("k", "t.py::test_a", ASSERTION, "t.py:3"),)),))
    text = report.feedback()
    for part in (
        "Command: python -m pytest\n",
        "t.py::test_a (t.py:3)",
        "E   assert 1 == 2",
        "exit status 1",
    ):
        assert part in text


def test_feedback_gives_short_messages_on_the_line_of_their_place() -> None:
    report = GateReport((verdict(new=(Failure("k", "F401 a.py", "`os` imported but unused", "a.py:1"),)),))
    assert "- F401 a.py (a.py:1): `os` imported but unused" in report.feedback()


def test_feedback_tells_to_leave_old_failures_alone() -> None:
    old = tuple(Failure(f"k{n}", f"t.py::old_{n}") for n in range(60))
    report = GateReport((verdict(new=(Failure("k", "t.py::new"),), old=old),))
    before, after = report.feedback().split("leave them as they are:")
    assert "t.py::new" in before
    assert "t.py::old_0" in after
    assert "and 10 more" in after


def test_feedback_tells_deleted_from_skipped_tests() -> None:
    report = GateReport((verdict(gone=("t.py::a", "t.py::b"), skipped=frozenset({"t.py::b"})),))
    deleted, skipped = report.feedback().split("are skipped now")
    assert "- t.py::a" in deleted
    assert "- t.py::b" in skipped


def test_feedback_over_the_limit_keeps_head_and_tail_and_names_the_output() -> None:
    new = tuple(Failure(f"k{n}", f"t.py::test_{n}", ASSERTION * 50, "t.py:3") for n in range(200))
    text = GateReport((verdict(new=new, old=(Failure("o", "t.py::old"),)),)).feedback()
    assert len(text.encode()) <= 64 * 1024
    assert "t.py::test_0" in text
    assert "t.py::test_199 " in text  # ids come before details
    assert "t.py::old" in text
    assert "whole output: out/tests.log" in text


def test_feedback_within_the_limit_is_whole() -> None:
    assert "left out" not in GateReport((verdict(new=(Failure("k", "t.py::a", ASSERTION),)),)).feedback()


def test_summary_is_one_line_per_gate() -> None:
    report = GateReport(
        (verdict(new=(Failure("k", "t"),), old=(Failure("o", "u"),)), verdict(gone=("v", "w")))
    )
    first, second = report.summary_lines()
    assert first == "tests: failed, 1 new failure, 1 old failure, 0.0 s"
    assert second == "tests: failed, 2 tests gone or skipped, 0.0 s"


def test_summary_says_plainly_that_nothing_new_failed() -> None:
    two, one = (Failure("o", "u"), Failure("p", "v")), (Failure("o", "u"),)
    lines = GateReport((verdict(old=two), verdict(old=one), verdict())).summary_lines()
    assert lines == [
        "tests: nothing new failed (2 old failures left alone), 0.0 s",
        "tests: nothing new failed (1 old failure left alone), 0.0 s",
        "tests: nothing new failed, 0.0 s",
    ]


def test_evidence_is_json_and_bounded() -> None:
    new = tuple(Failure(f"k{n}", f"t.py::test_{n}", "x" * 8000) for n in range(1000))
    evidence = GateReport((verdict(new=new),)).to_evidence()
    assert len(json.dumps(evidence)) < 1_000_000
    (gate,) = evidence["gates"]
    assert (evidence["status"], gate["counts"]["new"]) == ("failed", 1000)
