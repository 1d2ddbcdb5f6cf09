"""Fixtures of the tests that drive real CLIs."""

from tests.kit.engines import claude, home

__all__ = ["claude", "home"]
