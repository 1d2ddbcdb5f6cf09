"""Which numbers in a tool's output count problems: those and no others tell a worse red gate from the same one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeframe.core.gates.counts import fingerprint, worse

# What tools print at the end, with the number of problems in place of N.
TOTALS = [
    "Found N errors in 1 file (checked 3 source files)",  # mypy
    "Found N errors.",  # ruff
    "Found N errors in 4 files.",  # tsc
    "\u2716 N problems (N errors, 0 warnings)",  # eslint
    "N errors generated.",  # clang
    "error: aborting due to N previous errors",  # rustc
    "test result: FAILED. 3 passed; N failed; 0 ignored; finished in 0.31s",  # cargo
    "===== N failed, 2 passed in 0.12s =====",  # pytest
    "FAILED (failures=N, errors=1)",  # unittest
    "Tests:       N failed, 5 passed, 6 total",  # jest
    "  N failing",  # mocha
    "Tests run: 12, Failures: N, Errors: 0, Skipped: 0",  # surefire
    "10 examples, N failures",  # rspec
    "Tests: 10, Assertions: 20, Failures: N.",  # phpunit
    "# fail N",  # TAP
    "Failed!  - Failed:     N, Passed:     4",  # dotnet
    "N issues:",  # golangci-lint
    "found 1,N03 vulnerabilities",  # npm audit
]


@pytest.mark.parametrize("total", TOTALS)
def test_one_error_that_became_nine_is_worse_and_nothing_else(total):
    two, nine = (fingerprint(total.replace("N", n)) for n in "29")
    assert two[0] == nine[0]
    assert worse(nine[1], two[1])
    assert not worse(two[1], nine[1])


# The same output of the same failure, on another day.
NOISE = [
    ("a.py:3: error: bad", "a.py:14: error: bad"),
    ("src/a.ts(3,5): error TS2322: bad", "src/a.ts(13,15): error TS2322: bad"),
    ("  3:5  error  bad  no-undef", "  13:15  error  bad  no-undef"),
    ("make: *** [Makefile:3: test] Error 2", "make: *** [Makefile:9: test] Error 2"),
    ("--- FAIL: TestAdd (0.00s)", "--- FAIL: TestAdd (1.25s)"),
    ("FAIL\tpkg/a\t0.012s", "FAIL\tpkg/a\t9.9s"),
    ("line 3 error: bad", "line 14 error: bad"),
    ("at line 3 errors begin", "at line 14 errors begin"),
    ("attempt 3 failed, retrying", "attempt 4 failed, retrying"),
    ("connection 5123 failed", "connection 6123 failed"),
    ("took 31 seconds with errors", "took 99 seconds with errors"),
    ("12:00:05 errors follow", "12:00:59 errors follow"),
    ("failed: 3.2s", "failed: 9.4s"),
    ("error: 404 is not allowed", "error: 505 is not allowed"),
    ("2 errors in 0.31s", "2 errors in 9.5s"),
    ("3 passed, 1 failed", "9 passed, 1 failed"),
    (
        "Found 2 errors in 2 files (checked 3 source files)",
        "Found 2 errors in 2 files (checked 9 source files)",
    ),
    ("Ran 3 tests in 0.001s", "Ran 9 tests in 0.002s"),
    ("  99% 3 errors", "  100% 3 errors"),
]


@pytest.mark.parametrize("one, other", NOISE)
def test_moved_lines_and_other_times_are_not_worse(one, other):
    before, after = fingerprint(one), fingerprint(other)
    assert before[0] == after[0]
    assert not worse(after[1], before[1])
    assert not worse(before[1], after[1])


def test_counts_are_compared_line_by_line_whatever_the_order():
    before = fingerprint("a: 1 errors\nb: 9 errors\n")[1]
    assert not worse(fingerprint("b: 9 errors\na: 1 errors\n")[1], before)
    assert worse(fingerprint("b: 8 errors\na: 2 errors\n")[1], before)


def test_one_error_less_than_two_is_still_the_same_failure():
    assert fingerprint("1 error")[0] == fingerprint("2 errors")[0]


def test_a_number_of_any_length_is_no_trouble():
    assert fingerprint("9" * 10_000 + " errors")[1] == ()


@given(st.text())
def test_any_text_has_a_fingerprint(text):
    words, counts = fingerprint(text)
    assert fingerprint(text) == (words, counts)
    assert not worse(counts, counts)
