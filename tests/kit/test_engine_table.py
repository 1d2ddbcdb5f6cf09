"""The table at the end of `make test-engines`."""

from __future__ import annotations

from tests.kit.engine_table import table


def test_a_red_case_and_a_case_that_only_one_engine_has() -> None:
    outcomes = {("success", "aider"): "ok", ("success", "codex"): "RED", ("a stop", "codex"): "ok"}
    assert list(table(outcomes)) == [
        "         aider    codex",
        "a stop   -        ok",
        "success  ok       RED",
    ]


def test_nothing_ran() -> None:
    assert list(table({})) == []
