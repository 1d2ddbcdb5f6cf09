"""`cf work start` without --execute and with --dry-run, and what is refused before a run exists."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

from codeframe.core.models import TaskStatus
from codeframe.core.workspace import find_workspace
from tests.cli.conftest import Cf, refused
from tests.kit.repos import git, write
from tests.kit.scenario import FakeEngine


@pytest.fixture
def on_path(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    monkeypatch.setenv("PATH", engine.path())
    return engine


def state(cf: Cf) -> tuple[list[str], str, str, str, list[tuple[str, bytes]]]:
    """Everything a command may not change: rows, refs, HEAD and index, files of the state folder, files."""
    folder = find_workspace(cf.where).state_dir
    with sqlite3.connect(folder / "state.db") as db:
        rows = list(db.iterdump())
    kept = sorted(str(p) for p in (cf.where / ".git" / "codeframe").rglob("*") if "state.db" not in p.name)
    files = [
        (str(p), p.read_bytes()) for p in sorted(cf.where.rglob("*")) if p.is_file() and ".git" not in p.parts
    ]
    return rows, git(cf.where, "for-each-ref"), git(cf.where, "status", "--porcelain"), "\n".join(kept), files


def test_start_alone_of_a_task_that_may_not_begin_says_why_and_writes_nothing(cf: Cf) -> None:
    write(cf.where, {"dirty.txt": "uncommitted"})
    cf("prd", "add", "-", stdin=b"# A calculator\n")
    done = cf.add("Earlier")
    task = cf.add("Add a total", "--description", "In total.py", "--depends-on", done)
    before = state(cf)
    said = cf("work", "start", task, code=1)
    assert said.stdout == ""  # it would look as if it had begun
    assert "depends on work that is not done" in said.stderr
    assert state(cf) == before


def test_start_alone_needs_no_engine_and_takes_the_next_ready_task(
    cf: Cf, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(cf.where, {"AGENTS.md": "Use tabs."})
    cf.add("Later")
    cf.add("Urgent", "--priority", "5")
    cf.add("Not approved", "--backlog", "--priority", "9")
    shown = cf("work", "start", "-m", "Mind the overflow", "--json").json()
    assert list(shown) == ["task", "prompt", "plan"]
    assert (shown["task"]["title"], shown["plan"]) == ("Urgent", None)
    for part in ("Urgent", "Use tabs.", "Mind the overflow"):
        assert part in shown["prompt"]


def test_dry_run_shows_the_whole_plan_and_writes_nothing(cf: Cf, on_path: FakeEngine) -> None:
    task = cf.add("Add a total")
    cf("config", "set", "gates", f"[{{name: check, command: [{sys.executable}, --version]}}]")
    before = state(cf)
    options = ["--engine", "claude-code", "--model", "m1", "--timeout", "15m", "--max-corrections", "1"]
    said = cf("work", "start", task, "--dry-run", *options).stdout
    for part in (
        f"task      {task[:8]} Add a total\n",
        "engine    claude-code (--engine), model m1\n",
        "limits    15m in all, 10m of silence, 1 correction\n",
        f"gate      check: {sys.executable} --version\n",
        f"snapshot  refs/codeframe/{find_workspace(cf.where).id}/{task}/",
        "## How to work",
    ):
        assert part in said
    plan = cf("work", "start", task, "--dry-run", "--execute", "--json", *options).json()["plan"]
    assert list(plan) == [
        "engine",
        "engine_why",
        "kind",
        "options",
        "gates",
        "snapshot",
        "tree",
        "trusted",
        "untrusted",
    ]
    assert (plan["engine"], plan["engine_why"], plan["kind"]) == ("claude-code", "--engine", "start")
    assert (plan["options"]["timeout_s"], plan["options"]["model"]) == (900.0, "m1")
    assert plan["gates"] == [f"check: {sys.executable} --version"]
    assert plan["tree"] == str(cf.where)
    assert state(cf) == before
    assert on_path.invocations() == []


def test_no_corrections_are_said_to_be_none(cf: Cf, on_path: FakeEngine) -> None:
    cf.add("T")
    said = cf("work", "start", "--dry-run", "--engine", "claude-code", "--max-corrections", "0").stdout
    assert " of silence, no corrections\n" in said


def test_no_gates_leaves_them_out_of_the_prompt(cf: Cf) -> None:
    cf.add("T")
    cf("config", "set", "gates", "[{name: my-check, command: [git, --version]}]")
    assert "my-check" in cf("work", "start").stdout
    assert "my-check" not in cf("work", "start", "--no-gates").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--timeout", "0"], "The duration '0' has to be more than zero"),
        (["--timeout", "soon"], "'soon' is not a duration"),
        (["--stall-timeout", "-5"], "'-5' is not a duration"),
        (["--stall-action", "panic"], "--stall-action is blocker, retry or fail, not “panic”"),
        (["--autonomy", "half"], "--autonomy is workspace or full, not “half”"),
        (["--network", "maybe"], "--network is on or off, not “maybe”"),
        (["--max-corrections", "many"], "--max-corrections takes a whole number from 0 to 1000"),
        (["-m", "\udcff"], "The message is not UTF-8 text"),
        (["--model", "\udcff"], "The model is not UTF-8 text"),
        (["--execute", "--engine", "claude"], "Did you mean 'claude-code'?"),
        (["extra"], "does not know what to do with “extra”"),
    ],
)
def test_start_refuses_options_that_make_no_sense(cf: Cf, options: list[str], said: str) -> None:
    task = cf.add("T")
    before = state(cf)
    refused(cf("work", "start", task, *options, code=2), said)
    assert state(cf) == before


def test_the_default_engine_without_a_key_says_what_it_needs(cf: Cf, monkeypatch: pytest.MonkeyPatch) -> None:
    cf.add("T")
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    refused(
        cf("work", "start", "--execute", code=5),
        "Engine built-in cannot run here; missing: ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN or ANTHROPIC_BASE_URL.",
        "export ANTHROPIC_API_KEY",
        "or choose another engine: cf engines list",
    )


def test_an_engine_that_went_away_is_named_with_who_chose_it(cf: Cf, monkeypatch: pytest.MonkeyPatch) -> None:
    cf.add("T")
    monkeypatch.setenv("CODEFRAME_ENGINE", "claude-cod")
    refused(
        cf("work", "start", "--execute", code=5),
        "There is no engine 'claude-cod'. There are: aider, built-in, claude-code, codex, kilocode, "
        "opencode, react. "
        "Did you mean 'claude-code'? It was chosen by CODEFRAME_ENGINE.",
    )


def test_an_engine_whose_program_is_missing(cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cf.add("T")
    git_only = tmp_path / "bin"
    git_only.mkdir()
    (git_only / "git").symlink_to(Path(git(cf.where, "--exec-path")) / "git")
    monkeypatch.setenv("PATH", str(git_only))
    refused(
        cf("work", "start", "--execute", "--engine", "claude-code", code=5),
        "Engine claude-code cannot run here; missing: claude on PATH.",
        "Install it: npm install -g @anthropic-ai/claude-code",
    )


def test_a_declared_gate_that_is_missing_refuses_the_start(cf: Cf, on_path: FakeEngine) -> None:
    cf.add("T")
    cf("config", "set", "gates", "[{name: check, command: no-such-tool}]")
    before = state(cf)
    refused(
        cf("work", "start", "--execute", "--engine", "claude-code", code=5), "no-such-tool is not installed"
    )
    assert state(cf) == before


def test_no_task_is_ready(cf: Cf) -> None:
    refused(cf("work", "start", code=1), "No task is ready.", "Type: cf tasks list")


def test_dependencies_that_are_not_done_are_named(cf: Cf, on_path: FakeEngine) -> None:
    first = cf.add("First")
    task = cf.add("Second", "--depends-on", first)
    for option in ("--execute", "--dry-run"):
        refused(
            cf("work", "start", task, option, "--engine", "claude-code", code=1),
            f"{first[:8]} “First” (READY)", f"cf work start {first[:8]} --execute; or add --force",
        )  # fmt: skip
    cf("work", "start", task, "--dry-run", "--force", "--engine", "claude-code")


@pytest.mark.parametrize(
    ("status", "said", "hint"),
    [
        (TaskStatus.DONE, "is done already", "cf tasks set {} status READY"),
        (TaskStatus.FAILED, "failed before", "cf work retry {}"),
        (TaskStatus.BLOCKED, "is blocked", "cf work resume {}"),
    ],
)
def test_a_task_in_another_state_is_refused_with_the_way_on(
    cf: Cf, status: TaskStatus, said: str, hint: str
) -> None:
    from codeframe.core.models import RunStatus

    task = cf.add("T")
    runs = find_workspace(cf.where).store.runs
    run = runs.claim(task, engine="claude-code")
    ended = {TaskStatus.DONE: RunStatus.COMPLETED, TaskStatus.BLOCKED: RunStatus.BLOCKED}
    runs.finish(run.id, ended.get(status, RunStatus.FAILED), status)
    refused(
        cf("work", "start", task, "--execute", code=3 if status is TaskStatus.BLOCKED else 1),
        f"Task {task[:8]} {said}",
        hint.format(task[:8]),
    )


@pytest.mark.parametrize("verb", ["resume", "retry"])
def test_nothing_to_go_on_with(cf: Cf, verb: str) -> None:
    task = cf.add("T")
    refused(
        cf("work", verb, task, code=1),
        f"has never run; there is nothing to {verb}",
        f"cf work show {task[:8]}",
    )


@pytest.mark.parametrize("view", ["why", "diff", "logs"])
def test_nothing_to_look_at(cf: Cf, view: str) -> None:
    task = cf.add("T")
    refused(cf("work", view, task, code=1), f"Task {task[:8]} has not run yet", f"cf work show {task[:8]}")
    refused(cf("work", view, task, "--run", "abc", code=2), "No run starts with 'abc'")
    refused(cf("work", view, "zz", code=2), "No task starts with 'zz'")


def test_nothing_to_stop_or_undo(cf: Cf) -> None:
    task = cf.add("T")
    refused(cf("work", "stop", task, code=1), f"Task {task[:8]} is not running", "cf work status")
    refused(
        cf("work", "undo", task, code=1), f"Task {task[:8]} has no run to undo", f"cf work show {task[:8]}"
    )
    assert cf("work", "status").stdout == "Nothing is running.\n"
    assert cf("work", "status", "--json").json() == {"running": [], "blockers": []}
    assert f"Start it: cf work start {task[:8]} --execute" in cf("work", "show", task).stdout


def test_the_command_a_preview_names_has_the_options_that_were_typed(cf: Cf) -> None:
    task = cf.add()
    options = ("--network", "off", "--autonomy", "full", "-m", "be careful", "--timeout", "10m", "--strict")
    said = cf(
        "work", "start", task, *options, "--dry-run", "--engine", "claude-code", "--no-gates", code=5
    ).stderr
    said = cf("work", "start", *options).stderr
    assert (
        f"cf work start {task[:8]} --execute -m 'be careful' --timeout 10m --strict --autonomy full --network off"
        in said
    )
