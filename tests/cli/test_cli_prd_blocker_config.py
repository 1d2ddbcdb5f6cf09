"""`cf prd`, `cf blocker` and `cf config`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codeframe.core.workspace import find_workspace
from tests.cli.conftest import Cf, refused

UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


# -- prd --------------------------------------------------------------------------------------------


def test_prd_add_takes_a_file_and_its_first_heading_as_title(cf: Cf) -> None:
    (cf.where / "prd.md").write_text("\n# A calculator\n\nIt adds.\n")
    said = cf("prd", "add", "prd.md").stdout
    assert re.fullmatch(r"[0-9a-f]{8}  A calculator\n", said)
    assert cf("prd", "show").stdout == "\n# A calculator\n\nIt adds.\n"
    shown = cf("prd", "show", "--json").json()
    assert list(shown) == ["id", "title", "content", "created_at"]
    assert UTC.fullmatch(shown["created_at"])


def test_prd_add_reads_standard_input_and_keeps_the_earlier_ones(cf: Cf) -> None:
    first = cf("prd", "add", "-", "--title", "One", "--json", stdin=b"first").json()
    cf("prd", "add", "-", stdin="zwölf\n".encode())
    assert cf("prd", "show").stdout == "zwölf\n"
    assert cf("prd", "show", first["id"][:6]).stdout == "first\n"
    assert [line.split("  ")[2] for line in cf("prd", "show", "--all").stdout.splitlines()] == [
        "zwölf",
        "One",
    ]
    assert [p["title"] for p in cf("prd", "show", "--all", "--json").json()] == ["zwölf", "One"]


def test_the_requirement_in_force_is_not_added_again(cf: Cf) -> None:
    first = cf("prd", "add", "-", stdin=b"# A\n\nx\n").stdout
    again = cf("prd", "add", "-", stdin=b"# A\n\nx\n")
    assert again.stdout == first
    assert "in force already" in again.stderr
    assert len(cf("prd", "show", "--all").stdout.splitlines()) == 1


def test_prd_add_resolves_its_file_like_git_with_dash_c(cf: Cf, tmp_path: Path) -> None:
    (cf.where / "docs").mkdir()
    (cf.where / "docs" / "prd.md").write_text("Inside")
    cf("-C", "project", "-C", "docs", "prd", "add", "prd.md", where=tmp_path)
    assert cf("prd", "show").stdout == "Inside\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "The requirement is empty"),
        (b" \n#\n \n", "The requirement is empty"),
        (b"caf\xe9", "is not UTF-8 text (byte 3)"),
        (b"x" * 2_000_001, "is too long: at most 2 MB"),
    ],
)
def test_prd_add_refuses_and_changes_nothing(cf: Cf, content: bytes, said: str) -> None:
    (cf.where / "prd.md").write_bytes(content)
    refused(cf("prd", "add", "prd.md", code=2), said)
    assert cf("prd", "show", "--all", "--json").json() == []


def test_prd_errors_say_what_to_type(cf: Cf) -> None:
    refused(cf("prd", "add", "nope.md", code=2), "nope.md does not exist", "Name a text file, or -")
    refused(cf("prd", "add", ".", code=2), ". is not a file")
    refused(cf("prd", "show", code=2), "No requirement has been added", "Type: cf prd add FILE")
    refused(cf("prd", "show", "abc", code=2), "No PRD starts with 'abc'", "Type: cf prd show --all")
    refused(cf("prd", "add", code=2), "prd add needs FILE|-")
    assert "Add one: cf prd add FILE" in cf("prd", "show", "--all").stderr


# -- blocker ----------------------------------------------------------------------------------------


@pytest.fixture
def blocker(cf: Cf) -> str:
    """The id of an open question of a task."""
    task = cf.add("First")
    store = find_workspace(cf.where).store
    return store.blockers.add(task, None, "SQLite \x1b[31mor\nPostgres?").id


def test_blocker_list(cf: Cf, blocker: str) -> None:
    header, row = cf("blocker", "list").stdout.splitlines()
    assert header.split() == ["ID", "TASK", "KIND", "STATUS", "SINCE", "QUESTION"]
    assert row.startswith(blocker[:8])
    assert row.endswith("SQLite or Postgres?")
    (shown,) = cf("blocker", "list", "--json").json()
    assert list(shown) == [
        "id", "task_id", "run_id", "kind", "status", "question", "answer", "created_at", "answered_at",
    ]  # fmt: skip
    assert UTC.fullmatch(shown["created_at"])
    assert shown["answered_at"] is None


def test_blocker_answer_then_show_and_list_all(cf: Cf, blocker: str) -> None:
    assert f'cf blocker answer {blocker[:8]} "…"' in cf("blocker", "show", blocker[:5]).stdout
    said = cf("blocker", "answer", blocker[:8], "SQLite").stdout
    assert re.fullmatch(r"Answered\. Start it: cf work start [0-9a-f]{8} --execute\n", said)
    assert "Answer: SQLite\n" in cf("blocker", "show", blocker).stdout
    answered = cf("blocker", "answer", blocker, "-", "--json", stdin=b"Postgres\n").json()
    assert (answered["status"], answered["answer"]) == ("ANSWERED", "Postgres\n")
    assert cf("blocker", "list").stderr == "Nothing waits for a person.\n"
    assert [b["id"] for b in cf("blocker", "list", "--all", "--json").json()] == [blocker]


def test_blocker_errors_change_nothing(cf: Cf, blocker: str) -> None:
    refused(
        cf("blocker", "answer", blocker, "  ", code=2),
        "The answer is empty",
        f"cf blocker answer {blocker[:8]} ",
    )
    refused(cf("blocker", "answer", blocker, "-", code=2, stdin=b"\xff"), "not UTF-8")
    refused(cf("blocker", "answer", blocker, code=2), "blocker answer needs TEXT|-")
    refused(
        cf("blocker", "answer", "zz", "x", code=2), "No blocker starts with 'zz'", "Type: cf blocker list"
    )
    refused(cf("blocker", "show", "zz", code=2), "No blocker starts with 'zz'")
    assert cf("blocker", "show", blocker, "--json").json()["status"] == "OPEN"


def test_a_resolved_blocker_takes_no_answer(cf: Cf, blocker: str) -> None:
    find_workspace(cf.where).store.blockers.resolve(blocker)
    refused(cf("blocker", "answer", blocker, "x", code=1), "is resolved", "Type: cf blocker list")


def test_a_person_holds_a_task_back_until_a_question_is_settled(cf: Cf) -> None:
    task = cf.add("First")

    def status() -> str:
        return str(cf("tasks", "show", task, "--json").json()["status"])

    first = cf("blocker", "create", task, "Which colour?", "--json").json()
    assert (first["run_id"], first["kind"], first["status"]) == (None, "question", "OPEN")
    second = cf("blocker", "create", task[:8], "-", stdin=b"Which size?\n").stdout[:8]
    assert status() == "BLOCKED"
    refused(cf("work", "start", task, "--execute", code=3), "is blocked")
    cf("blocker", "resolve", second)
    assert status() == "BLOCKED"
    cf("blocker", "answer", first["id"], "Blue")
    assert status() == "READY"
    assert "Blue" in cf("work", "start").stdout  # the prompt of the next task
    refused(cf("blocker", "create", task, " ", code=2), "The question is empty")
    refused(cf("tasks", "set", task, "status", "BLOCKED", code=1), "cf blocker create")
    refused(cf("tasks", "set", "--all", "--from", "READY", "status", "BLOCKED", code=1), "cf blocker create")
    assert status() == "READY"


# -- config -----------------------------------------------------------------------------------------


def test_config_show_names_every_setting_and_whether_it_was_set(cf: Cf) -> None:
    cf("config", "set", "timeout", "15m")
    cf("config", "set", "strict", "yes")
    rows = {line.split()[0]: line.split()[1:] for line in cf("config", "show").stdout.splitlines()}
    assert rows["timeout"] == ["set", "15m"]
    assert rows["strict"] == ["set", "true"]
    assert rows["stall_timeout"] == ["default", "10m"]
    shown = cf("config", "show", "--json").json()
    assert shown["timeout"] == "15m"
    assert shown["strict"] is True
    assert set(shown) == set(rows)


def test_config_set_takes_an_engine_that_is_there_only(cf: Cf) -> None:
    for key in ("engine", "default_engine"):
        refused(
            cf("config", "set", key, "claude", code=2),
            "There is no engine 'claude'",
            "Did you mean 'claude-code'?",
        )
    assert not (cf.where / ".codeframe" / "config.yaml").exists()
    assert cf("config", "set", "engine", "claude-code").stdout == "engine: claude-code\n"
    assert cf("config", "show", "--json").json()["engine"] == "claude-code"
    assert cf("engines", "list", "--json").json()["chosen"] == "claude-code"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["enginee", "x"], "Did you mean `engine`?"),
        (["timeout", "0"], "`timeout` has to be a duration"),
        (["timeout", "never"], "Type: cf config set timeout 1h"),
        (["strict", "perhaps"], "`strict` has to be true or false"),
        (["gates", "[{name: x}]"], "`gates` has to give gate `x` a command"),
        (["max_corrections", "-1"], "a whole number from 0 to 1000"),
        (["budget", "5"], "Type: cf config set budget '{run: "),
        (["model", "--json"], "config set has no option --json"),
        (["gates", "{"], "not YAML"),
        (["tech_stack", "\udcff"], "not UTF-8"),
        (["timeout"], "config set needs VALUE"),
    ],
)
def test_config_set_refuses_and_changes_nothing(cf: Cf, args: list[str], said: str) -> None:
    cf("config", "set", "timeout", "15m")
    before = (cf.where / ".codeframe" / "config.yaml").read_bytes()
    refused(cf("config", "set", *args, code=2), said)
    assert (cf.where / ".codeframe" / "config.yaml").read_bytes() == before


def test_a_configuration_that_makes_no_sense_is_named(cf: Cf) -> None:
    (cf.where / ".codeframe" / "config.yaml").write_text("enginee: x\n")
    refused(
        cf("config", "show", code=2),
        "config.yaml: `enginee` is not a key",
        "Did you mean `engine`?",
        "Correct it in an editor",
    )
    refused(cf("engines", "list", code=2), "`enginee` is not a key")
