"""All measurements in one run, printed and written to `bench/results.json`.

Run: make bench, or .venv/bin/python -m bench [NAME ...]
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

NAMES = ("cold_start", "run_overhead", "snapshots", "corrections", "streaming")
FILE = Path(__file__).with_name("results.json")


def main(names: list[str]) -> int:
    """Exit status: 1 when a limit does not hold, 2 for an unknown name."""
    if unknown := set(names) - set(NAMES):
        print(
            f"There is no measurement {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}.",
            file=sys.stderr,
        )
        return 2
    found = {}
    for name in names or NAMES:
        print(f"-- {name.replace('_', ' ')}", flush=True)
        found[name] = import_module(f"bench.{name}").measure()
        print("\n".join(map(str, found[name])), flush=True)
    if not names:
        load = os.getloadavg()[0]
        results = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "git": subprocess.run(["git", "version"], capture_output=True, text=True).stdout.split()[-1],
            "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, load {load:.1f}",
            "rows": {
                name: [{**row._asdict(), "holds": row.holds} for row in rows] for name, rows in found.items()
            },
        }
        FILE.write_text(json.dumps(results, indent=1) + "\n")
    return int(not all(row.holds for rows in found.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
