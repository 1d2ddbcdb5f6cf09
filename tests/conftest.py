"""For every test: hypothesis without a clock, as the machine may be busy (no test asserts wall time); and a hook."""

from hypothesis import HealthCheck, settings

from tests.kit.engine_table import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
