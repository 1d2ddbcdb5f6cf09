"""The conformance cases on the built-in engine: the same `cf`, the same scripted model, no CLI in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from codeframe.demo.model_script import Block, tool
from tests.engines.conformance import UNGATED, Conformance, check
from tests.engines.stage import Stage
from tests.engines.zoo import Zoo
from tests.kit.engines import clean_env

pytestmark = pytest.mark.engine


class BuiltIn:
    """The row of the built-in engine."""

    name = "built-in"
    asks_once = False
    login_words: tuple[str, ...] = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")

    def environment(self, home: Path, url: str) -> dict[str, str]:
        return clean_env(home) | {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy"}

    def logged_out(self, env: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in env.items() if name != "ANTHROPIC_API_KEY"}

    def logins(self) -> Mapping[str, Callable[[Path], dict[str, str]]]:
        return {
            "ANTHROPIC_AUTH_TOKEN": lambda home: {"ANTHROPIC_AUTH_TOKEN": "dummy"},
            "a server that asks for no key": lambda home: {},
        }

    def write(self, path: str, content: str) -> Block:
        path = path.removeprefix("{cwd}/")  # its tools are told of no other place
        return tool("create_file", {"path": path, "content": content, "overwrite": True})

    def shell(self, command: str) -> Block:
        return tool("run_command", {"command": command, "timeout_s": 600})

    def verdict(self, summary: str, status: str = "completed", **more: Any) -> Block:
        return tool("finish", {"status": status, "summary": summary, **more})

    def session_files(self, home: Path) -> list[Path]:
        return list(home.parent.glob("project-*/.git/codeframe/*/sessions/*.jsonl"))


class TestBuiltIn(Conformance, Zoo):
    engine = BuiltIn()

    def test_no_login_at_all(self, stage: Stage) -> None:
        """Without a key a server of one's own will do; without either nothing can be asked."""
        env = {name: value for name, value in stage.env.items() if not name.startswith("ANTHROPIC_")}
        said = check(stage.start(stage.task(), UNGATED, env=env), 5)
        for words in self.engine.login_words:
            assert words in said.stderr
        assert stage.requests() == []
