"""`cf tasks`: the grammar of rule 10.4, what it prints, and that bad input changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codeframe.core.models import RunStatus, TaskStatus
from codeframe.core.workspace import find_workspace
from tests.cli.conftest import Cf, refused
from tests.kit.engines import run_cf
from tests.kit.repos import git
from tests.kit.scenario import FakeEngine

TASK_KEYS = [
    "id", "title", "description", "status", "priority", "depends_on", "engine", "created_at", "updated_at",
]  # fmt: skip
UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def everything(cf: Cf) -> str:
    return cf("tasks", "list", "--limit", "0", "--json").stdout


def test_add_prints_the_id_and_with_json_the_task(cf: Cf) -> None:
    said = cf("tasks", "add", "First").stdout
    assert re.fullmatch(r"[0-9a-f]{12}\n", said)
    task = cf("tasks", "add", "Second", "--json").json()
    assert list(task) == TASK_KEYS
    assert (task["title"], task["description"], task["status"], task["priority"]) == (
        "Second",
        "",
        "READY",
        0,
    )
    assert (task["depends_on"], task["engine"]) == ([], None)
    assert UTC.fullmatch(task["created_at"])
    assert UTC.fullmatch(task["updated_at"])


def test_add_takes_every_option(cf: Cf) -> None:
    first, second = cf.add("First"), cf.add("Second")
    task = cf(
        "tasks", "add", "Third", "--description", "- a\n- b", "--depends-on", first[:8], "--depends-on", second,
        "--priority", "-3", "--engine", "claude-code", "--backlog", "--json",
    ).json()  # fmt: skip
    assert task["description"] == "- a\n- b"
    assert task["depends_on"] == [first, second]
    assert (task["priority"], task["engine"], task["status"]) == (-3, "claude-code", "BACKLOG")


def test_a_description_comes_from_standard_input(cf: Cf) -> None:
    task = cf("tasks", "add", "T", "--description", "-", "--json", stdin="línea\r\ntwo\n".encode()).json()
    assert task["description"] == "línea\ntwo\n"


@pytest.mark.parametrize(
    ("args", "stdin", "said"),
    [
        ([""], b"", "needs a title"),
        ([" \t\n"], b"", "needs a title"),
        ([], b"", "needs TITLE"),
        (["x" * 501], b"", "at most 500 characters; this one has 501"),
        (["T", "--description", "-"], b"\xff\xfe", "Standard input is not UTF-8 text (byte 0)"),
        (["T", "--description", "-"], b"x" * 2_000_001, "Standard input is too long: at most 2 MB"),
        (["T", "--depends-on", "zzz"], b"", "No task starts with 'zzz'"),
        (["T", "--depends-on", ""], b"", "No task starts with ''"),
        (["T", "--priority", "high"], b"", "--priority takes a whole number"),
        (["T", "--priority", "1000001"], b"", "--priority takes a whole number"),
        (["T", "--engine", "claude"], b"", "Did you mean 'claude-code'?"),
        (["T", "--priorty", "1"], b"", "Did you mean --priority?"),
        (["Two", "words"], b"", "does not know what to do with “words”"),
    ],
)
def test_add_refuses_and_changes_nothing(cf: Cf, args: list[str], stdin: bytes, said: str) -> None:
    before = everything(cf)
    refused(cf("tasks", "add", *args, code=2, stdin=stdin), said)
    assert everything(cf) == before


def test_a_title_of_a_megabyte_is_refused_with_its_length(cf: Cf) -> None:
    task = cf.add("Short")
    refused(cf("tasks", "set", task, "title", "-", code=2, stdin=b"x" * 1_000_000), "this one has 1000000")
    assert cf("tasks", "show", task, "--json").json()["title"] == "Short"


def test_a_title_is_one_line(cf: Cf) -> None:
    task = cf("tasks", "add", "  two\n\tlines  ", "--json").json()
    assert task["title"] == "two lines"


def test_bytes_that_are_not_utf8_are_refused_wherever_text_is_kept(cf: Cf) -> None:
    task = cf.add("Good")
    bad = "bad \udcff"  # how Python hands on the byte 0xFF
    refused(cf("tasks", "add", bad, code=2), "The title is not UTF-8 text")
    refused(cf("tasks", "add", "T", "--description", bad, code=2), "The description is not UTF-8 text")
    refused(cf("tasks", "set", task, "title", bad, code=2), "The title is not UTF-8 text")
    refused(cf("tasks", "show", bad, code=2), "No task starts with 'bad \ufffd'")
    assert [t["title"] for t in cf("tasks", "list", "--json").json()] == ["Good"]


def test_list_is_plain_aligned_columns(cf: Cf) -> None:
    first = cf.add("First")
    second = cf.add("Second", "--depends-on", first, "--priority", "5")
    lines = cf("tasks", "list").stdout.splitlines()
    assert lines == [
        "ID        STATUS  PRIO  AFTER     TITLE",
        f"{second[:8]}  READY   5     {first[:8]}  Second",
        f"{first[:8]}  READY   0     -         First",
    ]


def test_list_is_cut_only_with_a_word(cf: Cf) -> None:
    for n in range(3):
        cf.add(f"T{n}")
    said = cf("tasks", "list", "--limit", "2")
    assert len(said.stdout.splitlines()) == 3
    assert said.stderr == "2 of 3 shown; --limit 0 shows all.\n"
    cut = cf("tasks", "list", "--limit", "2", "--json")
    assert (len(cut.json()), cut.stderr) == (2, said.stderr)
    assert cf("tasks", "list", "--limit", "0").stderr == ""


def test_list_by_state_in_any_case(cf: Cf) -> None:
    cf.add("A")
    cf.add("B", "--backlog")
    assert [t["title"] for t in cf("tasks", "list", "--status", "backlog", "--json").json()] == ["B"]
    none = cf("tasks", "list", "--status", "done")
    assert (none.stdout, none.stderr) == ("", "No task is DONE.\n")
    assert cf("tasks", "list", "--status", "done", "--json").json() == []
    refused(cf("tasks", "list", "--status", "nope", code=2), "There is no state “nope”", "BACKLOG")
    refused(cf("tasks", "list", "--limit", "-1", code=2), "--limit takes a whole number not below 0")


def test_an_empty_list_says_how_to_begin(cf: Cf) -> None:
    said = cf("tasks", "list")
    assert (said.stdout, said.stderr) == ("", 'No tasks. Add one: cf tasks add "what is to be done"\n')


def test_show(cf: Cf) -> None:
    first = cf.add("First")
    task = cf.add("Second", "--depends-on", first, "--description", "All\nof it", "--engine", "claude-code")
    said = cf("tasks", "show", task[:6]).stdout
    assert said.startswith("Second\n")
    for part in (task, "READY", "claude-code", f"{first[:8]} First", " UTC\n", "\n\nAll\nof it\n"):
        assert part in said
    assert list(cf("tasks", "show", task, "--json").json()) == TASK_KEYS


def test_ids_that_are_unknown_or_ambiguous(cf: Cf) -> None:
    ids = [cf.add(f"T{n}") for n in range(17)]  # 16 first characters: two begin alike
    first = next(c for c in "0123456789abcdef" if sum(i.startswith(c) for i in ids) > 1)
    alike = [i for i in ids if i.startswith(first)]
    said = cf("tasks", "show", first, code=2)
    refused(said, f"'{first}' could be any of these tasks", "Type more of the id", *alike)
    refused(cf("tasks", "show", "zz", code=2), "No task starts with 'zz'", "Type: cf tasks list")
    refused(cf("tasks", "show", code=2), "tasks show needs ID", "Type: cf tasks show ID")


def test_set_changes_one_field(cf: Cf) -> None:
    task = cf.add("Old", "--backlog")
    for field, value, kept in [
        ("status", "ready", "READY"), ("title", " New  title ", "New title"), ("description", "Words", "Words"),
        ("priority", "-7", -7), ("engine", "claude-code", "claude-code"), ("engine", "", None),
    ]:  # fmt: skip
        changed = cf("tasks", "set", task[:8], field, value, "--json").json()
        assert changed[field] == kept
    assert cf("tasks", "set", task, "priority", "1").stdout == f"{task[:8]}  READY  New title\n"
    assert (
        cf("tasks", "set", task, "description", "-", "--json", stdin=b"long").json()["description"] == "long"
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["status", "DONE"], 1, "cannot be set to DONE"),
        (["status", "IN_PROGRESS"], 1, "becomes IN_PROGRESS only when it is started"),
        (["status", "nope"], 2, "There is no state “nope”"),
        (["colour", "red"], 2, "A task has no field colour; it has status"),
        (["id", "x"], 2, "A task has no field id"),
        (["priority", "x"], 2, "priority takes a whole number"),
        (["title", " "], 2, "in a line"),
        (["engine", "nope"], 2, "There is no engine 'nope'"),
        (["title"], 2, "VALUE is missing"),
        ([], 2, "1 word came"),
        (["title", "a", "b"], 2, "4 words came"),
        (["title", "a", "--jsno"], 2, "tasks set has no option --jsno"),
    ],
)
def test_set_refuses_and_changes_nothing(cf: Cf, words: list[str], code: int, said: str) -> None:
    task = cf.add("Old")
    before = everything(cf)
    refused(cf("tasks", "set", task, *words, code=code), said)
    assert everything(cf) == before


def test_set_all(cf: Cf) -> None:
    for n in range(3):
        cf.add(f"T{n}", "--backlog")
    said = cf("tasks", "set", "--all", "--from", "BACKLOG", "status", "READY")
    assert said.stdout == "3 tasks changed.\n"
    again = cf("tasks", "set", "--all", "--from", "BACKLOG", "status", "READY", "--json")
    assert again.json() == {"changed": 0}
    for args in (
        ["--all", "status", "READY"],
        ["--all", "--from", "READY", "title", "x"],
        ["--from", "READY", "a", "b", "c"],
    ):
        refused(cf("tasks", "set", *args, code=2), "Type: cf tasks set --all --from BACKLOG status READY")
    refused(
        cf("tasks", "set", "--all", "--from", "READY", "status", "DONE", code=1),
        "cannot be set to DONE",
    )


@pytest.mark.parametrize(
    "words", [["{}", "status", "READY"], ["--all", "--from", "BLOCKED", "status", "READY"]]
)
def test_a_task_that_leaves_blocked_by_hand_waits_for_nobody(cf: Cf, words: list[str]) -> None:
    task = cf.add("First")
    store = find_workspace(cf.where).store
    run = store.runs.claim(task, engine="x")
    store.runs.finish(run.id, RunStatus.BLOCKED, TaskStatus.BLOCKED, blocker=("Which?", "question"))
    assert "Blocked: " in cf("status").stdout
    cf("tasks", "set", *(word.format(task) for word in words))
    assert "Blocked: " not in cf("status").stdout
    assert [b["status"] for b in cf("blocker", "list", "--all", "--json").json()] == ["RESOLVED"]


def test_hints_of_set_can_be_typed(cf: Cf) -> None:
    task = cf.add("First")
    refused(cf("tasks", "set", task, "foo", "bar", code=2), f"cf tasks set {task[:8]} priority 1")
    refused(cf("tasks", "set", task, "foo", code=2), f"cf tasks set {task} status READY")


def test_delete_asks_for_force_where_others_depend_on_it(cf: Cf) -> None:
    first = cf.add("First")
    second = cf.add("Second", "--depends-on", first)
    refused(
        cf("tasks", "delete", first, code=1),
        "Other tasks depend on",
        second,
        f"cf tasks delete {first[:8]} --force",
    )
    said = f"Deleted {first[:8]} “First”.\n{second[:8]} “Second” waits for it no longer.\n"
    assert cf("tasks", "delete", first, "--force").stdout == said
    assert [t["depends_on"] for t in cf("tasks", "list", "--json").json()] == [[]]
    refused(cf("tasks", "delete", first, code=2), "No task starts with")


def test_delete_removes_the_runs_folders_and_snapshots_and_leaves_the_tree(
    cf: Cf, engine: FakeEngine
) -> None:
    task = cf.add("First")
    other = cf.add("Other")
    for each in (task, other):
        run = run_cf(
            "work", "start", each, "--execute", "--engine", "claude-code", "--keep",
            cwd=cf.where, env={"PATH": engine.path()},
        )  # fmt: skip
        assert run.exit_code in (0, 1), run  # the second one finds the file there and changes nothing
    folders = next((cf.where / ".git" / "codeframe").glob("*/runs"))
    kept = cf("work", "show", other, "--json").json()["runs"]
    assert f"/{task}/" in git(cf.where, "for-each-ref")
    refused(cf("tasks", "delete", task, code=1), "snapshots", f"cf tasks delete {task[:8]} --force")
    assert f"/{task}/" in git(cf.where, "for-each-ref")
    cf("tasks", "delete", task, "--force")
    assert sorted(p.name for p in folders.iterdir()) == sorted(r["id"] for r in kept)
    refs = git(cf.where, "for-each-ref")
    assert f"/{task}/" not in refs
    assert f"/{other}/" in refs
    assert (cf.where / "a.py").read_text() == "x = 1\n"
    refused(cf("work", "show", task, code=2), "No task starts with")


def test_what_titles_hold_is_printed_without_effect(cf: Cf) -> None:
    evil = "red \x1b[31m \x9b2J \x1b]0;title\x07 \u202eabc\u202c [bold]x[/] \x08\x7f"
    task = cf.add(evil)
    other = cf.add("Other", "--depends-on", task)
    shown = "red    abc [bold]x[/]"
    for args in (["tasks", "list"], ["tasks", "show", task], ["status"], ["work", "show", task]):
        said = cf(*args).stdout
        assert shown in said
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", said)
    error = (
        cf("work", "start", other, "--execute", code=1).stderr + cf("tasks", "delete", task, code=1).stderr
    )
    assert error.count("[bold]x[/]") == 2
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", error)
    assert cf("tasks", "show", task, "--json").json()["title"] == evil.strip()


def test_tasks_are_the_same_from_subfolders_and_linked_worktrees(cf: Cf, tmp_path: Path) -> None:
    task = cf.add("First")
    (cf.where / "sub" / "deep").mkdir(parents=True)
    linked = tmp_path / "linked"
    git(cf.where, "worktree", "add", "-q", str(linked))
    for where in (cf.where / "sub" / "deep", linked):
        assert cf("tasks", "list", "--json", where=where).json()[0]["id"] == task


def editor(folder: Path, script: str) -> str:
    file = folder / "an editor"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return f"'{file}' --wait"


def test_edit_takes_title_and_description_from_the_editor(
    cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = cf.add("Old", "--description", "some words")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor(tmp_path, """sed -i 's/Old/New/; s/some/other/' "$2" """))
    assert "New" in cf("tasks", "edit", task).stdout
    shown = cf("tasks", "show", task, "--json").json()
    assert (shown["title"], shown["description"]) == ("New", "other words")
    before = everything(cf)
    assert "Nothing changed" in cf("tasks", "edit", task).stderr
    for script, code in ((': > "$2"', 0), ("exit 3", 1), ("""printf '\\377' > "$2" """, 1)):
        monkeypatch.setenv("EDITOR", editor(tmp_path, script))
        cf("tasks", "edit", task, code=code)
    monkeypatch.setenv("VISUAL", "no-such-editor")
    refused(cf("tasks", "edit", task, code=1), "no-such-editor")
    assert everything(cf) == before


def test_depend_adds_and_removes_and_refuses_circles_whole(cf: Cf) -> None:
    first, second, third = cf.add("First"), cf.add("Second"), cf.add("Third")
    assert "waits for" in cf("tasks", "depend", third, first, second).stdout
    assert sorted(cf("tasks", "show", third, "--json").json()["depends_on"]) == sorted([first, second])
    cf("tasks", "depend", second, first)
    before = everything(cf)
    refused(cf("tasks", "depend", first, third, code=2), "cycle", "First", "Third")
    fourth = cf.add("Fourth")
    before = everything(cf)
    refused(cf("tasks", "depend", first, fourth, second, code=2), "cycle")
    refused(cf("tasks", "depend", fourth, fourth, code=2), "cycle")
    refused(cf("tasks", "depend", fourth, "ffff", code=2))
    assert everything(cf) == before
    assert "waits for nothing" in cf("tasks", "depend", third, first, second, "--remove").stdout


def test_what_was_typed_in_an_editor_is_never_thrown_away(
    cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = cf.add("Old")
    monkeypatch.delenv("VISUAL", raising=False)
    for script in ("""printf '%0600d\\nlong work' 0 > "$2" """, """echo 'long work' > "$2"; exit 3"""):
        monkeypatch.setenv("EDITOR", editor(tmp_path, script))
        said = cf("tasks", "edit", task, code=2 if "%0600d" in script else 1).stderr
        kept, then, hint = said.rsplit("What you typed is in ", 1)[1].partition(" now. ")  # not run together
        assert "long work" in Path(kept).read_text()
        assert (then, hint[:1].isupper()) == (" now. ", True)
    monkeypatch.setenv("EDITOR", editor(tmp_path, """rm "$2"; mkfifo "$2" """))
    refused(cf("tasks", "edit", task, code=1), "cannot be read")
