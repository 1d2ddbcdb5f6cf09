"""The row of the conformance table for OpenCode and programs made from it: what differs is data."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from codeframe.demo.model_script import Block, fenced_verdict, tool
from tests.kit.engines import ENGINES_BIN, clean_env, pinned

MODEL = "anthropic/claude-sonnet-4-5"


class OpenCodeRow:
    """A person who has the program with a key for Anthropic's API, and their model chosen in its configuration."""

    asks_once = False
    compacts = True

    def __init__(self, name: str, command: str, folder: str, prefix: str) -> None:
        self.name = name
        self.login_words: tuple[str, ...] = (f"{command} auth login", "API key")
        self.template = ENGINES_BIN.parents[1] / "homes" / command
        self._command, self._folder, self._prefix = command, folder, prefix

    def environment(self, home: Path, url: str) -> dict[str, str]:
        pinned(self._command)
        config = home / ".config" / self._folder / f"{self._folder}.json"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(json.dumps({"model": MODEL}))
        env = clean_env(home)
        return env | {
            "PATH": f"{ENGINES_BIN}{os.pathsep}{env['PATH']}",
            "ANTHROPIC_BASE_URL": f"{url}/v1",
            "ANTHROPIC_API_KEY": "dummy",
        }

    def logged_out(self, env: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in env.items() if name != "ANTHROPIC_API_KEY"}

    def logins(self) -> Mapping[str, Callable[[Path], dict[str, str]]]:
        login = json.dumps({"anthropic": {"type": "api", "key": "dummy"}})

        def auth_file(home: Path) -> dict[str, str]:
            """What `auth login` leaves."""
            path = home / ".local" / "share" / self._folder / "auth.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(login)
            return {}

        content = f"{self._prefix}_AUTH_CONTENT"
        return {"auth.json": auth_file, content: lambda home: {content: login}}

    def write(self, path: str, content: str) -> Block:
        return tool("write", {"filePath": path, "content": content})

    def shell(self, command: str) -> Block:
        return tool("bash", {"command": command, "description": "run it", "timeout": 600_000})

    def verdict(self, summary: str, status: str = "completed", **more: Any) -> Block:
        return fenced_verdict(summary, status, **more)

    def session_files(self, home: Path) -> list[Path]:
        return list((home / ".local" / "share" / self._folder).glob("*.db*"))
