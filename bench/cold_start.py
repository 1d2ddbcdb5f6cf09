"""Cold start of light commands against `python -c "import typer"`, and `tasks list` on many tasks (rule 10.5).

Run: .venv/bin/python -m bench.cold_start [--repeat N]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import costs, row


def main() -> None:
    """Print a row per command; exit status 1 when a limit does not hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    cf = str(Path(sys.executable).parent / "cf")
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        repo = Path(scratch)
        subprocess.run(["git", "init", "-q", str(repo)], check=True)
        subprocess.run([cf, "init"], cwd=repo, check=True, stdout=subprocess.DEVNULL)
        add_tasks(repo, 10)
        plain = {
            "python -c 'import typer'": [sys.executable, "-c", "import typer"],
            "cf --version": [cf, "--version"],
            "cf engines list": [cf, "engines", "list"],
            "cf tasks list (10 tasks)": [cf, "tasks", "list"],
        }
        measured = costs(plain, repeat=repeat, cwd=repo)
        base = measured["python -c 'import typer'"]
        lines += [
            row(name, found, base, 2 if found is not base else None) for name, found in measured.items()
        ]
        add_tasks(repo, 9_990)
        many = {
            "python -c 'import typer' again": plain["python -c 'import typer'"],
            "cf tasks list (10,000 tasks)": [cf, "tasks", "list"],
            "cf tasks list --limit 0 (10,000)": [cf, "tasks", "list", "--limit", "0"],
        }
        measured = costs(many, repeat=repeat, cwd=repo)
        base = measured["python -c 'import typer' again"]
        lines += [
            row(name, found, base, 4 if found is not base else None) for name, found in measured.items()
        ]
    print("\n".join(lines))
    sys.exit(any("DOES NOT HOLD" in line for line in lines))


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
    main()
