"""The conformance cases on the real Claude Code CLI."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from codeframe.demo.model_script import Block, tool, verdict
from tests.engines.conformance import Conformance
from tests.kit.engines import pinned, scripted_env

pytestmark = pytest.mark.engine

# What the kit adds for tests that drive the CLI by themselves: here the adapter has to.
ADAPTERS_OWN = (
    "CLAUDE_CODE_MAX_RETRIES",
    "DISABLE_AUTOUPDATER",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS",
)
NEVER = 4_102_444_800_000  # the year 2100, in milliseconds


class ClaudeCode:
    """The row of Claude Code."""

    name = "claude-code"
    asks_once = False
    login_words: tuple[str, ...] = ("claude", "/login", "ANTHROPIC_API_KEY")

    def environment(self, home: Path, url: str) -> dict[str, str]:
        pinned("claude")
        return {name: value for name, value in scripted_env(home, url).items() if name not in ADAPTERS_OWN}

    def logged_out(self, env: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in env.items() if name != "ANTHROPIC_API_KEY"}

    def logins(self) -> Mapping[str, Callable[[Path], dict[str, str]]]:
        return {
            "ANTHROPIC_AUTH_TOKEN": lambda home: {"ANTHROPIC_AUTH_TOKEN": "dummy"},
            "CLAUDE_CODE_OAUTH_TOKEN": lambda home: {"CLAUDE_CODE_OAUTH_TOKEN": "dummy"},
            "credentials file": _credentials_file,
        }

    def write(self, path: str, content: str) -> Block:
        return tool("Write", {"file_path": path, "content": content})

    def shell(self, command: str) -> Block:
        return tool("Bash", {"command": command, "description": "run it", "timeout": 600_000})

    def verdict(self, summary: str, status: str = "completed", **more: Any) -> Block:
        return verdict(summary, status, **more)

    def session_files(self, home: Path) -> list[Path]:
        return list((home / ".claude" / "projects").glob("*/*.jsonl"))


def _credentials_file(home: Path) -> dict[str, str]:
    """What `/login` leaves on Linux."""
    folder = home / ".claude"
    folder.mkdir(exist_ok=True)
    login = {
        "accessToken": "dummy",
        "refreshToken": "dummy",
        "expiresAt": NEVER,
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
    }
    (folder / ".credentials.json").write_text(json.dumps({"claudeAiOauth": login}))
    return {}


class TestClaudeCode(Conformance):
    engine = ClaudeCode()
