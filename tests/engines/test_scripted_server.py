"""The scripted server, proven on the real Claude Code: what the kit plays is what the CLI takes for an API.

Each test also holds a fact the adapter is built on; when a new version of the CLI breaks one, it shows here.
"""

from __future__ import annotations

import json
import signal
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from codeframe.demo.model_script import Scenario, error, text, tool, turn, verdict
from codeframe.demo.model_server import Request, ScriptedModel, refused_url
from tests.kit.engines import scripted_env
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.engine

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"status": {"type": "string"}, "summary": {"type": "string"}},
        "required": ["status", "summary"],
    }
)
FLAGS = (
    *("-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"),
    *("--permission-mode", "acceptEdits", "--allowedTools=Bash"),
)
MODEL = "claude-opus-4-8"


@dataclass
class Ran:
    """A finished run of the CLI: exit status, its JSON lines, stderr."""

    exit_code: int
    lines: list[dict[str, Any]]
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        return next(line for line in reversed(self.lines) if line["type"] == "result")

    def of_type(self, kind: str, subtype: str | None = None) -> list[dict[str, Any]]:
        return [
            line for line in self.lines if line["type"] == kind and subtype in (None, line.get("subtype"))
        ]


class Driver:
    """Runs the real binary in `repo` against one scenario of its own server."""

    def __init__(self, binary: Path, home: Path, repo: Path, server: ScriptedModel) -> None:
        self.binary, self.home, self.repo, self.server = binary, home, repo, server

    def play(self, scenario: Scenario) -> None:
        self.server.add("s", scenario)

    def start(self, *flags: str, url: str | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.binary, *FLAGS, "--model", MODEL, *flags],
            cwd=self.repo,
            env=scripted_env(self.home, url or self.server.url("s")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, prompt: str, *flags: str, url: str | None = None) -> Ran:
        process = self.start(*flags, url=url)
        stdout, stderr = process.communicate(prompt, timeout=90)
        return Ran(process.returncode, [json.loads(line) for line in stdout.splitlines()], stderr)

    def requests(self) -> list[Request]:
        return self.server.requests("s")


@pytest.fixture
def driver(claude: Path, home: Path, tmp_path: Path):
    repo = tmp_path / "a repo"  # the space is meant: `{cwd}` has to survive it
    repo.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    with ScriptedModel(log=tmp_path / "requests.jsonl") as server:
        yield Driver(claude, home, repo, server)


def spent(request: Request) -> int:
    """Input that was not read from the cache."""
    assert request.usage
    return request.usage["input_tokens"] + request.usage["cache_creation_input_tokens"]


def test_success_with_a_write_and_a_structured_verdict(driver: Driver, tmp_path: Path):
    driver.play(
        {"prompts": [[tool("Write", {"file_path": "{cwd}/a.txt", "content": "x\n"}), verdict("made")]]}
    )
    session = str(uuid.uuid4())
    ran = driver.run("make a.txt", "--session-id", session, "--json-schema", SCHEMA)

    assert ran.exit_code == 0
    assert (driver.repo / "a.txt").read_text() == "x\n"
    assert ran.result["structured_output"] == {"status": "completed", "summary": "made"}
    assert ran.result["session_id"] == session
    first, second = driver.requests()
    assert first.prompts == second.prompts == ("make a.txt",)
    assert (first.turn, second.turn) == (0, 1)
    assert Path(first.cwd) == driver.repo
    assert first.session_id == session
    charged = ran.result["modelUsage"][MODEL]
    assert charged["cacheReadInputTokens"] == sum(r.usage["cache_read_input_tokens"] for r in (first, second))
    assert charged["inputTokens"] + charged["cacheCreationInputTokens"] == spent(first) + spent(second)
    logged = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert [entry["status"] for entry in logged if entry["path"] == "/v1/messages"] == [200, 200]
    assert "dummy" not in (tmp_path / "requests.jsonl").read_text()


