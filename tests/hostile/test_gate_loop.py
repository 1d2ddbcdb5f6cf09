"""Gates and corrections, with the real pytest and ruff where it matters and a shell command where not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hostile.stage import Stage, prompt_text
from tests.kit.claude_runs import api_failed, ran, session, unknown_session, verdict, wrote
from tests.kit.repos import git, write
from tests.kit.scenario import call, delete

pytestmark = pytest.mark.engine  # at length, with the real tools (make test-engines)

TEST_ADD = "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
GOOD = "def add(a, b):\n    return a + b\n"
BAD = "def add(a, b):\n    return a - b\n"


def python_stage(folder: Path, files: dict[str, str | bytes]) -> Stage:
    stage = Stage.build(folder, files)
    stage.use_own_environment()
    gate = {"name": "pytest", "command": ".venv/bin/python -m pytest"}  # ruff takes its time, too
    write(stage.repo, {".codeframe/config.yaml": json.dumps({"gates": [gate]})})
    return stage


def test_corrections_carry_the_failures_and_go_to_the_same_session(tmp_path: Path) -> None:
    stage = python_stage(tmp_path, {"test_calc.py": TEST_ADD, "calc.py": "def add(a, b): ...\n"})
    (stage.repo / ".codeframe" / "config.yaml").unlink()  # the gates that are found by themselves
    stage.engine.calls(
        call(session(wrote("calc.py", "import os\n\n" + BAD), verdict("added"))),
        call(session(wrote("calc.py", GOOD), verdict("mended"))),
    )
    # Strict: the test failed before, too, and must pass for the work to count.
    outcome = stage.start(stage.task(), "--strict", gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert outcome.run.verification == "verified"
    outcome.check_work_kept("calc.py", GOOD)
    first, second = stage.engine.invocations()
    session_id = first.argv[first.argv.index("--session-id") + 1]
    assert second.argv[second.argv.index("--resume") + 1] == session_id
    said = prompt_text(second.stdin)
    assert "test_calc.py::test_add" in said
    assert "assert -1 == 5" in said
    assert "F401" in said
    assert "calc.py:1" in said
    assert "Add work.py" not in said  # the task is known in this session


def test_exhausted_corrections_fail_the_task_and_keep_the_work(stage: Stage) -> None:
    stage.gate("! grep -q wrong work.py || { cat work.py; exit 1; }")
    stage.engine.calls(*(call(session(wrote("work.py", f"wrong {w}\n"), verdict("done"))) for w in "abcd"))
    task = stage.task()
    outcome = stage.start(task, "--max-corrections", "2", gates=True)
    outcome.expect(1, "FAILED", "gates", "FAILED")
    assert len(stage.engine.invocations()) == 3
    assert f"cf work retry {task.id[:8]}" in outcome.told
    outcome.check_work_kept("work.py", "wrong c\n")
    why = stage.why(task)
    assert "gate check: failed" in why
    assert "2 corrections were not enough" in why


def test_the_same_failures_on_the_same_tree_stop_early(stage: Stage) -> None:
    stage.gate("! grep -q wrong work.py")
    stage.engine.calls(call(session(wrote("work.py", "wrong\n"), verdict("done"))))
    outcome = stage.start(stage.task(), gates=True)
    outcome.expect(1, "FAILED", "gates", "FAILED")
    assert len(stage.engine.invocations()) == 2
    assert "the same failures came back" in outcome.told
    outcome.check_work_kept("work.py", "wrong\n")


def test_deleted_tests_are_fed_back_by_name_and_then_a_person_is_asked(tmp_path: Path) -> None:
    stage = python_stage(
        tmp_path, {"test_calc.py": TEST_ADD, "calc.py": GOOD, "test_b.py": "def test_b():\n    pass\n"}
    )
    stage.engine.calls(
        call(session(ran("rm test_calc.py"), wrote("work.py", "x = 1\n"), verdict("tidied"))),
        call(session(wrote("more.py", "y = 1\n"), verdict("no, they have to go"))),
    )
    task = stage.task()
    outcome = stage.start(task, "--max-corrections", "1", gates=True)
    outcome.expect(3, "BLOCKED", "gates", "BLOCKED")
    assert "test_calc.py::test_add" in prompt_text(stage.engine.invocations()[1].stdin)
    assert "test_calc.py::test_add" in outcome.told
    assert "test_b.py::test_b" not in outcome.told
    outcome.check_work_kept("work.py", "x = 1\n")


def test_skipping_the_failing_test_does_not_make_it_pass(tmp_path: Path) -> None:
    skipped = TEST_ADD.replace("def test", "@pytest.mark.skip\ndef test").replace(
        "from", "import pytest\nfrom"
    )
    stage = python_stage(tmp_path, {"test_calc.py": TEST_ADD, "calc.py": GOOD})
    stage.engine.calls(
        call(session(wrote("test_calc.py", skipped), wrote("calc.py", BAD), verdict("skipped"))),
        call(session(wrote("test_calc.py", TEST_ADD), wrote("calc.py", GOOD + "\n"), verdict("back again"))),
    )
    outcome = stage.start(stage.task(), gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert "Unskip" in prompt_text(stage.engine.invocations()[1].stdin)


def test_red_before_is_listed_apart_and_blocks_nothing(tmp_path: Path) -> None:
    stage = python_stage(tmp_path, {"test_calc.py": TEST_ADD, "calc.py": BAD})
    stage.engine.calls(call(session(wrote("work.py", "x = 1\n"), verdict("done"))))
    task = stage.task()
    outcome = stage.start(task, gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert "1 old" in outcome.told
    assert "pytest: nothing new failed (1 old failure left alone)" in stage.why(task)
    assert "failed before the run, too: test_calc.py::test_add" in stage.why(task)
    outcome.check_work_kept("work.py", "x = 1\n")


def test_a_failure_of_the_first_run_is_never_old_in_the_next(tmp_path: Path) -> None:
    stage = python_stage(tmp_path, {"test_calc.py": TEST_ADD, "calc.py": GOOD})
    stage.engine.calls(call(session(wrote("calc.py", BAD), verdict("done"))))
    task = stage.task()
    stage.start(task, "--max-corrections", "0", gates=True).expect(1, "FAILED", "gates", "FAILED")
    outcome = stage.again("retry", task, "--max-corrections", "0")
    outcome.expect(1, "FAILED", "gates", "FAILED")
    assert "1 new" in outcome.told


def test_nothing_collected_is_unverified(tmp_path: Path) -> None:
    stage = python_stage(tmp_path, {"pytest.ini": "[pytest]\n"})
    stage.engine.calls(call(session(wrote("work.py", "x = 1\n"), verdict("done"))))
    outcome = stage.start(stage.task(), gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert outcome.run.verification == "unverified"
    assert "no tests were collected" in outcome.told


def test_nothing_collected_where_tests_passed_before_is_a_failure(tmp_path: Path) -> None:
    stage = python_stage(tmp_path, {"test_calc.py": TEST_ADD, "calc.py": GOOD})
    stage.engine.calls(
        call(session(wrote("pytest.ini", "[pytest]\npython_files = none.py\n"), verdict("done")))
    )
    outcome = stage.start(stage.task(), gates=True)
    outcome.expect(1, "FAILED", "gates", "FAILED")
    assert "no tests are collected any more" in stage.why(outcome.task)


def test_a_gate_that_never_ends_is_a_failure_and_never_old(stage: Stage) -> None:
    stage.gate("sleep 100 & sleep 100", timeout="1s")
    stage.engine.calls(call(session(wrote("work.py", "x = 1\n"), verdict("done"))))
    outcome = stage.start(stage.task(), "--max-corrections", "0", gates=True)
    outcome.expect(1, "FAILED", "gates", "FAILED")
    assert "did not end within 1 s" in stage.why(outcome.task)
    outcome.check_work_kept("work.py", "x = 1\n")


def test_the_time_that_is_up_while_the_gates_run_is_a_timeout(stage: Stage) -> None:
    stage.gate("test ! -e work.py || sleep 100")
    stage.engine.calls(call(session(wrote("work.py", "x = 1\n"), verdict("done"))))
    outcome = stage.start(stage.task(), "--timeout", "3s", gates=True)
    outcome.expect(4, "TIMEOUT", "timeout", "FAILED")
    outcome.check_work_kept("work.py", "x = 1\n")


def test_a_declared_gate_whose_tool_is_missing_refuses_the_start(stage: Stage) -> None:
    entry = '{"gates": [{"name": "check", "command": "no-such-tool --all"}]}'
    write(stage.repo, {".codeframe/config.yaml": entry})
    task = stage.task()
    said = stage.cf(*stage.start_args(task, gates=True))
    assert said.exit_code == 5
    assert "no-such-tool" in said.stderr
    assert stage.workspace.store.runs.latest(task.id) is None


def test_an_engine_that_deletes_the_project_environment_is_not_verified(tmp_path: Path) -> None:
    stage = python_stage(tmp_path, {"test_calc.py": TEST_ADD, "calc.py": GOOD})
    stage.engine.calls(call(session(delete(".venv"), wrote("work.py", "x = 1\n"), verdict("done"))))
    outcome = stage.start(stage.task(), "--max-corrections", "0", gates=True)
    outcome.expect(1, "FAILED", "gates", "FAILED")


def test_a_correction_is_not_forgotten_when_first_the_service_and_then_the_session_fails(
    stage: Stage,
) -> None:
    stage.gate("! grep wrong work.py")
    stage.engine.calls(
        call(session(wrote("work.py", "this is wrong\n"), verdict("wrote work.py"))),
        call(session(api_failed(529, "overloaded", "Overloaded"))),
        call(unknown_session()),
        call(session(wrote("work.py", "right\n"), verdict("done"))),
    )
    outcome = stage.start(stage.task(), gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    last = stage.engine.invocations()[3]
    assert "--resume" not in last.argv
    said = prompt_text(last.stdin)
    for words in ("Add work.py", "wrote work.py", "this is wrong"):
        assert words in said


def test_the_first_tests_of_a_project_count_although_no_gate_was_found_before(tmp_path: Path) -> None:
    stage = Stage.build(tmp_path, {"calc.py": GOOD})
    stage.use_own_environment()
    stage.engine.calls(
        call(session(wrote("test_calc.py", TEST_ADD), wrote("calc.py", BAD), verdict("wrote the tests"))),
        call(session(wrote("calc.py", GOOD), verdict("mended"))),
    )
    outcome = stage.start(stage.task(), gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert len(stage.engine.invocations()) == 2
    assert "test_calc.py::test_add" in prompt_text(stage.engine.invocations()[1].stdin)


def test_a_task_on_the_tree_that_was_verified_runs_no_gates_before_its_engine(
    stage: Stage, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    stage.gate(f"echo x >> {runs}; test ! -e bad.py")
    stage.engine.calls(*(call(session(wrote(f"work{n}.py", "x = 1\n"), verdict("done"))) for n in range(2)))
    first = stage.start(stage.task(), gates=True)
    assert "Running the gates once before the engine starts: check." in first.told
    assert runs.read_text().count("x") == 2
    git(stage.repo, "add", "work0.py")
    git(stage.repo, "commit", "-qm", "the work")
    second = stage.start(stage.task(), gates=True)
    second.expect(0, "COMPLETED", None, "DONE")
    assert second.run.verification == "verified"
    assert "before the engine starts" not in second.told
    assert runs.read_text().count("x") == 3
