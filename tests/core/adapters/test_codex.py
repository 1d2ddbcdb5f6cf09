"""Codex's app server: recorded conversations of 0.171.0, a fake one that talks, and what is said to it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.core.adapters.codex import CodexAdapter
from codeframe.core.adapters.codex_items import error_of, resets_in
from codeframe.core.adapters.launch import Launch
from codeframe.core.agent_adapter import AgentContext, AgentEvent, AgentResult, AgentResultStatus
from codeframe.core.models import ErrorClass, TokenUsage
from codeframe.core.process import EndedBy, OpenStdin, ProcessOutcome
from tests.kit import codex_runs as codex
from tests.kit.scenario import FakeEngine, die, flat, hang, on_signal, spawn, touch
from tests.kit.waiting import wait_until

RECORDED = Path(__file__).parents[2] / "fixtures" / "codex"
COMPLETED, FAILED, BLOCKED = AgentResultStatus.COMPLETED, AgentResultStatus.FAILED, AgentResultStatus.BLOCKED
TIMEOUT = AgentResultStatus.TIMEOUT


def hear(
    stream: list[Any], *, ended_by: EndedBy = EndedBy.EXIT, prompt: str = "do it", **context: Any
) -> tuple[AgentResult, list[AgentEvent]]:
    """What the adapter makes of these messages, said in /repo, and of this end."""
    adapter = CodexAdapter()
    adapter.begin(Path("/repo"))
    launch = adapter.build(prompt, Path("/repo"), AgentContext("t", "title", **context))
    adapter.heard.session_id = launch.session_id
    events = [event for obj in stream for event in adapter.parse(obj)]
    return adapter.finish(ProcessOutcome(ended_by, 0)), events


def replay(name: str, **given: Any) -> tuple[AgentResult, list[AgentEvent]]:
    return hear([json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()], **given)


def of_type(events: list[AgentEvent], kind: str) -> list[str]:
    return [event.message for event in events if event.type == kind and event.message]


# -- recorded runs ------------------------------------------------------------------------------------


def test_a_good_run() -> None:
    result, events = replay("ok")
    assert (result.status, result.summary) == (COMPLETED, "ok")
    assert (result.files_created, result.files_modified) == (("a.txt",), ("old.txt",))
    assert result.files_deleted == ("gone.txt",)
    assert result.token_usage == TokenUsage(1820, 1200, 150, None, "gpt-5.5")
    assert (result.evidence["engine_version"], result.evidence["model"]) == ("0.171.0", "gpt-5.5")
    assert of_type(events, "command_run") == ["echo two > b.txt; exit 3"]
    assert of_type(events, "output") == ["Working."]  # the verdict is no output
    assert of_type(events, "progress")[-1] == "echo two > b.txt; exit 3 ended with status 3"
    (named,) = [event.metadata["session_id"] for event in events if "session_id" in event.metadata]
    assert named == result.session_id  # noted at once, for a run that never returns


def test_a_resumed_thread_counts_from_where_it_was() -> None:
    before, _ = replay("ok")
    assert before.session_id is not None
    result, _ = replay("resumed", session_id=before.session_id, resume_session=True, prompt="costs $5")
    assert (result.status, result.session_id) == (COMPLETED, before.session_id)
    assert result.token_usage == TokenUsage(1224, 800, 100, None, "gpt-5.5")
    assert (result.files_created, result.files_deleted) == (("moved.txt",), ("a.txt",))


def test_a_question_by_the_tool_blocks_whatever_is_said_after_it() -> None:
    result, _ = replay("question")
    assert (result.status, result.blocker_question) == (BLOCKED, "Which colour?")


def test_a_question_in_the_verdict() -> None:
    result, _ = replay("blocked")
    assert (result.status, result.blocker_question, result.summary) == (BLOCKED, "Which DB?", "ok")


def test_what_a_tool_prints_classifies_nothing() -> None:
    """Bytes that are no text, and words of every error there is."""
    text = (RECORDED / "binary_output.jsonl").read_text()
    assert "credit balance too low" in text
    result, _ = replay("binary_output")
    assert (result.status, result.error_class, result.summary) == (COMPLETED, None, "No verdict here.")


@pytest.mark.parametrize(
    ("name", "error_class", "words"),
    [
        ("err_401", ErrorClass.AUTH, "401 Unauthorized"),
        ("err_no_key", ErrorClass.AUTH, "Missing environment variable"),
        ("not_logged_in", ErrorClass.AUTH, "not logged in"),
        ("err_429", ErrorClass.RATE_LIMITED, "429"),
        ("err_quota", ErrorClass.BILLING, "billing details"),
        ("err_usage_limit", ErrorClass.QUOTA, "usage limit"),
        ("err_overloaded", ErrorClass.OVERLOADED, "at capacity"),
        ("err_context", ErrorClass.CONTEXT_WINDOW, "context window"),
        ("err_model", ErrorClass.MODEL, "does not exist"),
        ("err_400", ErrorClass.PROTOCOL, "bad thing"),
        ("err_cut", ErrorClass.NETWORK, "stream disconnected"),
        ("err_refused", ErrorClass.NETWORK, "Connection failed"),
    ],
)
def test_failures(name: str, error_class: ErrorClass, words: str) -> None:
    result, _ = replay(name)
    assert (result.status, result.error_class) == (FAILED, error_class)
    assert words in str(result.error)


def test_a_used_up_allowance_says_when_it_is_back() -> None:
    result, _ = replay("err_usage_limit")
    assert result.retry_after_s is not None
    assert resets_in({"primary": {"usedPercent": 99, "resetsAt": 4_000_000_000}}) is None
    windows = {"primary": {"usedPercent": 100, "resetsAt": 10}, "secondary": {"usedPercent": 100}}
    assert resets_in(windows) == 0.0


def test_retries_are_told() -> None:
    _, events = replay("err_401")
    first = of_type(events, "progress")[1]
    assert first.startswith("Reconnecting... 1/5: unexpected status 401 Unauthorized")


def test_a_thread_that_is_gone_is_told_apart() -> None:
    result, _ = replay("session_gone", session_id="01a22e6f", resume_session=True)
    assert (result.error_class, result.evidence["session_lost"]) == (ErrorClass.PROTOCOL, True)


def test_an_interrupted_turn_that_we_did_not_interrupt_is_a_crash() -> None:
    """Ours is judged by how the process ended."""
    assert replay("interrupted", ended_by=EndedBy.CANCELLED)[0].error_class is ErrorClass.CANCELLED
    assert replay("interrupted")[0].error_class is ErrorClass.CRASHED


def test_a_server_that_ends_without_an_end_of_the_turn_crashed() -> None:
    lines = [json.loads(line) for line in (RECORDED / "ok.jsonl").read_text().splitlines()]
    result, _ = hear([line for line in lines if line.get("method") != "turn/completed"])
    assert (result.status, result.error_class) == (FAILED, ErrorClass.CRASHED)


# -- errors and tokens ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "message", "error_class"),
    [
        ("unauthorized", "x", ErrorClass.AUTH),
        ("sandboxError", "x", ErrorClass.PERMISSION_DENIED),
        ({"httpConnectionFailed": {"httpStatusCode": 403}}, "x", ErrorClass.AUTH),
        ({"httpConnectionFailed": {"httpStatusCode": 529}}, "x", ErrorClass.OVERLOADED),
        ({"httpConnectionFailed": {"httpStatusCode": None}}, "x", ErrorClass.NETWORK),
        ({"responseStreamDisconnected": {}}, "x", ErrorClass.NETWORK),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "x", ErrorClass.RATE_LIMITED),
        ({"responseTooManyFailedAttempts": {}}, "status 429", ErrorClass.RATE_LIMITED),
        ({"somethingNew": {"httpStatusCode": 418}}, "x", ErrorClass.PROTOCOL),
        ("somethingNew", "the model `m` does not exist", ErrorClass.MODEL),
        ([1], "x", ErrorClass.PROTOCOL),
    ],
)
def test_error_classes(info: Any, message: str, error_class: ErrorClass) -> None:
    assert error_of({"message": message, "codexErrorInfo": info}).error_class is error_class


def spoken(*steps: Any) -> list[Any]:
    """The messages that the steps of a scenario print, after a thread and a turn were opened."""
    head = [
        {"id": 1, "result": {}},
        {"id": 2, "result": dict(codex.ACCOUNT)},
        {"id": 3, "result": {"thread": {"id": codex.THREAD}, "model": codex.MODEL}},
        {"id": 4, "result": {"turn": {"id": codex.TURN}}},
    ]
    return head + [step["out"] for step in flat(list(steps)) if "out" in step]


def test_nothing_is_counted_twice() -> None:
    """The total is the thread's since its first day, `last` one request's; the same may be told again."""
    t = codex.tokens
    twice = codex.spent(t(3000, 1500, 120), t(1000, 500, 40))
    result, events = hear(
        spoken(
            codex.spent(t(1000, 400, 50), t(1000, 400, 50), turn_id="an earlier one"),
            codex.spent(t(2000, 1000, 80), t(1000, 600, 30)),
            twice,
            twice,
            codex.verdict("ok"),
        )
    )
    assert result.token_usage == TokenUsage(2000 - 1100, 1100, 70, None, codex.MODEL)
    told = [event.metadata["usage"]["output_tokens"] for event in events if "usage" in event.metadata]
    assert told == [30, 70, 70]  # so that a budget can end it in mid-turn


def test_a_thread_that_does_not_tell_its_past_counts_from_its_first_request() -> None:
    t = codex.tokens
    first = codex.spent(t(9000, 4000, 500), t(1000, 600, 30))
    result, _ = hear(spoken(first, codex.verdict("ok")))
    assert result.token_usage == TokenUsage(400, 600, 30, None, codex.MODEL)


def test_a_sub_agents_thread_has_words_and_tokens_but_no_end_of_its_own() -> None:
    result, events = hear(
        spoken(
            codex.spent(),
            codex.item("agentMessage", thread="other", text="from below"),
            codex.spent(thread="other"),
            codex.ended(thread="other"),
            codex.said("from above"),
            codex.ended(),
        )
    )
    assert (result.status, result.summary) == (COMPLETED, "from above")
    assert result.token_usage == TokenUsage(1200, 800, 100, None, codex.MODEL)
    assert [dict(e.metadata) for e in events if e.type == "output"] == [{"sub_agent": True}, {}]


# -- hostile streams -----------------------------------------------------------------------------------

REAL = [
    json.loads(line) for file in sorted(RECORDED.glob("*.jsonl")) for line in file.read_text().splitlines()
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**30), max_value=10**30)
    | st.floats()
    | st.sampled_from(
        ["", "completed", "agentMessage", "fileChange", "commandExecution", "\ud800", "\x00/a"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "type", "kind"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def _paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, child in inner for path in _paths(child, (*here, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A real message with one value, at any depth, replaced."""
    message = json.loads(json.dumps(draw(st.sampled_from(REAL))))
    path = draw(st.sampled_from(_paths(message)[1:]))
    place = message
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = draw(VALUES)
    return dict(message)


