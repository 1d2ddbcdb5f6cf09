"""What a run costs beside the engine: `cf work start --no-gates` with a fake engine against that engine alone.

Run: .venv/bin/python -m bench.run_overhead [--repeat N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import row
from tests.kit import claude_runs
from tests.kit.scenario import FakeEngine, call, write

LIMIT_S = 0.4


def main() -> None:
    """Print both medians and their difference; exit status 1 when it is over the limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    cf = str(Path(sys.executable).parent / "cf")
    with tempfile.TemporaryDirectory() as scratch:
        repo = Path(scratch) / "repo"
        repo.mkdir()
        git(repo, "init", "-q")
        git(
            repo,
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@localhost",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "start",
        )
        engine = FakeEngine(Path(scratch) / "engine")
        engine.calls(call(claude_runs.session(write("a.txt", "x"), claude_runs.verdict("done"))))
        env = {**os.environ, "PATH": engine.path(), "HOME": scratch}
        subprocess.run([cf, "init"], cwd=repo, check=True, stdout=subprocess.DEVNULL)
        alone, whole = [], []
        for turn in range(repeat + 1):
            task = subprocess.run(
                [cf, "tasks", "add", f"t{turn}"], cwd=repo, check=True, stdout=subprocess.PIPE, text=True
            )
            began = time.perf_counter()
            subprocess.run([str(engine.executable), "-p"], cwd=repo, env=env, check=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL)  # fmt: skip
            middle = time.perf_counter()
            git(repo, "clean", "-fdq")
            start = time.perf_counter()
            subprocess.run(
                [cf, "work", "start", task.stdout.strip(), "--execute", "--engine", "claude-code", "--no-gates"],
                cwd=repo, env=env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            end = time.perf_counter()
            git(repo, "clean", "-fdq")
            if turn:
                alone.append(middle - began)
                whole.append(end - start)
    print(row("the engine alone", alone))
    print(row("cf work start --no-gates", whole))
    over = statistics.median(whole) - statistics.median(alone)
    holds = over <= LIMIT_S
    print(f"overhead: {over:.3f} s (limit {LIMIT_S} s, {'holds' if holds else 'DOES NOT HOLD'})")
    sys.exit(not holds)


def git(repo: Path, *args: str) -> None:
    """Run git in `repo`; raises CalledProcessError."""
    subprocess.run(["git", *args], cwd=repo, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
