"""Gates run the engine's code, and may change the tree they check: seen, said, undone, never verified blindly (6.6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.stage import Outcome, Stage, prompt_text
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.repos import git, write
from tests.kit.scenario import call

WORK = "x = 1\n"


@pytest.fixture
def ready(stage: Stage) -> Stage:
    """An engine that writes work.py and is done, however often it is called."""
    stage.engine.calls(call(session(wrote("work.py", WORK), verdict("done"))))
    return stage


def gate(stage: Stage, once_there: str) -> None:
    """A gate that counts how often it ran in .git/ran, and does `once_there` when the engine has been."""
    stage.gate(f"echo x >> .git/ran; test ! -e work.py || {{ {once_there}; }}")


def ran(stage: Stage) -> int:
    """How often the gate ran on the engine's work."""
    return len(stage.read(".git/ran").split()) - 1


def verified(outcome: Outcome) -> None:
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert outcome.run.verification == "verified"


def test_a_test_that_deletes_a_person_s_file_and_overwrites_a_source_is_seen_and_undone(ready: Stage) -> None:
    gate(ready, "rm -f untracked.txt; echo bad > README.md")
    task = ready.task()
    outcome = ready.start(task, gates=True)
    verified(outcome)
    assert ran(ready) == 2  # so that the verdict is about the tree that is left
    line = "Running the gates changed: modified README.md, deleted untracked.txt"
    assert line in outcome.said.stdout
    assert line in ready.cf("work", "show", task.id).stdout
    assert "running the gates deleted untracked.txt" in ready.why(task)
    diff = ready.cf("work", "diff", task.id)
    assert "+bad" in diff.stdout
    assert "running the gates changed: modified README.md, deleted untracked.txt" in diff.stderr
    assert [r["files"] for r in outcome.rounds] == [["created work.py"]]  # not the engine's doing
    assert ready.cf("work", "undo", task.id).exit_code == 0
    ready.check_persons_work()
    assert ready.read("README.md") == "hello\n"
    assert not ready.is_there("work.py")


def test_what_gates_do_not_change_is_checked_once_and_leaves_no_snapshot(ready: Stage) -> None:
    gate(ready, "true")
    task = ready.task()
    verified(ready.start(task, gates=True))
    assert ran(ready) == 1
    kept = git(ready.repo, "for-each-ref", "--format=%(subject)", "refs/codeframe/").splitlines()
    assert [line.split()[3] for line in kept] == ["base", "end"]


def test_a_test_that_breaks_what_it_checked_is_not_verified_by_its_first_run(stage: Stage) -> None:
    stage.engine.calls(
        call(session(wrote("work.py", WORK), verdict("done"))),
        call(session(wrote("README.md", "hello\n"), wrote("more.py", WORK), verdict("mended"))),
    )
    gate(stage, "grep -q hello README.md && { test -e more.py || echo bad > README.md; }")
    verified(stage.start(stage.task(), gates=True))
    told = prompt_text(stage.engine.invocations()[1].stdin)
    assert "exited with 1" in told
    assert "Running the checks changed files in the tree: modified README.md." in told


def test_a_formatter_that_repairs_the_engine_s_file_is_no_work_of_the_engine(ready: Stage) -> None:
    gate(ready, "echo 'x = 2' > work.py")
    task = ready.task()
    outcome = ready.start(task, gates=True)
    verified(outcome)
    (record,) = outcome.rounds
    assert (record["files"], record["gates_changed"]["files"]) == (["created work.py"], ["modified work.py"])
    outcome.check_work_kept("work.py", "x = 2\n")
    assert ready.cf("work", "undo", task.id).exit_code == 0
    assert not ready.is_there("work.py")


def test_a_hook_that_fails_because_it_repaired_something_costs_no_correction(ready: Stage) -> None:
    gate(ready, "grep -q 2 work.py || { echo 'x = 2' > work.py; exit 1; }")
    outcome = ready.start(ready.task(), gates=True)
    verified(outcome)
    assert len(ready.engine.invocations()) == 1
    assert "flaky" not in outcome.run.evidence["gates"]["gates"][0]["outcome"]
    assert outcome.run.evidence["gates"]["gates"][0]["counts"]["flaky"] == 0


