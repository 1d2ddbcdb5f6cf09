"""On a terminal: colours unless NO_COLOR, lists cut to the width, nothing that acts on it (rule 10.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from codeframe.core.models import RunStatus, TaskStatus
from codeframe.core.workspace import find_workspace
from tests.cli.conftest import Cf
from tests.cli.terminal import on_terminal
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.engines import run_cf
from tests.kit.scenario import FakeEngine, call

COLOUR = re.compile(r"\x1b\[\d+m")
EVIL = "\x1b[2Jevil \x9b31m\u202e"


def finished(cf: Cf, title: str = "Done") -> str:
    """A task that a run has finished."""
    task = cf.add(title)
    runs = find_workspace(cf.where).store.runs
    runs.finish(runs.claim(task, engine="claude-code").id, RunStatus.COMPLETED, TaskStatus.DONE)
    return task


def test_states_are_coloured_on_a_terminal(cf: Cf) -> None:
    finished(cf)
    shown = on_terminal("tasks", "list", cwd=cf.where)
    assert "\x1b[32mDONE\x1b[0m" in shown
    assert COLOUR.sub("", shown) == cf("tasks", "list").stdout


def test_on_a_terminal_a_new_task_comes_with_what_to_type(cf: Cf) -> None:
    id_, step = on_terminal("tasks", "add", "Do it", "-d", "All of it", cwd=cf.where, width=120).splitlines()
    assert cf("tasks", "show", id_, "--json").json()["description"] == "All of it"
    short = id_[:8]
    assert step == f"Start it: cf work start {short} --execute; by hand: cf work start {short}"


def test_status_marks_tasks_that_can_go_on(cf: Cf) -> None:
    ids = [cf.add(title) for title in ("One", "Two", "New")]
    runs = find_workspace(cf.where).store.runs
    for id_ in ids[:2]:
        runs.finish(runs.claim(id_, engine="claude-code").id, RunStatus.STOPPED, TaskStatus.READY)
    said = cf("status").stdout
    assert f"Begun: {ids[1][:8]} “Two”\n  Go on: cf work resume {ids[1][:8]}\n" in said
    assert said.endswith(f"Next: cf work resume {ids[0][:8]}    (“One”)\n")
    assert said.count("Begun") == 1


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_where_they_are_not_wanted(cf: Cf, env: Mapping[str, str]) -> None:
    finished(cf)
    assert on_terminal("tasks", "list", cwd=cf.where, env=env) == cf("tasks", "list").stdout


def test_an_empty_no_color_means_nothing(cf: Cf) -> None:
    finished(cf)
    assert COLOUR.search(on_terminal("tasks", "list", cwd=cf.where, env={"NO_COLOR": ""}))


def test_long_titles_are_cut_on_a_terminal_only(cf: Cf) -> None:
    title = "word " * 60 + "end"
    cf.add(title)
    cf.add("日本語" * 40)
    assert "end\n" in cf("tasks", "list").stdout
    header, first, second = on_terminal("tasks", "list", cwd=cf.where, width=70).splitlines()
    assert header.endswith("TITLE")
    assert (len(first), first[-1]) == (70, "…")
    assert second[-1] == "…"
    assert 69 <= sum(2 if c in "日本語" else 1 for c in second) <= 70


def test_a_very_narrow_terminal_still_shows_something_of_a_title(cf: Cf) -> None:
    cf.add("A title that is longer than that")
    assert "A title that is lon…" in on_terminal("tasks", "list", cwd=cf.where, width=10)
    assert "A title that is lon…" in on_terminal("tasks", "list", cwd=cf.where, env={"COLUMNS": "3"})


def test_nothing_in_a_title_acts_on_a_terminal(cf: Cf) -> None:
    task = cf.add(EVIL)
    other = cf.add("Other", "--depends-on", task)
    cf("prd", "add", "-", "--title", EVIL, stdin=f"# {EVIL}\nwords\n".encode())
    for args in (
        ["tasks", "show", task], ["status"], ["prd", "show"], ["work", "start"],
        ["work", "start", other, "--execute"], ["tasks", "delete", task], ["tasks", EVIL],
    ):  # fmt: skip
        shown = COLOUR.sub("", on_terminal(*args, cwd=cf.where))
        assert "evil" in shown
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)


def test_a_description_keeps_its_lines(cf: Cf) -> None:
    task = cf.add("T", "--description", "one\n\n\ttwo")
    assert on_terminal("tasks", "show", task, cwd=cf.where).endswith("\n\none\n\n\ttwo\n")


def test_a_run_on_a_terminal(cf: Cf, engine: FakeEngine) -> None:
    engine.calls(call(session(wrote("a.py", f"x = 1  # {EVIL}\r\n"), verdict("made it"))))
    task = cf.add("Do it")
    shown = on_terminal(
        "work",
        "start",
        task,
        "--execute",
        "--engine",
        "claude-code",
        cwd=cf.where,
        env={"PATH": engine.path()},
    )
    assert "\x1b[32mCOMPLETED, unverified; " in shown
    assert "00:00 " in shown
    diff = on_terminal("work", "diff", task, cwd=cf.where)
    assert "\x1b[32m+x = 1  # evil \x1b[0m\n" in diff
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", COLOUR.sub("", diff))
    exact = run_cf("work", "diff", task, cwd=cf.where).stdout
    assert f"+x = 1  # {EVIL}" in exact


def test_help_and_errors_are_plain_on_a_terminal_too(cf: Cf) -> None:
    for args in (["--help"], ["work", "start", "--help"], ["tasks"], ["taks"]):
        shown = on_terminal(*args, cwd=cf.where, width=200)
        assert "\x1b" not in shown
        assert shown.isascii()
        assert max(map(len, shown.splitlines())) <= 80