@settings(max_examples=150, deadline=None)
@given(st.lists(damaged() | st.sampled_from(REAL), max_size=8), st.booleans())
def test_no_stream_breaks_it_and_what_comes_out_can_be_stored(stream: list[Any], opened: bool) -> None:
    result, events = hear((spoken() if opened else []) + stream)
    json.dumps(dict(result.evidence), allow_nan=False).encode()
    for text in (result.summary, result.error, result.session_id, *result.files_created):
        assert text is None or text.encode() is not None
    for event in events:
        json.dumps([event.message, dict(event.metadata)]).encode()
    if result.token_usage is not None:
        assert 0 <= result.token_usage.input_tokens < 2**63
        assert 0 <= result.token_usage.cached_input_tokens < 2**63


# -- a process that talks -------------------------------------------------------------------------------


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """A fake `codex`, first on PATH."""
    fake = codex.fake_codex(tmp_path / "engine")
    monkeypatch.setenv("PATH", fake.path())
    return fake


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    return made


def execute(
    repo: Path,
    adapter: CodexAdapter | None = None,
    prompt: str = "do it",
    timeout_ms: int = 60_000,
    **context: Any,
) -> AgentResult:
    given = AgentContext("t1", "title", run_id="run1", run_dir=repo.parent / "run", **context)
    return (adapter or CodexAdapter()).execute(prompt, repo, given, timeout_ms)


