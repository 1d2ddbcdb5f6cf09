"""An engine that makes the checks pass by changing the checks (rule 6.5)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hostile.stage import Stage, prompt_text
from tests.kit.claude_runs import ran, session, verdict, wrote
from tests.kit.repos import write
from tests.kit.scenario import call

pytestmark = pytest.mark.engine  # at length, with the real tools (make test-engines)

TEST = "from calc import add\n\ndef test_add():\n    assert add(2, 3) == 5\n"
EMPTY = "from calc import add\n\ndef test_add():\n    pass\n"
EMPTIED = "test_calc.py:3: test_add: emptied"


def checked_stage(folder: Path, policy: str, command: str = "true") -> Stage:
    stage = Stage.build(folder, {"test_calc.py": TEST, "pyproject.toml": "[tool.ruff]\nline-length = 80\n"})
    gate = {"name": "check", "command": ["sh", "-c", command]}
    write(stage.repo, {".codeframe/config.yaml": json.dumps({"gates": [gate], "integrity": policy})})
    return stage


def test_what_was_done_to_the_checks_is_reported_and_blocks_nothing(tmp_path: Path) -> None:
    stage = checked_stage(tmp_path, "report")
    stage.engine.calls(
        call(
            session(
                wrote("test_calc.py", EMPTY),
                wrote("work.py", "x = 1  # noqa\n"),
                ran("sed -i.bak s/80/320/ pyproject.toml; rm pyproject.toml.bak"),
                verdict("done"),
            )
        )
    )
    task = stage.task()
    outcome = stage.start(task, gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert len(stage.engine.invocations()) == 1
    why = stage.why(task)
    shown = stage.cf("work", "show", task.id).stdout
    for line in (
        EMPTIED,
        "work.py:1: # noqa added: x = 1 # noqa",
        "pyproject.toml: tool.ruff.line-length: 80 -> 320",
    ):
        for told in (outcome.told, shown, why):
            assert f"Note: check changed: {line}" in told
        assert f"\n  check changed: {line}" in why
    assert [row["kind"] for row in outcome.run.evidence["integrity"]] == ["setting", "test", "suppression"]


def test_under_block_it_is_sent_back_once_and_what_is_restored_counts(tmp_path: Path) -> None:
    stage = checked_stage(tmp_path, "block")
    stage.engine.calls(
        call(session(wrote("test_calc.py", EMPTY), wrote("work.py", "x = 1\n"), verdict("done"))),
        call(session(wrote("test_calc.py", TEST), verdict("restored"))),
    )
    outcome = stage.start(stage.task(), gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    said = prompt_text(stage.engine.invocations()[1].stdin)
    assert EMPTIED in said
    assert "say why in your summary" in said
    assert "check changed" not in outcome.told


def test_under_block_what_remains_is_a_question_and_the_answer_lets_it_through(tmp_path: Path) -> None:
    stage = checked_stage(tmp_path, "block")
    stage.engine.calls(
        call(session(wrote("test_calc.py", EMPTY), wrote("work.py", "x = 1\n"), verdict("done"))),
        call(session(verdict("the task asks for it"))),
        call(session(wrote("work.py", "x = 2\n"), verdict("went on"))),
    )
    task = stage.task()
    outcome = stage.start(task, gates=True)
    outcome.expect(3, "BLOCKED", "gates", "BLOCKED")
    assert len(stage.engine.invocations()) == 2
    assert EMPTIED in outcome.told
    outcome.check_work_kept("work.py", "x = 1\n")
    (blocker,) = stage.workspace.store.blockers.list(task_id=task.id)
    assert stage.cf("blocker", "answer", blocker.id, "yes, it is wanted").exit_code == 0
    outcome = stage.again("resume", task)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert f"Note: check changed: {EMPTIED}" in outcome.told


def test_a_retry_does_not_launder_what_the_run_before_did_to_the_checks(tmp_path: Path) -> None:
    stage = checked_stage(tmp_path, "block", "! grep -q wrong work.py")
    stage.engine.calls(
        call(session(wrote("test_calc.py", EMPTY), wrote("work.py", "wrong\n"), verdict("done"))),
        call(session(wrote("work.py", "right\n"), verdict("mended"))),
    )
    task = stage.task()
    stage.start(task, "--max-corrections", "0", gates=True).expect(1, "FAILED", "gates", "FAILED")
    outcome = stage.again("retry", task)
    outcome.expect(3, "BLOCKED", "gates", "BLOCKED")
    assert EMPTIED in outcome.told


def test_an_engine_that_rewrites_the_gates_of_the_next_run_is_told_of(tmp_path: Path) -> None:
    stage = checked_stage(tmp_path, "report")
    stage.engine.calls(
        call(
            session(
                wrote(".codeframe/config.yaml", "gates: []\n"), wrote("work.py", "x = 1\n"), verdict("ok")
            )
        )
    )
    outcome = stage.start(stage.task(), gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert "Note: check changed: .codeframe/config.yaml: gates: removed" in outcome.told
