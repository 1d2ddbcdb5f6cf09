"""Small real projects for the gates to run in."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from codeframe.core.gates import Gate, GateReport, GateResult, GateSuite


class Sandbox:
    """A project, its suite, and the two halves of a task: `base()` before, `check()` after."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.work = folder / "work"
        self.gates = [Gate("pytest", ("pytest",), "pytest")]
        self.bases: dict[str, GateResult] | None = None
        self.based: GateSuite | None = None
        self.kept: dict[str, str] = {}  # by any suite of the project
        self.marker = f"run-{uuid.uuid4().hex}"  # tests run in parallel; a gate ends all of its own marker
        self.root.mkdir()

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def executable(self, path: Path, script: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)
        return path

    def venv(self, folder: Path | None = None, options: str = "") -> Path:
        """An environment: a launcher of the interpreter that runs the tests, which has pytest."""
        python = (folder or self.root / ".venv") / "bin" / "python"
        self.executable(
            python.with_name("pytest"), f'#!/bin/sh\nexec "{sys.executable}" {options} -m pytest "$@"\n'
        )
        return self.executable(python, f'#!/bin/sh\nexec "{sys.executable}" {options} "$@"\n')

    def suite(self, **options: bool) -> GateSuite:
        return GateSuite(self.root, self.gates, self.kept, **options)

    def recalled(self, tree: str, run: str = "first") -> dict[str, GateResult]:
        """What a new suite knows of `tree` as the base of `run`."""
        suite = self.suite()
        suite.recall(tree, run)
        return suite.base

    def base(self, tree: str = "tree", run: str = "first", *, here: bool = True) -> dict[str, GateResult]:
        self.based = self.suite()
        self.based.recall(tree, run)
        self.based.baseline(self.work / "out", marker=f"{self.marker}/base", here=here)
        self.based.keep_baseline(unchanged=here)
        self.bases = dict(self.based.base)
        return self.bases

    def check(self, **options: bool) -> GateReport:
        """By the suite of the baseline, as in a run: it has asked for the tools already."""
        suite = self.suite(**options) if options or self.based is None else self.based
        suite.base = dict(self.bases or {})
        return suite.check(self.work / "out", marker=f"{self.marker}/1")

    def tree(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}


@pytest.fixture(autouse=True)
def lean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner pytest starts faster without the plugins of the outer one."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


@pytest.fixture
def bare(tmp_path: Path) -> Sandbox:
    """An empty project without an environment."""
    return Sandbox(tmp_path)


@pytest.fixture
def project(bare: Sandbox) -> Sandbox:
    """An empty project with an environment that has pytest."""
    bare.venv()
    return bare
