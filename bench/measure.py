"""Timing whole commands fairly: interleaved repetitions; wall and processor time; ratios within one run.

The median of the wall time is what a person waits, and what the limits are for. It tells little on a
machine that is busy with other things: there, look at the least processor time.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

Command = Sequence[str]


class Cost(NamedTuple):
    """Seconds of one command: `wall`, and `cpu` (user and system) of it and the children it waited for."""

    wall: float
    cpu: float


def environment() -> dict[str, str]:
    """Ours, except that Python may keep the bytecode of what it imports, as it does where it is installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run(command: Command, *, cwd: Path, env: Mapping[str, str] | None = None) -> Cost:
    """What one command costs. Raises CalledProcessError when it fails."""
    null = subprocess.DEVNULL
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, env=env or environment(), stdin=null, stdout=null, stderr=null
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(wall, used.ru_utime + used.ru_stime)


def costs(commands: Mapping[str, Command], *, repeat: int, cwd: Path) -> dict[str, list[Cost]]:
    """What each command costs, `repeat` times, interleaved so that a busy moment hits all alike.

    One unmeasured round comes first.
    """
    found: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(repeat + 1):
        for name, command in commands.items():
            cost = run(command, cwd=cwd)
            if turn:
                found[name].append(cost)
    return found


def median(found: Sequence[Cost]) -> float:
    """Of the wall seconds."""
    return statistics.median(cost.wall for cost in found)


def row(name: str, found: Sequence[Cost], against: Sequence[Cost] = (), limit: float | None = None) -> str:
    """A line: median wall time with half its quartile span, least processor time; as ratios to `against` too."""
    walls = [cost.wall for cost in found]
    low, _, high = statistics.quantiles(walls, n=4)
    cpu = min(cost.cpu for cost in found)
    text = f"{name:<34} {median(found) * 1000:7.1f} ms ±{(high - low) * 500:6.1f}   cpu {cpu * 1000:6.1f} ms"
    if against:
        ratio = median(found) / median(against)
        text += f"   {ratio:5.2f}x   cpu {cpu / min(cost.cpu for cost in against):5.2f}x"
        if limit is not None:
            text += f"   (limit {limit:g}x, {'holds' if ratio <= limit else 'DOES NOT HOLD'})"
    return text