def test_gates_that_change_a_source_each_time_verify_nothing(ready: Stage) -> None:
    gate(ready, "echo x >> README.md")
    task = ready.task()
    outcome = ready.start(task, gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert outcome.run.verification == "unverified"
    assert "the gates change what they check each time they run: README.md" in outcome.said.stdout
    assert ran(ready) == 2
    assert ready.cf("work", "undo", task.id).exit_code == 0
    assert ready.read("README.md") == "hello\n"
    strict = ready.start(ready.task(), "--require-gates", gates=True)
    strict.expect(1, "FAILED", "gates", "FAILED")


def test_a_report_that_tests_write_each_time_is_no_noise_and_blocks_nothing(ready: Stage) -> None:
    gate(ready, "cat .git/ran > report.xml")
    task = ready.task()
    outcome = ready.start(task, gates=True)
    verified(outcome)
    assert ran(ready) == 1  # a new file disturbs nothing that was checked
    write(ready.repo, {"report.xml": "written anew when a person ran the tests\n"})
    undone = ready.cf("work", "undo", task.id)
    assert undone.exit_code == 0, undone
    assert not ready.is_there("work.py")
    verified(ready.start(ready.task(), gates=True))  # where it is a file that was there


def test_a_report_alone_is_no_unaccepted_work(ready: Stage) -> None:
    gate(ready, "echo x > report.xml; exit 1")
    ready.start(ready.task(), "--max-corrections", "0", gates=True).expect(1, "FAILED", "gates", "FAILED")
    (ready.repo / "work.py").unlink()
    ready.engine.calls(call(session(wrote("other.py", WORK), verdict("done"))))
    verified(ready.start(ready.task(), gates=True))


def test_what_gates_change_before_the_engine_starts_is_said_and_not_its_doing(ready: Stage) -> None:
    ready.gate("echo formatted > README.md")
    task = ready.task()
    outcome = ready.start(task, gates=True)
    verified(outcome)
    assert "Running the gates before the engine started changed: modified README.md." in outcome.said.stderr
    assert "Running the gates changed" not in outcome.said.stdout
    ready.cf("work", "undo", task.id)
    assert ready.read("README.md") == "formatted\n"


def test_a_gate_that_stages_is_seen_and_undone(ready: Stage) -> None:
    gate(ready, "git add work.py")
    task = ready.task()
    outcome = ready.start(task, gates=True)
    verified(outcome)
    assert ran(ready) == 1
    assert "Running the gates changed: what is staged of work.py." in outcome.said.stdout
    assert ready.cf("work", "undo", task.id).exit_code == 0
    ready.check_persons_work()
    assert git(ready.repo, "ls-files", "work.py") == ""


def test_a_gate_that_leaves_a_merge_behind_does_not_end_the_run_in_a_crash(ready: Stage) -> None:
    gate(ready, "git rev-parse HEAD > .git/MERGE_HEAD")
    verified(ready.start(ready.task(), gates=True))


def test_gates_that_are_stopped_have_their_change_undone_too(ready: Stage, tmp_path: Path) -> None:
    gate(ready, "rm -f untracked.txt; sleep 100")
    task = ready.task()
    ready.start(task, "--timeout", "3s", gates=True).expect(4, "TIMEOUT", "timeout", "FAILED")
    assert ready.cf("work", "undo", task.id).exit_code == 0
    ready.check_persons_work()


def test_code_that_gates_run_and_that_switches_the_branch_is_never_verified(ready: Stage) -> None:
    gate(ready, "git checkout -q -b evil 2>/dev/null || true")
    task = ready.task()
    outcome = ready.start(task, gates=True)
    outcome.expect(3, "BLOCKED", None, "BLOCKED")
    assert "Running the gates switched the branch from main to evil" in outcome.told
    assert "git switch main" in outcome.told


def test_gates_that_stash_the_work_away_verify_nothing_and_lose_nothing(ready: Stage) -> None:
    gate(ready, "git stash -q -u")
    task = ready.task()
    outcome = ready.start(task, gates=True)
    assert outcome.run.verification == "unverified"
    assert "Unverified: running the gates took away the work itself: work.py." in outcome.said.stdout
    assert "is new; to put it back type: git stash apply" in outcome.said.stdout
    assert ready.cf("work", "undo", task.id).exit_code == 0
    ready.check_persons_work()


def test_a_branch_that_gates_delete_is_told_too(ready: Stage) -> None:
    git(ready.repo, "branch", "side")
    gate(ready, "git branch -qD side")
    assert "Moved: branch side is gone" in ready.start(ready.task(), gates=True).said.stdout
