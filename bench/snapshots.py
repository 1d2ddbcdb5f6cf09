"""What a snapshot costs on a large tree, against `git status` on the same one.

Run: .venv/bin/python -m bench.snapshots
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.measure import Cost, Row, finish, row

FILES = 50_000
IDENTITY = ("-c", "user.name=b", "-c", "user.email=b@localhost")


def measure(repeat: int = 9, files: int = FILES) -> list[Row]:
    """`git status` and a snapshot, in turn, ten files changed before each."""
    from codeframe.core.git import discover
    from codeframe.core.snapshots import Snapshots

    with tempfile.TemporaryDirectory() as scratch:
        repo = Path(scratch) / "repo"
        for n in range(files):
            path = repo / f"d{n % 500}" / f"f{n}.txt"
            if n < 500:
                path.parent.mkdir(parents=True)
            path.write_text(f"{n}\n" * 20)
        for args in (("init", "-q"), ("add", "-A"), (*IDENTITY, "commit", "-q", "-m", "1")):
            subprocess.run(["git", *args], cwd=repo, check=True)
        snapshots = Snapshots(discover(repo), "bench", Path(scratch) / "index")
        status: list[Cost] = []
        taken: list[Cost] = []
        first = _cost(lambda: snapshots.take("t", "base"))
        for turn in range(repeat):
            for n in range(10):
                (repo / f"d{n}" / f"f{n}.txt").write_text(f"changed {turn}\n")
            status.append(_cost(lambda: _status(repo)))
            taken.append(_cost(lambda: snapshots.take("t", "end")))
    base = row(f"git status on {files:,} files", status)
    return [base, row("a snapshot", taken, base, 3)._replace(note=f"the first one {first.wall:.2f} s")]


def _status(repo: Path) -> None:
    subprocess.run(["git", "status", "--porcelain"], cwd=repo, check=True, stdout=subprocess.DEVNULL)


def _cost(job: Callable[[], object]) -> Cost:
    before, began = os.times(), time.perf_counter()
    job()
    wall, after = time.perf_counter() - began, os.times()
    return Cost(wall, sum(after[:4]) - sum(before[:4]))


if __name__ == "__main__":
    finish(measure())
