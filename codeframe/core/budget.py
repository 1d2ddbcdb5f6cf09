"""What a run may use up: tokens and money, for the run itself, its task and the whole workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from codeframe.core.models import TokenUsage

SCOPES = ("run", "task", "workspace")


class Breach(NamedTuple):
    """`scope` is one of SCOPES, `what` "tokens" or "cost"; `used` and `limit` are in tokens or US dollars."""

    scope: str
    what: str
    used: float
    limit: float


class Limit(NamedTuple):
    """`spent` is what other runs of the scope have used up; `tokens` and `cost` (US dollars) are None for no limit."""

    scope: str
    tokens: int | None
    cost: float | None
    spent: TokenUsage = TokenUsage()


class Budget(NamedTuple):
    """The limits that hold for one run."""

    limits: tuple[Limit, ...] = ()

    @classmethod
    def of(cls, configured: Mapping[str, Any], spent: Mapping[str, TokenUsage]) -> Budget:
        """`configured` maps a scope to {"tokens", "cost"}, both optional; `spent` to what other runs used up."""
        return cls(
            tuple(
                Limit(scope, limits.get("tokens"), limits.get("cost"), spent.get(scope, TokenUsage()))
                for scope in SCOPES
                if (limits := configured.get(scope))
            )
        )

    def breach(self, usage: TokenUsage | None) -> Breach | None:
        """What is used up once the run has used `usage`; None while all is within its limits.

        Tokens are those read anew and written: what comes from a prompt cache costs a tenth, and does not count.
        """
        usage = usage or TokenUsage()
        for limit in self.limits:
            whole = limit.spent + usage
            tokens = whole.input_tokens + whole.output_tokens
            if limit.tokens is not None and tokens >= limit.tokens:
                return Breach(limit.scope, "tokens", tokens, limit.tokens)
            if limit.cost is not None and (whole.cost_usd or 0.0) >= limit.cost:
                return Breach(limit.scope, "cost", whole.cost_usd or 0.0, limit.cost)
        return None
