"""What `make test-engines` prints at its end: conformance cases by engines, and the figures that tests measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pytest

_CASE = re.compile(r".*/test_conformance_(\w+)\.py::\w+::test_(\w+)")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A hook of pytest: in its main process, so that it has the reports of all workers."""
    outcomes: dict[tuple[str, str], str] = {}
    for outcome, word in (("passed", "ok"), ("skipped", "skipped"), ("failed", "RED"), ("error", "RED")):
        for report in terminalreporter.getreports(outcome):
            if found := _CASE.match(report.nodeid):
                outcomes[found[2].replace("_", " "), found[1].replace("_", "-")] = word
            for name, value in getattr(report, "user_properties", ()):
                terminalreporter.write_line(f"{name}: {value}")
    for line in table(outcomes):
        terminalreporter.write_line(line)


def table(outcomes: Mapping[tuple[str, str], str]) -> Iterable[str]:
    """(case, engine) -> its outcome, as lines: a case in each, a column for each engine, "-" where it has no such
    case; nothing where there are no outcomes."""
    if not outcomes:
        return
    engines = sorted({engine for _, engine in outcomes})
    cases = sorted({case for case, _ in outcomes})
    widths = [max(len(engine), len("skipped")) for engine in engines]
    first = max(map(len, cases))
    yield "  ".join(["".ljust(first), *map(str.ljust, engines, widths)]).rstrip()
    for case in cases:
        cells = [outcomes.get((case, engine), "-") for engine in engines]
        yield "  ".join([case.ljust(first), *map(str.ljust, cells, widths)]).rstrip()
