"""Rule 12, row by row: what an engine does, and what becomes of the run, the task and the command."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from tests.hostile.stage import Stage
from tests.kit.claude_lines import api_error, init, result_api_error, text
from tests.kit.claude_runs import api_failed, ran, said, session, verdict, wrote
from tests.kit.engines import run_cf
from tests.kit.repos import git
from tests.kit.scenario import call, die, half_a_character, hang, leave, out, read_stdin, spawn

WORK = "x = 1\n"


def test_success_with_nothing_written_is_no_change_though_the_tree_was_dirty(stage: Stage) -> None:
    stage.engine.calls(call(session(verdict("all done"))))
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(1, "FAILED", "no_change", "FAILED")
    assert len(stage.engine.invocations()) == 2  # told once
    assert f"cf work retry {task.id[:8]}" in outcome.told
    assert "no_change" in stage.why(task)
    stage.check_persons_work()


def test_told_that_nothing_changed_the_engine_changes_something(stage: Stage) -> None:
    stage.engine.calls(
        call(session(verdict("all done"))), call(session(wrote("work.py", WORK), verdict("now it is")))
    )
    outcome = stage.start(stage.task())
    outcome.expect(0, "COMPLETED", None, "DONE")
    outcome.check_work_kept("work.py", WORK)


def test_already_satisfied_is_no_failure(stage: Stage) -> None:
    stage.engine.calls(call(session(verdict("it is there", already_satisfied=True))))
    stage.start(stage.task()).expect(0, "COMPLETED", None, "DONE")


@pytest.mark.parametrize(
    ("status", "error", "words", "verdict_", "to_type"),
    [
        (404, "model_not_found", "There's an issue with the selected model", (1, "FAILED", "model", "FAILED"), "retry"),
        (401, "authentication_failed", "Failed to authenticate.", (3, "BLOCKED", "auth", "BLOCKED"), "/login"),
        (402, "billing_error", "Credit balance is too low", (3, "BLOCKED", "billing", "BLOCKED"), "resume"),
    ],
)  # fmt: skip
def test_exit_0_with_an_error_event_is_that_error(
    stage: Stage, status: int, error: str, words: str, verdict_: tuple[int, str, str, str], to_type: str
) -> None:
    stage.engine.calls(
        call(
            session(
                wrote("work.py", WORK),
                out(api_error(words, error)),
                out(result_api_error(words, status)),
                leave(0),
            )
        )
    )
    outcome = stage.start(stage.task())
    outcome.expect(*verdict_)
    assert to_type in outcome.told
    outcome.check_work_kept("work.py", WORK)


def test_exit_1_with_a_success_event_lets_the_gates_decide(stage: Stage) -> None:
    stage.gate("! grep -q broken work.py")
    stage.engine.calls(call(session(wrote("work.py", WORK), verdict("done"), leave(1))))
    outcome = stage.start(stage.task(), gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert outcome.run.verification == "verified"
    outcome.check_work_kept("work.py", WORK)


def test_half_a_character_and_a_daemon_that_holds_stdout(stage: Stage) -> None:
    stage.engine.calls(
        call(
            session(
                wrote("work.py", WORK),
                half_a_character(),
                out(""),
                spawn(daemon=True, hold_stdout=True),
                verdict("done"),
                half_a_character(),
            )
        )
    )
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert "survivors" in stage.why(task)  # the daemon is named; `outcome` found it ended
    outcome.check_work_kept("work.py", WORK)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
@pytest.mark.parametrize("daemon", [False, True])
def test_a_daemon_that_dropped_its_environment_does_not_survive(stage: Stage, daemon: bool) -> None:
    left = spawn(daemon=daemon, session=not daemon, env={}, ignore=["SIGTERM"])
    stage.engine.calls(call(session(wrote("work.py", WORK), left, verdict("done"))))
    stage.start(stage.task()).expect(0, "COMPLETED", None, "DONE")
    (child,) = stage.engine.invocations()[0].children
    assert not psutil.pid_exists(child)


def test_an_engine_that_dies_from_sigkill_has_crashed_and_can_go_on(stage: Stage) -> None:
    stage.engine.calls(
        call(session(wrote("work.py", WORK), die("SIGKILL"))),
        call(session(wrote("more.py", WORK), verdict("done"))),
    )
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(1, "FAILED", "crashed", "READY")
    assert "SIGKILL" in outcome.told
    assert f"cf work resume {task.id[:8]}" in outcome.told
    outcome.check_work_kept("work.py", WORK)
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")


def test_an_engine_that_waits_on_stdin_gets_its_end_at_once(stage: Stage) -> None:
    stage.engine.calls(call(read_stdin(), session(wrote("work.py", WORK), verdict("done")), stdin="ignore"))
    outcome = stage.start(stage.task())
    outcome.expect(0, "COMPLETED", None, "DONE")


def test_a_silent_engine_has_stalled_and_its_work_is_kept(stage: Stage) -> None:
    stage.engine.calls(call(session(wrote("work.py", WORK), hang())))
    task = stage.task()
    outcome = stage.start(task, "--stall-timeout", "1s")
    outcome.expect(4, "TIMEOUT", "stalled", "BLOCKED")
    outcome.check_work_kept("work.py", WORK)
    assert "stalled" in stage.why(task)


def test_a_stall_with_action_fail_fails_the_task(stage: Stage) -> None:
    stage.engine.calls(call(out(init()), hang()))
    outcome = stage.start(stage.task(), "--stall-timeout", "1s", "--stall-action", "fail")
    outcome.expect(4, "TIMEOUT", "stalled", "FAILED")


def test_an_engine_that_commits_by_itself_is_measured_by_the_snapshots(stage: Stage) -> None:
    stage.engine.calls(
        call(
            session(
                wrote("work.py", WORK),
                ran("git add work.py && git commit -q -m 'by the engine' -- work.py"),
                verdict("done"),
            )
        )
    )
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert "by the engine" in stage.why(task)
    assert outcome.rounds[0]["files"] == ["created work.py"]
    assert git(stage.repo, "log", "-1", "--format=%s") == "by the engine"
    outcome.check_work_kept("work.py", WORK)


def test_a_commit_that_leaves_no_diff_is_a_change(stage: Stage) -> None:
    stage.engine.calls(call(session(ran("git commit -q --allow-empty -m 'only a commit'"), verdict("done"))))
    stage.start(stage.task()).expect(0, "COMPLETED", None, "DONE")


def test_an_engine_that_switches_the_branch_is_blocked_and_both_are_named(stage: Stage) -> None:
    stage.engine.calls(
        call(session(ran("git switch -q -c elsewhere"), wrote("work.py", WORK), verdict("done"))),
        call(session(wrote("more.py", WORK), verdict("done"))),
    )
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(3, "BLOCKED", None, "BLOCKED")
    assert "main" in outcome.told
    assert "elsewhere" in outcome.told
    assert "`git switch main`" in outcome.told
    outcome.check_work_kept("work.py", WORK)
    # What it says to type works.
    git(stage.repo, "switch", "-q", "main")
    blocker = stage.workspace.store.blockers.list(task_id=task.id)[0]
    stage.workspace.store.blockers.answer(blocker.id, "I went back")
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")


def test_a_question_in_prose_without_a_change_blocks(stage: Stage) -> None:
    stage.engine.calls(call(session(said("Which database should the module use?"), structured=False)))
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(3, "BLOCKED", None, "BLOCKED")
    assert "Which database should the module use?" in outcome.told
    assert "cf blocker answer" in outcome.told
    assert f"cf work resume {task.id[:8]}" in outcome.told
    stage.check_persons_work()


def test_a_question_in_prose_after_a_change_is_noted_and_the_gates_decide(stage: Stage) -> None:
    stage.gate("! grep -q broken work.py")
    stage.engine.calls(
        call(session(wrote("work.py", WORK), said("Done. Which name should the module get?"), structured=False))
    )  # fmt: skip
    outcome = stage.start(stage.task(), gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert "Which name should the module get?" in outcome.told
    outcome.check_work_kept("work.py", WORK)


def test_a_structured_question_blocks_although_something_changed(stage: Stage) -> None:
    stage.engine.calls(
        call(
            session(wrote("work.py", WORK), verdict("half done", status="blocked", question="Python 2 or 3?"))
        )
    )
    outcome = stage.start(stage.task())
    outcome.expect(3, "BLOCKED", None, "BLOCKED")
    assert "Python 2 or 3?" in outcome.told
    outcome.check_work_kept("work.py", WORK)


def test_an_engine_that_reports_failure_has_failed_whatever_it_wrote(stage: Stage) -> None:
    stage.engine.calls(call(session(wrote("work.py", WORK), verdict("I could not", status="failed"))))
    outcome = stage.start(stage.task())
    outcome.expect(1, "FAILED", None, "FAILED")
    assert "I could not" in outcome.told
    outcome.check_work_kept("work.py", WORK)


def test_a_repository_without_a_commit_works(tmp_path: Path) -> None:
    stage = Stage.build(tmp_path, empty=True)
    stage.engine.calls(call(session(wrote("work.py", WORK), verdict("done"))))
    outcome = stage.start(stage.task())
    outcome.expect(0, "COMPLETED", None, "DONE")
    outcome.check_work_kept("work.py", WORK)


def test_words_that_are_no_json_and_no_end_at_all_are_a_crash(stage: Stage) -> None:
    stage.engine.calls(
        call(wrote("work.py", WORK), out("{not json"), out("[1, 2]"), out('{"type": 7}'), leave(0))
    )
    outcome = stage.start(stage.task())
    outcome.expect(1, "FAILED", "crashed", "READY")
    outcome.check_work_kept("work.py", WORK)


def test_an_engine_denied_everything_says_so(stage: Stage) -> None:
    denial = {"tool_name": "Write", "tool_use_id": "toolu_1", "tool_input": {}}
    stage.engine.calls(call(session(verdict("done", permission_denials=[denial]))))
    stage.start(stage.task()).expect(1, "FAILED", "permission_denied", "FAILED")


def test_an_engine_that_cannot_be_started_is_said_in_words(stage: Stage) -> None:
    stage.engine.executable.write_text("#!/no/such/interpreter\n")
    outcome = stage.start(stage.task())
    outcome.expect(1, "FAILED", "spawn_failed", "FAILED")
    assert "could not be started" in outcome.told


def test_a_network_that_never_comes_back_is_tried_six_times(stage: Stage) -> None:
    stage.engine.calls(call(session(api_failed(None, "unknown", "Unable to connect to API (ECONNREFUSED)"))))
    outcome = stage.start(stage.task())
    outcome.expect(1, "FAILED", "network", "FAILED")
    assert len(stage.engine.invocations()) == 6


def test_what_an_engine_says_cannot_act_on_the_terminal(stage: Stage) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202eright to left"
    stage.engine.calls(
        call(session(out(text(evil)), wrote("work.py", WORK), verdict(evil, status="blocked", question=evil)))
    )
    task = stage.task(f"A title {evil}")
    outcome = stage.start(task)
    outcome.expect(3, "BLOCKED", None, "BLOCKED")
    seen = (
        outcome.told
        + stage.why(task)
        + stage.cf("work", "logs", task.id).stdout
        + stage.cf("work", "logs", task.id, "--raw").stdout
    )
    assert "right to left" in seen
    assert not set(seen) & set("\x1b\x07\u202e")


def test_a_terminal_that_cannot_show_what_an_engine_says_ends_nothing(stage: Stage) -> None:
    stage.engine.calls(call(session(out(text("naïve – ok")), wrote("work.py", WORK), verdict("fertig – ok"))))
    task = stage.task("Écrire le module")
    said = run_cf(*stage.start_args(task), cwd=stage.repo, env=stage.env | {"PYTHONIOENCODING": "ascii"})
    outcome = stage.outcome(task, said)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert "ok" in outcome.said.stdout
    assert "ok" in outcome.said.stderr
