"""`cf engines`: what is there and ready, what one can and lacks (rules 1.2, 5.7, 10.1)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cf
from tests.kit import codex_runs as codex
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.repos import write
from tests.kit.scenario import Call, FakeEngine, call, err, leave, out

LOGGED_IN = call(out('{"loggedIn": true}'), argv=["auth", "status"], stdin="ignore", probe=True)


@pytest.fixture
def claude(cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """A fake `claude`, logged in, alone on PATH but for what the system has."""
    fake = FakeEngine(tmp_path / "person", "claude").calls(LOGGED_IN)
    monkeypatch.setenv("PATH", fake.path())
    return fake


def listed(cf: Cf, name: str, **where: Path) -> dict[str, Any]:
    engines = cf("engines", "list", "--json", **where).json()["engines"]
    return next(engine for engine in engines if engine["name"] == name)


def questions(engine: FakeEngine, *argv: str) -> int:
    return sum(each.argv == [*argv] for each in engine.invocations(probes=True))


# -- list -------------------------------------------------------------------------------------------


def test_a_list_shows_version_and_state_and_asks_a_program_once(cf: Cf, claude: FakeEngine) -> None:
    first = cf("engines", "list")
    assert "   claude-code  2.1.197  ready          Claude Code, by its" in first.stdout
    assert "   codex        -        not installed  Codex, by its" in first.stdout
    assert "*  built-in     -        not set up     CodeFrame" in first.stdout
    assert first.stderr == "Asking programs not seen before for their versions, once.\n"
    second = cf("engines", "list")
    assert (second.stdout, second.stderr) == (first.stdout, "")
    assert questions(claude, "--version") == 1
    assert questions(claude, "auth", "status") == 0  # a login is for `check` to ask for


def test_a_list_as_json_has_what_is_missing_and_capabilities(cf: Cf, claude: FakeEngine) -> None:
    engine = listed(cf, "claude-code")
    assert list(engine) == [
        "name", "description", "origin", "version", "ready", "missing", "program", "capabilities", "chosen"
    ]  # fmt: skip
    assert (engine["version"], engine["ready"], engine["missing"]) == ("2.1.197", True, [])
    assert engine["program"] == str(claude.executable)
    assert engine["capabilities"] == {
        "resume": True, "preassigned_session": True, "structured_verdict": True, "stdin_prompt": True,
        "cost": True, "terminal_signal": "event", "verdict_line": False,
    }  # fmt: skip
    absent = listed(cf, "codex")
    assert (absent["version"], absent["ready"], absent["missing"]) == (None, False, ["codex on PATH"])


def test_a_list_starts_nothing_that_lies_in_the_repository(cf: Cf, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = FakeEngine(cf.where / "node_modules", "claude")
    monkeypatch.setenv("PATH", theirs.path())
    (cf.where / "sub").mkdir()
    for where in (cf.where, cf.where / "sub"):
        assert listed(cf, "claude-code", where=where)["version"] is None
    (cf.where.parent / "link").mkdir()
    (cf.where.parent / "link" / "claude").symlink_to(theirs.executable)
    monkeypatch.setenv("PATH", f"{cf.where.parent / 'link'}:{theirs.path().partition(':')[2]}")
    assert listed(cf, "claude-code")["version"] is None
    assert theirs.invocations(probes=True) == []


def test_neither_list_nor_check_starts_what_a_configuration_declares(
    cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = FakeEngine(tmp_path / "person", "my-agent")
    monkeypatch.setenv("PATH", mine.path())
    engines = {"mine": {"command": ["my-agent", "{prompt_file}"], "tested": "1.0"}}
    write(cf.where, {".codeframe/config.yaml": json.dumps({"engines": engines})})
    assert (listed(cf, "mine")["version"], listed(cf, "mine")["ready"]) == (None, True)
    cf("engines", "check", "mine")
    assert mine.invocations(probes=True) == []


def test_a_run_tells_the_version_so_that_nobody_asks(
    cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = call(session(wrote("a.py", "x = 1\n"), verdict("made a.py")))
    engine = FakeEngine(tmp_path / "person", "claude").calls(run)
    monkeypatch.setenv("PATH", engine.path())
    cf("work", "start", cf.add(), "--execute", "--engine", "claude-code")
    assert listed(cf, "claude-code")["version"] == "2.1.197"
    assert questions(engine, "--version") == 0


# -- check ------------------------------------------------------------------------------------------


def test_a_check_says_all_there_is_to_know(cf: Cf, claude: FakeEngine) -> None:
    assert cf("engines", "check", "claude-code").stdout.splitlines() == [
        f"ok     claude on PATH ({claude.executable})",
        "ok     logged in",
        "ok     version 2.1.197 (tested with 2.1.197)",
        "can    go on in a session, report by a schema, tell what it costs",
        "limit  autonomy workspace: what shell commands change is not confined to the workspace",
        "limit  network off: its web tools are gone; what shell commands reach is not enforced",
        "claude-code is ready.",
    ]
    checked = cf("engines", "check", "claude-code", "--json").json()
    assert (checked["engine"], checked["version"], checked["tested"]) == (
        "claude-code",
        "2.1.197",
        "2.1.197",
    )
    assert checked["unenforced"][1]["options"] == {"network": "off"}
    assert checked["mend"] == []


def test_what_it_cannot_enforce_is_said_in_a_run_in_the_same_words(
    cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = call(session(wrote("a.py", "x = 1\n"), verdict("made a.py")))
    engine = FakeEngine(tmp_path / "person", "claude").calls(run, LOGGED_IN)
    monkeypatch.setenv("PATH", engine.path())
    limits = cf("engines", "check", "claude-code", "--json").json()["unenforced"]
    said = cf(
        "work", "start", cf.add(), "--execute", "--engine", "claude-code", "--network", "off"
    ).stderr  # fmt: skip
    for limit in limits:
        assert said.count(limit["words"]) == 1


def test_an_older_version_is_a_warning_and_a_newer_one_is_none(
    cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version, warned in (("1.0.44", True), ("2.1.3", False), ("3.0.0", False)):
        engine = FakeEngine(tmp_path / version, "claude", f"{version} (Claude Code)").calls(LOGGED_IN)
        monkeypatch.setenv("PATH", engine.path())
        said = cf("engines", "check", "claude-code").stdout
        assert (f"warning  version {version} is older than 2.1.197" in said) is warned
        assert (f"version {version} (tested with 2.1.197)" in said) is not warned
        assert said.endswith("claude-code is ready.\n")


def test_a_check_asks_for_the_version_anew(cf: Cf, claude: FakeEngine) -> None:
    cf("engines", "list")
    cf("engines", "check", "claude-code")
    assert questions(claude, "--version") == 2


def sandboxed(*sandbox: Any) -> Call:
    return call(*sandbox, argv=["sandbox", "--", "true"], stdin="ignore", probe=True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only its sandbox on Linux is known")
def test_a_sandbox_that_cannot_start_a_command_is_no_ready_engine(
    cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = codex.fake_codex(tmp_path)
    account = call(codex.greeted(), argv=["app-server"], stdin="ignore")
    broken = sandboxed(err("bwrap: Creating new namespace failed: Operation not permitted"), leave(1))
    engine.calls(account, broken)
    monkeypatch.setenv("PATH", engine.path())
    said = cf("engines", "check", "codex", code=5).stdout
    assert "broken  its sandbox: it cannot start a command (bwrap: Creating new namespace failed" in said
    assert said.splitlines()[-1].startswith("codex is not ready. ")
    (mend,) = cf("engines", "check", "codex", "--json", code=5).json()["mend"]
    assert mend == "cf config set autonomy full" or mend.startswith("sudo sysctl -w ")
    cf("config", "set", "autonomy", "full")  # no run needs it then
    assert cf("engines", "check", "codex").stdout.endswith("codex is ready.\n")
    engine.calls(account, sandboxed())
    assert "ok      its sandbox: works\n" in cf("engines", "check", "codex").stdout


def test_a_live_check_is_not_begun_where_something_is_missing(cf: Cf, claude: FakeEngine) -> None:
    claude.calls(
        call(out('{"loggedIn": false}'), leave(1), argv=["auth", "status"], stdin="ignore", probe=True)
    )
    said = cf("engines", "check", "claude-code", "--live", code=5)
    assert "missing  logged in\n" in said.stdout
    assert "temporary" not in said.stderr
    assert claude.invocations() == []
