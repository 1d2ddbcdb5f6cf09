"""Durations as people type them (`90`, `90s`, `15m`, `2h`, `1h30m`) and as they read them."""

from __future__ import annotations

import re

from codeframe.core.errors import UsageError

_FORM = re.compile(r"(?:([0-9]+(?:\.[0-9]+)?)h)?(?:([0-9]+(?:\.[0-9]+)?)m)?(?:([0-9]+(?:\.[0-9]+)?)s?)?")
_LONGEST_S = 365 * 24 * 3600.0  # beyond it the operating system's own timers overflow


def parse_duration(text: str | int | float) -> float:
    """Seconds (float, > 0) meant by `text`; a bare number is seconds.

    Raises UsageError for anything else, for zero and negatives, and for more than a year.
    """
    typed = str(text).strip().lower()
    match = _FORM.fullmatch(typed) if typed and not isinstance(text, bool) else None
    if match is None:
        raise UsageError(f"'{str(text)[:40]}' is not a duration.", "Type one like 90, 90s, 15m, 2h or 1h30m.")
    hours, minutes, seconds = (float(part) if part else 0.0 for part in match.groups())
    total = hours * 3600 + minutes * 60 + seconds
    if not 0 < total <= _LONGEST_S:
        raise UsageError(
            f"The duration '{typed[:40]}' has to be more than zero and at most a year.",
            "Type one like 90, 90s, 15m, 2h or 1h30m.",
        )
    return total


def format_duration(seconds: float) -> str:
    """`seconds` for a person: 0.4s, 45s, 1m30s, 2h, 1h2m3s. `parse_duration` reads it back."""
    if seconds < 59.95:
        return f"{max(seconds, 0.0):.1f}".removesuffix(".0") + "s"
    hours, rest = divmod(round(seconds), 3600)
    parts = ((hours, "h"), (rest // 60, "m"), (rest % 60, "s"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount)
