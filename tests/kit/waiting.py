"""Waiting for something another process does, without a sleep that is too short on a slow machine."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout: float = 60.0) -> None:
    """Poll until `condition()` is true; AssertionError when it is not within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not true within {timeout} s"
        time.sleep(0.01)
