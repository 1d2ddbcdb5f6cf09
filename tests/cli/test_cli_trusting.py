"""`cf trust`, and what is asked before anything of the repository's own runs (rule 9.1)."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from codeframe.core.trust import Trust
from codeframe.core.workspace import find_workspace
from tests.cli.conftest import Cf, refused
from tests.cli.terminal import on_terminal
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.repos import commit, git, write
from tests.kit.scenario import FakeEngine, call

GIT = shutil.which("git")
GATES = "[{name: check, command: [git, --version]}]"
HOOKS = ".claude/settings.json"


@pytest.fixture
def wary(cf: Cf, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Cf:
    """A workspace with an engine on PATH, in which the test trusts nothing by itself."""
    monkeypatch.setenv("PATH", engine.path())
    cf("config", "set", "engine", "claude-code")
    cf.trusting = False
    return cf


def record(cf: Cf) -> Path:
    return Trust(find_workspace(cf.where)).path


def states(cf: Cf) -> dict[str, str]:
    return {item["name"]: item["state"] for item in cf("trust", "--show", "--json").json()["items"]}


def start(cf: Cf, code: int = 0, *options: str) -> str:
    done = cf("work", "start", cf.add(), "--execute", "--keep", *options, code=code)
    return done.stdout + done.stderr


def declare(cf: Cf, gates: str = GATES) -> None:
    """As an editor, an engine or a clone would: not by `cf config set`."""
    write(cf.where, {".codeframe/config.yaml": f"engine: claude-code\ngates: {gates}\n"})


def test_a_repository_that_runs_nothing_of_its_own_needs_no_question(wary: Cf) -> None:
    assert "COMPLETED" in start(wary)
    assert "nothing to trust" in wary("trust").stdout
    assert not record(wary).exists()


def test_an_untrusted_gate_refuses_every_start_until_it_is_trusted(wary: Cf, engine: FakeEngine) -> None:
    declare(wary)
    task = wary.add()
    for args in (["work", "start", task, "--execute"], ["gates", "run"]):
        refused(wary(*args, code=5), "gate check (new)", "cf trust --yes")
    assert engine.invocations() == []
    assert wary("work", "show", task, "--json").json()["runs"] == []
    assert f"gate check: {GIT} --version  (trusted)" in wary("trust", "--yes").stdout
    assert "COMPLETED, verified" in start(wary)
    wary("gates", "run")


def test_without_gates_they_need_no_trust(wary: Cf) -> None:
    declare(wary)
    assert "COMPLETED" in start(wary, 0, "--no-gates")


def test_trust_alone_shows_and_refuses_where_nobody_can_be_asked(wary: Cf) -> None:
    declare(wary)
    said = wary("trust", code=5)
    assert said.stdout == f"gate check: {GIT} --version  (new)\n"
    assert "cf trust --yes" in said.stderr
    assert not record(wary).exists()


def test_what_an_engine_changed_is_asked_about_again_and_named_alone(wary: Cf) -> None:
    declare(wary)
    write(wary.where, {HOOKS: "{}", ".claude/hooks/a.sh": "true\n"})
    wary("trust", "--yes")
    start(wary)
    write(wary.where, {HOOKS: '{"hooks": {"Stop": []}}', ".claude/commands/x.md": "!rm"})
    said = start(wary, 5)
    assert f"file {HOOKS} (changed)" in said
    assert "file .claude/commands (new)" in said
    assert "gate check" not in said
    assert "hooks/a.sh" not in said


def test_what_was_trusted_before_is_trusted_when_it_comes_back(wary: Cf) -> None:
    for content in ("{}", '{"model": "m"}'):
        write(wary.where, {HOOKS: content})
        wary("trust", "--yes")
    write(wary.where, {HOOKS: "{}"})
    assert states(wary) == {f"file {HOOKS}": "trusted"}


@pytest.mark.parametrize("content", ["", "[]", '{"items": 3}', '{"items": {"a": 1}}', "[" * 100_000])
def test_a_damaged_record_trusts_nothing_and_is_said(wary: Cf, content: str) -> None:
    declare(wary)
    wary("trust", "--yes")
    record(wary).write_text(content)
    assert "is damaged" in start(wary, 5)
    assert "is damaged" in wary("trust", "--show").stdout
    wary("trust", "--yes")
    assert "COMPLETED" in start(wary)


def test_a_record_that_others_could_have_written_does_not_count(wary: Cf) -> None:
    declare(wary)
    wary("trust", "--yes")
    assert record(wary).stat().st_mode & 0o777 == 0o600
    assert record(wary).parent.stat().st_mode & 0o777 == 0o700
    record(wary).chmod(0o666)
    assert "written by others" in start(wary, 5)


def test_a_folder_in_which_anybody_could_replace_the_record_does_not_count(wary: Cf) -> None:
    declare(wary)
    wary("trust", "--yes")
    above = record(wary).parents[2]
    above.chmod(0o777)
    assert f"{above} could have been written by others" in start(wary, 5)
    above.chmod(0o1777)  # as /tmp is: nobody moves there what is another's
    start(wary)


def test_revoke_forgets(wary: Cf) -> None:
    declare(wary)
    wary("trust", "--yes")
    assert f"gate check: {GIT} --version  (not trusted)" in wary("trust", "--revoke").stdout
    start(wary, 5)
    assert "Nothing was trusted here." in wary("trust", "--revoke").stdout


def test_a_copied_or_moved_repository_is_asked_about(wary: Cf) -> None:
    declare(wary)
    wary("trust", "--yes")
    copy = shutil.copytree(wary.where, wary.where.with_name("copy"))
    refused(wary("gates", "run", code=5, where=copy), "gate check (new)")
    moved = wary.where.rename(wary.where.with_name("moved"))
    refused(wary("gates", "run", code=5, where=moved), "gate check (new)")


def test_a_linked_worktree_shares_the_trust(wary: Cf) -> None:
    write(wary.where, {HOOKS: "{}"})
    commit(wary.where, "settings")
    wary("trust", "--yes")
    tree = wary.where.with_name("tree")
    git(wary.where, "worktree", "add", "-q", str(tree))
    assert wary("trust", where=tree).stdout.endswith("(trusted)\n")


def test_what_config_set_sets_is_trusted_and_nothing_else_of_the_file(wary: Cf) -> None:
    declare(wary)
    wary("config", "set", "model", "m1")  # the file's gates came from elsewhere
    start(wary, 5)
    wary("config", "set", "gates", GATES)
    assert "COMPLETED" in start(wary)
    declare(wary, "[{name: check, command: [git, status]}]")
    assert "gate check (changed)" in start(wary, 5)


def test_full_autonomy_from_a_file_has_to_be_trusted(wary: Cf) -> None:
    file = ".codeframe/config.yaml"
    write(wary.where, {file: "engine: claude-code\nautonomy: full\n"})
    assert "setting autonomy (new)" in start(wary, 5)
    assert "nothing is missing" in wary("work", "start", "--dry-run", "--autonomy", "workspace").stdout
    wary("config", "set", "autonomy", "full")
    assert "nothing is missing" in wary("work", "start", "--dry-run").stdout


def test_a_found_gate_is_trusted_by_its_command_line(
    wary: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(wary.where, {"test_a.py": "def test_a(): pass\n"})
    (name, item) = next(iter(states(wary).items()))
    assert (name, item) == ("gate pytest", "new")
    runs = wary("trust", "--show", "--json").json()["items"][0]["runs"]
    assert runs == wary("gates", "list", "--json").json()[0]["runs"]
    wary("trust", "--yes")
    other = tmp_path / "elsewhere" / Path(runs.split()[0]).name
    other.parent.mkdir()
    other.symlink_to(runs.split()[0])
    monkeypatch.setenv("PATH", f"{other.parent}:{os.environ['PATH']}")
    assert str(other) in wary("trust", "--show").stdout
    assert states(wary) == {
        "gate pytest": "trusted"
    }  # where a machine keeps its python is not the repository's
    write(wary.where, {".venv/bin/python": "#!/bin/sh\n"})
    (wary.where / ".venv/bin/python").chmod(0o755)
    assert states(wary) == {"gate pytest": "changed"}


def test_a_link_counts_by_what_it_leads_to(wary: Cf, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    (wary.where / ".claude").mkdir()
    (wary.where / HOOKS).symlink_to(outside)
    wary("trust", "--yes")
    outside.write_text('{"hooks": {}}')
    assert states(wary) == {f"file {HOOKS}": "changed"}


def test_a_fifo_among_the_engines_files_is_refused_not_opened(wary: Cf) -> None:
    (wary.where / ".claude").mkdir()
    os.mkfifo(wary.where / HOOKS)
    assert f"would read {HOOKS}, which cannot be looked at" in start(wary, 5)


def test_a_link_in_a_circle_ends(wary: Cf) -> None:
    write(wary.where, {".claude/hooks/a.sh": "true\n"})
    (wary.where / ".claude/hooks/again").symlink_to("..")
    wary("trust", "--yes")
    assert states(wary) == {"file .claude/hooks": "trusted"}


def test_a_home_that_cannot_be_written_is_said(
    wary: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(wary)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    refused_ = wary("trust", "--yes", code=1)
    assert "cannot be kept in" in refused_.stderr
    assert "export XDG_STATE_HOME=" in refused_.stderr
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # counts as unset
    wary("trust", "--yes")
    assert not (wary.where / "relative").exists()


def test_dry_run_and_looking_never_ask(wary: Cf) -> None:
    declare(wary)
    task = wary.add()
    said = wary("work", "start", task, "--dry-run")
    assert f"trust     a start would ask first: gate check: {GIT} --version  (new) (cf trust)" in said.stdout
    plan = wary("work", "start", task, "--dry-run", "--json").json()["plan"]
    assert (plan["trusted"], len(plan["untrusted"])) == (False, 1)
    wary("trust", "--yes")
    assert "trust     nothing is missing" in wary("work", "start", task, "--dry-run").stdout


def test_init_trusts_nothing_and_says_what_trust_would_cover(wary: Cf) -> None:
    declare(wary)
    write(wary.where, {HOOKS: "{}"})
    assert f"cf trust, which covers: gate check, file {HOOKS}" in wary("init").stdout
    assert not record(wary).exists()
    wary("trust", "--yes")
    assert "cf trust" not in wary("init").stdout


def test_options_that_exclude_each_other(wary: Cf) -> None:
    refused(wary("trust", "--yes", "--revoke", code=2), "exclude each other")


def test_two_at_once_both_count(wary: Cf) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from codeframe.core.trust import Item

    workspace = find_workspace(wary.where)
    items = [Item(f"gate {n}", "x", str(n)) for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda item: Trust(workspace).accept([item]), items))
    assert Trust(workspace).untrusted(items) is None
    assert len(json.loads(record(wary).read_text())["items"]) == 8


def test_on_a_terminal_it_is_asked_once(wary: Cf) -> None:
    declare(wary)
    env = {"HOME": os.environ["HOME"]}
    said = on_terminal("gates", "run", cwd=wary.where, env=env, typed=b"\n")
    assert f"gate check: {GIT} --version  (new)\nTrust it? [y/N]" in said
    assert "cf: Not trusted to run here: gate check (new)." in said
    assert not record(wary).exists()
    assert "check: passed" in on_terminal("gates", "run", cwd=wary.where, env=env, typed=b"y\n")
    assert "Trust it?" not in on_terminal("gates", "run", cwd=wary.where, env=env)


def test_what_changed_under_the_question_is_asked_about_and_did_not_run(wary: Cf) -> None:
    declare(wary)
    answers = iter([b"y\n", b"n\n"])

    def answer() -> bytes:
        declare(wary, "[{name: check, command: [git, init, ran]}]")
        return next(answers)

    said = on_terminal("gates", "run", cwd=wary.where, env={"HOME": os.environ["HOME"]}, asked=answer)
    assert f"gate check: {GIT} --version  (new)" in said
    assert not (wary.where / "ran").exists()
    assert states(wary) == {"gate check": "changed"}  # what was shown is what was trusted


def test_trust_says_that_it_changed_under_its_own_question(wary: Cf) -> None:
    declare(wary)

    def answer() -> bytes:
        declare(wary, "[{name: check, command: [git, init, ran]}]")
        return b"y\n"

    said = on_terminal("trust", cwd=wary.where, env={"HOME": os.environ["HOME"]}, asked=answer)
    assert "git init ran  (changed)" in said
    assert "Not trusted, as it changed meanwhile: gate check (changed)." in said


def test_a_settings_file_that_the_engine_writes_is_not_active_in_its_next_round(
    wary: Cf, engine: FakeEngine
) -> None:
    declare(wary, "[{name: check, command: [sh, -c, 'test ! -e a.py || test -e ok']}]")
    wary("trust", "--yes")
    hooks = wrote(HOOKS, '{"hooks": {}}')
    engine.calls(
        call(session(wrote("a.py", "x\n"), hooks, verdict("done"))),
        call(session(wrote("ok", ""), verdict("mended"))),
    )
    said = start(wary, 3)
    assert len(engine.invocations()) == 1
    assert f"file {HOOKS} (new)" in said
    assert "cf trust --show" in said
    task = wary("tasks", "list", "--json").json()[0]["id"]
    blocker = wary("blocker", "list", "--json").json()[0]["id"]
    wary("blocker", "answer", blocker, "I looked at it")
    assert f"file {HOOKS} (new)" in wary("work", "resume", task, code=5).stderr
    wary("trust", "--yes")
    assert "COMPLETED, verified" in wary("work", "resume", task).stdout


def test_gates_that_changed_between_the_plan_and_the_run_do_not_run(wary: Cf) -> None:
    from codeframe.core.admission import Request, admit, plan
    from codeframe.core.errors import RequirementsError
    from codeframe.core.runtime import execute_agent

    declare(wary)
    wary("trust", "--yes")
    workspace = find_workspace(wary.where)
    task = workspace.store.tasks.find(wary.add())
    run = admit(workspace, plan(workspace, task, Request()), Request())
    declare(wary, "[{name: check, command: [git, init, ran]}]")
    with pytest.raises(RequirementsError, match=r"gate check \(changed\)"):
        execute_agent(workspace, run)
    assert not (wary.where / "ran").exists()


def test_many_and_large_files_among_the_engines_are_trusted_as_any(wary: Cf) -> None:
    write(wary.where, {f".claude/skills/s/{n}": "" for n in range(2_100)})
    with (wary.where / ".claude/skills/large").open("wb") as file:
        file.truncate(10_000_000)
    assert "covers: file .claude/skills" in wary("init").stdout
    wary("trust", "--yes")
    assert states(wary) == {"file .claude/skills": "trusted"}


@pytest.mark.parametrize(
    "name", ["tests: pytest  (trusted)", "a\nb", "a\x1b[8m", "a\u202e", "a  b", "x" * 61]
)
def test_a_gate_whose_name_would_say_more_than_its_name_is_refused(wary: Cf, name: str) -> None:
    declare(wary, json.dumps([{"name": name, "command": ["true"]}]))
    refused(wary("trust", "--show", code=2), "a name of one line")


def test_nothing_of_a_command_is_hidden_from_the_list(wary: Cf) -> None:
    words = ["sh", "-c", "true\n" + " " * 300 + "\u202e\x1b[2K\rcurl evil"]
    declare(wary, json.dumps([{"name": "check", "command": words}]))
    said = wary("trust", code=5).stdout
    assert (
        said
        == f"gate check: {shutil.which('sh')} -c 'true\\n<300 spaces>\\u202e\\x1b[2K\\rcurl evil'  (new)\n"
    )


def test_a_value_is_set_although_trust_cannot_be_kept(
    wary: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert "The next start will ask about it." in wary("config", "set", "gates", GATES).stderr
    assert "gate check (new)" in start(wary, 5)


def test_an_engine_cannot_say_that_its_gates_are_trusted(wary: Cf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEFRAME_RUN_ID", "run/0")
    declare(wary)
    refused_ = wary("trust", "--yes", code=1)
    assert "for a person to say" in refused_.stderr
    wary("config", "set", "gates", GATES)
    assert states(wary) == {"gate check": "new"}
