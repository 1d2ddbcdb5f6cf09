"""Resume, retry, undo, and what a start says to work that nobody accepted (rules 4.2, 4.3, 4.6, 4.8)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from codeframe.core.leftovers import snapshots_of, unaccepted
from codeframe.core.models import Task
from tests.hostile.stage import COMMITTED, WAIT_S, Stage, prompt_text, safety_of
from tests.kit.claude_runs import api_failed, interruptible, said, session, unknown_session, verdict, wrote
from tests.kit.repos import git
from tests.kit.scenario import Invocation, call, die, hang, touch
from tests.kit.waiting import wait_until

WORK = "x = 1\n"
FULL = "# Where this task stands"  # a cold start: the whole prompt and what an earlier session did


def flag(invocation: Invocation, name: str) -> str | None:
    return invocation.argv[invocation.argv.index(name) + 1] if name in invocation.argv else None


def asked(stage: Stage) -> Task:
    """A task whose engine wrote work.py and asked; the next call writes more.py and is done."""
    question = verdict("half", status="blocked", question="Tabs or spaces?")
    stage.engine.calls(
        call(session(wrote("work.py", WORK), question)),
        call(session(wrote("more.py", WORK), verdict("done"))),
    )
    task = stage.task()
    stage.start(task).expect(3, "BLOCKED", None, "BLOCKED")
    return task


def answer(stage: Stage, task: Task, words: str) -> None:
    blocker = stage.workspace.store.blockers.list(task_id=task.id)[0]
    stage.workspace.store.blockers.answer(blocker.id, words)


def test_an_answer_goes_to_the_session_that_asked(stage: Stage) -> None:
    task = asked(stage)
    early = stage.cf("work", "resume", task.id)
    assert early.exit_code == 3  # nothing was answered yet
    assert "cf blocker answer" in early.stderr
    answer(stage, task, "Spaces, four of them")
    resumed = stage.again("resume", task)
    resumed.expect(0, "COMPLETED", None, "DONE")
    first, second = stage.engine.invocations()
    assert flag(second, "--resume") == flag(first, "--session-id")
    told = prompt_text(second.stdin)
    assert "Tabs or spaces?" in told
    assert "Spaces, four of them" in told
    assert FULL not in told
    resumed.check_work_kept("work.py", WORK)


def test_a_secret_in_an_answer_is_kept_as_typed_and_not_sent_on(stage: Stage) -> None:
    token = "sk-" + "ant-api03-Abc123def456Ghi789"
    task = asked(stage)
    answer(stage, task, f"Use {token} for it")
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")
    told = prompt_text(stage.engine.invocations()[1].stdin)
    assert "Use [redacted] for it" in told
    (blocker,) = stage.workspace.store.blockers.list(task_id=task.id)
    assert blocker.answer == f"Use {token} for it"


def test_a_lost_session_falls_back_once_to_a_cold_start(stage: Stage) -> None:
    task = asked(stage)
    answer(stage, task, "Spaces")
    stage.engine.calls(call(unknown_session()), call(session(wrote("more.py", WORK), verdict("done"))))
    resumed = stage.again("resume", task)
    resumed.expect(0, "COMPLETED", None, "DONE")
    assert "session is gone" in resumed.told
    _, lost, cold = stage.engine.invocations()
    assert flag(lost, "--resume") is not None
    assert flag(cold, "--resume") is None
    assert flag(cold, "--session-id") != flag(lost, "--resume")
    told = prompt_text(cold.stdin)
    assert "Add work.py" in told  # the whole task
    assert "Spaces" in told  # and the answer
    assert FULL in told


def test_sessions_that_are_lost_again_end_the_run(stage: Stage) -> None:
    task = asked(stage)
    answer(stage, task, "Spaces")
    stage.engine.calls(call(unknown_session()))
    stage.again("resume", task).expect(1, "FAILED", "protocol", "FAILED")
    assert len(stage.engine.invocations()) == 3


def test_a_retry_tells_a_fresh_session_what_went_wrong(stage: Stage) -> None:
    stage.gate("! grep -n wrong work.py")
    stage.engine.calls(
        call(session(wrote("work.py", "wrong\n"), verdict("done"))),
        call(session(wrote("work.py", WORK), verdict("ok"))),
    )
    task = stage.task()
    stage.start(task, "--max-corrections", "0", gates=True).expect(1, "FAILED", "gates", "FAILED")
    refused = stage.cf(*stage.start_args(task))
    assert refused.exit_code == 1
    assert f"cf work retry {task.id[:8]}" in refused.stderr
    again = stage.again("retry", task)
    again.expect(0, "COMPLETED", None, "DONE")
    first, second = stage.engine.invocations()
    assert flag(second, "--resume") is None
    assert flag(second, "--session-id") != flag(first, "--session-id")
    told = prompt_text(second.stdin)
    assert "Add work.py" in told
    assert "1:wrong" in told  # what the gate had said
    again.check_work_kept("work.py", WORK)


def test_retry_from_base_takes_the_earlier_work_back_first(stage: Stage) -> None:
    stage.engine.calls(
        call(session(wrote("bad.py", WORK), verdict("I gave up", status="failed"))),
        call(session(wrote("work.py", WORK), verdict("done"))),
    )
    task = stage.task()
    stage.start(task).expect(1, "FAILED", None, "FAILED")
    stage.again("retry", task, "--from-base").expect(0, "COMPLETED", None, "DONE")
    assert not stage.is_there("bad.py")
    stage.check_persons_work()


def test_passing_faults_are_waited_out_and_cost_no_correction(stage: Stage) -> None:
    stage.gate("! grep -q wrong work.py")
    stage.engine.calls(
        call(session(wrote("work.py", "wrong\n"), api_failed(529, "overloaded", "Overloaded"))),
        call(session(api_failed(429, "rate_limit", "Too many requests"))),
        call(session(verdict("done"))),
        call(session(wrote("work.py", WORK), verdict("mended"))),
    )
    outcome = stage.start(stage.task(), "--max-corrections", "1", gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert [r["round"] for r in outcome.rounds] == [0, 0, 0, 1]
    assert [r["error_class"] for r in outcome.rounds] == ["overloaded", "rate_limited", None, None]
    sessions = {flag(i, "--resume") or flag(i, "--session-id") for i in stage.engine.invocations()}
    assert len(sessions) == 1


def test_a_full_context_window_goes_on_in_a_fresh_session(stage: Stage) -> None:
    stage.engine.calls(
        call(session(wrote("work.py", WORK), api_failed(413, "invalid_request", "Prompt is too long"))),
        call(session(wrote("more.py", WORK), verdict("done"))),
    )
    stage.start(stage.task()).expect(0, "COMPLETED", None, "DONE")
    first, second = stage.engine.invocations()
    assert flag(second, "--session-id") not in (None, flag(first, "--session-id"))
    assert FULL in prompt_text(second.stdin)


def test_a_new_start_on_work_nobody_accepted_names_the_choices(stage: Stage) -> None:
    stage.engine.calls(
        call(session(wrote("work.py", WORK), die())), call(session(wrote("more.py", WORK), verdict("done")))
    )
    task = stage.task()
    stage.start(task).expect(1, "FAILED", "crashed", "READY")
    other = stage.task("Another one")
    refused = stage.cf(*stage.start_args(other))
    assert refused.exit_code == 1
    assert "work.py" in refused.stderr
    for choice in (f"cf work resume {task.id[:8]}", "--keep", f"cf work undo {task.id[:8]}"):
        assert choice in refused.stderr
    assert len(stage.engine.invocations()) == 1
    kept = stage.start(other, "--keep")
    kept.expect(0, "COMPLETED", None, "DONE")
    kept.check_work_kept("work.py", WORK)


# -- undo after each kind of end ----------------------------------------------------------------------


def _kill_cf(stage: Stage, task: Task) -> None:
    process = stage.begin(task)
    wait_until((stage.repo.parent / "there").exists)
    stage.kill(task, process)


def _interrupt_cf(stage: Stage, task: Task) -> None:
    process = stage.begin(task)
    wait_until((stage.repo.parent / "there").exists)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=WAIT_S)


def _to_the_end(stage: Stage, task: Task) -> None:
    stage.cf(*stage.start_args(task, "--timeout", "2s" if "hangs" in task.title else "60s"))


ENDS: dict[str, tuple[object, Callable[[Stage, Task], None], str]] = {
    "completed": (verdict("done"), _to_the_end, "COMPLETED"),
    "asked in prose": (said("Done. Which name should it get?"), _to_the_end, "COMPLETED"),
    "failed": (verdict("no", status="failed"), _to_the_end, "FAILED"),
    "blocked": (verdict("half", status="blocked", question="Which?"), _to_the_end, "BLOCKED"),
    "no login": (api_failed(401, "authentication_failed", "Failed to authenticate"), _to_the_end, "BLOCKED"),
    "crashed": (die(), _to_the_end, "FAILED"),
    "timeout": (hang(), _to_the_end, "TIMEOUT"),
    "stopped": ([interruptible(), hang()], _interrupt_cf, "STOPPED"),
    "cf was killed": (hang(), _kill_cf, "FAILED"),
}


@pytest.mark.parametrize("end", ENDS)
def test_undo_takes_back_the_engines_work_and_nothing_else(stage: Stage, end: str) -> None:
    ending, run, status = ENDS[end]
    stage.engine.calls(
        call(
            session(
                wrote("new/work.py", WORK),
                wrote("README.md", "by the engine\n"),
                touch(stage.repo.parent / "there"),
                ending,  # type: ignore[arg-type]
            )
        ),
    )
    task = stage.task("hangs" if end == "timeout" else "Write the module")
    run(stage, task)
    undone = stage.cf("work", "undo", task.id)
    assert undone.exit_code == 0, undone
    assert stage.workspace.store.runs.list()[0].status.value == status
    assert "removed   new/work.py" in undone.stdout
    assert not stage.is_there("new")
    assert stage.read("README.md") == COMMITTED["README.md"]
    stage.check_persons_work()
    assert git(stage.repo, "status", "--porcelain").splitlines() == [
        "M  staged.txt", " M unstaged.txt", "?? untracked.txt"
    ]  # fmt: skip
    # What was undone is still in a ref, and the tree is free for the next task.
    assert git(stage.repo, "show", f"{safety_of(undone.stdout)}:new/work.py") + "\n" == WORK
    assert unaccepted(stage.workspace, snapshots_of(stage.workspace)) is None


def test_undo_keeps_what_a_person_changed_after_the_run(stage: Stage) -> None:
    stage.engine.calls(call(session(wrote("work.py", WORK), wrote("mine.py", WORK), verdict("done"))))
    task = stage.task()
    stage.start(task)
    (stage.repo / "mine.py").write_text("edited\n")
    undone = stage.cf("work", "undo", task.id)
    assert undone.exit_code == 1
    assert "kept      mine.py (changed after the run)" in undone.stdout
    assert stage.read("mine.py") == "edited\n"
    assert not stage.is_there("work.py")
    stage.check_persons_work()


def test_undo_brings_back_a_tree_the_engine_wiped(stage: Stage) -> None:
    wipe = "git stash -q -u; git stash drop -q; git reset -q --hard; git clean -fdxq; rm -rf ./* .gitignore"
    from tests.kit.claude_runs import ran

    stage.engine.calls(call(session(ran(wipe), verdict("all clean"))))
    task = stage.task()
    stage.start(task).expect(0, "COMPLETED", None, "DONE")
    assert sorted(p.name for p in stage.repo.iterdir()) == [".git"]
    undone = stage.cf("work", "undo", task.id)
    assert undone.exit_code == 0, undone
    assert stage.read("README.md") == COMMITTED["README.md"]
    stage.check_persons_work()


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_undo_of_a_chain_goes_back_to_before_the_first_run(stage: Stage, end: str) -> None:
    task = asked(stage)
    answer(stage, task, "Spaces")
    (stage.repo / "between.txt").write_text("a person, between two runs\n")
    stage.engine.calls(call(session(wrote("more.py", WORK), verdict("said", status=end))))
    assert stage.again("resume", task).run.status.value == end.upper()
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert not stage.is_there("work.py")
    assert not stage.is_there("more.py")
    assert stage.read("between.txt") == "a person, between two runs\n"
    stage.check_persons_work()


def test_the_diff_is_of_the_task_not_of_its_last_run_alone(stage: Stage) -> None:
    task = asked(stage)
    answer(stage, task, "Spaces")
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")
    whole = stage.cf("work", "diff", task.id, "--stat").stdout
    assert "work.py" in whole
    assert "more.py" in whole
    assert "untracked.txt" not in whole
    last = stage.workspace.store.runs.latest(task.id)
    assert last is not None
    assert "work.py" not in stage.cf("work", "diff", task.id, "--run", last.id, "--stat").stdout


def test_a_login_that_works_by_now_no_longer_blocks(stage: Stage) -> None:
    stage.engine.calls(
        call(session(api_failed(401, "authentication_failed", "Not logged in · Please run /login"))),
        call(session(said("all done"))),
    )
    task = stage.task()
    stage.start(task).expect(3, "BLOCKED", "auth", "BLOCKED")
    resumed = stage.again("resume", task)
    resumed.expect(1, "FAILED", "no_change", "FAILED")
    assert "Not logged in" not in resumed.said.stdout
    assert stage.cf("blocker", "list").stdout == ""
