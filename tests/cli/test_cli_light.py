"""What frequent commands do not pay for (rule 10.5): modules they must not load, git processes they must not start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cf
from tests.kit.scenario import FakeEngine

# What an import of each would add, in ms: rich 60, yaml 15, psutil 15, anthropic 1500, importlib.metadata 20,
# the gates 30, the agent and its tools 10.
HEAVY = (
    "anthropic",
    "codeframe.adapters.llm.base",
    "codeframe.core.gates.suite",
    "codeframe.core.tools",
    "email",
    "hashlib",
    "importlib.metadata",
    "psutil",
    "pydantic",
    "rich",
    "yaml",
)
# And what a run alone may need.
FOR_RUNS = ("codeframe.core.context_packager", "codeframe.core.snapshots", "ctypes")
REPORT = """
import sys
from codeframe.cli.app import main
try:
    main(sys.argv[2:])
except SystemExit as ended:
    print("LOADED", *sorted(set(sys.argv[1].split()) & set(sys.modules)))
    sys.exit(ended.code)
"""


def loaded(cf: Cf, modules: tuple[str, ...], *args: str, env: dict[str, str] | None = None) -> list[str]:
    """Which of `modules` are loaded when `cf ARGS` has ended well, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, " ".join(modules), *args],
        cwd=cf.where,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(env or {})},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize(
    "args",
    [("--version",), ("engines", "list"), ("tasks", "list"), ("status",), ("work", "status")],
    ids=" ".join,
)
def test_a_listing_loads_nothing_heavy(cf: Cf, args: tuple[str, ...]) -> None:
    cf.add()
    cf(*args)  # the first list of engines asks those it finds on this machine for their versions
    assert loaded(cf, (*HEAVY, *FOR_RUNS), *args) == []


def test_engines_are_listed_without_the_database(cf: Cf) -> None:
    assert loaded(cf, ("sqlite3",), "engines", "list") == []


def test_the_look_for_heavy_modules_can_fail(cf: Cf) -> None:
    assert loaded(cf, ("sqlite3", "rich"), "tasks", "list") == ["sqlite3"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="psutil is needed elsewhere")
def test_a_run_without_gates_loads_nothing_heavy_and_starts_few_git_processes(
    cf: Cf, engine: FakeEngine, tmp_path: Path
) -> None:
    count, real = tmp_path / "count", shutil.which("git")
    git = engine.bin / "git"
    git.write_text(f"#!/bin/sh\necho \"$*\" >> '{count}'\nexec '{real}' \"$@\"\n")
    git.chmod(0o755)
    run = ("work", "start", cf.add(), "--execute", "--engine", "claude-code", "--no-gates")
    assert loaded(cf, HEAVY, *run, env={"PATH": engine.path()}) == []
    # 1 finds the repository, 1 is for the prompt, 4 set up the snapshots' folder and index, 10 and 7 are the
    # two snapshots (the base is also what the engine starts from), 1 compares them.
    calls = count.read_text().splitlines()
    assert 10 < len(calls) <= 26, calls