def heard(engine: FakeEngine, method: str) -> dict[str, Any]:
    """The parameters of the one call of this method that the engine heard."""
    (found,) = [m for one in engine.invocations() for m in one.heard if m.get("method") == method]
    return dict(found["params"])


def test_a_whole_conversation(engine: FakeEngine, repo: Path) -> None:
    work = codex.turn(
        codex.patched("a.py", "x = 1\n"), codex.ran("ls"), codex.spent(), codex.verdict("did it")
    )
    engine.calls(codex.conversation(codex.opened(), work))
    result = execute(repo, model="gpt-9")
    assert (result.status, result.summary, result.files_created) == (COMPLETED, "did it", ("a.py",))
    assert (result.session_id, result.evidence["exit_code"]) == (codex.THREAD, 0)
    (invocation,) = engine.invocations()
    assert [m["method"] for m in invocation.heard] == [
        "initialize",
        "initialized",
        "account/read",
        "thread/start",
        "turn/start",
    ]
    assert invocation.argv[0] == "app-server"
    thread, turn = heard(engine, "thread/start"), heard(engine, "turn/start")
    assert (thread["cwd"], thread["model"]) == (str(repo), "gpt-9")
    assert thread["sandbox"] == "read-only"  # or Codex would trust the repository in the person's name
    assert "unattended" in thread["developerInstructions"]
    assert [tool["name"] for tool in thread["dynamicTools"]] == ["report_blocked"]
    assert turn["input"] == [{"type": "text", "text": "do it", "text_elements": []}]
    assert turn["sandboxPolicy"]["type"] == "workspaceWrite"
    assert turn["sandboxPolicy"]["networkAccess"] is True
    assert set(turn["outputSchema"]["required"]) == set(turn["outputSchema"]["properties"])


