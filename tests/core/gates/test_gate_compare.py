"""Rules 6.3 and 6.4: what is new, old, gone, flaky, and what blocks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeframe.core.gates import Failure, Gate, GateOutcome, GateReport, GateResult, GateVerdict
from codeframe.core.gates.compare import compare, renames, split

GATE = Gate("pytest", ("pytest",), "pytest")
NOWHERE = Path("/nonexistent")

FAILURES = st.lists(st.sampled_from("abcdef").map(lambda key: Failure(key, key)), max_size=8)
TEST_IDS = st.frozensets(
    st.builds(
        "{}.py::{}{}".format, st.sampled_from("ab"), st.sampled_from("fgh"), st.sampled_from(["", "[1]"])
    )
)


def result(
    outcome: str = "failed",
    *,
    failed: str = "",
    passed: str = "",
    skipped: str = "",
    comparable: bool = True,
) -> GateResult:
    return GateResult(
        GATE,
        ("pytest",),
        GateOutcome(outcome),
        failures=tuple(Failure(test, test) for test in failed.split()),
        passed=frozenset(passed.split()),
        skipped=frozenset(skipped.split()),
        comparable=comparable,
    )


def judge(now: GateResult, base: GateResult | None, root: Path = NOWHERE, **options: bool) -> GateVerdict:
    return compare(now, base, root, **options)


def keys(failures: tuple[Failure, ...]) -> list[str]:
    return [failure.key for failure in failures]


# Fingerprints are multisets


@given(FAILURES)
def test_the_same_failures_as_at_base_are_all_old(failures: list[Failure]) -> None:
    new, old = split(failures, failures)
    assert (new, old) == ([], failures)


@given(FAILURES, FAILURES)
def test_every_failure_is_either_new_or_old(now: list[Failure], base: list[Failure]) -> None:
    new, old = split(now, base)
    assert Counter(new) + Counter(old) == Counter(now)
    assert Counter(new) == Counter(now) - Counter(base)


@given(FAILURES, FAILURES, FAILURES)
def test_more_failures_never_make_fewer_new_ones(
    now: list[Failure], more: list[Failure], base: list[Failure]
) -> None:
    before, after = Counter(split(now, base)[0]), Counter(split(now + more, base)[0])
    assert before <= after


def test_a_second_failure_with_the_same_fingerprint_is_new() -> None:
    verdict = judge(result(failed="x x"), result(failed="x"))
    assert (keys(verdict.new), keys(verdict.old)) == (["x"], ["x"])


# Red before


def test_red_before_is_listed_apart_and_does_not_block() -> None:
    verdict = judge(result(failed="t.py::a", passed="t.py::b"), result(failed="t.py::a", passed="t.py::b"))
    assert not verdict.blocking
    assert keys(verdict.old) == ["t.py::a"]
    assert GateReport((verdict,)).status == "verified"


def test_strict_blocks_on_old_failures_too() -> None:
    base = result(failed="t.py::a")
    assert judge(base, base, strict=True).blocking
    assert not judge(result("passed", passed="t.py::a"), base, strict=True).blocking


def test_without_a_baseline_everything_is_new_and_that_is_said() -> None:
    verdict = judge(result(failed="t.py::a"), None)
    assert verdict.blocking
    assert "no baseline" in verdict.note


@pytest.mark.parametrize("outcome", ["timeout", "failed"])
def test_timeouts_and_a_broken_tool_are_never_old(outcome: str) -> None:
    broken = result(outcome, failed="broke", passed="t.py::a", comparable=False)
    verdict = judge(broken, broken)
    assert keys(verdict.new) == ["broke"]
    assert verdict.blocking


def test_a_broken_run_does_not_list_every_test_as_gone() -> None:
    verdict = judge(result(failed="broke", comparable=False), result("passed", passed="t.py::a t.py::b"))
    assert verdict.gone == ()
    assert not GateReport((verdict,)).only_gone


def test_a_baseline_that_broke_makes_everything_new_and_that_is_said() -> None:
    verdict = judge(result(failed="t.py::a"), result(failed="broke", comparable=False))
    assert keys(verdict.new) == ["t.py::a"]
    assert "baseline broke" in verdict.note


# Gone


def test_a_deleted_test_that_passed_is_gone_and_blocks() -> None:
    verdict = judge(result("passed", passed="t.py::a"), result("passed", passed="t.py::a t.py::b"))
    assert verdict.gone == ("t.py::b",)
    assert verdict.blocking
    assert GateReport((verdict,)).only_gone


def test_a_skipped_test_that_passed_is_gone() -> None:
    verdict = judge(
        result("passed", passed="t.py::a", skipped="t.py::b"), result("passed", passed="t.py::a t.py::b")
    )
    assert verdict.gone == ("t.py::b",)


def test_a_deleted_test_that_failed_or_was_skipped_is_not_missed() -> None:
    verdict = judge(
        result("passed", passed="t.py::a"), result(failed="t.py::b", skipped="t.py::c", passed="t.py::a")
    )
    assert (verdict.gone, verdict.blocking) == ((), False)


def test_a_test_that_fails_now_is_new_not_gone() -> None:
    verdict = judge(result(failed="t.py::a"), result("passed", passed="t.py::a"))
    assert (keys(verdict.new), verdict.gone) == (["t.py::a"], ())
    assert not GateReport((verdict,)).only_gone


def test_a_collection_error_stands_for_the_tests_behind_it() -> None:
    broken = GateResult(
        GATE,
        ("pytest",),
        GateOutcome.FAILED,
        failures=(Failure("t.py not collected: E", "t.py"), Failure("sub not collected: E", "sub")),
        passed=frozenset({"u.py::c"}),
    )
    verdict = judge(broken, result("passed", passed="t.py::a t.py::b sub/v.py::d u.py::c"))
    assert (len(verdict.new), verdict.gone) == (2, ())


@given(TEST_IDS)
def test_nothing_is_gone_or_renamed_when_nothing_changed(tests: frozenset[str]) -> None:
    same = GateResult(GATE, (), GateOutcome.PASSED, passed=tests)
    assert renames(same, same) == {}
    assert judge(same, same).gone == ()


@given(TEST_IDS, TEST_IDS)
def test_renames_are_one_to_one_from_lost_to_found(before: frozenset[str], after: frozenset[str]) -> None:
    moved = renames(
        GateResult(GATE, (), GateOutcome.PASSED, passed=before),
        GateResult(GATE, (), GateOutcome.PASSED, passed=after),
    )
    assert moved.keys() <= before - after
    assert len(set(moved.values())) == len(moved)
    assert set(moved.values()) <= after - before


@pytest.mark.parametrize(
    "before, after",
    [
        ("a.py::test_x", "b.py::test_x"),
        ("a.py::test_x", "a.py::TestNew::test_x"),
        ("a.py::A::test_x[1] a.py::A::test_x[2]", "b.py::test_x[1] b.py::test_x[2]"),
        ("a.py::test_x", "a.py::test_better_name"),
        ("a.py::test_x[1] a.py::test_x[2]", "a.py::test_y[1] a.py::test_y[2]"),
    ],
)
def test_moved_and_renamed_tests_are_not_gone(before: str, after: str) -> None:
    verdict = judge(result("passed", passed=after), result("passed", passed=before))
    assert (verdict.gone, verdict.blocking) == ((), False)


@pytest.mark.parametrize(
    "before, after, gone",
    [
        ("a.py::x a.py::y", "a.py::z", ("a.py::x", "a.py::y")),  # two went, one came
        ("a.py::x", "b.py::z", ("a.py::x",)),  # another name in another file
        ("a.py::x[1] a.py::x[2]", "a.py::y[1]", ("a.py::x[2]",)),  # renamed, and a case dropped
        ("a.py::x b.py::x", "c.py::x", ("b.py::x",)),  # one stands for one
    ],
)
def test_what_no_rule_maps_is_gone(before: str, after: str, gone: tuple[str, ...]) -> None:
    assert judge(result("passed", passed=after), result("passed", passed=before)).gone == gone


def test_an_old_failure_that_moved_is_still_old() -> None:
    verdict = judge(result(failed="b.py::x"), result(failed="a.py::x"))
    assert (keys(verdict.new), keys(verdict.old)) == ([], ["b.py::x"])


def test_moved_and_then_skipped_is_gone() -> None:
    verdict = judge(result("no_tests", skipped="b.py::x"), result("passed", passed="a.py::x"))
    assert verdict.gone == ("a.py::x",)


# Outcomes and status


def test_nothing_collected_is_unverified_when_nothing_was_before() -> None:
    verdict = judge(result("no_tests"), result("no_tests"))
    assert not verdict.blocking
    assert GateReport((verdict,)).status == "unverified"


def test_nothing_collected_though_the_tests_are_still_there_is_a_new_failure(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("def test_a(): pass")
    verdict = judge(result("no_tests"), result("passed", passed="t.py::test_a"), tmp_path)
    assert [f.title for f in verdict.new] == ["no tests are collected any more"]
    assert not GateReport((verdict,)).only_gone


def test_nothing_collected_because_the_tests_were_deleted_is_only_gone(tmp_path: Path) -> None:
    verdict = judge(result("no_tests"), result("passed", passed="t.py::test_a"), tmp_path)
    report = GateReport((verdict,))
    assert (report.status, report.only_gone, verdict.gone) == ("failed", True, ("t.py::test_a",))


def test_a_missing_tool_is_unverified() -> None:
    assert GateReport((judge(result("tool_missing"), result("tool_missing")),)).status == "unverified"
    assert GateReport((judge(result("tool_missing"), None),)).status == "unverified"


def test_a_tool_that_ran_at_base_and_cannot_run_now_is_a_new_failure() -> None:
    verdict = judge(result("tool_missing"), result("passed", passed="t.py::a"))
    assert verdict.blocking
    assert not GateReport((verdict,)).only_gone


def test_no_gates_are_unverified() -> None:
    assert GateReport(()).status == "unverified"


def test_one_gate_that_could_not_tell_makes_the_whole_unverified() -> None:
    good, untold = judge(result("passed", passed="t.py::a"), None), judge(result("no_tests"), None)
    assert GateReport((good,)).status == "verified"
    assert GateReport((good, untold)).status == "unverified"


def test_a_flaky_failure_is_reported_and_does_not_block() -> None:
    verdict = compare(
        result(failed="t.py::a"), result("passed", passed="t.py::a"), NOWHERE, flaky=frozenset({"t.py::a"})
    )
    assert (verdict.blocking, keys(verdict.flaky), verdict.new, verdict.gone) == (False, ["t.py::a"], (), ())


# The signature


def test_the_signature_tells_the_same_failures_whatever_their_order() -> None:
    base = result("passed", passed="t.py::a t.py::b")
    one, other = (
        GateReport((judge(result(failed=failed), base),)) for failed in ("t.py::a t.py::b", "t.py::b t.py::a")
    )
    assert one.signature() == other.signature()


def test_the_signature_changes_with_what_blocks() -> None:
    base = result("passed", passed="t.py::a t.py::b")
    outcomes = ["t.py::a", "t.py::b", "t.py::a t.py::b", ""]
    assert len({GateReport((judge(result(failed=failed), base),)).signature() for failed in outcomes}) == 4


def test_a_result_survives_the_cache() -> None:
    before = GateResult(
        Gate("g", ("x", "y"), "command", 5.0, True),
        ("x",),
        GateOutcome.FAILED,
        exit_code=-9,
        failures=(Failure("k", "t", "détail\n", "a.py:1"),),
        passed=frozenset({"a::b"}),
        skipped=frozenset({"a::c"}),
        comparable=False,
        duration_ms=12,
        output_path=Path("out") / "g.log",
        output_tail="tail",
        note="note",
        plain_command=("x",),
    )
    assert GateResult.from_dict(json.loads(json.dumps(before.to_dict()))) == before
