"""The conformance cases on the real Kilo CLI."""

from __future__ import annotations

import pytest

from tests.engines.conformance import Conformance
from tests.engines.opencode_row import OpenCodeRow

pytestmark = pytest.mark.engine


class TestKilocode(Conformance):
    engine = OpenCodeRow("kilocode", "kilo", "kilo", "KILO")
