"""How one run is to be done: what was typed over what is configured, kept with the run so that resume keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from codeframe.core.config import EnvironmentConfig

DEFAULT_TIMEOUT_S = 3600.0
DEFAULT_STALL_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class RunOptions:
    """Durations in seconds. `note` is what the person added with -m; `from_base` resets the tree first."""

    model: str | None = None
    note: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S
    stall_timeout_s: float = DEFAULT_STALL_TIMEOUT_S
    max_corrections: int = 3
    strict: bool = False
    require_gates: bool = False
    no_gates: bool = False
    stall_action: str = "blocker"
    autonomy: str = "workspace"
    network: str = "on"
    backoff_s: float = 2.0

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, for the run's row."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunOptions:
        """The options saved with a run; keys this version does not know are dropped."""
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in data.items() if k in known})

    @classmethod
    def merge(
        cls, config: EnvironmentConfig, typed: Mapping[str, Any], saved: Mapping[str, Any] | None = None
    ) -> RunOptions:
        """What was typed (None = not typed) over the earlier run's options over the configuration over the defaults."""
        configured = {
            "model": config.model,
            "timeout_s": config.timeout_s,
            "stall_timeout_s": config.stall_timeout_s,
            "max_corrections": config.max_corrections,
            "strict": config.strict,
            "require_gates": config.require_gates,
            "stall_action": config.stall_action,
            "autonomy": config.autonomy,
            "network": config.network,
        }
        chosen: dict[str, Any] = {}
        for layer in (configured, {**(saved or {}), "note": None}, typed):
            chosen.update({k: v for k, v in layer.items() if v is not None})
        return cls.from_dict(chosen)
