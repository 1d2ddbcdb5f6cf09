"""What a run costs beside the engine: `cf work start --no-gates` with a fake engine against that engine alone.

Run: .venv/bin/python -m bench.run_overhead
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import Cost, Row, environment, finish, row, run
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


def measure(repeat: int = 15) -> list[Row]:
    """The engine alone, and a run with it; the difference is what a run costs."""
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
    first = row("the engine alone", alone)
    second = row("cf work start --no-gates", whole)
    over = (second.wall_ms - first.wall_ms) / 1000
    cpu = second.cpu_ms - first.cpu_ms
    note = f"overhead {over:.3f} s of at most {LIMIT_S} s"
    # As a ratio to the limit, so that it is judged like every other row.
    total = Row(
        "what a run costs", over * 1000, second.spread_ms, cpu, "the limit", over / LIMIT_S, None, 1, note
    )
    return [first, second, total]


if __name__ == "__main__":
    finish(measure())
