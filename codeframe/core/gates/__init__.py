"""Gates: the checks a change has to pass, run in the project's own environment (rules 6.1 to 6.4)."""

from codeframe.core.gates.compare import GateVerdict
from codeframe.core.gates.discovery import declared_gates, find_gates
from codeframe.core.gates.model import Failure, Gate, GateOutcome, GateResult
from codeframe.core.gates.report import GateReport, describe_gate
from codeframe.core.gates.suite import GateSuite

__all__ = [
    "Failure",
    "Gate",
    "GateOutcome",
    "GateReport",
    "GateResult",
    "GateSuite",
    "GateVerdict",
    "declared_gates",
    "describe_gate",
    "find_gates",
]
