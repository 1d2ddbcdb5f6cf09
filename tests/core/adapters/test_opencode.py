"""OpenCode and Kilo: their streams, from recorded runs and from hostile ones; the command line; fake executables."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.core.adapters.kilocode import KilocodeAdapter
from codeframe.core.adapters.opencode import OpenCodeAdapter
from codeframe.core.adapters.opencode_setup import EVENTS_PLUGIN, configured_model, merged, parse_jsonc
from codeframe.core.agent_adapter import AgentContext, AgentEvent, AgentResult, AgentResultStatus
from codeframe.core.models import ErrorClass, TokenUsage
from codeframe.core.process import EndedBy, ProcessOutcome
from tests.kit.scenario import FakeEngine, Step, call, err, hang, leave, out, touch, wait_for, write

FIXTURES = Path(__file__).parents[2] / "fixtures"
COMPLETED, FAILED, BLOCKED = AgentResultStatus.COMPLETED, AgentResultStatus.FAILED, AgentResultStatus.BLOCKED
SESSION = "ses_1"


def hear(
    stream: list[Any], exit_code: int = 0, stderr: str = "", adapter: OpenCodeAdapter | None = None
) -> tuple[AgentResult, list[AgentEvent]]:
    adapter = adapter or OpenCodeAdapter()
    adapter.begin(Path("/repo"))
    events = [event for obj in stream for event in adapter.parse(obj)]
    return adapter.finish(ProcessOutcome(EndedBy.EXIT, exit_code, stderr)), events


def replay(name: str, exit_code: int = 0) -> tuple[AgentResult, list[AgentEvent]]:
    kilo = name.startswith("kilo")
    text = (FIXTURES / ("kilocode" if kilo else "opencode") / f"{name}.jsonl").read_text()
    adapter = KilocodeAdapter() if kilo else OpenCodeAdapter()
    return hear([json.loads(line) for line in text.splitlines()], exit_code, adapter=adapter)


def of_type(events: list[AgentEvent], kind: str) -> list[str]:
    return [event.message for event in events if event.type == kind]


# -- recorded runs ------------------------------------------------------------------------------------


def test_a_good_run() -> None:
    result, events = replay("oc1")
    assert (result.status, result.error) == (COMPLETED, None)
    assert result.summary == "Created hello.txt with a greeting. All done."
    assert result.files_created == ("hello.txt",)
    assert result.session_id == "ses_dd3a49331ffe9a4e3N92Y4ZQlA"
    # 900 + 900 + 300 not cached, 100 + 100 + 900 from the cache: the sum of the steps.
    assert result.token_usage == TokenUsage(2100, 1100, 160, pytest.approx(0.00253))  # type: ignore[arg-type]
    assert of_type(events, "command_run") == ["ls -la; echo done"]


@pytest.mark.parametrize("name", ["oc2_resume", "kilo3_resume"])
def test_a_session_that_went_on(name: str) -> None:
    result, _ = replay(name)
    assert (result.status, result.files_modified) == (COMPLETED, ("hello.txt",))
    assert result.session_id is not None


def test_with_the_plugin_each_command_is_told_once_when_it_begins_and_each_token_counted_once() -> None:
    result, events = replay("plugin_work")
    assert (result.status, result.summary) == (COMPLETED, "made it")
    assert of_type(events, "command_run") == ["sleep 4; echo x"]
    assert [e.message for e in events if e.metadata.get("session_id")] == ["opencode asks None"]
    commands = [n for n, e in enumerate(events) if e.type == "command_run"]
    outputs = [n for n, e in enumerate(events) if e.type == "output"]
    assert commands[0] < outputs[-1]
    assert result.token_usage == TokenUsage(7838, 15489, 96, pytest.approx(0.0354792))  # type: ignore[arg-type]


def test_what_a_sub_agent_spent_counts() -> None:
    result, _ = replay("plugin_sub_agent")
    assert result.status is COMPLETED
    assert result.token_usage is not None
    assert (result.token_usage.input_tokens, result.token_usage.cached_input_tokens) == (10903, 16802)


@pytest.mark.parametrize(
    ("name", "exit_code", "expected"),
    [
        ("oc_err401", 1, ErrorClass.AUTH),
        ("kilo_err401", 1, ErrorClass.AUTH),
        ("plugin_no_login", 1, ErrorClass.AUTH),
        ("kilo_429lim", 1, ErrorClass.RATE_LIMITED),
        ("plugin_retries", 0, ErrorClass.RATE_LIMITED),
        ("plugin_long_wait", 0, ErrorClass.RATE_LIMITED),
        ("oc_refused", 1, ErrorClass.NETWORK),
        ("plugin_refused", 0, ErrorClass.NETWORK),
        ("kilo_drop", 0, ErrorClass.NETWORK),
        ("kilo_badmodel", 1, ErrorClass.MODEL),
        ("oc_badmodel", 1, ErrorClass.PROTOCOL),
        ("oc_length", 0, ErrorClass.PROTOCOL),
        ("plugin_loop", 0, ErrorClass.PROTOCOL),
        ("oc_ask", 0, ErrorClass.PERMISSION_DENIED),
        ("kilo1", 1, ErrorClass.PERMISSION_DENIED),
        ("oc_sigterm", -15, ErrorClass.CRASHED),
    ],
)
def test_each_failure_has_its_class(name: str, exit_code: int, expected: ErrorClass) -> None:
    result, _ = replay(name, exit_code)
    assert (result.status, result.error_class) == (FAILED, expected), result.error


def test_a_wait_of_an_hour_is_handed_on() -> None:
    result, events = replay("plugin_long_wait")
    assert result.retry_after_s == pytest.approx(3600, abs=1)
    assert of_type(events, "progress")[-1] == "slow down: retry 1 in 3600 s"


def test_a_call_that_a_rule_forbids_is_noted_and_the_run_goes_on() -> None:
    result, events = replay("oc_outside")
    assert result.status is COMPLETED
    assert (result.evidence["permission_denials"], result.evidence["fully_denied"]) == (["write"], False)
    assert result.files_created == ()
    assert any("failed: The user has specified a rule" in said for said in of_type(events, "progress"))


@pytest.mark.parametrize("name", ["oc_deny", "kilo_deny"])
def test_a_tool_that_is_denied_altogether_is_not_offered(name: str) -> None:
    assert replay(name)[0].status is COMPLETED


def test_bytes_that_are_no_utf8() -> None:
    result, _ = replay("oc_badutf")
    assert (result.status, result.summary) == (COMPLETED, "Bytes shown.")


# -- single lines -------------------------------------------------------------------------------------


def step(reason: str = "stop", number: int = 1) -> dict[str, Any]:
    return line("step_finish", {"id": f"prt_{number}", "reason": reason, "tokens": {"input": 5, "output": 1}})


def line(kind: str, part: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "sessionID": SESSION, "part": part}


def said(words: str) -> dict[str, Any]:
    return line("text", {"type": "text", "text": words})


def failed(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "error", "sessionID": SESSION, "error": {"name": name, "data": data}}


def told(event: str, **more: Any) -> dict[str, Any]:
    return {"type": "codeframe", "event": event, "sessionID": SESSION, **more}


def fenced(**verdict: Any) -> dict[str, Any]:
    return said(f"Well.\n```json\n{json.dumps(verdict)}\n```")


def test_the_fenced_verdict() -> None:
    blocked = fenced(status="blocked", summary="stuck", question="Which one?")
    result, _ = hear([blocked, step()])
    assert (result.status, result.blocker_question) == (BLOCKED, "Which one?")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (failed("ContextOverflowError", message="too long"), ErrorClass.CONTEXT_WINDOW),
        (failed("ProviderAuthError", message="no"), ErrorClass.AUTH),
        (failed("ContentFilterError", message="no"), ErrorClass.MODEL),
        (failed("MessageOutputLengthError"), ErrorClass.PROTOCOL),
        (failed("APIError", message="no", statusCode=402), ErrorClass.BILLING),
        (failed("APIError", message="Your credit balance is too low", statusCode=400), ErrorClass.BILLING),
        (failed("APIError", message="no", statusCode=529), ErrorClass.OVERLOADED),
        (failed("APIError", message="no", isRetryable=True), ErrorClass.NETWORK),
        (
            failed("APIError", message="no", statusCode=429, responseBody='{"error":{"code":"insufficient_quota"}}'),
            ErrorClass.QUOTA,
        ),
        (failed("UnknownError", message="Model not found: fake/nosuch."), ErrorClass.MODEL),
        (failed("UnknownError", message="Model not found: a/b. Did you mean: b, b-2?"), ErrorClass.AUTH),
        (failed("UnknownError", message="Model not found: a/b. Did you mean: b-2?"), ErrorClass.MODEL),
    ],
)  # fmt: skip
def test_errors_by_their_own_fields(error: dict[str, Any], expected: ErrorClass) -> None:
    assert hear([error], 1)[0].error_class is expected
    assert hear([step(), error], 0)[0].error_class is expected  # none the less an error


def test_what_a_tool_reads_classifies_nothing() -> None:
    words = "429 rate limit, invalid api key, credit balance too low"
    state = {"status": "completed", "input": {"command": "cat it"}, "output": words, "metadata": {"exit": 1}}
    refused = {"status": "error", "input": {}, "error": words}
    calls = [
        line("tool_use", {"tool": "bash", "callID": str(n), "state": s})
        for n, s in enumerate([state, refused])
    ]
    result, _ = hear([*calls, step("tool-calls"), said(words), step(number=2)], 1)
    assert (result.status, result.error_class) == (COMPLETED, None)


def test_a_tool_is_open_until_its_end_whoever_tells_it() -> None:
    adapter = OpenCodeAdapter()
    adapter.begin(Path("/repo"))

    def after(obj: dict[str, Any]) -> set[str]:
        list(adapter.parse(obj))
        return set(adapter.heard.open_tools)

    assert after(told("tool", callID="c", tool="bash", status="running", input={"command": "sleep 300"})) == {
        "c"
    }
    assert after(line("tool_use", {"callID": "c", "tool": "bash", "state": {"status": "completed"}})) == set()
    assert after(told("tool", callID="d", tool="bash", status="running")) == {"d"}
    assert after(told("tool", callID="d", tool="bash", status="error")) == set()
    # A sub-agent is no command: its silence is a model's.
    assert after(told("tool", callID="e", tool="task", status="running")) == set()


def test_a_good_end_after_which_it_goes_on_was_none() -> None:
    assert hear([said("a"), step(), line("step_start", {})], 0)[0].error_class is ErrorClass.CRASHED


def test_a_session_that_is_not_there() -> None:
    result, _ = hear([], 1, "Error: Session not found")
    assert (result.error_class, result.evidence["session_lost"]) == (ErrorClass.PROTOCOL, True)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("sessionID", "error", "message", "wait_ms", "status", "callID", "tool", "why")
KINDS = ("step_start", "text", "tool_use", "step_finish", "error", "codeframe")
EVENTS = ("session", "tool", "step", "retry", "permission", "error", "gave_up")
PART = st.dictionaries(
    st.sampled_from(["id", "reason", "tokens", "cost", "text", "tool", "callID", "state"]), JSON
)


@settings(max_examples=200)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(KINDS), "part": PART | JSON},
            optional={"event": st.sampled_from(EVENTS), **dict.fromkeys(KEYS, JSON)},
        ),
        max_size=8,
    )
)  # fmt: skip
def test_any_line_is_borne(stream: list[Any]) -> None:
    result, _ = hear(stream, 1)
    assert result.status in (COMPLETED, FAILED, BLOCKED)


# -- which model ----------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    for name in list(os.environ):
        if name.startswith(("OPENCODE", "KILO", "XDG_")):
            monkeypatch.delenv(name)
    return made


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repo" / "inner"
    made.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    return made


def put(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def test_the_model_of_each_place_the_stronger_over_the_weaker(home: Path, repo: Path) -> None:
    product, env = OpenCodeAdapter.product, {"HOME": str(home)}

    def model() -> str | None:
        return configured_model(product, repo, env)

    assert model() is None
    put(home / ".local/state/opencode/model.json", {"recent": [{"providerID": "p", "modelID": "picked"}]})
    assert model() == "p/picked"
    put(home / ".config/opencode/opencode.jsonc", '{\n// mine\n"model": "p/home", /* x */ "a": ["//b",],\n}')
    assert model() == "p/home"
    put(repo.parent / "opencode.json", {"model": "p/project"})
    assert model() == "p/project"
    put(repo / ".opencode" / "opencode.json", {"model": "p/inner"})
    assert model() == "p/inner"
    put(repo / "opencode.json", {"agent": {"build": {"model": "p/agent"}, "plan": {"model": "p/plan"}}})
    assert model() == "p/agent"
    env["OPENCODE_CONFIG_CONTENT"] = '{"default_agent": "plan"}'
    assert model() == "p/plan"


def test_a_model_outside_the_repository_is_not_the_projects(home: Path, repo: Path) -> None:
    put(repo.parent.parent / "kilo.json", {"model": "p/above"})
    assert configured_model(KilocodeAdapter.product, repo, {"HOME": str(home)}) is None
    put(repo.parent / ".kilo" / "kilo.jsonc", {"model": "p/kilo"})
    assert configured_model(KilocodeAdapter.product, repo, {"HOME": str(home)}) == "p/kilo"


@settings(max_examples=100)
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_json_is_jsonc(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    assert repr(parse_jsonc(text)) == repr(json.loads(text))  # NaN is not itself


def test_merging_goes_into_objects() -> None:
    assert merged({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2]}}) == {"a": {"b": 1, "c": [2]}, "d": 1}


# -- the command, with a fake executable --------------------------------------------------------------


@pytest.fixture
def engine(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine(tmp_path / "engine", "opencode", "1.18.33")
    monkeypatch.setenv("PATH", fake.path())
    return fake


def warm(home: Path, folder: str = "opencode") -> None:
    """A database that is newer than the program."""
    put(home / ".local/share" / folder / f"{folder}.db", "")
    os.utime(home / ".local/share" / folder / f"{folder}.db", (2**31, 2**31))


GOOD: list[Step] = [out(fenced(status="completed", summary="did it")), out(step())]


def run(
    repo: Path, adapter: OpenCodeAdapter | None = None, prompt: str = "Do it", **more: Any
) -> AgentResult:
    context = AgentContext("t", "-- A\ntitle", **{"model": "p/m", **more})
    return (adapter or OpenCodeAdapter()).execute(prompt, repo, context, 60_000)


def test_how_it_is_started(
    engine: FakeEngine, home: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "OPENCODE_CONFIG_CONTENT", '{"plugin": ["theirs"], "theme": "x", "permission": {"bash": "ask"}}'
    )
    warm(home)
    engine.calls(call(*GOOD))
    prompt = '/clear "quotes" @/etc/hostname \\n http://example.com\n' + "x" * 1_000_000
    assert run(repo, prompt=prompt).status is COMPLETED
    (started,) = engine.invocations()
    assert started.argv == [
        "run", "--auto", "--format", "json", "--dir", str(repo), "-m", "p/m", "--title=-- A title",
    ]  # fmt: skip
    assert started.prompt == prompt
    assert (started.cwd, started.env["PWD"]) == (repo, str(repo))
    assert not Path(started.env["TMPDIR"]).exists()  # private, and gone with the run
    overlay = json.loads(started.env["OPENCODE_CONFIG_CONTENT"])
    assert overlay["plugin"] == ["theirs", EVENTS_PLUGIN.as_uri()]
    assert overlay["permission"] == {"bash": "ask", "external_directory": "deny"}
    assert (overlay["theme"], overlay["snapshot"], overlay["share"]) == ("x", False, "disabled")
    assert [p for p in home.rglob("*") if p.is_file()] == [home / ".local/share/opencode/opencode.db"]


def test_the_temporary_folder_is_the_same_each_time_or_the_prompt_cache_is_lost(
    engine: FakeEngine, home: Path, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm(home)
    engine.calls(call(*GOOD))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run(repo)
    run(repo)
    (tmp_path / f"codeframe-{os.getuid()}").chmod(0o777)  # not ours alone: it is not used
    run(repo)
    first, second, third = (i.env["TMPDIR"] for i in engine.invocations())
    assert first == second != third
    assert list((tmp_path / f"codeframe-{os.getuid()}").iterdir()) == []


def test_a_session_goes_on(engine: FakeEngine, home: Path, repo: Path) -> None:
    warm(home)
    engine.calls(call(*GOOD))
    result = run(repo, session_id="ses_before", resume_session=True)
    assert result.session_id == "ses_before"
    assert engine.invocations()[0].argv[-2:] == ["--session", "ses_before"]


def test_autonomy_and_network(engine: FakeEngine, home: Path, repo: Path) -> None:
    warm(home)
    engine.calls(call(*GOOD))
    adapter = OpenCodeAdapter()
    events = adapter.stream_events()
    run(repo, adapter, options={"autonomy": "full", "network": "off"})
    permission = json.loads(engine.invocations()[0].env["OPENCODE_CONFIG_CONTENT"])["permission"]
    assert permission == {"webfetch": "deny", "websearch": "deny"}
    assert [e.message for e in events if e.metadata.get("notice")] == [
        "network off: the web tools are denied; what shell commands reach is not enforced"
    ]


def test_without_a_model_nothing_is_started_and_what_to_type_is_said(
    engine: FakeEngine, home: Path, repo: Path
) -> None:
    result = run(repo, model=None)
    assert (result.status, result.error_class) == (FAILED, ErrorClass.MODEL)
    assert result.error is not None
    assert "cf config set model anthropic/" in result.error
    assert engine.invocations(probes=True) == []
    put(home / ".config/opencode/opencode.json", {"model": "p/own"})
    engine.calls(call(*GOOD))
    warm(home)
    assert run(repo, model=None).evidence["model"] == "p/own"


def test_a_fresh_home_is_warmed_up_once_by_one_alone(
    engine: FakeEngine, home: Path, repo: Path, tmp_path: Path
) -> None:
    database = "../../home/.local/share/opencode/opencode.db"
    go = tmp_path / "go"
    engine.calls(
        call(
            write(database, ""),
            touch(tmp_path / "warming"),
            wait_for(go),
            argv=["session", "list"],
            stdin="ignore",
        ),
        call(*GOOD, argv=["run"]),
        *[call(*GOOD, argv=["run"])] * 3,
    )
    os.utime(engine.executable, (1, 1))
    results: list[AgentResult] = []
    threads = [threading.Thread(target=lambda: results.append(run(repo))) for _ in range(4)]
    for thread in threads:
        thread.start()
    while not (tmp_path / "warming").exists():
        threads[0].join(0.02)
    assert [i.argv for i in engine.invocations()] == [["session", "list"]]  # the others wait
    go.touch()
    for thread in threads:
        thread.join(60)
    assert [r.status for r in results] == [COMPLETED] * 4
    assert sorted(i.argv[0] for i in engine.invocations()) == ["run"] * 4 + ["session"]


def test_a_race_for_the_database_with_another_program_is_tried_once_more(
    engine: FakeEngine, home: Path, repo: Path
) -> None:
    warm(home)
    engine.calls(call(err("Failed query: CREATE TABLE workspace"), leave(1)), call(*GOOD))
    assert run(repo).status is COMPLETED
    assert len(engine.invocations()) == 2


def test_a_stop_while_it_warms_up(engine: FakeEngine, home: Path, repo: Path, tmp_path: Path) -> None:
    engine.calls(call(touch(tmp_path / "warming"), hang(), argv=["session"], stdin="ignore"))
    adapter = OpenCodeAdapter()
    results: list[AgentResult] = []
    thread = threading.Thread(target=lambda: results.append(run(repo, adapter)))
    thread.start()
    while not (tmp_path / "warming").exists():
        thread.join(0.02)
    adapter.cancel()
    thread.join(60)
    assert results[0].error_class is ErrorClass.CANCELLED
    assert [i.argv[0] for i in engine.invocations()] == ["session"]


def test_kilo_is_found_by_either_name(
    tmp_path: Path, home: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    assert KilocodeAdapter.requirements() == {"kilo or kilocode on PATH": False}
    fake = FakeEngine(tmp_path / "engine", "kilocode", "7.7.7").calls(call(*GOOD))
    monkeypatch.setenv("PATH", fake.path())
    assert KilocodeAdapter.requirements() == {"kilo or kilocode on PATH": True}
    warm(home, "kilo")
    assert run(repo, KilocodeAdapter()).status is COMPLETED
    (started,) = fake.invocations()
    assert started.env["KILO_NO_DAEMON"] == "1"
    assert EVENTS_PLUGIN.as_uri() in started.env["KILO_CONFIG_CONTENT"]
    assert "OPENCODE_CONFIG_CONTENT" not in started.env


@pytest.mark.parametrize(
    ("lists", "chosen", "logged_in"),
    [
        (["opencode/free"], None, False),
        (["opencode/free", "anthropic/x"], None, True),
        (["anthropic/x"], "anthropic/x", True),
        (["anthropic/x"], "openai/y", False),
    ],
)
def test_logged_in_is_having_a_model_to_ask(
    engine: FakeEngine, home: Path, lists: list[str], chosen: str | None, logged_in: bool
) -> None:
    engine.calls(call(*map(out, lists), argv=["models"]))
    if chosen:
        put(home / ".config/opencode/opencode.json", {"model": chosen})
    assert OpenCodeAdapter.logged_in() is logged_in