def test_a_resumed_thread_gets_everything_again(engine: FakeEngine, repo: Path) -> None:
    engine.calls(codex.conversation(codex.opened("thread/resume"), codex.turn(codex.verdict("did it"))))
    result = execute(repo, session_id=codex.THREAD, resume_session=True)
    assert (result.status, result.session_id) == (COMPLETED, codex.THREAD)
    thread, turn = heard(engine, "thread/resume"), heard(engine, "turn/start")
    assert (thread["threadId"], thread["sandbox"], thread["cwd"]) == (codex.THREAD, "read-only", str(repo))
    assert turn["sandboxPolicy"]["type"] == "workspaceWrite"
    assert turn["outputSchema"]["properties"]["status"]


@pytest.mark.parametrize(
    ("prompt", "early"),
    [
        ("costs $skill-creator 5", "costs $skill-creator 5"),
        ("abc" + "x" * 1_048_576, "abc"),
        ("$" + "x" * 1_048_576, "$"),
        ("$" + "x" * 100_000, ""),  # in the history it might be cut
    ],
    ids=["names a skill", "too long", "both", "long and names a skill"],
)
def test_what_codex_would_expand_or_refuse_is_put_into_the_thread(
    engine: FakeEngine, repo: Path, prompt: str, early: str
) -> None:
    inject = "thread/inject_items"
    put = [codex.hear(inject), codex.answer(inject)] if early else []
    engine.calls(codex.conversation(codex.opened(), put, codex.turn(codex.verdict("did it"))))
    assert execute(repo, prompt=prompt).status is COMPLETED
    if early:
        (item,) = heard(engine, inject)["items"]
        assert (item["role"], item["content"]) == ("user", [{"type": "input_text", "text": early}])
    assert "".join(part["text"] for part in heard(engine, "turn/start")["input"]) == prompt[len(early) :]


@pytest.mark.parametrize(
    ("options", "sandbox", "network", "search", "notices"),
    [
        ({}, "workspaceWrite", True, None, 0),
        ({"autonomy": "workspace", "network": "off"}, "workspaceWrite", False, "disabled", 0),
        ({"autonomy": "full", "network": "on"}, "dangerFullAccess", None, None, 0),
        ({"autonomy": "full", "network": "off"}, "dangerFullAccess", None, "disabled", 1),
    ],
)
def test_autonomy_and_network(
    engine: FakeEngine, repo: Path, options: Any, sandbox: str, network: Any, search: Any, notices: int
) -> None:
    engine.calls(codex.conversation(codex.opened(), codex.turn(codex.verdict("did it"))))
    adapter = CodexAdapter()
    assert execute(repo, adapter, options=options).status is COMPLETED
    policy = heard(engine, "turn/start")["sandboxPolicy"]
    assert (policy["type"], policy.get("networkAccess")) == (sandbox, network)
    assert heard(engine, "thread/start").get("config", {}).get("web_search") == search
    told = [event.message for event in adapter.stream_events() if event.metadata.get("notice")]
    assert len(told) == notices


