"""Claude Code's stream, from recorded transcripts of 2.1.197 and from hostile ones; and the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.core.adapters.claude_code import ClaudeCodeAdapter
from codeframe.core.adapters.json_values import object_in
from codeframe.core.adapters.verdict_report import VERDICT_SCHEMA
from codeframe.core.agent_adapter import AgentContext, AgentEvent, AgentResult, AgentResultStatus
from codeframe.core.models import ErrorClass, TokenUsage
from codeframe.core.process import EndedBy, ProcessOutcome
from tests.kit import claude_lines as lines

RECORDED = Path(__file__).parents[2] / "fixtures" / "claude-code"
COMPLETED, FAILED, BLOCKED = AgentResultStatus.COMPLETED, AgentResultStatus.FAILED, AgentResultStatus.BLOCKED


def hear(
    stream: list[Any], *, exit_code: int = 0, stderr: str = "", ended_by: EndedBy = EndedBy.EXIT
) -> tuple[AgentResult, list[AgentEvent]]:
    """What the adapter makes of these objects, printed in /repo, and of this end."""
    adapter = ClaudeCodeAdapter()
    adapter.begin(Path("/repo"))
    events = [event for obj in stream for event in adapter.parse(obj)]
    return adapter.finish(ProcessOutcome(ended_by, exit_code, stderr)), events


def replay(name: str, exit_code: int = 0, stderr: str = "") -> tuple[AgentResult, list[AgentEvent]]:
    text = (RECORDED / f"{name}.jsonl").read_text()
    return hear([json.loads(line) for line in text.splitlines()], exit_code=exit_code, stderr=stderr)


def of_type(events: list[AgentEvent], kind: str) -> list[str]:
    return [event.message for event in events if event.type == kind]


# -- recorded runs ------------------------------------------------------------------------------------


def test_a_good_run() -> None:
    result, events = replay("ok_stdin")
    assert result.status is COMPLETED
    assert result.summary == "All done: created hello.txt and bash.txt"
    assert result.files_created == ("hello.txt",)
    assert result.files_modified == ()  # edited later, but it was not there before
    assert result.session_id == "75a19cbf-4e9c-4c07-9960-9c358c7ea2b1"
    assert result.token_usage == TokenUsage(4400, 8000, 200, 0.036000000000000004, "claude-opus-4-8[1m]")
    assert result.evidence["engine_version"] == "2.1.197"
    assert of_type(events, "command_run") == ["cat hello.txt && echo via-bash > bash.txt && ls"]
    assert of_type(events, "file_changed") == ["hello.txt", "hello.txt"]
    assert of_type(events, "output") == [
        "Writing.",
        "Editing.",
        "Running.",
        "All done: created hello.txt and bash.txt",
    ]


def test_a_structured_verdict() -> None:
    result, _ = replay("reco")
    assert (result.status, result.summary, result.files_created) == (COMPLETED, "did it", ("s.txt",))


def test_a_question() -> None:
    result, _ = replay("js_structured_blocked")
    assert (result.status, result.blocker_question, result.summary) == (BLOCKED, "Which DB?", "stuck")


def test_a_success_whose_verdict_never_came() -> None:
    result, _ = replay("js_structured_never")
    assert (result.status, result.summary) == (COMPLETED, "I forgot to call the tool")


def test_a_sub_agents_file_and_tokens_count() -> None:
    result, events = replay("subagent")
    assert result.files_created == ("sub.txt",)
    assert result.token_usage is not None
    assert result.token_usage.output_tokens == 200  # `usage` alone says 100
    assert of_type(events, "output") == ["delegate", "parent final"]


def test_denied_tools_are_reported_and_leave_no_files() -> None:
    result, _ = replay("perm_acceptEdits")
    assert result.status is COMPLETED
    assert result.files_created == ("a.txt",)
    assert result.evidence["permission_denials"] == ["Bash", "Write", "WebFetch"]
    assert result.evidence["fully_denied"] is False


@pytest.mark.parametrize(
    ("name", "error_class", "words"),
    [
        ("bad_nocreds", ErrorClass.AUTH, "Not logged in"),
        ("mr1_e429", ErrorClass.RATE_LIMITED, "429"),
        ("m_maxturns1", ErrorClass.QUOTA, "maximum number of turns"),
        ("sig_int", ErrorClass.CRASHED, "error_during_execution"),  # someone else's SIGINT
        ("bad_e401", ErrorClass.CRASHED, "without reporting an end"),  # it ended in mid-retry
    ],
)
def test_failures(name: str, error_class: ErrorClass, words: str) -> None:
    result, _ = replay(name, exit_code=1)
    assert (result.status, result.error_class) == (FAILED, error_class)
    assert words in str(result.error)


def test_what_the_cli_says_to_its_makers_is_no_summary() -> None:
    diagnostic = "[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=tool_use"
    result, _ = hear([lines.text("I begin."), lines.result_error("error_during_execution", [diagnostic])])
    assert (result.summary, result.error) == ("I begin.", "error_during_execution")
    stopped, _ = hear([{**lines.result(diagnostic), "num_turns": 1}], ended_by=EndedBy.CANCELLED)
    assert stopped.summary == ""


def test_retries_are_told() -> None:
    _, events = replay("bad_e401", exit_code=-15)
    asks, _, second = of_type(events, "progress")[:3]
    assert asks.startswith("claude-code asks ")
    assert second == "authentication_failed: retry 2 of 10 in 1 s"


def test_a_session_that_is_gone_is_told_apart() -> None:
    result, _ = replay("m_badresume", exit_code=1, stderr=(RECORDED / "m_badresume.stderr.txt").read_text())
    assert result.error_class is ErrorClass.PROTOCOL
    assert result.evidence["session_lost"] is True


def test_a_session_id_that_is_taken_is_told_apart() -> None:
    result, _ = hear([], exit_code=1, stderr="Error: Session ID 11111111-1 is already in use.\n")
    assert result.error_class is ErrorClass.PROTOCOL
    assert result.evidence["session_lost"] is True


@pytest.mark.parametrize("name", ["midfail2", "res2", "nonutf8"])
def test_the_other_recorded_runs_are_good(name: str) -> None:
    result, _ = replay(name)
    assert result.status is COMPLETED


# -- the order of the verdict (rule 4.5) -----------------------------------------------------------------

GOOD = [lines.init(), lines.result("fine")]


@pytest.mark.parametrize(
    ("ended_by", "status", "error_class"),
    [
        (EndedBy.CANCELLED, FAILED, ErrorClass.CANCELLED),
        (EndedBy.TIMEOUT, AgentResultStatus.TIMEOUT, ErrorClass.TIMEOUT),
        (EndedBy.STALLED, AgentResultStatus.TIMEOUT, ErrorClass.STALLED),
        (EndedBy.NO_FIRST_OUTPUT, AgentResultStatus.TIMEOUT, ErrorClass.STALLED),
        (EndedBy.SPAWN_FAILED, FAILED, ErrorClass.SPAWN_FAILED),
    ],
)
def test_what_we_stopped_counts_as_that_whatever_it_printed(
    ended_by: EndedBy, status: AgentResultStatus, error_class: ErrorClass
) -> None:
    result, _ = hear(GOOD, ended_by=ended_by)
    assert (result.status, result.error_class) == (status, error_class)


@pytest.mark.parametrize("exit_code", [0, 1, -9])
def test_a_success_event_counts_whatever_the_exit_status(exit_code: int) -> None:
    assert hear(GOOD, exit_code=exit_code)[0].status is COMPLETED
    assert hear(GOOD, ended_by=EndedBy.LINGERED, exit_code=exit_code)[0].status is COMPLETED


@pytest.mark.parametrize("exit_code", [0, 1, -9])
def test_no_result_event_is_a_crash_whatever_the_exit_status(exit_code: int) -> None:
    result, _ = hear([lines.init(), lines.text("working")], exit_code=exit_code, stderr="the reason")
    assert (result.status, result.error_class) == (FAILED, ErrorClass.CRASHED)
    assert "the reason" in str(result.error)


def test_an_error_event_counts_at_exit_0() -> None:
    result, _ = hear(
        [lines.api_error("x", "billing_error"), lines.result_api_error("Credit balance is too low", 400)]
    )
    assert (result.status, result.error_class) == (FAILED, ErrorClass.BILLING)


def test_an_error_is_no_summary_but_the_last_words_before_it_are() -> None:
    refusal = [lines.api_error("No credit", "billing_error"), lines.result_api_error("No credit", 400)]
    result, _ = hear([lines.init(), lines.text("half of it is done"), *refusal])
    assert (result.summary, result.error) == ("half of it is done", "No credit")
    assert hear([lines.init(), *refusal])[0].summary == ""
    helper = lines.text("found it", parent="toolu_1")
    assert hear([lines.init(), lines.text("looking"), helper])[0].summary == "looking"


def test_another_turn_after_the_result_takes_its_place() -> None:
    woken = lines.result("woken", spent=lines.Spent(output=100))
    result, _ = hear([lines.init(), lines.result("first"), lines.init(), lines.text("hm"), woken])
    assert result.summary == "woken"
    assert result.token_usage is not None
    assert result.token_usage.output_tokens == 100  # cumulative within the process: not added up
    assert hear([lines.init(), lines.result("first"), lines.init()])[0].error_class is ErrorClass.CRASHED


def test_a_slash_commands_success_is_none() -> None:
    result, _ = hear([lines.init(), lines.result("Unknown command: /x", num_turns=0)])
    assert (result.status, result.error_class) == (FAILED, ErrorClass.PROTOCOL)


def test_a_failure_it_reports_itself_and_an_already_satisfied_task() -> None:
    failed, _ = hear([lines.result("", structured_output={"status": "failed", "summary": "too hard"})])
    assert (failed.status, failed.error, failed.evidence["report"]) == (FAILED, "too hard", "failed")
    done = {"status": "completed", "summary": "was there", "already_satisfied": True}
    assert hear([lines.result("", structured_output=done)])[0].already_satisfied is True


def test_a_fenced_verdict_in_the_text_counts_where_no_structured_one_came() -> None:
    text = 'So:\n```json\n{"status": "blocked", "summary": "s", "question": "Which?"}\n```'
    assert hear([lines.result(text)])[0].blocker_question == "Which?"


# -- error classes (rule 4.6) ----------------------------------------------------------------------------


def refused(status: int | None, error: str, words: str, **changes: Any) -> AgentResult:
    stream = [lines.init(), lines.api_error(words, error), lines.result_api_error(words, status, **changes)]
    return hear(stream, exit_code=1)[0]


@pytest.mark.parametrize(
    ("status", "error", "words", "expected"),
    [
        (401, "authentication_failed", "Invalid API key", ErrorClass.AUTH),
        (403, "oauth_org_not_allowed", "not allowed", ErrorClass.AUTH),
        (400, "billing_error", "Credit balance is too low", ErrorClass.BILLING),
        (429, "rate_limit", "Request rejected (429)", ErrorClass.RATE_LIMITED),
        (429, "rate_limit", "You've hit your session limit · resets 3:45pm", ErrorClass.QUOTA),
        (529, "overloaded", "Overloaded", ErrorClass.OVERLOADED),
        (529, "server_error", "Overloaded", ErrorClass.OVERLOADED),
        (500, "server_error", "API Error: 500", ErrorClass.OVERLOADED),
        (None, "server_error", "API Error: Repeated 529 Overloaded errors", ErrorClass.OVERLOADED),
        (None, "server_error", "API Error: Unable to connect to API (ConnectionRefused)", ErrorClass.NETWORK),
        (None, "server_error", "Request timed out", ErrorClass.NETWORK),
        (404, "model_not_found", "It may not exist", ErrorClass.MODEL),
        (413, "invalid_request", "Request too large", ErrorClass.CONTEXT_WINDOW),
        (400, "invalid_request", "tool_use ids must be unique", ErrorClass.PROTOCOL),
        (None, "max_output_tokens", "exceeded the output token maximum", ErrorClass.PROTOCOL),
        (None, "unknown", "who knows", ErrorClass.PROTOCOL),
    ],
)
def test_api_errors(status: int | None, error: str, words: str, expected: ErrorClass) -> None:
    assert refused(status, error, words).error_class is expected


def test_a_prompt_too_long_and_a_refusal() -> None:
    too_long = refused(400, "invalid_request", "Prompt is too long", terminal_reason="prompt_too_long")
    assert too_long.error_class is ErrorClass.CONTEXT_WINDOW
    assert refused(None, "", "cannot help", stop_reason="refusal").error_class is ErrorClass.MODEL


@pytest.mark.parametrize(
    ("subtype", "expected"),
    [
        ("error_max_budget_usd", ErrorClass.QUOTA),
        ("error_max_structured_output_retries", ErrorClass.PROTOCOL),
        ("error_of_the_future", ErrorClass.PROTOCOL),
    ],
)
def test_error_subtypes(subtype: str, expected: ErrorClass) -> None:
    result, _ = hear([lines.result_error(subtype, ["why"])], exit_code=1)
    assert (result.error_class, result.error) == (expected, "why")


def test_a_used_up_allowance_says_when_it_is_back() -> None:
    far = 4_000_000_000
    info = {"status": "rejected", "resetsAt": far, "rateLimitType": "five_hour"}
    stream = [
        {"type": "rate_limit_event", "rate_limit_info": info},
        lines.api_error("limit", "rate_limit"),
        lines.result_api_error("limit", 429),
    ]
    result, _ = hear(stream, exit_code=1)
    assert result.error_class is ErrorClass.QUOTA
    assert result.retry_after_s is not None
    assert 0 < result.retry_after_s < far
    info["status"] = "allowed_warning"
    assert hear(stream, exit_code=1)[0].error_class is ErrorClass.RATE_LIMITED


def test_a_run_that_was_denied_everything_says_so() -> None:
    denied = [{"tool_name": "Bash", "tool_use_id": "t", "tool_input": {}}]
    call = lines.tool_use("Bash", {"command": "make"}, "t")
    told = lines.tool_result("t", "This command requires approval", is_error=True)
    result, _ = hear([call, told, lines.result("I could not", permission_denials=denied)])
    assert (result.status, result.evidence["fully_denied"]) == (COMPLETED, True)


def test_tool_output_never_makes_an_error_class() -> None:
    call = lines.tool_use("Bash", {"command": "curl x"}, "t")
    told = lines.tool_result("t", "401 Unauthorized: invalid API key, rate_limit_error", is_error=True)
    result, _ = hear([lines.init(), call, told, lines.result_error("error_during_execution", ["boom"])])
    assert result.error_class is ErrorClass.CRASHED


# -- the files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "key"), [("Write", "file_path"), ("Edit", "file_path"), ("NotebookEdit", "notebook_path")]
)
def test_writers_name_files_relative_to_the_workspace(tool: str, key: str) -> None:
    def changed(path: str, **how: Any) -> AgentResult:
        stream = [
            lines.tool_use(tool, {key: path}, "t"),
            lines.tool_result("t", "ok", **how),
            lines.result("x"),
        ]
        return hear(stream)[0]

    assert changed("/repo/a/b.txt").files_modified == ("a/b.txt",)
    assert changed("/repo/n.txt", tool_use_result={"type": "create"}).files_created == ("n.txt",)
    assert changed("c.txt").files_modified == ("c.txt",)
    assert changed("/repository/x").files_modified == ("/repository/x",)
    assert changed("/repo/../etc/x").files_modified == ("/repo/../etc/x",)
    assert changed("/repo/a.txt", is_error=True).files_modified == ()


def test_a_workspace_behind_a_link_is_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    adapter = ClaudeCodeAdapter()
    adapter.begin(tmp_path / "link")
    assert adapter.heard.relative(str(tmp_path / "real" / "f")) == "f"
    assert adapter.heard.relative(str(tmp_path / "link" / "f")) == "f"


# -- hostile streams -----------------------------------------------------------------------------------

REAL = [
    json.loads(line) for file in sorted(RECORDED.glob("*.jsonl")) for line in file.read_text().splitlines()
]


def _keys(value: Any) -> set[str]:
    """All keys in a JSON value, at any depth."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {*(value if isinstance(value, dict) else ()), *(key for child in inner for key in _keys(child))}


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**30), max_value=10**30)
    | st.floats()
    | st.sampled_from(
        [
            "",
            "t",
            "success",
            "error_x",
            "Bash",
            "Write",
            "tool_use",
            "tool_result",
            "text",
            "\ud800",
            "\x00/a",
        ]
    )
    | st.text(max_size=5)
)
KEYS = st.sampled_from(sorted({key for line in REAL for key in _keys(line)}))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=8,
)
TYPES = st.sampled_from(["assistant", "user", "system", "result", "rate_limit_event", "stream_event"])
HOSTILE = st.builds(
    lambda kind, rest: {**rest, "type": kind}, TYPES | VALUES, st.dictionaries(KEYS, VALUES, max_size=5)
)


