"""Fingerprints: what changes from run to run does not count, what was said does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeframe.core.gates.text import clean, clip, normalise, one_line

LINES = st.integers(min_value=0, max_value=10**6)
WORDS = st.lists(st.text("ghijklmnopqrstuvwxyz", min_size=1, max_size=8), min_size=1, max_size=6).map(
    " ".join
)


@given(WORDS, LINES, LINES, LINES, LINES)
def test_a_shifted_line_never_changes_a_fingerprint(
    said: str, line: int, column: int, later: int, to: int
) -> None:
    before, after = (f"src/a.py:{row}:{at}: {said} (line {row})" for row, at in ((line, column), (later, to)))
    assert normalise(before) == normalise(after)


@given(WORDS, WORDS)
def test_distinct_messages_have_distinct_fingerprints(one: str, other: str) -> None:
    assert (normalise(f"a.py:1: {one}") == normalise(f"a.py:1: {other}")) == (one == other)


@given(st.text())
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    "one, other",
    [
        ("took 0.13s", "took 12.50s"),
        ("at 2026-01-02T03:04:05Z", "at 2027-11-12T13:14:15Z"),
        ("<A object at 0x7f00deadbeef>", "<A object at 0x7f11feedbeef>"),
        ("in /tmp/pytest-of-a/pytest-1/x0/f.txt", "in /tmp/pytest-of-a/pytest-27/x0/f.txt"),
        ("commit 25bcd40f01", "commit caf16241aa"),
        ("3 failed,  2 passed", "14 failed, 0 passed"),
    ],
)
def test_times_counts_addresses_and_folders_do_not_count(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize("one, other", [("test_1 failed", "test_2 failed"), ("a/x.py: bad", "b/x.py: bad")])
def test_names_with_digits_and_relative_paths_do_count(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_the_root_does_not_count_but_the_path_below_it_does() -> None:
    one, two = Path("/tmp/one"), Path("/home/x/two")
    assert normalise("/tmp/one/src/a.py: bad", one) == normalise("/home/x/two/src/a.py: bad", two)
    assert normalise("/tmp/one/src/a.py: bad", one) != normalise("/tmp/one/lib/a.py: bad", one)


@given(st.text())
def test_clean_text_holds_nothing_a_terminal_would_obey(text: str) -> None:
    assert all(char in "\n\t" or char.isprintable() or ord(char) > 0x9F for char in clean(text))
    clean(text + "\ud800").encode("utf-8")


@pytest.mark.parametrize(
    "raw",
    ["\x1b[31mred\x1b[0m", "#x1B[1;31mred#x1B[0m", "\x1b]0;title\x07red", "r\x00e\x08d\x9b", "r\u202eed"],
)
def test_escapes_are_taken_out(raw: str) -> None:
    assert clean(raw) == "red"


@given(st.text(), st.integers(min_value=80, max_value=400))
def test_clipped_text_is_never_over_the_limit(text: str, limit: int) -> None:
    assert len(clip(text, limit).encode()) <= limit


def test_clipping_keeps_head_and_tail_and_says_so() -> None:
    clipped = clip("HEAD" + "x" * 10_000 + "TAIL", 500, gap="; whole output: f.log")
    assert clipped.startswith("HEAD")
    assert clipped.endswith("TAIL")
    assert "left out; whole output: f.log" in clipped


def test_one_line_is_one_short_line() -> None:
    assert one_line("a\n  b\x1b[0m\tc") == "a b c"
    assert len(one_line("x" * 1000, 50)) == 50
