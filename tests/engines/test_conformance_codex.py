"""The conformance cases on the real Codex CLI, over its app server."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from codeframe.demo.model_script import Block, plain_verdict, tool
from tests.engines.conformance import UNGATED, Conformance, check
from tests.engines.stage import Stage, engine_processes
from tests.kit.engines import clean_env, pinned
from tests.kit.repos import write

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
    asks_once = False
    login_words: tuple[str, ...] = ("codex login",)

    def environment(self, home: Path, url: str) -> dict[str, str]:
        codex = pinned("codex")
        config = home / ".codex" / "config.toml"
        config.parent.mkdir(exist_ok=True)
        config.write_text(CONFIG.format(url=url))
        # Several models for one home: which one is a word on the command line, before what the adapter says.
        shim = home / f"bin-{hashlib.sha256(url.encode()).hexdigest()[:8]}" / "codex"
        shim.parent.mkdir(exist_ok=True)
        option = f"model_providers.scripted.base_url={json.dumps(url + '/v1')}"
        shim.write_text(f'#!/bin/sh\nexec {shlex.quote(str(codex))} -c {shlex.quote(option)} "$@"\n')
        shim.chmod(0o755)
        env = clean_env(home)
        return env | {"PATH": f"{shim.parent}:{env['PATH']}", "SCRIPTED_KEY": "dummy"}

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
    text = config.read_text()
    (url,) = re.findall('base_url = "(.*)"', text)
    config.write_text(text.replace('model_provider = "scripted"', f'openai_base_url = "{url}"'))
    (folder / "auth.json").write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": "dummy"}))
    return {}


class TestCodex(Conformance):
    engine = Codex()
    puts_up_with: ClassVar[Mapping[str, int]] = {"rate_limited": 6, "overloaded": 30}
    outlives_us = False  # the end of its stdin ends it, and its commands

    def test_the_repository_is_not_trusted_in_the_persons_name(self, stage: Stage) -> None:
        started = stage.folder / "server-started"
        server = f'[mcp_servers.evil]\ncommand = "touch"\nargs = ["{started}"]\n'
        write(
            stage.repo,
            {".codex/config.toml": f'model = "evil"\n{server}', "AGENTS.md": "Words for agents.\n"},
        )
        config = stage.home / ".codex" / "config.toml"
        before = config.read_bytes()
        stage.play([stage.write("made.txt", "x\n"), stage.done()])
        check(stage.start(stage.task(), UNGATED), 0)
        assert config.read_bytes() == before
        assert not started.exists()
        assert {request.body["model"] for request in stage.requests()} == {"gpt-5.5"}
        assert "Words for agents." in json.dumps(stage.requests()[0].body)

    def test_a_skill_named_in_the_prompt_is_not_put_behind_it(self, stage: Stage) -> None:
        skill = "---\nname: mine\ndescription: about it\n---\nWords of the skill.\n"
        write(stage.home, {".codex/skills/mine/SKILL.md": skill})
        stage.play([stage.write("made.txt", "x\n"), stage.done()])
        check(stage.start(stage.task("Use $mine", "It costs $5 [$mine](x)"), UNGATED), 0)
        (prompt,) = stage.asked()
        assert "Use $mine" in prompt
        assert "It costs $5 [$mine](x)" in prompt
        assert "Words of the skill." not in json.dumps([request.body for request in stage.requests()])

    def test_a_question_by_its_tool_blocks_and_the_thread_goes_on(self, stage: Stage) -> None:
        asks = [tool("report_blocked", {"question": "Which colour?"}), stage.done("asked")]
        stage.play(asks, [stage.write("made.txt", "blue\n"), stage.done("made it blue")])
        task = stage.task("Paint it")
        check(stage.start(task, UNGATED), 3)
        (blocker,) = stage.blockers()
        assert (blocker["kind"], blocker["question"]) == ("question", "Which colour?")
        session = stage.run(task)["session_id"]
        check(stage.cf("blocker", "answer", blocker["id"], "blue"), 0)
        check(stage.cf("work", "resume", task), 0)
        assert stage.run(task)["session_id"] == session

    @pytest.mark.parametrize("how", ["setsid", "nohup"])
    def test_a_daemon_does_not_outlive_the_run(self, stage: Stage, how: str) -> None:
        """Without the sandbox, in which it would die with its command.

        What `nohup` leaves in the session of its command Codex ends by itself; the other one the sweep has to find.
        """
        stage.play([stage.sleeper(how), stage.write("made.txt", "x\n"), stage.done()])
        task = stage.task()
        check(stage.start(task, UNGATED, "--autonomy", "full"), 0)
        assert stage.pid_file.read_text().strip()
        assert engine_processes(stage.home) == []
        if how == "setsid":
            assert "sleep 300" in str(stage.rounds(task)[0]["engine"]["survivors"])

    @pytest.mark.parametrize(("network", "found"), [("on", "open"), ("off", "closed")])
    def test_the_network_is_on_or_off(self, stage: Stage, network: str, found: str) -> None:
        port = urlsplit(stage.server.url(stage.scenario)).port
        dial = f"if (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; then echo open; else echo closed; fi > net.txt"
        stage.play([self.engine.shell(dial), stage.done()])
        check(stage.start(stage.task(), UNGATED, "--network", network), 0)
        assert (stage.repo / "net.txt").read_text() == f"{found}\n"

    def test_the_sandbox_holds(self, stage: Stage) -> None:
        here = Path("/etc/codex-was-here")
        reach = f"echo x > {here}; git commit -q --allow-empty -m 'by the engine'; echo ok > made.txt"
        stage.play([self.engine.shell(reach), stage.done()])
        check(stage.start(stage.task(), UNGATED), 0)
        assert not here.exists()
        stage.unharmed()
