"""Fixtures of the tests that drive real CLIs, and the figures they measured, printed at the end."""

from __future__ import annotations

import pytest

from tests.kit.engines import claude, home

__all__ = ["claude", "home"]

pytest.register_assert_rewrite("tests.engines.conformance")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests recorded with `record_property`, of whichever worker."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