@pytest.mark.parametrize(
    ("autonomy", "method", "decision"),
    [
        ("workspace", "item/commandExecution/requestApproval", "decline"),
        ("full", "item/commandExecution/requestApproval", "accept"),
        ("workspace", "item/fileChange/requestApproval", "decline"),
        ("full", "item/fileChange/requestApproval", "accept"),
        ("workspace", "execCommandApproval", "denied"),
        ("full", "applyPatchApproval", "approved"),
    ],
)
def test_approvals_are_answered_by_policy(
    engine: FakeEngine, repo: Path, autonomy: str, method: str, decision: str
) -> None:
    asks = codex.asked(method, 7, command="rm -rf x", reason="to clear away")
    engine.calls(codex.conversation(codex.opened(), codex.turn(asks, codex.verdict("did it"))))
    result = execute(repo, options={"autonomy": autonomy})
    assert result.status is COMPLETED
    (reply,) = [m for m in engine.invocations()[0].heard if m.get("id") == 7]
    assert reply["result"] == {"decision": decision}
    denied = None if autonomy == "full" else ["rm -rf x"]
    assert result.evidence.get("permission_denials") == denied


def test_questions_are_answered_so_that_the_turn_ends_and_become_a_blocker(
    engine: FakeEngine, repo: Path
) -> None:
    questions = [{"id": "q1", "question": "Which colour?", "header": "Colour", "options": None}]
    asks = codex.asked("item/tool/requestUserInput", 7, questions=questions, isBlocking=True)
    engine.calls(codex.conversation(codex.opened(), codex.turn(asks, codex.verdict("I chose blue"))))
    result = execute(repo)
    assert (result.status, result.blocker_question) == (BLOCKED, "Which colour?")
    (reply,) = [m for m in engine.invocations()[0].heard if m.get("id") == 7]
    assert "Nobody can answer" in reply["result"]["answers"]["q1"]["answers"][0]


def test_what_it_may_not_ask_is_refused_and_it_goes_on(engine: FakeEngine, repo: Path) -> None:
    asks = [
        codex.asked("attestation/generate", 7),
        codex.asked("mcpServer/elicitation/request", 8, serverName="s"),
        codex.asked("item/tool/call", 9, tool="unknown", arguments={}),
    ]
    engine.calls(codex.conversation(codex.opened(), codex.turn(*asks, codex.verdict("did it"))))
    assert execute(repo).status is COMPLETED
    replies = {m["id"]: m for m in engine.invocations()[0].heard if "method" not in m}
    assert "not supported" in replies[7]["error"]["message"]
    assert replies[8]["result"] == {"action": "decline"}
    assert "error" in replies[9]


def test_no_login_is_seen_before_a_thread_is_opened(engine: FakeEngine, repo: Path) -> None:
    engine.calls(
        codex.conversation(codex.greeted({"account": None, "requiresOpenaiAuth": True}), codex.hear("no"))
    )
    result = execute(repo)
    assert (result.status, result.error_class) == (FAILED, ErrorClass.AUTH)
    assert engine.invocations()[0].heard[-1]["method"] == "account/read"
    assert CodexAdapter.logged_in() is False


@pytest.mark.parametrize(
    ("account", "logged_in"),
    [
        ({"account": {"type": "chatgpt"}, "requiresOpenaiAuth": True}, True),
        ({"account": None, "requiresOpenaiAuth": False}, True),  # a provider of the person's own
        ({"account": None, "requiresOpenaiAuth": True}, False),
    ],
)
def test_the_login_is_what_codex_says(engine: FakeEngine, account: Any, logged_in: bool) -> None:
    engine.calls(codex.conversation(codex.greeted(account), codex.hear("no")))
    assert CodexAdapter.logged_in() is logged_in


def test_a_codex_that_says_nothing_has_no_login(engine: FakeEngine) -> None:
    engine.calls(codex.conversation(die()))
    assert CodexAdapter.logged_in() is False


