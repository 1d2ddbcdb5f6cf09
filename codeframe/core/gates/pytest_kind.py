"""The pytest gate: found by its tests or configuration, read from its JUnit report."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePath

from codeframe.core.gates.commands import tool_index, with_options
from codeframe.core.gates.counts import fingerprint
from codeframe.core.gates.junit import ReportError, TestReport, read_report
from codeframe.core.gates.kind import Missing, Reading, Tool
from codeframe.core.gates.model import Failure, Gate, GateOutcome
from codeframe.core.gates.project import Project
from codeframe.core.gates.pytest_project import (
    configuration,
    foreign_package,
    own_packages,
    puts_root_first,
    python_path,
)
from codeframe.core.gates.signs import sign_of
from codeframe.core.gates.text import clip
from codeframe.core.gates.tree import python_files, tail_of

_NAMES = frozenset({"pytest", "py.test"})
_OWN_RUNNER = "manage.py"  # Django's: without its settings every test is an error to pytest
_TEST_FILE = re.compile(r"(?:test_.*|.*_test)\.py$")
# Exit statuses of pytest (its documentation, "Exit codes") that say it broke: never "old".
_BROKE = {2: "interrupted", 3: "internal error", 4: "usage error"}
_INTERNAL = "pytest.py::internal"  # how the report names an internal error
_MAX_RERUN = 200  # more failures than this are no chance, and would not fit a command line
# Options of pytest whose value is the next word; any other word without a dash is a path or an id.
# A wrong guess costs the second run of a failure, nothing else.
_TAKES_VALUE = frozenset(
    {
        "-k",
        "-m",
        "-p",
        "-c",
        "-o",
        "-W",
        "-n",
        "-r",
        "--config-file",
        "--ignore",
        "--ignore-glob",
        "--deselect",
        "--rootdir",
        "--confcutdir",
        "--basetemp",
        "--import-mode",
        "--maxfail",
        "--tb",
        "--durations",
        "--dist",
        "--timeout",
        "--cov-config",
        "--junitxml",
        "--junit-xml",
        "--color",
    }
)


class PytestKind:
    """Runs pytest so that it tells everything whatever `addopts` says, and leaves no files behind."""

    name = "pytest"
    reruns = True

    def find(self, root: Path) -> Gate | None:
        """Found by a pytest configuration, or by files pytest would collect unless the project has a test
        runner of its own and does not ask for pytest (rule 6.1)."""
        if found := configuration(root):
            why = found[0]
        else:
            why = next((str(path) for path in python_files(root) if _TEST_FILE.match(path.name)), "")
            if why and (root / _OWN_RUNNER).is_file():
                why = sign_of(root, "pytest") or sign_of(root, "pytest-django")
        return Gate("pytest", ("pytest",), self.name, why=why) if why else None

    def hint(self, root: Path) -> str:
        """Nothing to say: a project without tests knows that."""
        return ""

    def recognises(self, argv: tuple[str, ...]) -> bool:
        """`pytest`, `python -m pytest`, `uv run pytest`, ..."""
        return tool_index(argv, _NAMES) is not None

    def tool(self, gate: Gate, project: Project) -> Tool | Missing:
        """The project's python with `-m pytest`, or the declared command; checked by asking that
        python whether it has pytest and whether it imports the project's packages from this tree."""
        python, as_module, argv = project.python, True, (*project.python, "-m", "pytest")
        if gate.declared:
            program = project.which(gate.command[0])
            if program is None:
                return Missing(f"{gate.command[0]} is not there")
            argv = (program, *gate.command[1:])
            at = tool_index(gate.command, _NAMES) or 0
            as_module = at >= 2 and PurePath(gate.command[at - 2]).name.startswith("python")
            python = argv[: at - 1] if as_module else python
        packages = own_packages(project.root)
        probe = project.probe(
            python,
            ("pytest", *packages),
            cwd_first=as_module or puts_root_first(project.root),
            paths=python_path(project.root),
        )
        if as_module and not (probe and probe.modules["pytest"]):
            script = project.which("pytest") if project.via == "PATH" and not gate.declared else None
            if script is None:
                lacking = f"{' '.join(python)} has no pytest; type: {project.to_install('pytest')}"
                return Missing(lacking if python else "there is no python")
            argv = (script,)
        if probe and (foreign := foreign_package(probe, packages, project.root)):
            name, folder = foreign
            why = f"{name} is imported from {folder}, not from this tree (install it here, editable)"
            return Missing(why, tool=False)
        return Tool(argv, f"python {probe.version if probe else '?'}")

    def shown(self, gate: Gate, project: Project) -> tuple[str, ...]:
        """As if the project's python had pytest."""
        return (*project.python, "-m", "pytest") if project.python else gate.command

    def argv(self, tool: Tool, scratch: Path) -> tuple[str, ...]:
        """Options that undo `-x` and its like, and keep caches and the report out of the tree.

        The cache plugin stays on, elsewhere: without it `--ff` in addopts would be an unknown option.
        """
        options = (
            "--maxfail=0",
            "--continue-on-collection-errors",
            "--tb=short",
            *("-o", "junit_family=xunit1"),
            *("-o", "junit_logging=no"),
            *("-o", f"cache_dir={scratch / 'cache'}"),
            f"--junitxml={scratch / 'junit.xml'}",
        )
        return with_options(tool.argv, options)

    def rerun_argv(
        self, tool: Tool, scratch: Path, failures: tuple[Failure, ...], root: Path
    ) -> tuple[str, ...] | None:
        """The same command with the failures' ids in place of its paths."""
        ids = {f.title: None for f in failures if "::" in f.title or f.title.endswith(".py")}
        places = [place for test in ids if (place := _from_root(test, root))]
        if not places or len(places) > _MAX_RERUN:
            return None
        at = tool_index(tool.argv, _NAMES)
        head, words = (
            (tool.argv[:1], tool.argv[1:]) if at is None else (tool.argv[: at + 1], tool.argv[at + 1 :])
        )
        kept = [w for before, w in zip(("", *words), words, strict=False) if _is_option(before, w)]
        return (*self.argv(Tool((*head, *kept), tool.identity), scratch), "--", *places)

    def read(self, exit_code: int, scratch: Path, output: Path, root: Path) -> Reading:
        """Outcome by exit status *and* report: neither alone is believed."""
        try:
            report = read_report(scratch / "junit.xml", _is_file(root))
        except ReportError as error:
            tail = tail_of(output)
            if exit_code == 1 and "No module named pytest" in tail:
                return Reading(
                    GateOutcome.TOOL_MISSING, note="pytest is not installed in the project's environment"
                )
            return _broke(exit_code, _BROKE.get(exit_code, str(error)), tail, TestReport())
        if exit_code not in (0, 1, 5):
            return _broke(
                exit_code, _BROKE.get(exit_code, "it did not end by itself"), tail_of(output), report
            )
        if report.failures:
            return Reading(GateOutcome.FAILED, report.failures, report.passed, report.skipped)
        if exit_code == 1:  # a threshold such as --cov-fail-under, said in the output only
            tail = tail_of(output, 2048)
            words, counts = fingerprint(tail, root)
            said = Failure(f"exit 1: {words}", "pytest failed though no test did", tail, counts=counts)
            return Reading(GateOutcome.FAILED, (said,), report.passed, report.skipped)
        if report.passed:
            return Reading(GateOutcome.PASSED, (), report.passed, report.skipped)
        note = (
            f"all {len(report.skipped)} tests were skipped" if report.skipped else "no tests were collected"
        )
        return Reading(GateOutcome.NO_TESTS, (), report.passed, report.skipped, note=note)


def _broke(exit_code: int, why: str, tail: str, report: TestReport) -> Reading:
    how = f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with status {exit_code}"
    failure = Failure(f"broke {exit_code}", f"pytest {how} ({why})", clip(tail))
    told = (f for f in report.failures if f.title != _INTERNAL)
    return Reading(GateOutcome.FAILED, (failure, *told), report.passed, report.skipped, comparable=False)


def _is_option(before: str, word: str) -> bool:
    return word != "--" and (word.startswith("-") or before in _TAKES_VALUE)


def _rootdirs(root: Path) -> Iterator[Path]:
    """Where pytest's rootdir may be: test ids are relative to it, not to where pytest runs."""
    for folder in (root, *root.parents):
        yield folder
        if (folder / ".git").exists():
            return


def _is_file(root: Path) -> Callable[[str], bool]:
    folders = tuple(_rootdirs(root))
    return cache(lambda name: any((folder / name).is_file() for folder in folders))


def _from_root(test: str, root: Path) -> str | None:
    """A test id as it must be typed at `root`; None when its file is not found."""
    file, separator, rest = test.partition("::")
    for folder in _rootdirs(root):
        if (folder / file).is_file():
            return os.path.relpath(folder / file, root) + separator + rest
    return None
