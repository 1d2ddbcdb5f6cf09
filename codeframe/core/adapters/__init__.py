"""The engines' adapters, re-exported lazily: importing the package loads none of them."""

from __future__ import annotations

from typing import Any

_WHERE = {
    "BuiltInReactAdapter": "codeframe.core.adapters.builtin",
    "ClaudeCodeAdapter": "codeframe.core.adapters.claude_code",
    "CodexAdapter": "codeframe.core.adapters.codex",
    "KilocodeAdapter": "codeframe.core.adapters.kilocode",
    "OpenCodeAdapter": "codeframe.core.adapters.opencode",
    "SubprocessAdapter": "codeframe.core.adapters.subprocess_adapter",
}

__all__ = [
    "BuiltInReactAdapter",
    "ClaudeCodeAdapter",
    "CodexAdapter",
    "KilocodeAdapter",
    "OpenCodeAdapter",
    "SubprocessAdapter",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'codeframe.core.adapters' has no attribute {name!r}")
