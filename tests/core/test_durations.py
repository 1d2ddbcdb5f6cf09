"""Durations as typed and as shown (rule 10.4)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.core.durations import format_duration, parse_duration
from codeframe.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        (90, 90),
        (1.5, 1.5),
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1h 30m".replace(" ", ""), 5400),
        ("1h2m3s", 3723),
        (" 15M ", 900),
        ("0.5h", 1800),
    ],
)
def test_durations_people_type(text: str | int | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "0",
        "0s",
        "-1",
        "-5m",
        "m",
        "h",
        "5d",
        "1m1h",
        "5m5m",
        "1:30",
        "1e3",
        "inf",
        "nan",
        "٣",
        "9999999h",
        "9" * 400,
        True,
        False,
    ],
)
def test_anything_else_is_refused_with_an_example(text: str | bool) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(text)
    assert "15m" in caught.value.hint


@settings(deadline=None)
@given(st.text() | st.integers() | st.floats())
def test_junk_never_crashes(text: str | int | float) -> None:
    try:
        assert parse_duration(text) > 0
    except UsageError:
        pass


@settings(deadline=None)
@given(st.integers(1, 365 * 24 * 3600))
def test_what_is_shown_can_be_typed(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.41, "0.4s"),
        (45, "45s"),
        (59.97, "1m"),
        (90, "1m30s"),
        (3600, "1h"),
        (3723, "1h2m3s"),
        (0, "0s"),
        (-3, "0s"),
    ],
)
def test_durations_as_shown(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown
