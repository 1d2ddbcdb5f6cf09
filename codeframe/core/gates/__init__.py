"""Gates: the checks a change has to pass, run in the project's own environment (rules 6.1 to 6.4).

Re-exported lazily: who needs a part of the package does not import all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codeframe.core.gates.compare import GateVerdict
    from codeframe.core.gates.discovery import declared_gates, find_gates
    from codeframe.core.gates.model import Failure, Gate, GateOutcome, GateResult
    from codeframe.core.gates.report import GateReport, describe_gate, untold
    from codeframe.core.gates.suite import GateSuite

_WHERE = {
    "Failure": "model",
    "Gate": "model",
    "GateOutcome": "model",
    "GateReport": "report",
    "GateResult": "model",
    "GateSuite": "suite",
    "GateVerdict": "compare",
    "declared_gates": "discovery",
    "describe_gate": "report",
    "find_gates": "discovery",
    "untold": "report",
}

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
    "untold",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