def test_the_second_prompt_of_a_resumed_session_gets_its_own_turns(driver: Driver):
    wrote_b = [text("on it"), tool("Write", {"file_path": "{cwd}/b.txt", "content": "b"})]
    driver.play({"prompts": [[verdict("first")], [wrote_b, verdict("second")]]})
    session = str(uuid.uuid4())
    driver.run("do a", "--session-id", session, "--json-schema", SCHEMA)
    ran = driver.run("gate failed: do b", "--resume", session, "--json-schema", SCHEMA)

    assert ran.result["structured_output"]["summary"] == "second"
    assert (driver.repo / "b.txt").exists()
    assert [request.prompts for request in driver.requests()] == [
        ("do a",),
        ("do a", "gate failed: do b"),
        ("do a", "gate failed: do b"),
    ]


def test_a_resumed_correction_costs_less_than_a_cold_one(driver: Driver):
    driver.play({"prompts": [[verdict("first")], [verdict("again")]]})
    session = str(uuid.uuid4())
    long_task = "the whole task: " + "word " * 4000
    driver.run(long_task, "--session-id", session, "--json-schema", SCHEMA)
    driver.run("fix the test", "--resume", session, "--json-schema", SCHEMA)
    driver.run(long_task + "and fix the test", "--session-id", str(uuid.uuid4()), "--json-schema", SCHEMA)

    _, resumed, cold = driver.requests()
    assert spent(resumed) * 2 < spent(cold)
    assert resumed.usage["cache_read_input_tokens"] > cold.usage["cache_read_input_tokens"]


def test_a_resume_under_another_model_name_loses_the_cache(driver: Driver):
    """The name is in the system prompt: a resume has to pass the very one that the init line told."""
    driver.play({"prompts": [[text("first")], [text("again")]]})
    session, window = str(uuid.uuid4()), f"{MODEL}[1m]"
    driver.run("work", "--session-id", session, "--model", window)
    for name in (window, MODEL):
        driver.run("go on", "--resume", session, "--model", name)

    _, same, other = (request.usage["cache_read_input_tokens"] for request in driver.requests())
    assert other < same


def test_without_a_verdict_the_nudge_of_the_cli_is_no_prompt(driver: Driver):
    driver.play({"prompts": [[text("forgot"), verdict("remembered")]]})
    ran = driver.run("work", "--json-schema", SCHEMA)

    assert ran.result["structured_output"]["summary"] == "remembered"
    assert [(request.prompts, request.turn) for request in driver.requests()] == [
        (("work",), 0),
        (("work",), 1),
    ]


@pytest.mark.parametrize(
    "status, error_type, told",
    [(401, "authentication_error", "authentication_failed"), (429, "rate_limit_error", "rate_limit")],
)
def test_a_refusal_of_the_api_is_a_success_with_is_error(
    driver: Driver, status: int, error_type: str, told: str
):
    driver.play({"prompts": [[text("never")]], "errors": [{"status": status, "type": error_type}]})
    ran = driver.run("work")

    assert ran.exit_code == 1
    assert (ran.result["subtype"], ran.result["is_error"], ran.result["api_error_status"]) == (
        "success",
        True,
        status,
    )
    assert ran.of_type("assistant")[-1]["error"] == told
    assert [line["error_status"] for line in ran.of_type("system", "api_retry")] == [status]
    assert [request.status for request in driver.requests()] == [status, status]


def test_an_error_that_passes_is_retried(driver: Driver):
    overloaded = {"status": 529, "type": "overloaded_error", "times": 1}
    driver.play({"prompts": [[text("here I am")]], "errors": [overloaded]})
    ran = driver.run("work")

    assert (ran.exit_code, ran.result["result"]) == (0, "here I am")
    assert [request.status for request in driver.requests()] == [529, 200]


def test_an_error_after_the_first_turn_keeps_what_was_written(driver: Driver):
    write = tool("Write", {"file_path": "{cwd}/kept.txt", "content": "k"})
    driver.play({"prompts": [[write, error(400, "invalid_request_error", "no")], [verdict("went on")]]})
    session = str(uuid.uuid4())
    failed = driver.run("work", "--session-id", session)
    resumed = driver.run("go on", "--resume", session, "--json-schema", SCHEMA)

    assert (failed.exit_code, failed.result["is_error"]) == (1, True)
    assert (driver.repo / "kept.txt").exists()
    assert resumed.result["structured_output"]["summary"] == "went on"


