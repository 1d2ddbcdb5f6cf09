"""Timing whole commands fairly: interleaved repetitions; wall and processor time; ratios within one run.

The median of the wall time is what a person waits, and what the limits are for. It tells little on a
machine that is busy with other things: there, look at the least processor time.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

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


class Row(NamedTuple):
    """One line of a result: times in ms, `spread_ms` is half the quartile span of the wall times, `ratio` is to
    the row named `against` in the same run, `limit` the most it may be; `note` says what else was found."""

    name: str
    wall_ms: float
    spread_ms: float
    cpu_ms: float
    against: str = ""
    ratio: float | None = None
    cpu_ratio: float | None = None
    limit: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the limit holds, or there is none."""
        return self.limit is None or self.ratio is None or self.ratio <= self.limit

    def __str__(self) -> str:
        text = f"{self.name:<36} {self.wall_ms:8.1f} ms ±{self.spread_ms:6.1f}   cpu {self.cpu_ms:8.1f} ms"
        if self.ratio is not None:
            text += f"   {self.ratio:5.2f}x" + (f"   cpu {self.cpu_ratio:5.2f}x" if self.cpu_ratio else "")
        if self.limit is not None:
            text += f"   (limit {self.limit:g}x, {'holds' if self.holds else 'DOES NOT HOLD'})"
        return f"{text}   {self.note}".rstrip()


def row(name: str, found: Sequence[Cost], against: Row | None = None, limit: float | None = None) -> Row:
    """The medians of `found`; as ratios to another row too."""
    walls = [cost.wall for cost in found]
    low, _, high = statistics.quantiles(walls, n=4)
    wall, cpu = median(found) * 1000, min(cost.cpu for cost in found) * 1000
    made = Row(name, wall, (high - low) * 500, cpu)
    if against is None:
        return made
    ratio, cpu_ratio = wall / against.wall_ms, cpu / against.cpu_ms
    return made._replace(against=against.name, ratio=ratio, cpu_ratio=cpu_ratio, limit=limit)


def finish(rows: Sequence[Row]) -> NoReturn:
    """Print rows and end the process: with 1 when a limit does not hold."""
    print("\n".join(map(str, rows)))
    sys.exit(not all(row.holds for row in rows))
