"""What of an earlier run's options the next one keeps (rule 4.8)."""

from __future__ import annotations

from typing import Any

import pytest

from codeframe.core.environment_config import EnvironmentConfig
from codeframe.core.models import ErrorClass, Run, RunStatus, utc_now
from codeframe.core.run_options import RunOptions


def ended(status: RunStatus, error_class: ErrorClass | None, **options: Any) -> Run:
    now = utc_now()
    return Run("r", "t", status, "x", now, error_class=error_class, options=RunOptions(**options).to_dict())


OUT_OF_TIME = RunStatus.TIMEOUT, ErrorClass.TIMEOUT
SILENT = RunStatus.TIMEOUT, ErrorClass.STALLED


def test_what_was_typed_goes_on_but_for_the_note() -> None:
    before = ended(RunStatus.STOPPED, ErrorClass.CANCELLED, timeout_s=5.0, strict=True, note="hm")
    options = RunOptions.merge(EnvironmentConfig(), {"stall_timeout_s": 9.0, "model": None}, before)
    assert (options.timeout_s, options.stall_timeout_s) == (5.0, 9.0)
    assert (options.strict, options.note) == (True, "")


@pytest.mark.parametrize(
    ("used_up", "configured", "now"), [(5.0, None, 3600.0), (5.0, 60.0, 60.0), (7200.0, None, 7200.0)]
)
def test_a_limit_that_was_used_up_goes_on_only_where_it_is_the_longer_one(
    used_up: float, configured: float | None, now: float
) -> None:
    config = EnvironmentConfig(timeout=configured)
    before = ended(*OUT_OF_TIME, timeout_s=used_up, stall_timeout_s=5.0)
    options = RunOptions.merge(config, {}, before)
    assert (options.timeout_s, options.stall_timeout_s) == (now, 5.0)
    assert RunOptions.merge(config, {"timeout_s": 3.0}, before).timeout_s == 3.0


def test_so_does_the_silence_that_was_used_up() -> None:
    options = RunOptions.merge(EnvironmentConfig(), {}, ended(*SILENT, timeout_s=50.0, stall_timeout_s=5.0))
    assert (options.timeout_s, options.stall_timeout_s) == (50.0, 600.0)
