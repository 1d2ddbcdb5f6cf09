"""Fixtures of the tests that drive real CLIs."""

from __future__ import annotations

import pytest

from tests.kit.engines import claude, home

__all__ = ["claude", "home"]

pytest.register_assert_rewrite("tests.engines.conformance")