def test_a_call_that_is_refused_fails_with_its_words(engine: FakeEngine, repo: Path) -> None:
    refusal = [codex.hear("thread/start"), codex.answer("thread/start", error="bad config: model")]
    engine.calls(codex.conversation(codex.greeted(), refusal, codex.hear("no")))
    result = execute(repo)
    assert (result.status, result.error_class) == (FAILED, ErrorClass.PROTOCOL)
    assert "thread/start was refused: bad config: model" in str(result.error)


def test_it_dies_in_the_middle(engine: FakeEngine, repo: Path) -> None:
    engine.calls(codex.conversation(codex.opened(), codex.turn(codex.said("I begin."), die())))
    result = execute(repo)
    assert (result.status, result.error_class, result.summary) == (FAILED, ErrorClass.CRASHED, "I begin.")
    assert result.session_id == codex.THREAD


# -- how it is stopped ------------------------------------------------------------------------------------


def stopped(repo: Path, ready: Path) -> AgentResult:
    """Cancelled once the engine has made the file `ready`."""
    adapter = CodexAdapter()
    thread = threading.Thread(target=lambda: (wait_until(ready.exists), adapter.cancel()))
    thread.start()
    result = execute(repo, adapter)
    thread.join()
    return result


def test_a_stop_interrupts_the_turn_then_clears_away_then_closes(
    engine: FakeEngine, repo: Path, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    work = codex.turn(codex.running("sleep 300"), touch(ready), codex.interruptible())
    engine.calls(codex.conversation(codex.opened(), work))
    result = stopped(repo, ready)
    assert (result.error_class, result.session_id) == (ErrorClass.CANCELLED, codex.THREAD)
    (invocation,) = engine.invocations()
    said = [m["method"] for m in invocation.heard]
    assert said[-2:] == ["turn/interrupt", "thread/backgroundTerminals/clean"]
    assert heard(engine, "turn/interrupt") == {"threadId": codex.THREAD, "turnId": codex.TURN}
    assert (invocation.exit_code, invocation.signals) == (0, [])  # no signal was needed


def test_a_stop_gets_the_deaf_and_the_children_in_sessions_of_their_own(
    engine: FakeEngine, repo: Path, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    children = [
        spawn(session=True),
        spawn(daemon=True, ignore=["SIGTERM"]),
        spawn(daemon=True, session=True, hold_stdout=True),
    ]
    work = codex.turn(codex.running("sleep 300"), children, on_signal("SIGTERM"), touch(ready), hang())
    engine.calls(codex.conversation(codex.opened(), work))
    result = stopped(repo, ready)
    assert result.error_class is ErrorClass.CANCELLED
    (invocation,) = engine.invocations()
    assert invocation.signals == ["SIGTERM"]
    assert len(invocation.children) == 3
    assert all(_gone(pid) for pid in invocation.children)


def test_a_stop_before_there_is_a_turn_closes_at_once(engine: FakeEngine, repo: Path, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    engine.calls(codex.conversation(codex.greeted(), touch(ready), codex.hear("never")))
    assert stopped(repo, ready).error_class is ErrorClass.CANCELLED
    assert engine.invocations()[0].signals == []


def test_silence_is_a_stall(engine: FakeEngine, repo: Path) -> None:
    engine.calls(codex.conversation(codex.opened(), codex.turn(codex.interruptible())))
    result = execute(repo, stall_timeout_ms=300)
    assert (result.status, result.error_class) == (TIMEOUT, ErrorClass.STALLED)


def test_while_a_command_runs_silence_is_no_stall() -> None:
    adapter = CodexAdapter()
    adapter.begin(Path("/repo"))
    adapter.build("do it", Path("/repo"), AgentContext("t", "title"))
    began, ended = spoken(codex.ran("make"))[-2:]
    list(adapter.parse(began))
    assert adapter.heard.open_tools == {"item-1"}
    list(adapter.parse(ended))
    assert adapter.heard.open_tools == set()


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_first_thing_said_waits_for_no_answer() -> None:
    adapter = CodexAdapter()
    adapter.begin(Path("/repo"))
    launch: Launch = adapter.build("do it", Path("/repo"), AgentContext("t", "title"))
    assert isinstance(launch.stdin, OpenStdin)
    assert launch.stdin.pending
    assert launch.argv[:2] == ("codex", "app-server")
