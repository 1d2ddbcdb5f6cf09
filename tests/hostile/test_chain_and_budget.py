"""Rule 4.6 beyond one engine: the next of the chain takes over, a quota is waited for, a budget holds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from codeframe.demo.model_script import tool
from codeframe.demo.model_server import ScriptedModel
from tests.hostile.stage import Stage
from tests.kit.claude_lines import Spent, api_error, result_api_error, text, tool_use
from tests.kit.claude_runs import api_failed, interruptible, session, verdict, wrote
from tests.kit.repos import write
from tests.kit.scenario import call, hang, out

WORK = "x = 1\n"
OUT_OF_MONEY = api_failed(402, "billing_error", "Credit balance is too low")


@pytest.fixture
def model(stage: Stage) -> Iterator[ScriptedModel]:
    """The model of the built-in engine, which is the next of the chain."""
    with ScriptedModel({"next": {"prompts": []}}) as server:
        stage.more_env["ANTHROPIC_BASE_URL"] = server.url("next")
        yield server


def finished(path: str) -> list[object]:
    made = tool("create_file", {"path": path, "content": WORK})
    return [made, tool("finish", {"status": "completed", "summary": "went on"})]


def test_the_next_engine_goes_on_with_what_was_done(stage: Stage, model: ScriptedModel) -> None:
    model.add("next", {"prompts": [finished("more.py")]})
    stage.engine.calls(call(session(wrote("work.py", WORK), out(text("half way")), OUT_OF_MONEY)))
    task = stage.task()
    outcome = stage.start(task, "--model", "of-the-first", "--fallback", "built-in")
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert (outcome.run.engine, [r["reason"] for r in outcome.rounds]) == (
        "built-in",
        ["first", "fallback:built-in"],
    )
    (prompt,) = model.requests("next")[-1].prompts
    for words in ("Add work.py", "claude-code could not go on (billing)", "work.py", "+x = 1"):
        assert words in prompt
    assert "built-in took over" in stage.why(task)
    assert stage.is_there("more.py")
    outcome.check_work_kept("work.py", WORK)


def test_without_another_engine_a_person_is_asked(stage: Stage) -> None:
    stage.engine.calls(call(session(OUT_OF_MONEY)))
    stage.start(stage.task()).expect(3, "BLOCKED", "billing", "BLOCKED")


def test_what_another_engine_would_suffer_from_as_well_is_not_handed_over(
    stage: Stage, model: ScriptedModel
) -> None:
    unknown = [
        out(api_error("no such model", "model_not_found")),
        out(result_api_error("no such model", 404)),
    ]
    stage.engine.calls(call(session(unknown)))
    stage.start(stage.task(), "--fallback", "built-in").expect(1, "FAILED", "model", "FAILED")
    assert model.requests("next") == []


@pytest.mark.parametrize(
    ("chain", "exit_code", "words"),
    [
        ("nobody", 2, "There is no engine 'nobody'"),
        ("react,built-in", 2, "built-in stands twice"),
        ("claude-code", 2, "claude-code stands twice"),
        ("a,,b", 2, "names parted by commas"),
    ],
)
def test_a_chain_is_checked_before_anything_starts(
    stage: Stage, model: ScriptedModel, chain: str, exit_code: int, words: str
) -> None:
    task = stage.task()
    said = stage.cf(*stage.start_args(task, "--fallback", chain))
    assert (said.exit_code, stage.status(task)) == (exit_code, "READY")
    assert words in said.stderr
    assert stage.engine.invocations() == []


def test_a_chain_needs_what_its_engines_need(stage: Stage) -> None:
    said = stage.cf(*stage.start_args(stage.task(), "--fallback", "built-in"))
    assert said.exit_code == 5
    assert "built-in, named by --fallback, cannot run here; missing: ANTHROPIC_API_KEY" in said.stderr


@pytest.mark.parametrize("wait", [False, True])
def test_a_quota_is_waited_for_only_where_that_was_asked_for(stage: Stage, wait: bool) -> None:
    info = {"status": "rejected", "resetsAt": int(time.time()) + 1, "rateLimitType": "five_hour"}
    limit = {"type": "rate_limit_event", "rate_limit_info": info}
    refused = api_failed(429, "rate_limit", "You've hit your limit")
    stage.engine.calls(
        call(session(wrote("work.py", WORK), out(limit), refused)), call(session(verdict("done after all")))
    )
    outcome = stage.start(stage.task(), *(["--wait-for-quota", "1h"] if wait else []))
    if not wait:
        outcome.expect(3, "BLOCKED", "quota", "BLOCKED")
        return
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert "quota: waiting until" in outcome.told
    assert [r["round"] for r in outcome.rounds] == [0, 0]


def test_a_used_up_budget_blocks_before_the_next_call_and_resume_goes_on(stage: Stage) -> None:
    stage.gate("! grep -q wrong work.py")
    stage.engine.calls(
        call(session(wrote("work.py", "wrong\n"), verdict("done", spent=Spent(input=6000, output=200)))),
        call(session(wrote("work.py", WORK), verdict("mended"))),
    )
    task = stage.task()
    outcome = stage.start(task, "--max-tokens", "7000", gates=True)  # more than it tells in mid-call
    outcome.expect(3, "BLOCKED", "budget", "BLOCKED")
    assert "used 7,200 tokens, and its budget is 7,000 tokens" in outcome.told
    assert len(stage.engine.invocations()) == 1
    outcome.check_work_kept("work.py", "wrong\n")
    stage.again("resume", task, "--max-tokens", "14000").expect(0, "COMPLETED", None, "DONE")
    assert stage.workspace.store.blockers.list(task_id=task.id)[0].status.value != "OPEN"


def test_a_call_is_ended_where_it_uses_up_the_budget(stage: Stage) -> None:
    asks = [out(tool_use("Bash", {"command": "true"}, f"toolu_{n}")) for n in range(3)]
    stage.engine.calls(call(session(wrote("work.py", WORK), interruptible(), asks, hang())))
    outcome = stage.start(stage.task(), "--max-tokens", "2500")
    outcome.expect(3, "BLOCKED", "budget", "BLOCKED")
    outcome.check_work_kept("work.py", WORK)


def test_the_budgets_of_a_task_and_of_the_workspace_count_earlier_runs(stage: Stage) -> None:
    write(stage.repo, {".codeframe/config.yaml": json.dumps({"budget": {"task": {"cost": 0.01}}})})
    stage.engine.calls(
        call(session(verdict("nothing", status="failed", spent=Spent(cost_usd=0.02)))),
        call(session(wrote("work.py", WORK), verdict("done"))),
    )
    task = stage.task()
    stage.start(task).expect(1, "FAILED", None, "FAILED")
    again = stage.again("retry", task)
    again.expect(3, "BLOCKED", "budget", "BLOCKED")
    assert f"Task {task.id[:8]} has used $0.02, and its budget is $0.01" in again.told
    assert "cf config set budget" in again.told
    assert len(stage.engine.invocations()) == 1


def test_a_limit_on_the_cost_wants_engines_that_tell_it(stage: Stage, model: ScriptedModel) -> None:
    said = stage.cf(*stage.start_args(stage.task(), "--fallback", "built-in", "--max-cost", "2"))
    assert said.exit_code == 2
    assert "built-in does not tell what it costs" in said.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [("--max-tokens", "0"), ("--max-cost", "-1"), ("--max-cost", "nan"), ("--wait-for-quota", "x")],
)
def test_a_limit_that_is_none_is_refused(stage: Stage, option: str, value: str) -> None:
    task = stage.task()
    said = stage.cf(*stage.start_args(task, option, value))
    assert (said.exit_code, stage.status(task)) == (2, "READY")
    assert option in said.stderr or value in said.stderr
