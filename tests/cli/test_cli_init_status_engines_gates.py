"""`cf init`, `cf status`, `cf engines` and `cf gates`."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from codeframe.core.workspace import find_workspace
from tests.cli.conftest import Cf, refused
from tests.kit.engines import run_cf, start_cf
from tests.kit.repos import git, make_repo, write
from tests.kit.scenario import FakeEngine, call, leave, out
from tests.kit.waiting import wait_until

# -- init -------------------------------------------------------------------------------------------


def test_init_adds_nothing_that_git_shows_and_can_be_done_again(
    cf: Cf, git_home: Path, tmp_path: Path
) -> None:
    other = make_repo(tmp_path / "other", {"ruff.toml": "", "a.py": ""})
    first = cf("init", where=other).stdout
    assert first.startswith(f"{other} is now a workspace.\n")
    assert "  gate   ruff: " in first
    assert first.endswith('Next: cf tasks add "what is to be done"\n')
    before = cf("status", "--json", where=other).json()
    assert cf("init", where=other).stdout.startswith(f"{other} is already a workspace.\n")
    assert cf("status", "--json", where=other).json() == before
    assert git(other, "status", "--porcelain", "--ignored") == "!! .codeframe/"


def test_init_detect_records_the_stack(cf: Cf, git_home: Path, tmp_path: Path) -> None:
    other = make_repo(tmp_path / "other", {"pyproject.toml": "[project]\nname = 'x'\n"})
    assert "  stack  Python" in cf("init", "--detect", where=other).stdout
    assert "Python" in cf("config", "show", "--json", where=other).json()["tech_stack"]
    assert "nothing here says what it is built with" in cf("init", "--detect").stdout


def test_init_says_when_there_are_no_gates(cf: Cf) -> None:
    assert "none found: work would be unverified" in cf("init").stdout


def test_init_makes_a_repository_only_when_told(cf: Cf, outside: Path) -> None:
    refused(cf("init", code=2, where=outside), "Type: cf init --git-init")
    refused(cf("init", "--detect", code=2, where=outside), "Type: cf init --git-init --detect")
    assert list(outside.iterdir()) == []
    cf("init", "--git-init", where=outside)
    task = cf("tasks", "add", "First", where=outside).stdout.strip()
    assert cf("tasks", "show", task, "--json", where=outside).json()["title"] == "First"


def test_init_in_a_subfolder_of_a_workspace_makes_no_second_one_unless_asked(cf: Cf) -> None:
    sub = cf.where / "sub"
    sub.mkdir()
    cf.add("Outer")
    refused(cf("init", code=2, where=sub), f"{sub} lies in the workspace {cf.where}", "cf init --nested")
    assert not (sub / ".codeframe").exists()
    assert len(cf("tasks", "list", "--json", where=sub).json()) == 1
    assert cf("init", "--nested", where=sub).stdout.startswith(f"{sub} is now a workspace.\n")
    assert cf("tasks", "list", "--json", where=sub).json() == []
    assert cf("init", where=sub).stdout.startswith(f"{sub} is already a workspace.\n")
    assert len(cf("tasks", "list", "--json").json()) == 1


def test_init_in_a_subfolder_of_a_repository_says_which_folder_it_was(
    cf: Cf, git_home: Path, tmp_path: Path
) -> None:
    top = make_repo(tmp_path / "other", {"api/a.py": ""})
    said = cf("init", where=top / "api").stdout.splitlines()
    assert said[0] == f"{top / 'api'} is now a workspace."
    assert (
        said[1] == f"It is a folder of the repository {top}. For a workspace of all of it: cf -C {top} init"
    )
    assert "workspace of all" not in cf("init", where=top / "api").stdout + cf("init", where=top).stdout


# -- status -----------------------------------------------------------------------------------------


def test_status_of_an_empty_workspace(cf: Cf) -> None:
    assert cf("status").stdout == f'Workspace {cf.where}\nNext: cf tasks add "what is to be done"\n'


def test_status_says_what_there_is_and_what_to_type_next(cf: Cf, monkeypatch: pytest.MonkeyPatch) -> None:
    cf("config", "set", "engine", "claude-code")
    monkeypatch.setenv("PATH", os.path.dirname(shutil.which("git") or ""))
    cf("prd", "add", "-", stdin=b"# A calculator\n")
    first = cf.add("First")
    cf.add("Second", "--depends-on", first, "--priority", "9")
    cf.add("Third", "--backlog")
    question = find_workspace(cf.where).store.blockers.add(first, None, "Which?")
    *said, missing, hint = cf("status").stdout.splitlines()
    assert missing.startswith("  Engine claude-code cannot run here; missing: ")
    assert hint.startswith("  ")
    assert said == [
        f"Workspace {cf.where}",
        "Requirement: A calculator",
        "BACKLOG  1",
        "READY    2",
        f"Blocked: {first[:8]} Which?",
        f'  Answer: cf blocker answer {question.id[:8]} "…"',
        f"Next: cf work start {first[:8]} --execute    (“First”)",
    ]
    assert cf("status", "--json").json() == {
        "workspace": str(cf.where),
        "id": find_workspace(cf.where).id,
        "tasks": {
            "BACKLOG": 1,
            "READY": 2,
            "IN_PROGRESS": 0,
            "DONE": 0,
            "FAILED": 0,
            "BLOCKED": 0,
            "MERGED": 0,
        },
        "running": [],
        "open_blockers": [question.id],
        "next_ready": first,
        "prd": "A calculator",
    }


# -- engines ----------------------------------------------------------------------------------------


def test_engines_list_says_which_would_run_and_why(cf: Cf, monkeypatch: pytest.MonkeyPatch) -> None:
    said = cf("engines", "list").stdout
    assert "claude-code  " in said
    assert said.endswith("\nbuilt-in would run here (the default).\n")
    monkeypatch.setenv("CODEFRAME_ENGINE", "nowhere")
    said = cf("engines", "list").stdout
    assert "nowhere would run here (CODEFRAME_ENGINE), but it is not there." in said
    assert "cf config set engine built-in" in said
    monkeypatch.setenv("CODEFRAME_ENGINE", "claude-code")
    said = cf("engines", "list").stdout
    assert "\n*  claude-code  " in said
    assert said.endswith("claude-code would run here (CODEFRAME_ENGINE).\n")
    listed = cf("engines", "list", "--json").json()
    assert list(listed) == ["engines", "chosen", "why", "problems"]
    assert [(e["name"], e["chosen"]) for e in listed["engines"]] == [
        ("aider", False), ("built-in", False), ("claude-code", True), ("codex", False),
        ("kilocode", False), ("opencode", False),
    ]  # fmt: skip


def test_engines_list_outside_of_a_workspace(cf: Cf, outside: Path) -> None:
    assert "would run here" not in cf("engines", "list", where=outside).stdout
    listed = cf("engines", "list", "--json", where=outside).json()
    assert (listed["chosen"], listed["why"]) == (None, "no workspace here")


def test_engines_list_does_not_hang_on_a_pipe_named_agents_md(cf: Cf) -> None:
    os.mkfifo(cf.where / "AGENTS.md")
    assert cf("engines", "list", "--json").json()["why"] == "the default"


def test_engines_check(cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = cf("engines", "check", "claude-code", code=5)
    assert "missing  claude on PATH\n" in missing.stdout
    assert "claude-code is not ready. Install it: npm" in missing.stdout
    assert "/login" in missing.stdout  # which comes next
    checked = cf("engines", "check", "claude-code", "--json", code=5).json()
    assert (checked["engine"], checked["ready"]) == ("claude-code", False)
    assert checked["requirements"]["claude on PATH"] is False
    refused(cf("engines", "check", "claude", code=2), "Did you mean 'claude-code'?", "Type: cf engines list")


def test_engines_check_says_how_to_log_in(cf: Cf, tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, "claude").calls(
        call(out('{"loggedIn": false}'), leave(1), argv=["auth", "status"], stdin="ignore", probe=True)
    )
    said = run_cf("engines", "check", "claude-code", cwd=cf.where, env={"PATH": engine.path()})
    assert said.exit_code == 5
    assert "missing  logged in\n" in said.stdout
    assert "/login" in said.stdout
    engine.calls(call(out('{"loggedIn": true}'), argv=["auth", "status"], stdin="ignore", probe=True))
    said = run_cf("engines", "check", "claude-code", cwd=cf.where, env={"PATH": engine.path()})
    assert (said.exit_code, said.stdout.splitlines()[-1]) == (0, "claude-code is ready.")


# -- gates ------------------------------------------------------------------------------------------


def declare(cf: Cf, script: str, name: str = "check") -> None:
    """A gate that runs a Python script of the project."""
    write(cf.where, {"check.py": script})
    cf("config", "set", "gates", f"[{{name: {name}, command: [{sys.executable}, check.py]}}]")


def test_gates_list(cf: Cf) -> None:
    none = cf("gates", "list")
    assert none.stdout == ""
    assert none.stderr.startswith("No gates found: work would be unverified.")
    assert cf("gates", "list", "--json").json() == []
    declare(cf, "")
    assert cf("gates", "list").stdout == f"check: {sys.executable} check.py\n"
    (gate,) = cf("gates", "list", "--json").json()
    assert gate == {"name": "check", "runs": f"{sys.executable} check.py", "missing": False, "why": ""}


def test_gates_list_says_why_a_gate_was_found_and_how_to_turn_ruff_on(cf: Cf) -> None:
    write(cf.where, {"test_a.py": "def test_a(): pass\n"})
    said = cf("gates", "list")
    assert said.stdout.endswith("-m pytest  (found: test_a.py)\n")
    assert said.stderr.startswith(
        "ruff: not a gate, as nothing here asks for it; to turn it on, add [tool.ruff]"
    )
    write(cf.where, {"pyproject.toml": "[tool.ruff]\n"})
    said = cf("gates", "list")
    assert said.stdout.startswith("ruff: ruff check  (found: [tool.ruff] in pyproject.toml)\n")
    assert said.stderr == ""
    assert [gate["why"] for gate in cf("gates", "list", "--json").json()][1] == "test_a.py"


def test_gates_list_names_a_tool_that_is_missing(cf: Cf) -> None:
    cf("config", "set", "gates", "[{name: check, command: no-such-tool}]")
    assert cf("gates", "list").stdout.startswith("check: cannot run: no-such-tool")
    assert cf("gates", "list", "--json").json()[0]["missing"] is True


def test_gates_run(cf: Cf) -> None:
    declare(cf, "print('fine')")
    good = cf("gates", "run")
    assert good.stdout.startswith("check: passed, ")
    assert good.stderr == "Running check.\n"
    write(cf.where, {"check.py": "import sys\nsys.exit('it is \\x1b[31mwrong')"})
    bad = cf("gates", "run", code=1)
    assert bad.stdout.startswith("check: failed, ")
    assert "it is wrong" in bad.stdout
    assert "\x1b" not in bad.stdout
    shown = cf("gates", "run", "--json", code=1).json()
    assert (shown["status"], shown["gates"][0]["outcome"]) == ("failed", "failed")
    state = find_workspace(cf.where).state_dir
    assert list(state.glob("gates-*")) == []


def test_gates_run_says_what_to_type_where_a_tool_is_missing(cf: Cf) -> None:
    bare = cf.where / ".venv" / "bin" / "python"
    bare.parent.mkdir(parents=True)
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    write(cf.where, {"test_a.py": "def test_a(): pass\n"})
    said = cf("gates", "run", code=5).stdout
    cf("config", "set", "gates", "[{name: check, command: no-such-tool}]")
    assert "no-such-tool is not there" in cf("gates", "run", code=5).stdout
    assert ".venv/bin/python has no pytest; type: .venv/bin/python -m pip install pytest" in said


def test_gates_run_without_gates(cf: Cf) -> None:
    said = cf("gates", "run")
    assert (said.stdout, said.stderr[:15]) == ("", "No gates found:")


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_gates_run_is_interrupted_with_the_signals_status(cf: Cf, name: str, status: int) -> None:
    declare(cf, "import pathlib, time\npathlib.Path('here').touch()\ntime.sleep(60)")
    process = start_cf("gates", "run", cwd=cf.where)
    wait_until((cf.where / "here").exists)
    process.send_signal(signal.Signals[name])
    _, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert err == "Running check.\nInterrupted.\n"
