"""The scripted server's other APIs, each proven on the real CLIs that speak it; see `test_scripted_server.py`.

What is held here is how the server reads a CLI's conversations and that the CLI takes its answers; what else a
CLI does is its adapter's matter.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from codeframe.demo.model_script import error, text, tool
from codeframe.demo.model_server import Request, ScriptedModel
from tests.kit import logged_in
from tests.kit.engines import pinned

pytestmark = pytest.mark.engine

PROMPT = 'make a.txt\n\n"quoted" \\n ä @/etc/hostname'
OVERFULL = error(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum")


class Driver:
    """Runs a real binary in `repo`, as the person of `environment`, against one scenario of its own server."""

    def __init__(self, server: ScriptedModel, folder: Path) -> None:
        self.server = server
        self.home, self.repo = folder / "home", folder / "a repo"  # the space is meant
        self.home.mkdir()
        self.repo.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=self.repo, check=True)

    def run(
        self,
        environment: Callable[[Path, str], Mapping[str, str]],
        name: str,
        *args: str,
        stdin: str = PROMPT,
    ) -> subprocess.CompletedProcess[str]:
        env = {**environment(self.home, self.server.url("s")), "PWD": str(self.repo)}
        command = [str(pinned(name)), *args]
        return subprocess.run(
            command, cwd=self.repo, env=env, input=stdin, text=True, capture_output=True, timeout=600
        )

    def requests(self) -> list[Request]:
        return self.server.requests("s")


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with ScriptedModel() as server:
        yield Driver(server, tmp_path)


def json_lines(ran: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert ran.stdout, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def charged(requests: list[Request], *kinds: str) -> int:
    return sum((request.usage or {})[f"{kind}_tokens"] for request in requests for kind in kinds)


INPUT = ("input", "cache_creation_input", "cache_read_input")
CODEX = ("exec", "--json", "-s", "danger-full-access")


def test_codex_calls_its_tools_and_goes_on_in_the_session(driver: Driver) -> None:
    patch = "*** Begin Patch\n*** Add File: b.txt\n+b\n*** End Patch\n"
    at_once = [text("on it"), *(tool("exec_command", {"cmd": f"echo {n} >> a.txt"}) for n in "12")]
    driver.server.add(
        "s", {"prompts": [[at_once, tool("apply_patch", patch), text("made")], [text("again")]]}
    )
    (driver.repo / "AGENTS.md").write_text("Be brief.\n")

    lines = json_lines(driver.run(logged_in.codex, "codex", *CODEX, "-"))
    assert sorted((driver.repo / "a.txt").read_text()) == sorted("1\n2\n")
    assert (driver.repo / "b.txt").read_text() == "b\n"
    said = [line["item"] for line in lines if line["type"] == "item.completed"]
    assert (said[-1]["type"], said[-1]["text"]) == ("agent_message", "made")
    requests = driver.requests()
    assert [(r.dialect, r.prompts, r.turn) for r in requests] == [
        ("responses", (PROMPT,), n) for n in range(3)
    ]
    assert {Path(request.cwd) for request in requests} == {driver.repo}
    session = lines[0]["thread_id"]
    assert {request.session_id for request in requests} == {session}
    assert lines[-1]["usage"]["input_tokens"] == charged(requests, *INPUT)
    assert lines[-1]["usage"]["cached_input_tokens"] == charged(requests, "cache_read_input") > 0

    driver.run(logged_in.codex, "codex", *CODEX, "resume", session, "-", stdin="the gate failed")
    assert (driver.requests()[-1].prompts, driver.requests()[-1].turn) == ((PROMPT, "the gate failed"), 0)


@pytest.mark.parametrize(
    "refusal, told",
    [
        (OVERFULL, "ran out of room in the model's context window"),
        (error(429, "billing_error"), "Quota exceeded"),
        (error(200, "context_length_exceeded", "in the stream"), "ran out of room"),
        (error(429, "usage_limit_reached"), "hit your usage limit"),
    ],
    ids=lambda value: value["error"]["type"] if isinstance(value, dict) else "",
)
def test_codex_knows_the_errors(driver: Driver, refusal: dict[str, Any], told: str) -> None:
    driver.server.add("s", {"prompts": [[refusal]]})
    ran = driver.run(logged_in.codex, "codex", *CODEX, "-")
    assert ran.returncode == 1
    assert told in json_lines(ran)[-1]["error"]["message"]
    assert len(driver.requests()) == 1


@pytest.mark.parametrize("name", ["opencode", "kilo"])
def test_opencode_and_kilo_call_a_tool(driver: Driver, name: str) -> None:
    write = tool("write", {"filePath": "{cwd}/a.txt", "content": "x\n"})
    driver.server.add("s", {"prompts": [[[text("on it"), write], text("made")]]})
    flags = ("run", "--auto", "--format", "json", "--dir", str(driver.repo), "-m", logged_in.MODEL)
    ran = driver.run(getattr(logged_in, name), name, *flags)

    assert ran.returncode == 0, ran.stderr
    assert (driver.repo / "a.txt").read_text() == "x\n"
    lines = json_lines(ran)
    assert [line["part"]["text"] for line in lines if line["type"] == "text"] == ["on it", "made"]
    requests = driver.requests()
    assert [(r.dialect, r.prompts, r.turn) for r in requests] == [("chat", (PROMPT,), n) for n in range(2)]
    assert {Path(request.cwd) for request in requests} == {driver.repo}
    assert {request.session_id for request in requests} == {lines[0]["sessionID"]}
    steps = [line["part"]["tokens"] for line in lines if line["type"] == "step_finish"]
    assert sum(step["output"] for step in steps) == charged(requests, "output")
    assert sum(step["input"] + step["cache"]["read"] for step in steps) == charged(requests, *INPUT)


AIDER = (
    *("--yes-always", "--no-detect-urls", "--disable-playwright", "--no-suggest-shell-commands"),
    *("--no-auto-lint", "--no-auto-test", "--no-auto-commits", "--no-dirty-commits", "--no-gitignore"),
    *("--map-tokens", "0", "--no-check-update", "--analytics-disable", "--no-show-release-notes"),
    *("--no-show-model-warnings", "--no-pretty", "--restore-chat-history"),
)


@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_aider_edits_a_file_and_goes_on_from_its_history(driver: Driver, tmp_path: Path, how: str) -> None:
    edits = [text(f"a.txt\n```\n{words}\n```\n") for words in ("first", "second")]
    driver.server.add("s", {"prompts": [[edit] for edit in edits]})
    kept = ("--chat-history-file", str(tmp_path / "chat.md"), "--input-history-file", str(tmp_path / "input"))

    def run(prompt: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "prompt").write_text(prompt)
        message = ("--message-file", str(tmp_path / "prompt"))
        ran = driver.run(logged_in.aider, "aider", *message, *AIDER, *kept, how, stdin="")
        assert ran.returncode == 0, ran.stderr
        return ran

    assert "Applied edit to a.txt" in run(PROMPT).stdout
    assert (driver.repo / "a.txt").read_text() == "first\n"
    (request,) = driver.requests()
    assert (request.dialect, request.prompts, request.turn) == ("chat", (PROMPT,), 0)
    assert request.body.get("stream", False) == (how == "--stream")

    run("the gate failed")
    assert (driver.repo / "a.txt").read_text() == "second\n"
    assert {len(request.prompts) for request in driver.requests()[1:]} == {2}
    assert driver.requests()[-1].prompts[-1] == "the gate failed"
