"""`cf` itself: global options, errors, exit statuses, streams that are closed or full (rules 10.1, 10.2)."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from codeframe import __version__
from codeframe.cli.output import note, say
from tests.cli.conftest import Cf, refused
from tests.kit.engines import CF, Completed, clean_env, run_cf
from tests.kit.repos import git, make_repo


def in_shell(script: str, cwd: Path, env: dict[str, str] | None = None) -> Completed:
    """Run a bash script in which `cf` is what it is for a person."""
    cf = " ".join(map(shlex.quote, CF))
    done = subprocess.run(
        ["bash", "-c", f'cf() {{ {cf} "$@"; }}\n{script}'],
        cwd=cwd, env=clean_env() | (env or {}), stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    return Completed(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )


# -- what is typed ----------------------------------------------------------------------------------


def test_in_one_file_the_verdict_stands_before_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(file))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(file, write_through=True))
    say("DONE")
    note("cf: but not committed.")
    assert file.getvalue() == b"DONE\ncf: but not committed.\n"


def test_cf_alone_is_a_first_look(cf: Cf) -> None:
    said = cf()
    assert said.stdout == cf("-h").stdout == cf("--help").stdout
    assert said.stdout.startswith("Usage: cf [OPTIONS] COMMAND")
    assert said.stderr == ""
    assert cf("--version").stdout == f"codeframe {__version__}\n"


def test_a_group_alone_shows_its_help_on_stderr(cf: Cf) -> None:
    for group in ("tasks", "prd", "work", "blocker", "engines", "gates", "config"):
        said = cf(group, code=2)
        assert (said.stdout, said.stderr) == ("", cf(group, "--help").stdout)


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["taks"], ["There is no command cf taks. Did you mean tasks?", "Type: cf tasks"]),
        (["blockers", "list"], ["Did you mean blocker?"]),
        (["zzz"], ["There is no command cf zzz.", "Type: cf --help"]),
        (["tasks", "lst"], ["There is no command cf tasks lst. Did you mean list?", "Type: cf tasks list"]),
        (["work", "begin"], ["There is no command cf work begin."]),
        (["--jsn"], ["cf has no option --jsn."]),
        (["tasks", "list", "--jsn"], ["tasks list has no option --jsn. Did you mean --json?"]),
        (["work", "start", "--exec"], ["Did you mean --execute?"]),
        (["tasks", "list", "--zzz"], ["tasks list has no option --zzz.", "Type: cf tasks list --help"]),
        (["tasks", "list", "--limit"], ["--limit needs a value.", "Type: cf tasks list --help"]),
        (["tasks", "list", "--json=yes"], ["Option --json does not take a value."]),
        (["tasks", "show", "a", "b"], ["tasks show does not know what to do with “b”."]),
        (["status", "-C", "."], ["-C goes right after cf.", "Type: cf -C DIR status"]),
        (["tasks", "list", "--debug"], ["--debug goes right after cf.", "Type: cf --debug tasks list"]),
        (["-C"], ["-C needs a value."]),
        (["-C", "nowhere", "status"], ["Cannot enter nowhere: No such file or directory."]),
        (["-C", "README.md", "status"], ["Cannot enter README.md: Not a directory."]),
        (["\x1b[31mred", "x"], ["There is no command cf red."]),
    ],
)
def test_usage_errors_are_two_sentences(cf: Cf, args: list[str], parts: list[str]) -> None:
    refused(cf(*args, code=2), *parts)


def test_dash_c_adds_up_as_in_git(cf: Cf, tmp_path: Path) -> None:
    (cf.where / "a" / "b").mkdir(parents=True)
    for args in (
        ["-C", "project"],
        ["-C", "project/a", "-C", "b"],
        ["-C", str(cf.where)],
        ["-C", "", "-C", "project"],
    ):
        assert cf(*args, "status", "--json", where=tmp_path).json()["workspace"] == str(cf.where)


def test_debug_shows_the_traceback_and_keeps_the_words_and_the_status(cf: Cf) -> None:
    plain, debug = cf("tasks", "show", "zz", code=2), cf("--debug", "tasks", "show", "zz", code=2)
    assert "Traceback" not in plain.stderr
    assert "Traceback (most recent call last)" in debug.stderr
    assert debug.stderr.endswith(plain.stderr)


# -- where it is typed ------------------------------------------------------------------------------


def test_outside_of_git_the_command_is_named(cf: Cf, outside: Path) -> None:
    for args in (
        ["status"],
        ["tasks", "list"],
        ["work", "start"],
        ["init"],
        ["config", "show"],
        ["gates", "list"],
    ):
        refused(cf(*args, code=2, where=outside), "is not in a git repository", "Type: cf init --git-init")


def test_in_git_without_a_workspace_the_command_is_named(cf: Cf, git_home: Path, tmp_path: Path) -> None:
    bare = make_repo(tmp_path / "other")
    refused(cf("status", code=2, where=bare), "No CodeFrame workspace here", "Type: cf init")


def test_a_folder_that_was_removed(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = in_shell(f"rmdir {gone}; cf status; s=$?; cf init; exit $s", cwd=gone)
    assert done.exit_code == 2
    assert done.stderr.count("The current folder does not exist any more.") == 2


def test_without_home(cf: Cf) -> None:
    cf.add("First")
    done = in_shell("unset HOME XDG_CONFIG_HOME; cf status && cf tasks list && cf work start", cwd=cf.where)
    assert done.exit_code == 0, done
    assert "First" in done.stdout


def test_state_that_cannot_be_written(cf: Cf, git_home: Path, tmp_path: Path) -> None:
    other = make_repo(tmp_path / "other")
    (other / ".git" / "codeframe").write_text("in the way")
    refused(cf("init", code=1, where=other), "which cannot be written", "Look at it: ls -la")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_git_folder(cf: Cf, git_home: Path, tmp_path: Path) -> None:
    other = make_repo(tmp_path / "other")
    (other / ".git").chmod(0o555)
    try:
        refused(cf("init", code=1, where=other), "cannot be written: Permission denied")
    finally:
        (other / ".git").chmod(0o755)


# -- streams ----------------------------------------------------------------------------------------


def test_a_reader_that_goes_away_ends_it_quietly(cf: Cf) -> None:
    cf("prd", "add", "-", stdin=b"a line of words\n" * 100_000)
    done = in_shell("cf prd show | head -1; echo ${PIPESTATUS[0]}", cwd=cf.where)
    assert (done.stdout, done.stderr) == ("a line of words\n141\n", "")
    done = in_shell(
        "cf tasks list --json | true; cf tasks lst 2>&1 | true; cf status 2>&1 >&- | true", cwd=cf.where
    )
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_said(cf: Cf) -> None:
    done = in_shell("cf status > /dev/full", cwd=cf.where)
    assert done.exit_code == 1
    refused(done, "The output cannot be written: No space left on device")
    assert in_shell("cf tasks lst 2> /dev/full", cwd=cf.where).exit_code == 2


def test_closed_streams(cf: Cf) -> None:
    task = cf.add("First")
    done = in_shell(
        "cf status >&-; echo $?; cf tasks lst 2>&-; echo $?; cf status <&- >/dev/null; echo $?; "
        "cf tasks add Second --description - <&- >&- 2>&-; echo $?",
        cwd=cf.where,
    )
    assert (done.stdout.split(), done.stderr) == (["0", "2", "0", "0"], "")
    assert [t["title"] for t in cf("tasks", "list", "--json").json()] == ["First", "Second"]
    assert cf("tasks", "show", task, "--json").json()["status"] == "READY"


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_a_locale_without_these_characters_never_ends_it(cf: Cf, locale: dict[str, str]) -> None:
    cf.add("“naïve” … 日本")
    done = in_shell("cf status && cf tasks list && ! cf tasks list --status “x”", cwd=cf.where, env=locale)
    assert done.exit_code == 0, done
    assert "Internal error" not in done.stderr
    assert "Traceback" not in done.stderr
    assert "ve" in done.stdout


def test_json_is_ascii_in_every_locale(cf: Cf) -> None:
    cf.add("日本")
    done = run_cf("tasks", "list", "--json", cwd=cf.where, env={"PYTHONIOENCODING": "latin-1"})
    assert done.stdout.isascii()
    assert done.json()[0]["title"] == "日本"


def test_bytes_that_are_not_utf8_on_the_command_line(cf: Cf) -> None:
    done = in_shell(
        r"cf tasks add $'bad \xff'; cf -C $'\xff' status; cf tasks show $'\xff'; cf $'\xff'", cwd=cf.where
    )
    assert done.stderr.count("\ncf: ") == 3
    assert "The title is not UTF-8 text." in done.stderr
    assert "Internal error" not in done.stderr
    assert cf("tasks", "list", "--json").json() == []


def test_the_same_program_by_its_module_name(cf: Cf) -> None:
    assert run_cf("status", cwd=cf.where).stdout == cf("status").stdout


def test_git_variables_of_a_hook_do_not_lead_astray(cf: Cf, git_home: Path, tmp_path: Path) -> None:
    other = make_repo(tmp_path / "other", {"a": "b"})
    env = {"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)}
    assert run_cf("status", "--json", cwd=cf.where, env=env).json()["workspace"] == str(cf.where)
    assert git(other, "status", "--porcelain") == ""
