"""Small real projects for the gates to run in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from codeframe.core.gates import Gate, GateReport, GateResult, GateSuite

TEST_FILE = "test_it.py"


def write_executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def write_files(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def give_venv(root: Path, name: str = ".venv") -> Path:
    """An environment for the project: a launcher of the interpreter that has pytest."""
    return write_executable(root / name / "bin" / "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')


class Sandbox:
    """A project, its suite, and the two halves of a task: `base()` before, `check()` after."""

    def __init__(self, root: Path, work: Path, files: Mapping[str, str]) -> None:
        self.root = root
        self.work = work
        self.bases: dict[str, GateResult] | None = None
        root.mkdir()
        give_venv(root)
        self.write(files)

    def write(self, files: Mapping[str, str]) -> None:
        write_files(self.root, files)

    def suite(self, gates: list[Gate] | None = None, **options: bool) -> GateSuite:
        return GateSuite(
            self.root, gates or [Gate("pytest", ("pytest",), "pytest")], self.work / "cache", **options
        )

    def base(self, gates: list[Gate] | None = None, tree: str = "tree") -> dict[str, GateResult]:
        self.bases = self.suite(gates).baseline(tree, self.work / "out", marker="run/base")
        return self.bases

    def check(self, gates: list[Gate] | None = None, **options: bool) -> GateReport:
        return self.suite(gates, **options).check(self.bases, self.work / "out", marker="run/1")

    def tree(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}


@pytest.fixture(autouse=True)
def lean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner pytest starts faster without the plugins of the outer one."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


@pytest.fixture
def sandbox(tmp_path: Path) -> Callable[..., Sandbox]:
    """`sandbox({"test_it.py": "..."})` makes a project with an environment that has pytest."""

    def make(files: Mapping[str, str]) -> Sandbox:
        return Sandbox(tmp_path / "project", tmp_path / "work", files)

    return make