def _paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, child in inner for path in _paths(child, (*here, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A real line with one value, at any depth, replaced."""
    line = json.loads(json.dumps(draw(st.sampled_from(REAL))))
    path = draw(st.sampled_from(_paths(line)[1:]))
    place = line
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = draw(VALUES)
    return dict(line)


@settings(max_examples=100, deadline=None)
@given(st.lists(HOSTILE | damaged(), max_size=6), st.sampled_from([0, 1, None, -9, -200]))
def test_no_stream_breaks_it_and_what_comes_out_can_be_stored(
    stream: list[dict[str, Any]], code: int | None
) -> None:
    result, events = hear(stream, exit_code=code)  # type: ignore[arg-type]
    json.dumps(dict(result.evidence), allow_nan=False).encode()
    for text in [
        result.summary,
        result.error,
        result.session_id,
        *result.files_created,
        *result.files_modified,
    ]:
        assert text is None or (isinstance(text, str) and text.encode() is not None)
    for event in events:
        event.message.encode()
        json.dumps(dict(event.metadata)).encode()
    usage = result.token_usage
    if usage is not None:
        assert 0 <= usage.input_tokens < 2**63
        assert usage.cost_usd is None or 0 <= usage.cost_usd < float("inf")


@pytest.mark.parametrize(
    "line",
    [
        "[1, 2]",
        '"text"',
        "17",
        "null",
        "{",
        '{"a": }',
        '{"a": ' * 200_000,
        '{"a": ' * 5000 + "1" + "}" * 5000,
        '{"n": ' + "9" * 10_000 + "}",
        "not json",
        "",
    ],
)
def test_what_is_no_json_object_is_passed_over(line: str) -> None:
    obj = object_in(line)
    assert obj is None or isinstance(obj, dict)
    assert not isinstance(obj, list)


def test_of_duplicate_keys_the_last_counts() -> None:
    assert object_in('{"type": "result", "type": "user"}') == {"type": "user"}


# -- the command line ------------------------------------------------------------------------------------


def launch(**context: Any) -> tuple[list[str], Any]:
    made = ClaudeCodeAdapter().build("do it", Path("/repo"), AgentContext("t1", "title", **context))
    return list(made.argv), made


def after(argv: list[str], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_the_verified_invocation() -> None:
    argv, made = launch()
    assert argv[:2] == ["claude", "-p"]
    assert after(argv, "--input-format") == after(argv, "--output-format") == "stream-json"
    assert "--verbose" in argv  # without it the CLI refuses the output format
    assert after(argv, "--permission-mode") == "acceptEdits"
    assert "--allowedTools=Bash" in argv
    assert "--strict-mcp-config" in argv
    assert json.loads(after(argv, "--json-schema")) == VERDICT_SCHEMA
    assert "unattended" in after(argv, "--append-system-prompt")
    assert after(argv, "--session-id") == made.session_id
    assert "--model" not in argv
    assert made.notices == ()


def test_each_launch_has_a_session_of_its_own_unless_one_is_given() -> None:
    assert launch()[1].session_id != launch()[1].session_id
    argv, _ = launch(session_id="11111111-1111-4111-8111-111111111111")
    assert after(argv, "--session-id") == "11111111-1111-4111-8111-111111111111"


def test_a_resumed_session_gets_everything_again() -> None:
    argv, made = launch(session_id="abc", resume_session=True, model="some-model")
    assert after(argv, "--resume") == "abc" == made.session_id
    assert "--session-id" not in argv
    for flag in ("--json-schema", "--append-system-prompt", "--permission-mode"):
        assert flag in argv
    assert after(argv, "--model") == "some-model"


def test_full_autonomy_and_no_network() -> None:
    argv, made = launch(options={"autonomy": "full", "network": "off"})
    assert after(argv, "--permission-mode") == "bypassPermissions"
    assert "--allowedTools=Bash" not in argv
    assert "--disallowedTools=WebFetch,WebSearch" in argv
    assert ("IS_SANDBOX" in made.env_add) is (os.geteuid() == 0)  # never for anybody but root
    assert "IS_SANDBOX" not in launch()[1].env_add


@given(st.text(max_size=80))
def test_the_prompt_is_one_line_of_json_with_a_blank_block_after_it(prompt: str) -> None:
    stdin = ClaudeCodeAdapter().build(prompt, Path("/repo"), AgentContext("t", "t")).stdin
    assert stdin is not None
    assert stdin.count(b"\n") == 1
    assert stdin.endswith(b"\n")
    first, last = json.loads(stdin)["message"]["content"]
    assert first["text"] == prompt
    assert last["text"].strip() == ""
