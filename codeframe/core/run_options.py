"""How one run is to be done: what was typed over what is configured, kept with the run so that resume keeps it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from codeframe.core.environment_config import EnvironmentConfig
from codeframe.core.errors import UsageError
from codeframe.core.models import ErrorClass, Run, RunStatus

DEFAULT_TIMEOUT_S = 3600.0
DEFAULT_STALL_TIMEOUT_S = 600.0
BACKOFF_VARIABLE = "CODEFRAME_BACKOFF_S"  # for tests and impatient people: no flag, no key


class RunOptions(NamedTuple):
    """Durations in seconds. `note` is what the person added with -m; `backoff_s` is the first wait after a
    passing fault of the engine's service, `wait_for_quota_s` how long in all a used-up quota is waited for.
    `fallback` names engines that take over one by one; `engine_args` are a person's own arguments for the command lines
    of the engines that may run, by name; `max_tokens` and `max_cost` (US dollars) are of this run."""

    model: str | None = None
    note: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S
    stall_timeout_s: float = DEFAULT_STALL_TIMEOUT_S
    max_corrections: int = 3
    strict: bool = False
    integrity: str = "report"
    require_gates: bool = False
    no_gates: bool = False
    stall_action: str = "blocker"
    autonomy: str = "workspace"
    network: str = "on"
    backoff_s: float = 2.0
    wait_for_quota_s: float = 0.0
    fallback: Sequence[str] = ()
    engine_args: Mapping[str, Sequence[str]] = {}
    max_tokens: int | None = None
    max_cost: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, for the run's row."""
        return self._asdict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunOptions:
        """The options saved with a run; keys this version does not know are dropped."""
        return cls(**{k: v for k, v in data.items() if k in cls._fields})

    @classmethod
    def merge(
        cls,
        config: EnvironmentConfig,
        typed: Mapping[str, Any],
        before: Run | None = None,
        own: Mapping[str, Any] = {},
    ) -> RunOptions:
        """What was typed (None = not typed) over the options of the run `before` over the configuration over the
        engine's `own` defaults over ours; a limit that run has used up goes on only where it is the longer one.
        The environment's CODEFRAME_BACKOFF_S counts as typed; UsageError when it is no number."""
        configured: dict[str, Any] = {
            "model": config.model,
            "timeout_s": config.timeout_s,
            "stall_timeout_s": config.stall_timeout_s,
            "max_corrections": config.max_corrections,
            "strict": config.strict,
            "integrity": config.integrity,
            "require_gates": config.require_gates,
            "stall_action": config.stall_action,
            "autonomy": config.autonomy,
            "network": config.network,
            "wait_for_quota_s": config.wait_for_quota_s,
            "fallback": config.fallback,
            "engine_args": config.engine_args,
            "max_tokens": config.limits("run").get("tokens"),
            "max_cost": config.limits("run").get("cost"),
        }
        # `integrity` and `engine_args` cannot be typed: what is configured now holds.
        unsaved = dict.fromkeys(("note", "integrity", "engine_args"))
        saved = {**before.options, **unsaved} if before is not None else {}
        if before is not None and (spent := spent_limit(before)) and spent in saved:
            saved[spent] = max(saved[spent], configured[spent] or cls._field_defaults[spent])
        chosen: dict[str, Any] = {}
        for layer in (own, configured, saved, {"backoff_s": _backoff_s()}, typed):
            chosen.update({k: v for k, v in layer.items() if v is not None})
        return cls.from_dict(chosen)


def spent_limit(run: Run) -> str | None:
    """The name of the limit (a field of RunOptions) that ended a run; None for a run that ended otherwise."""
    if run.status is not RunStatus.TIMEOUT:
        return None
    return "stall_timeout_s" if run.error_class is ErrorClass.STALLED else "timeout_s"


def _backoff_s() -> float | None:
    text = os.environ.get(BACKOFF_VARIABLE)
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(
            f"{BACKOFF_VARIABLE} is “{text}”, not a number of seconds.", f"Type: unset {BACKOFF_VARIABLE}"
        )
    return seconds
