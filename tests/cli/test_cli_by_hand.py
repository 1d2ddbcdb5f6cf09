"""Work by hand: `cf work start ID` opens it, `cf work verify ID` judges it like an engine's (rule 8.1)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from codeframe.core.models import BlockerStatus, Run
from codeframe.core.store import Store
from codeframe.core.workspace import find_workspace
from tests.cli.conftest import Cf, refused
from tests.kit.repos import commit, git, write
from tests.kit.scenario import FakeEngine

# Red while a file `bad.txt` is there; the words name what is wrong.
GATE = "[{name: check, command: [sh, -c, 'test ! -e bad.txt || { echo bad.txt is bad; exit 1; }']}]"


@pytest.fixture
def gated(cf: Cf) -> Cf:
    cf("config", "set", "gates", GATE)
    return cf


def store(cf: Cf) -> Store:
    return find_workspace(cf.where).store


def latest(cf: Cf, task: str) -> Run:
    run = store(cf).runs.latest(task)
    assert run is not None
    return run


def status(cf: Cf, task: str) -> str:
    return store(cf).tasks.get(task).status.value


def opened(cf: Cf) -> str:
    task = cf.add("Write it")
    cf("work", "start", task)
    return task


def test_a_person_does_the_work_and_the_gates_verify_it(gated: Cf) -> None:
    task = gated.add("Write it")
    said = gated("work", "start", task)
    assert "Write it" in said.stdout
    assert "sh -c 'test ! -e bad.txt" in said.stdout
    assert "## Task" not in said.stdout  # an engine's prompt is for engines; where one can see it is said
    assert f"cf work start {task[:8]} --dry-run" in said.stderr
    assert "## Task" in gated("work", "start", task, "--dry-run").stdout
    for command in (f"cf work verify {task[:8]}", f"cf work stop {task[:8]}"):
        assert command in said.stderr
    run = latest(gated, task)
    assert (run.engine, run.kind.value, status(gated, task)) == ("manual", "manual", "IN_PROGRESS")
    write(gated.where, {"work.py": "x = 1\n"})
    assert "+x = 1" in gated("work", "diff", task).stdout  # while it is open
    done = gated("work", "verify", task)
    assert done.stdout.startswith("COMPLETED, verified; by hand;")
    assert status(gated, task) == "DONE"
    assert "+x = 1" in gated("work", "diff", task).stdout
    why = gated("work", "why", task).stdout
    assert "created work.py" in why
    assert "gate check: passed" in why
    (evidence,) = gated("work", "why", task, "--json").json()["rounds"]
    assert (evidence["reason"], evidence["changed"]) == ("by hand", 1)
    gated("commit", "create")
    assert git(gated.where, "show", "--format=%s", "--name-only") == "Write it\n\nwork.py"


def test_red_gates_close_it_as_failed_and_the_next_verify_judges_what_was_mended(gated: Cf) -> None:
    task = opened(gated)
    write(gated.where, {"work.py": "x = 1\n", "bad.txt": ""})
    said = gated("work", "verify", task, code=1)
    assert said.stdout.startswith("FAILED (gates)")
    assert "bad.txt is bad" in said.stdout
    assert f"cf work verify {task[:8]}" in said.stdout
    assert status(gated, task) == "FAILED"
    gated("work", "verify", task, code=1)  # nothing was mended
    (gated.where / "bad.txt").unlink()
    assert "COMPLETED, verified" in gated("work", "verify", task).stdout
    assert status(gated, task) == "DONE"
    assert store(gated).runs.with_leftovers() == []
    gated("work", "undo", task)
    assert not (gated.where / "work.py").exists()


def test_what_was_red_before_is_not_the_persons(gated: Cf) -> None:
    write(gated.where, {"bad.txt": ""})
    task = gated.add("Write it")
    write(gated.where, {".codeframe/config.yaml": f"gates: {GATE}\n"})
    gated("trust", "--yes")
    assert "Running the gates once before you begin: check." in gated("work", "start", task).stderr
    write(gated.where, {"work.py": "x = 1\n"})
    said = gated("work", "verify", task)
    assert "1 old failure left alone" in said.stderr


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ("mkdir .cache", ""),
        ("touch report.xml; git add report.xml; rm report.xml", "what is staged of report.xml"),
        ("chmod 600 README.md", "permissions of README.md"),
    ],
)
def test_what_gates_change_before_one_begins_is_named(cf: Cf, does: str, told: str) -> None:
    cf("config", "set", "gates", json.dumps([{"name": "check", "command": ["sh", "-c", does]}]))
    task = cf.add()
    said = cf("work", "start", task).stderr
    line = f"While they ran, this changed: {told}. It counts as the task's."
    assert line in said if told else "While they ran" not in said


def test_the_words_are_those_of_work_by_hand(gated: Cf) -> None:
    task = opened(gated)
    for command in (
        ["status"],
        ["work", "status"],
        ["work", "show", task],
        ["events"],
        ["work", "why", task],
    ):
        said = gated(*command).stdout
        assert "by hand" in said
        assert "manual" not in said
    assert "  -       " in gated("work", "show", task).stdout  # no tokens
    logs = gated("work", "logs", task)
    assert (logs.stdout, "cf work diff" in logs.stderr) == ("", True)
    assert gated("work", "stop", task).stdout.endswith(f"Start it: cf work start {task[:8]}\n")
    assert "cancelled" not in gated("work", "show", task).stdout
    gated("work", "start", task)
    write(gated.where, {"work.py": ""})
    commit(gated.where, "mine")
    gated("work", "verify", task)
    assert re.search("^  committed [0-9a-f]{7}", gated("work", "why", task).stdout, re.M)


def test_opening_runs_nothing_that_is_not_trusted(cf: Cf, tmp_path: Path) -> None:
    cf.trusting = False
    gates = [{"name": "check", "command": ["touch", str(tmp_path / "ran")]}]
    write(cf.where, {".codeframe/config.yaml": json.dumps({"gates": gates})})
    task = cf.add()
    assert "The gates are not trusted (cf trust)" in cf("work", "start", task).stderr
    write(cf.where, {"work.py": ""})
    refused(cf("work", "verify", task, code=5), "gate check (new)", "cf trust --yes")
    assert not (tmp_path / "ran").exists()
    cf("trust", "--yes")
    cf("work", "verify", task)
    assert (tmp_path / "ran").exists()


def test_without_a_change_there_is_nothing_to_verify_and_it_stays_open(gated: Cf) -> None:
    task = opened(gated)
    refused(gated("work", "verify", task, code=1), "Nothing has changed", f"cf work stop {task[:8]}")
    assert status(gated, task) == "IN_PROGRESS"


def test_a_commit_of_ones_own_is_a_change(gated: Cf) -> None:
    task = opened(gated)
    write(gated.where, {"work.py": "x = 1\n"})
    git(gated.where, "add", "work.py")
    git(gated.where, "commit", "-qm", "mine")
    gated("work", "verify", task)
    assert latest(gated, task).evidence["commits"]


def test_what_is_verified_can_be_committed_at_once(gated: Cf) -> None:
    task = opened(gated)
    write(gated.where, {"work.py": "x = 1\n", "bad.txt": "", "mine.txt": ""})
    before = git(gated.where, "rev-parse", "HEAD")
    red = gated("work", "verify", task, "--commit", "--json", code=1).json()
    assert (red["status"], red["commit"], git(gated.where, "rev-parse", "HEAD")) == ("FAILED", None, before)
    (gated.where / "bad.txt").unlink()
    assert gated("work", "verify", task, "--commit").stdout.endswith("Write it\n  mine.txt\n  work.py\n")
    assert git(gated.where, "show", "--format=%s", "--name-only") == "Write it\n\nmine.txt\nwork.py"
    own = opened(gated)
    commit(gated.where, "mine", {"own.py": "x = 1\n"})
    done = gated("work", "verify", own, "--commit")
    assert ("HEAD holds it already" in done.stderr, status(gated, own)) == (True, "DONE")
    assert git(gated.where, "show", "--format=%s", "-s") == "mine"


def test_what_is_not_verified_is_not_committed(cf: Cf) -> None:
    task = opened(cf)
    write(cf.where, {"work.py": "x = 1\n"})
    refused(cf("work", "verify", task, "--commit", "--no-gates", code=2), "--no-gates", "cf commit create")
    said = cf("work", "verify", task, "--commit", code=1)
    assert "COMPLETED, unverified" in said.stdout
    assert said.stderr.endswith(
        "cf: It is not committed, as it is unverified: no gate ran.\n"
        f"    To commit it all the same: cf commit create --task {task[:8]}\n"
    )
    assert git(cf.where, "status", "--porcelain") == "?? work.py"
    refused(cf("work", "start", cf.add(), "--commit", code=2), "--execute", "cf work verify", "--commit")


def test_stop_closes_it_and_keeps_the_work(gated: Cf) -> None:
    task = opened(gated)
    write(gated.where, {"work.py": "x = 1\n"})
    assert f"cf work start {task[:8]}" in gated("work", "stop", task).stdout
    assert (status(gated, task), latest(gated, task).status.value) == ("READY", "STOPPED")
    assert (gated.where / "work.py").exists()
    gated("work", "start", task)  # on with it
    write(gated.where, {"more.py": ""})
    gated("work", "verify", task)
    gated("work", "undo", task)
    assert git(gated.where, "status", "--porcelain") == ""


def test_one_that_did_nothing_leaves_nothing_behind(gated: Cf) -> None:
    gated("work", "stop", opened(gated))
    opened(gated)


def test_another_task_cannot_start_in_the_tree(
    gated: Cf, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", engine.path())
    task, other = opened(gated), gated.add("Other")
    start = ["work", "start", other, "--execute", "--engine", "claude-code", "--keep"]
    refused(
        gated(*start, code=1),
        "is being done by hand",
        f"cf work verify {task[:8]}",
        f"cf work stop {task[:8]}",
    )
    assert "is being done by hand" in gated("work", "start", other, code=1).stderr
    assert status(gated, other) == "READY"
    assert engine.invocations() == []


def test_no_command_takes_it_for_a_crash(gated: Cf) -> None:
    task = opened(gated)
    for args in (
        ["status"],
        ["work", "status"],
        ["work", "show", task],
        ["work", "why", task],
        ["tasks", "list"],
    ):
        assert "crash" not in (said := gated(*args)).stdout + said.stderr
    assert f"cf work verify {task[:8]}" in gated("work", "status").stdout
    refused(gated("work", "follow", task, code=1), "by hand", "cf work verify")
    refused(gated("work", "undo", task, code=1), "is running", "cf work stop")
    assert status(gated, task) == "IN_PROGRESS"


def test_opening_it_again_shows_the_prompt_again(gated: Cf) -> None:
    task = opened(gated)
    run = latest(gated, task)
    shown = gated("work", "start", task, "--json").json()
    assert (shown["run"]["id"], shown["task"]["status"]) == (run.id, "IN_PROGRESS")


def test_an_engine_takes_over_where_nothing_was_done(
    gated: Cf, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", engine.path())
    task = opened(gated)
    start = ["work", "start", task, "--execute", "--engine", "claude-code"]
    write(gated.where, {"work.py": ""})
    refused(gated(*start, code=1), "is being done by hand", "cf work verify")
    (gated.where / "work.py").unlink()
    gated(*start)
    assert status(gated, task) == "DONE"


def test_what_refuses_the_engine_leaves_the_run_by_hand_open(
    cf: Cf, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", engine.path())
    cf.trusting = False
    commit(cf.where, "servers", {".mcp.json": "{}"})
    task = opened(cf)
    said = cf("work", "start", task, "--execute", "--engine", "claude-code", code=5)
    assert "goes to the engine" not in said.stderr
    assert latest(cf, task).status.value == "RUNNING"


def test_a_retry_hands_failed_work_by_hand_to_an_engine(
    gated: Cf, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", engine.path())
    gated("config", "set", "engine", "claude-code")
    task = opened(gated)
    write(gated.where, {"bad.txt": ""})
    gated("work", "verify", task, code=1)
    gated("work", "retry", task, "--max-corrections", "0", code=1)
    assert "bad.txt is bad" in engine.invocations()[0].stdin.decode()


def test_verify_of_what_nobody_opened_is_refused(gated: Cf) -> None:
    refused(gated("work", "verify", gated.add(), code=1), "not being done by hand", "cf work start")


def test_no_gates_and_required_gates(cf: Cf) -> None:
    task = opened(cf)
    write(cf.where, {"work.py": ""})
    assert "FAILED, unverified (gates)" in cf("work", "verify", task, "--require-gates", code=1).stdout
    assert "COMPLETED, unverified" in cf("work", "verify", task, "--no-gates").stdout


def test_it_belongs_to_its_working_tree(gated: Cf) -> None:
    task = opened(gated)
    tree = gated.where.with_name("tree")
    git(gated.where, "worktree", "add", "-q", str(tree))
    refused(gated("work", "verify", task, code=1, where=tree), f"in the working tree {gated.where}")
    gated("work", "stop", task, "--force", where=tree)
    assert status(gated, task) == "READY"


def test_without_an_id_the_next_task_is_only_shown(gated: Cf) -> None:
    task = gated.add("Next")
    said = gated("work", "start")
    assert "Nothing was started." in said.stderr
    assert (status(gated, task), store(gated).runs.latest(task)) == ("READY", None)


def test_commits_pulled_from_others_are_neither_the_tasks_nor_undone(gated: Cf) -> None:
    git(gated.where.parent, "clone", "-q", gated.where.name, "theirs")
    theirs = gated.where.with_name("theirs")
    for name, value in (("user.name", "C"), ("user.email", "c@example.invalid")):
        git(theirs, "config", name, value)
    commit(theirs, "a colleague's", {"README.md": "theirs\n", "theirs.py": ""})
    task = opened(gated)
    git(gated.where, "pull", "-q", str(theirs), "main")
    assert "theirs" not in gated("work", "diff", task).stdout
    refused(gated("work", "verify", task, code=1), "Nothing has changed")
    write(gated.where, {"work.py": "x = 1\n"})
    said = gated("work", "verify", task).stdout
    assert "not the task's: modified README.md, created theirs.py" in said
    assert [r["files"] for r in store(gated).runs.rounds(latest(gated, task).id)] == [["created work.py"]]
    undone = gated("work", "undo", task)
    assert "git reset" not in undone.stdout + undone.stderr
    assert git(gated.where, "status", "--porcelain") == ""
    assert (gated.where / "README.md").read_text() == "theirs\n"


def test_what_is_begun_while_the_opening_gates_run_is_part_of_the_task(cf: Cf) -> None:
    # The gate itself writes what a person would: the two cannot be told apart.
    script = "test -e .git/ran || { touch .git/ran; echo x > work.py; exit 1; }; exit 1"
    cf("config", "set", "gates", json.dumps([{"name": "check", "command": ["sh", "-c", script]}]))
    task = cf.add("Write it")
    said = cf("work", "start", task).stderr
    assert "this changed: created work.py. It counts as the task's." in said
    assert "Whether check failed before that is not known" in said
    assert "1 new failure" in cf("work", "verify", task, code=1).stderr
    assert "created work.py" in cf("work", "why", task).stdout


TESTED = "def test_a():\n    assert 1 + 1 == 2\n"


@pytest.mark.parametrize("policy", ["report", "block"])
def test_checks_weakened_by_hand_are_told_and_block_as_an_engines(gated: Cf, policy: str) -> None:
    commit(gated.where, "a test", {"test_it.py": TESTED})
    write(gated.where, {".codeframe/config.yaml": f"gates: {GATE}\nintegrity: {policy}\n"})
    task = opened(gated)
    write(gated.where, {"test_it.py": "def test_a():\n    pass\n"})
    if policy == "report":
        assert "check changed: test_it.py:1: test_a: emptied" in gated("work", "verify", task).stdout
        return
    said = gated("work", "verify", task, code=3).stdout
    assert "this work changed the checks themselves: test_it.py:1: test_a: emptied. Is that wanted?" in said
    assert f"then: cf work verify {task[:8]}" in said
    gated("work", "verify", task, code=3)  # neither put right nor answered
    (blocker,) = store(gated).blockers.list(status=BlockerStatus.OPEN)
    assert f"cf work verify {task[:8]}" in gated("blocker", "answer", blocker.id, "yes").stdout
    assert "COMPLETED, verified" in gated("work", "verify", task).stdout
    assert store(gated).blockers.list(status=BlockerStatus.OPEN) == []
