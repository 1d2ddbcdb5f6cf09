"""The conformance cases on the real Codex CLI, over its app server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from codeframe.demo.model_script import Block, plain_verdict, tool
from tests.engines.conformance import Conformance
from tests.kit.engines import ENGINES_BIN, clean_env, pinned

pytestmark = pytest.mark.engine

# A provider of the person's own; the window is one in which a prompt of a megabyte has room.
CONFIG = """\
model = "gpt-5.5"
model_context_window = 2000000
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
"""


class Codex:
    """The row of Codex."""

    name = "codex"
    login_words: tuple[str, ...] = ("codex login",)

    def environment(self, home: Path, url: str) -> dict[str, str]:
        pinned("codex")
        config = home / ".codex" / "config.toml"
        config.parent.mkdir(exist_ok=True)
        config.write_text(CONFIG.format(url=url))
        env = clean_env(home)
        return env | {"PATH": f"{ENGINES_BIN}:{env['PATH']}", "SCRIPTED_KEY": "dummy"}

    def logged_out(self, env: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in env.items() if name != "SCRIPTED_KEY"}

    def logins(self) -> Mapping[str, Callable[[Path], dict[str, str]]]:
        return {
            "a key of one's own provider": lambda home: {"SCRIPTED_KEY": "dummy"},
            "codex login": _auth_file,
        }

    def write(self, path: str, content: str) -> Block:
        added = "".join(f"+{line}\n" for line in content.splitlines())
        return tool("apply_patch", f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch")

    def shell(self, command: str) -> Block:
        return tool("exec_command", {"cmd": command, "yield_time_ms": 600_000})

    def verdict(self, summary: str, status: str = "completed", **more: Any) -> Block:
        return plain_verdict(summary, status, **{"question": "", "already_satisfied": False} | more)

    def session_files(self, home: Path) -> list[Path]:
        return list((home / ".codex" / "sessions").glob("**/*.jsonl"))


def _auth_file(home: Path) -> dict[str, str]:
    """What `codex login --with-api-key` leaves, with OpenAI's own provider at the scripted model's address."""
    folder = home / ".codex"
    config = folder / "config.toml"
    (url,) = re.findall('base_url = "(.*)"', config.read_text())
    config.write_text(f'model = "gpt-5.5"\nopenai_base_url = "{url}"\n')
    (folder / "auth.json").write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": "dummy"}))
    return {}


class TestCodex(Conformance):
    engine = Codex()
