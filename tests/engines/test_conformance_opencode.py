"""The conformance cases on the real OpenCode CLI."""

from __future__ import annotations

import pytest

from tests.engines.conformance import Conformance
from tests.engines.opencode_row import OpenCodeRow

pytestmark = pytest.mark.engine


class TestOpenCode(Conformance):
    engine = OpenCodeRow("opencode", "opencode", "opencode", "OPENCODE")
