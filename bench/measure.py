"""Timing whole commands fairly: interleaved repetitions, medians, spread, and ratios within one run."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

Command = Sequence[str]


def times(
    commands: Mapping[str, Command], *, repeat: int, cwd: Path, env: Mapping[str, str] | None = None
) -> dict[str, list[float]]:
    """Wall seconds of each command, `repeat` times, interleaved so that a busy moment hits all alike.

    One unmeasured round comes first. A command that fails raises CalledProcessError.
    """
    found: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(repeat + 1):
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run(
                command, cwd=cwd, env=env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            if turn:
                found[name].append(time.perf_counter() - began)
    return found


def row(name: str, seconds: Sequence[float], against: float | None = None, limit: float | None = None) -> str:
    """A line: median, quartile spread, and where asked the ratio to `against` with its limit."""
    median = statistics.median(seconds)
    quartiles = statistics.quantiles(seconds, n=4)
    text = f"{name:<34} {median * 1000:8.1f} ms  ±{(quartiles[2] - quartiles[0]) * 500:6.1f}"
    if against is not None:
        ratio = median / against
        text += f"   {ratio:5.2f}x"
        if limit is not None:
            text += f" (limit {limit:g}x, {'holds' if ratio <= limit else 'DOES NOT HOLD'})"
    return text
