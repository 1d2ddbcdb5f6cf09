"""The adapter with the real Claude Code CLI and a scripted model: what recorded streams cannot show."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.adapters.claude_code import ClaudeCodeAdapter
from codeframe.core.agent_adapter import AgentContext, AgentResult, AgentResultStatus
from codeframe.core.models import ErrorClass
from codeframe.demo.model_script import text, tool, verdict
from codeframe.demo.model_server import ScriptedModel
from tests.kit.engines import scripted_env
from tests.kit.repos import make_repo

pytestmark = pytest.mark.engine

WRITE = [tool("Write", {"file_path": "{cwd}/made.txt", "content": "hello\n"})]


@pytest.fixture
def server() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo", {"README.md": "# A project\n"})


class Setup:
    """One scripted model, one home, one repository: `run` calls the adapter as the runtime would."""

    def __init__(
        self, server: ScriptedModel, home: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.server, self.home, self.repo, self._monkeypatch = server, home, repo, monkeypatch

    def script(self, *prompts: list[Any], **scenario: Any) -> None:
        url = self.server.add("s", {"prompts": prompts or ([text("hm")],), **scenario})
        for name in list(os.environ):
            if name.startswith(("ANTHROPIC_", "CLAUDE")):
                self._monkeypatch.delenv(name)
        for name, value in scripted_env(self.home, url).items():
            self._monkeypatch.setenv(name, value)

    def run(
        self, prompt: str = "do it", adapter: ClaudeCodeAdapter | None = None, **context: Any
    ) -> AgentResult:
        given = AgentContext("t1", "title", run_id="run1", run_dir=self.home.parent / "run", **context)
        return (adapter or ClaudeCodeAdapter()).execute(prompt, self.repo, given, 90_000)

    def asked(self) -> list[str]:
        """The person's prompts in the last conversation that reached the model."""
        return list(self.server.requests("s")[-1].prompts)


@pytest.fixture
def setup(
    server: ScriptedModel, claude: Path, home: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> Setup:
    return Setup(server, home, repo, monkeypatch)


def test_success_with_a_structured_verdict(setup: Setup) -> None:
    setup.script([WRITE, verdict("made it")])
    adapter = ClaudeCodeAdapter()
    result = setup.run(adapter=adapter)
    assert (result.status, result.summary, result.error) == (AgentResultStatus.COMPLETED, "made it", None)
    assert result.files_created == ("made.txt",)
    assert (setup.repo / "made.txt").read_text() == "hello\n"
    assert result.token_usage is not None
    assert result.token_usage.output_tokens > 0
    assert "file_changed" in [e.type for e in adapter.stream_events()]


def test_resume_goes_on_in_the_same_session(setup: Setup) -> None:
    setup.script([WRITE, verdict("first")], [verdict("second")])
    first = setup.run("the whole task")
    second = setup.run("only the failures", session_id=first.session_id, resume_session=True, round=1)
    assert (second.status, second.summary) == (AgentResultStatus.COMPLETED, "second")
    assert second.session_id == first.session_id
    asked = [words for words in setup.asked() if not words.startswith("Continue from where")]
    assert asked == ["the whole task", "only the failures"]


def test_a_session_that_is_gone_and_one_that_is_taken(setup: Setup) -> None:
    setup.script([verdict()])
    unknown = setup.run(session_id="11111111-1111-4111-8111-111111111111", resume_session=True)
    assert (unknown.error_class, unknown.evidence.get("session_lost")) == (ErrorClass.PROTOCOL, True)
    first = setup.run()
    taken = setup.run(session_id=first.session_id)
    assert (taken.error_class, taken.evidence.get("session_lost")) == (ErrorClass.PROTOCOL, True)


def test_a_question(setup: Setup) -> None:
    setup.script([verdict("stuck", status="blocked", question="Which database?")])
    result = setup.run()
    assert (result.status, result.blocker_question) == (AgentResultStatus.BLOCKED, "Which database?")


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (401, "authentication_error", ErrorClass.AUTH),
        (429, "rate_limit_error", ErrorClass.RATE_LIMITED),
        (404, "not_found_error", ErrorClass.MODEL),
    ],
)
def test_api_errors(setup: Setup, status: int, kind: str, expected: ErrorClass) -> None:
    setup.script(errors=[{"status": status, "type": kind, "message": "no", "headers": {"retry-after": "0"}}])
    result = setup.run()
    assert (result.status, result.error_class) == (AgentResultStatus.FAILED, expected)


def test_no_server_is_a_network_error(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.script()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    assert setup.run().error_class is ErrorClass.NETWORK


def test_cancel_leaves_no_child_running(setup: Setup) -> None:
    sleeper = f"sleep 300.{os.getpid()}"
    setup.script([[tool("Bash", {"command": sleeper, "description": "wait", "timeout": 600_000})], verdict()])
    adapter = ClaudeCodeAdapter()
    results: list[AgentResult] = []
    thread = threading.Thread(target=lambda: results.append(setup.run(adapter=adapter)), daemon=True)
    events = adapter.stream_events()
    thread.start()
    assert any(event.type == "command_run" for event in iter(lambda: next(events), None))
    adapter.cancel()
    thread.join(60)
    assert results[0].error_class is ErrorClass.CANCELLED
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert sleeper not in processes


@pytest.mark.parametrize(
    "prompt",
    [
        "see @/etc/hostname and @README.md",
        "@/etc/hostname",
        "/clear",
        "/nosuchcommand with words",
        "  /compact\n@README.md\n",
        "!ls\n#remember",
        "quotes \" ' ` $HOME \\n \\\\ \t\r\n {{x}} </user> é 日本 \U0001f600 \u2028 end  \n\n",
        "--help",
        "x @/etc/hostname\n" * 65_536,
    ],
    ids=lambda prompt: repr(prompt)[:30],
)
def test_the_prompt_arrives_byte_for_byte(setup: Setup, prompt: str) -> None:
    setup.script([verdict()])
    assert setup.run(prompt).status is AgentResultStatus.COMPLETED
    assert setup.asked() == [prompt]
    # Expanded, a file would stand in the conversation as a call of the Read tool.
    assert "Called the Read tool" not in str(setup.server.requests("s")[0].body["messages"])


def test_full_autonomy_works_for_whoever_runs_this(setup: Setup, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    setup.script([[tool("Write", {"file_path": str(outside), "content": "x"})], verdict()])
    assert setup.run().evidence["permission_denials"] == ["Write"]
    assert setup.run(options={"autonomy": "full", "network": "off"}).status is AgentResultStatus.COMPLETED
    assert outside.read_text() == "x"
    offered = [one["name"] for one in setup.server.requests("s")[-1].body["tools"]]
    assert "Bash" in offered
    assert not {"WebFetch", "WebSearch"} & set(offered)


def test_requirements(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.script()
    assert ClaudeCodeAdapter.requirements() == {"claude on PATH": True}
    assert ClaudeCodeAdapter.logged_in()
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert not ClaudeCodeAdapter.logged_in()
