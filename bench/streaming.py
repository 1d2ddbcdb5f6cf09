"""How fast an engine's stream is read: a flood of JSON lines through a run, against a bare `json.loads` loop.

Run: .venv/bin/python -m bench.streaming [--size BYTES]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import Cost, Row, environment, finish, row, run
from tests.kit.claude_lines import init, result, text
from tests.kit.memory import watched

SIZE = 1_000_000_000
MOST_BYTES = 100_000_000
BARE = "import json, sys\nfor line in sys.stdin.buffer: json.loads(line)\n"


def measure(repeat: int = 3, size: int = SIZE) -> list[Row]:
    """The loop, the run, and the run's peak memory against its limit."""
    cf = str(Path(sys.executable).parent / "cf")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        stream = folder / "stream"
        write_stream(stream, size)
        engine = folder / "bin" / "claude"
        engine.parent.mkdir()
        engine.write_text(f"#!/bin/sh\ncat > /dev/null\ntouch made.txt\nexec cat {stream}\n")
        engine.chmod(0o755)
        repo = folder / "repo"
        repo.mkdir()
        run(["git", "init", "-q"], cwd=repo)
        run([cf, "init"], cwd=repo)
        env = {**environment(), "PATH": f"{engine.parent}{os.pathsep}{os.environ['PATH']}", "HOME": scratch}
        bare: list[Cost] = []
        whole: list[Cost] = []
        peak = 0
        for turn in range(repeat):
            with stream.open("rb") as source:
                bare.append(_cost([sys.executable, "-c", BARE], repo, env, source.fileno())[0])
            add = [cf, "tasks", "add", f"t{turn}"]
            task = subprocess.run(add, cwd=repo, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
            start = [
                cf,
                "work",
                "start",
                task,
                "--execute",
                "--engine",
                "claude-code",
                "--no-gates",
                "--timeout",
                "1h",
            ]
            cost, most = _cost(start, repo, env, None)
            whole.append(cost)
            peak = max(peak, most)
            run(["git", "clean", "-fdq"], cwd=repo)
    first = row(f"json.loads of {size / 1e6:,.0f} MB", bare)
    # At least half as fast: at most twice the time.
    second = row("the same through a run", whole, first, 2)
    memory = Row(
        "peak memory of cf", 0, 0, 0, "the limit", peak / MOST_BYTES, None, 1,
        f"{peak / 1e6:.0f} MB of at most {MOST_BYTES / 1e6:.0f} MB",
    )  # fmt: skip
    return [first, second._replace(note=f"{size / 1e3 / second.wall_ms:.0f} MB/s"), memory]


def write_stream(path: Path, size: int) -> None:
    """A session of Claude Code that says much: at least `size` bytes of lines with its keys."""
    lines = [json.dumps(text(f"Line {n}: " + "words of an answer " * 20)) for n in range(200)]
    block = ("\n".join(lines) + "\n").encode()
    with path.open("wb") as file:
        file.write(json.dumps(init()).encode() + b"\n")
        for _ in range(size // len(block) + 1):
            file.write(block)
        file.write(json.dumps(result("done")).encode() + b"\n")


def _cost(argv: list[str], cwd: Path, env: dict[str, str], stdin: int | None) -> tuple[Cost, int]:
    """What a command costs, and the largest resident size it had, in bytes."""
    null = subprocess.DEVNULL
    began = time.perf_counter()
    process = subprocess.Popen(
        argv, cwd=cwd, env=env, stdin=null if stdin is None else stdin, stdout=null, stderr=null
    )
    with watched(process.pid, 0.05) as peak:
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv)
    return Cost(wall, used.ru_utime + used.ru_stime), peak.bytes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=SIZE)
    finish(measure(size=parser.parse_args().size))
