"""The domain. The protocol's classes are re-exported lazily: `import codeframe.core` costs nothing."""

from __future__ import annotations

from typing import Any

__all__ = ["AgentAdapter", "AgentContext", "AgentEvent", "AgentResult", "AgentResultStatus"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from codeframe.core import agent_adapter

        return getattr(agent_adapter, name)
    raise AttributeError(f"module 'codeframe.core' has no attribute {name!r}")
