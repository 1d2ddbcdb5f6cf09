"""What a run costs beside the engine: `cf work start --no-gates` with a fake engine against that engine alone.

Run: .venv/bin/python -m bench.run_overhead [--repeat N]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import Cost, environment, median, row, run
from tests.kit import claude_runs
from tests.kit.scenario import FakeEngine, call, write

LIMIT_S = 0.4
EMPTY_COMMIT = (
    "-c",
    "user.name=b",
    "-c",
    "user.email=b@localhost",
    "commit",
    "-q",
    "--allow-empty",
    "-m",
    "1",
)


def main() -> None:
    """Print both medians and their difference; exit status 1 when it is over the limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    cf = str(Path(sys.executable).parent / "cf")
    with tempfile.TemporaryDirectory() as scratch:
        repo = Path(scratch) / "repo"
        repo.mkdir()
        run(["git", "init", "-q"], cwd=repo)
        run(["git", *EMPTY_COMMIT], cwd=repo)
        engine = FakeEngine(Path(scratch) / "engine")
        engine.calls(call(claude_runs.session(write("a.txt", "x"), claude_runs.verdict("done"))))
        env = {**environment(), "PATH": engine.path(), "HOME": scratch}
        run([cf, "init"], cwd=repo)
        alone: list[Cost] = []
        whole: list[Cost] = []
        for turn in range(repeat + 1):
            add = [cf, "tasks", "add", f"t{turn}"]
            task = subprocess.run(add, cwd=repo, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
            start = [cf, "work", "start", task, "--execute", "--engine", "claude-code", "--no-gates"]
            for command, found in (([str(engine.executable), "-p"], alone), (start, whole)):
                cost = run(command, cwd=repo, env=env)
                run(["git", "clean", "-fdq"], cwd=repo)
                if turn:
                    found.append(cost)
    print(row("the engine alone", alone))
    print(row("cf work start --no-gates", whole))
    over = median(whole) - median(alone)
    cpu = min(cost.cpu for cost in whole) - min(cost.cpu for cost in alone)
    holds = over <= LIMIT_S
    print(
        f"overhead: {over:.3f} s, cpu {cpu:.3f} s (limit {LIMIT_S} s, {'holds' if holds else 'DOES NOT HOLD'})"
    )
    sys.exit(not holds)


if __name__ == "__main__":
    main()
