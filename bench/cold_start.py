"""Cold start of light commands against `python -c "import typer"`, and `tasks list` on many tasks (rule 10.5).

Run: .venv/bin/python -m bench.cold_start
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import Row, costs, finish, row

TYPER = [sys.executable, "-c", "import typer"]


def measure(repeat: int = 15) -> list[Row]:
    """A row per command; `tasks list` with 10, 1,000, 10,000 and 100,000 tasks there."""
    cf = str(Path(sys.executable).parent / "cf")
    with tempfile.TemporaryDirectory() as scratch:
        repo = Path(scratch)
        subprocess.run(["git", "init", "-q", str(repo)], check=True)
        subprocess.run([cf, "init"], cwd=repo, check=True, stdout=subprocess.DEVNULL)
        add_tasks(repo, 10)
        light = {
            "import typer": TYPER,
            "cf --version": [cf, "--version"],
            "cf engines list": [cf, "engines", "list"],
            "cf tasks list (10 tasks)": [cf, "tasks", "list"],
        }
        rows = _rows(light, repo, repeat, limit=2)
        for more, there, limit in ((990, "1,000", 2), (9_000, "10,000", 4), (90_000, "100,000", None)):
            add_tasks(repo, more)
            many = {f"import typer ({there})": TYPER, f"cf tasks list ({there} tasks)": [cf, "tasks", "list"]}
            if there == "10,000":
                many["cf tasks list --limit 0 (10,000)"] = [cf, "tasks", "list", "--limit", "0"]
            rows += _rows(many, repo, repeat, limit=limit)
        return rows


def _rows(commands: dict[str, list[str]], repo: Path, repeat: int, limit: float | None) -> list[Row]:
    measured = costs(commands, repeat=repeat, cwd=repo)
    (first, found), *rest = measured.items()
    base = row(first, found)
    return [base, *(row(name, found, base, limit) for name, found in rest)]


def add_tasks(repo: Path, count: int) -> None:
    """`count` tasks through the store, in one transaction."""
    from codeframe.core.workspace import find_workspace

    store = find_workspace(repo).store
    with store.write():
        for n in range(count):
            store.tasks.add(
                f"Task number {n}", description="What is to be done, in a sentence or two.", priority=n % 5
            )


if __name__ == "__main__":
    finish(measure())