def test_a_bash_call_runs_in_the_working_directory(driver: Driver):
    driver.play({"prompts": [[tool("Bash", {"command": "pwd; echo made > by-bash.txt"}), text("ran")]]})
    ran = driver.run("run it")

    assert ran.result["result"] == "ran"
    assert (driver.repo / "by-bash.txt").read_text() == "made\n"
    (answered,) = ran.of_type("user")
    assert answered["tool_use_result"]["stdout"] == str(driver.repo)


def test_a_prompt_of_one_megabyte_arrives_whole(driver: Driver):
    prompt = "".join(f'line {number} "quoted" \\n ä\n' for number in range(45_000)) + "the end"
    assert len(prompt.encode()) > 1_000_000
    driver.play({"prompts": [[text("read it")]]})
    ran = driver.run(prompt)

    assert ran.result["result"] == "read it"
    (request,) = driver.requests()
    assert request.prompts == (prompt,)


def test_a_stream_cut_in_a_block_is_asked_for_again_without_streaming(driver: Driver):
    driver.play({"prompts": [[turn(text("whole" * 200), cut="block")]]})
    ran = driver.run("work")

    assert (ran.exit_code, ran.result["result"]) == (0, "whole" * 200)
    assert [request.body.get("stream", False) for request in driver.requests()] == [True, False]


def test_a_stream_cut_after_its_blocks_is_taken_as_it_is_and_not_counted(driver: Driver):
    driver.play({"prompts": [[turn(text("whole"), cut="end")]]})
    ran = driver.run("work")

    assert (ran.exit_code, ran.result["result"], ran.result["stop_reason"]) == (0, "whole", None)
    assert ran.result["modelUsage"] == {}
    assert len(driver.requests()) == 1


def test_a_refused_connection_has_no_status(driver: Driver):
    with refused_url() as url:
        ran = driver.run("work", url=url)

    assert (ran.exit_code, ran.result["is_error"], ran.result["api_error_status"]) == (1, True, None)
    assert "ConnectionRefused" in ran.result["result"]


@pytest.mark.parametrize("how", [{"hang": 600}, {"stall": 600}], ids=["before headers", "in mid-stream"])
def test_a_silent_server_holds_the_cli_until_it_is_stopped(driver: Driver, how: dict[str, int]):
    driver.play({"prompts": [[turn(text("never seen whole"), **how)], [text("back")]]})
    session = str(uuid.uuid4())
    process = driver.start("--session-id", session)
    assert process.stdin
    process.stdin.write("work")
    process.stdin.close()
    driver.server.wait_for(1, "s")
    # The CLI saves its session a moment after it asks; killed before that it has none to resume.
    wait_until(lambda: any('"work"' in saved.read_text() for saved in driver.home.rglob(f"{session}.jsonl")))
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=30) == -signal.SIGKILL
    for pipe in (process.stdout, process.stderr):
        assert pipe
        pipe.close()

    ran = driver.run("once more", "--resume", session)
    assert ran.result["result"] == "back"
    assert [prompt.strip() for prompt in driver.requests()[-1].prompts] == ["work", "once more"]


def test_conversations_at_the_same_time_are_kept_apart(driver: Driver, tmp_path: Path):
    together = tmp_path / "all-are-here"
    call = tool("Bash", {"command": "true"})
    driver.play(
        {
            "prompts": [[text("for none")]],
            "match": [
                {
                    "text": f"task {name}",
                    "prompts": [[turn(call, wait_for=str(together)), text(f"for {name}")]],
                }
                for name in "AB"
            ],
        }
    )
    processes = {name: driver.start() for name in "AB"}
    for name, process in processes.items():
        assert process.stdin
        process.stdin.write(f"task {name}")
        process.stdin.close()
        process.stdin = None
    driver.server.wait_for(2, "s")
    together.touch()
    for name, process in processes.items():
        stdout, _ = process.communicate(timeout=90)
        assert json.loads(stdout.splitlines()[-1])["result"] == f"for {name}"
