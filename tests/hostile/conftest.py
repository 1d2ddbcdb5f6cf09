"""Fixtures of the hostile stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A project with a person's staged, unstaged and untracked work in it."""
    return Stage.build(tmp_path)
