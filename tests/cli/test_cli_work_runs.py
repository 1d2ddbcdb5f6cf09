"""`cf work` around real runs of a fake engine: what is told, shown, answered, retried, stopped, taken back."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.workspace import find_workspace
from tests.cli.conftest import Cf, refused
from tests.cli.test_cli_app import in_shell
from tests.kit.claude_lines import text
from tests.kit.claude_runs import ran, said, session, verdict, wrote
from tests.kit.engines import Completed, run_cf, start_cf
from tests.kit.repos import git, make_repo, write
from tests.kit.scenario import FakeEngine, call, hang, out, raw, touch
from tests.kit.waiting import wait_until

UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
TOKEN = "ghp_" + "a1B2" * 9
RUN_KEYS = [
    "id", "task_id", "status", "kind", "attempt", "previous_run_id", "engine", "engine_why", "model", "session_id",
    "rounds", "base", "end", "leftover", "verification", "error_class", "error", "summary", "usage", "duration_ms",
    "options", "evidence", "started_at", "ended_at",
]  # fmt: skip


def work(cf: Cf, engine: FakeEngine, verb: str, task: str, *options: str) -> Completed:
    """`cf work VERB TASK` as a process, with the fake engine on PATH."""
    chosen = ["--execute", "--engine", "claude-code"] if verb == "start" else []
    return run_cf("work", verb, task, *chosen, *options, cwd=cf.where, env={"PATH": engine.path()})


def begun(cf: Cf, engine: FakeEngine, task: str) -> subprocess.Popen[str]:
    """`cf work start TASK` as a process that goes on."""
    words = ["work", "start", task, "--execute", "--engine", "claude-code"]
    return start_cf(*words, cwd=cf.where, env={"PATH": engine.path()})


# -- one good run, looked at from all sides ---------------------------------------------------------


@dataclass
class Done:
    where: Path
    task: str
    outcome: Completed


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A repository in which one task was done: three files, one of them in Latin-1 with CRLF."""
    folder = tmp_path_factory.mktemp("done")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        where = make_repo(folder / "project", {"README.md": "hello\n", "old.txt": b"caf\xe9\r\nline\r\n"})
    engine = FakeEngine(folder, "claude").calls(
        call(
            session(
                out(text("I \x1b[31mbegin\x1b[0m \u202enow")),
                wrote("a.py", "x = 1\n"),
                ran("true"),
                ran("printf 'caf\\351s\\r\\nline\\r\\n' > old.txt"),
                out(f"not JSON {TOKEN}"),
                verdict("made a.py \x1b[31mred"),
            )
        )
    )
    run_cf("init", cwd=where)
    task = run_cf("tasks", "add", "Add \x1b[1ma.py", cwd=where).stdout.strip()
    outcome = run_cf(
        "work", "start", task, "--execute", "--engine", "claude-code", cwd=where, env={"PATH": engine.path()}
    )
    return Done(where, task, outcome)


@pytest.fixture
def at(done: Done, git_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cf:
    """`cf` where that task was done."""
    return Cf(done.where, capsys, monkeypatch)


def test_the_result_is_on_stdout_and_the_progress_on_stderr(done: Done) -> None:
    short = done.task[:8]
    assert done.outcome.exit_code == 0
    first, *rest = done.outcome.stdout.splitlines()
    assert re.fullmatch(
        r"COMPLETED, unverified; 1 engine call; [\dms.]+; \d+ \+ \d+ cached tokens in, \d+ out; \$.*", first
    )
    assert rest == [
        "made a.py red",
        "Unverified: no gate ran.",
        "  created a.py",
        "  modified old.txt",
        f"See the change: cf work diff {short}    commit it: cf commit create --task {short}    "
        f"the evidence: cf work why {short}",
    ]
    progress = done.outcome.stderr.splitlines()
    assert re.fullmatch(
        rf"00:00 Task {short} “Add a\.py”: run [0-9a-f]{{8}} with claude-code \(--engine\)\.", progress[0]
    )
    assert all(re.match(r"\d\d:\d\d ", line) for line in progress)
    words = [line[6:] for line in progress]
    for part in ("> I begin now", "~ a.py", "$ true", "= No gates to run."):
        assert part in words


def test_nothing_that_titles_and_engines_say_acts_on_the_terminal(done: Done, at: Cf) -> None:
    views = [at("work", view, done.task).stdout for view in ("show", "why", "logs")]
    views.append(at("work", "logs", done.task, "--raw").stdout)
    for words in (done.outcome.stdout, done.outcome.stderr, *views):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", words)


def test_show(done: Done, at: Cf) -> None:
    shown = at("work", "show", done.task).stdout
    assert shown.startswith(f"{done.task}  DONE  Add a.py\n")
    assert re.search(r"^[0-9a-f]{8}  start  claude-code  COMPLETED  unverified  -  ", shown, re.MULTILINE)
    data = at("work", "show", done.task, "--json").json()
    assert list(data) == ["task", "runs", "blockers"]
    (run,) = data["runs"]
    assert list(run) == RUN_KEYS
    assert UTC.fullmatch(run["started_at"])
    assert UTC.fullmatch(run["ended_at"])
    assert list(run["usage"]) == [
        "input_tokens", "cached_input_tokens", "output_tokens", "cost_usd", "model",
    ]  # fmt: skip


def test_why(done: Done, at: Cf) -> None:
    shown = at("work", "why", done.task[:6]).stdout
    for part in (
        "with claude-code (--engine)",
        "COMPLETED, unverified",
        "Round 1",
        "changed 2 files",
        "created a.py",
    ):
        assert part in shown
    data = at("work", "why", done.task, "--json").json()
    assert list(data) == ["run", "rounds"]
    assert data["rounds"][0]["files"] == ["created a.py", "modified old.txt"]
    run = data["run"]["id"]
    assert at("work", "why", done.task, "--run", run[:6], "--json").json() == data


def test_diff_is_what_git_apply_takes_byte_for_byte(done: Done, at: Cf, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    git(done.where, "worktree", "add", "-q", "--detach", str(fresh))
    applied = in_shell(f"set -o pipefail; cf work diff {done.task} | git -C {fresh} apply", cwd=done.where)
    assert (applied.exit_code, applied.stderr) == (0, "")
    assert (
        (fresh / "old.txt").read_bytes() == b"caf\xe9s\r\nline\r\n" == (done.where / "old.txt").read_bytes()
    )
    assert (fresh / "a.py").read_text() == "x = 1\n"


def test_diff_as_a_summary_and_as_json(done: Done, at: Cf) -> None:
    assert "2 files changed" in at("work", "diff", done.task, "--stat").stdout
    data = at("work", "diff", done.task, "--json").json()
    keys = ["task_id", "run_id", "start", "end", "files", "uncertain", "changed_by_gates", "diff"]
    assert list(data) == keys
    assert data["files"] == [{"path": "a.py", "kind": "created"}, {"path": "old.txt", "kind": "modified"}]
    assert "+x = 1\n" in data["diff"]


def test_logs_are_one_clean_line_each_without_secrets(done: Done, at: Cf) -> None:
    lines = at("work", "logs", done.task, "--raw").stdout.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d (out|err|cf) ", line) for line in lines)
    assert any('"subtype":"init"' in line for line in lines)
    assert any("not JSON [redacted]" in line for line in lines)
    assert at("work", "logs", done.task, "--raw", "--limit", "2").stdout.splitlines() == lines[-2:]
    refused(
        at("work", "logs", done.task, "--limit", "-1", code=2), "--limit takes a whole number not below 0"
    )


def test_logs_as_json_lines(done: Done, at: Cf) -> None:
    records: list[dict[str, Any]] = [
        json.loads(line) for line in at("work", "logs", done.task, "--raw", "--json").stdout.splitlines()
    ]
    assert all({"t", "s", "n", "line"} <= set(record) for record in records)
    assert all(UTC.fullmatch(record["t"]) for record in records)
    assert TOKEN not in str(records)


def test_a_run_of_another_task_is_no_run_of_this_one(done: Done, at: Cf) -> None:
    other = at.add("Other")
    run = at("work", "show", done.task, "--json").json()["runs"][0]["id"]
    refused(at("work", "why", other, "--run", run[:6], code=2), f"Task {other[:8]} has no run {run[:6]}")
    at("tasks", "delete", other)


# -- runs that do not end well ----------------------------------------------------------------------


def test_a_question_is_asked_answered_and_used(cf: Cf, engine: FakeEngine) -> None:
    engine.calls(
        call(session(verdict("need to know", status="blocked", question="SQLite or\nPostgres?"))),
        call(session(wrote("db.py", "x = 1\n"), verdict("used it")), argv=["--resume"]),
    )
    task = cf.add("Store it")
    asked = work(cf, engine, "start", task)
    assert asked.exit_code == 3
    (blocker,) = cf("blocker", "list", "--json").json()
    assert asked.stdout.count("SQLite or") == 1
    hint = f'Answer: cf blocker answer {blocker["id"][:8]} "…", then: cf work resume {task[:8]}'
    assert asked.stdout.endswith(f"Blocked: SQLite or\nPostgres?\n{hint}\n")
    assert hint in cf("work", "status").stdout
    assert [b["id"] for b in cf("work", "status", "--json").json()["blockers"]] == [blocker["id"]]
    early = work(cf, engine, "resume", task)
    assert early.exit_code == 3
    assert f"cf blocker answer {blocker['id'][:8]}" in early.stderr
    assert "Question: SQLite or\nPostgres?\nNo answer was given." in cf("work", "why", task).stdout
    cf("blocker", "answer", blocker["id"], "SQLite")
    again = cf("blocker", "answer", blocker["id"], "Postgres \x1b[31m!").stdout
    assert again.startswith("The earlier answer, “SQLite”, is replaced. Go on: cf work resume ")
    assert f"Next: cf work resume {task[:8]}" in cf("status").stdout
    resumed = work(cf, engine, "resume", task, "--json")
    assert resumed.exit_code == 0
    run = resumed.json()
    assert list(run) == RUN_KEYS
    assert (run["status"], run["kind"], run["attempt"]) == ("COMPLETED", "resume", 1)
    assert "Postgres" in engine.invocations()[-1].prompt
    assert "resolved: SQLite or\nPostgres? -> Postgres !" in cf("work", "show", task).stdout


@pytest.mark.parametrize("more", [1, 10])
def test_no_change_then_retry_then_undo(cf: Cf, engine: FakeEngine, more: int) -> None:
    engine.calls(call(session(said("all done"))))
    task = cf.add("Do it")
    failed = work(cf, engine, "start", task)
    assert failed.exit_code == 1
    assert failed.stdout.startswith("FAILED (no_change); 2 engine calls; ")
    last = failed.stdout.splitlines()[-1]
    assert last == f"Try again: cf work retry {task[:8]}    why: cf work why {task[:8]}"
    refused(work(cf, engine, "start", task), f"Task {task[:8]} failed before", f"cf work retry {task[:8]}")
    refused(work(cf, engine, "resume", task), "ended as FAILED", f"cf work retry {task[:8]}")
    assert f"Next: cf work retry {task[:8]}    (“Do it”)" in cf("status").stdout
    names = ["a.py", *(f"more/{n}.py" for n in range(more))]
    engine.calls(call(session(*(wrote(name, "x = 1\n") for name in names), verdict("now really"))))
    assert work(cf, engine, "retry", task).exit_code == 0
    cf("commit", "create")
    undone = cf("work", "undo", task).stdout
    assert undone.startswith("removed   a.py\n")
    assert not (cf.where / "a.py").exists()
    assert cf("tasks", "show", task, "--json").json()["status"] == "READY"
    *_, back, committed = undone.splitlines()
    assert back.startswith("Bring it back: git restore ")
    assert in_shell(back.removeprefix("Bring it back: "), cwd=cf.where).exit_code == 0
    assert all((cf.where / name).read_text() == "x = 1\n" for name in names)
    # The commit of it is named, and what takes it back can be typed after the undo as well.
    for name in names:
        (cf.where / name).unlink()
    assert committed.startswith(
        f"It is committed as {git(cf.where, 'rev-parse', '--short', 'HEAD')}, which stays;"
    )
    assert in_shell(committed.partition("take that back: ")[2], cwd=cf.where).exit_code == 0
    assert not (cf.where / "a.py").exists()
    assert git(cf.where, "status", "--short") == ""


def test_undo_of_a_failed_task_leaves_it_to_be_started(cf: Cf, engine: FakeEngine) -> None:
    engine.calls(call(session(wrote("a.py", "x = 1\n"), verdict("made a.py"))))
    task = cf.add("Do it")
    assert work(cf, engine, "start", task, "--require-gates").exit_code == 1
    cf("work", "undo", task)
    assert cf("tasks", "show", task, "--json").json()["status"] == "READY"
    assert f"Next: cf work start {task[:8]} --execute" in cf("status").stdout


def test_a_file_name_forges_no_line(cf: Cf, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", engine.path())
    engine.calls(
        call(session(wrote("a\nCOMPLETED, verified", "x\n"), wrote("b\u202etxt.py", "x\n"), verdict("did")))
    )
    task = cf.add()
    said = cf("work", "start", task, "--execute", "--engine", "claude-code", "--no-gates").stdout
    said += cf("work", "why", task).stdout + cf("work", "undo", task).stdout
    assert said.count("a\\nCOMPLETED, verified") == 3
    assert said.count("b\\u202etxt.py") == 3
    assert not any(line.startswith("COMPLETED, verified") for line in said.splitlines())


def test_undo_keeps_what_a_person_changed_and_says_so(cf: Cf, engine: FakeEngine) -> None:
    engine.calls(call(session(wrote("a.py", "x = 1\n"), wrote("b.py", "y = 1\n"), verdict("made both"))))
    task = cf.add("Do it")
    assert work(cf, engine, "start", task).exit_code == 0
    write(cf.where, {"a.py": "x = 2  # mine\n"})
    data = cf("work", "undo", task, "--json", code=1).json()
    assert list(data) == ["restored", "kept", "note", "safety", "complete"]
    assert (data["restored"], [k["path"] for k in data["kept"]]) == (["b.py"], ["a.py"])
    assert (cf.where / "a.py").read_text() == "x = 2  # mine\n"
    # Once the edit is out of the way, the rest can be taken back too.
    write(cf.where, {"a.py": "x = 1\n"})
    assert cf("work", "undo", task, "--json").json()["restored"] == ["a.py"]
    assert not (cf.where / "a.py").exists()


def test_a_gate_with_only_old_failures_is_said_plainly(cf: Cf, engine: FakeEngine) -> None:
    write(cf.where, {"check.py": "import sys\nsys.exit('it is wrong')"})
    cf("config", "set", "gates", f"[{{name: check, command: [{sys.executable}, check.py]}}]")
    task = cf.add("Do it")
    outcome = work(cf, engine, "start", task)
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith("COMPLETED, verified; ")
    line = "check: nothing new failed (1 old failure left alone), "
    assert f"= {line}" in outcome.stderr
    assert f"  gate {line}" in cf("work", "why", task).stdout


def test_why_says_what_failed_and_where_the_rest_is(cf: Cf, engine: FakeEngine) -> None:
    write(cf.where, {"check.py": "import os, sys\nsys.exit(os.path.exists('a.py') and 'a.py is wrong')"})
    cf("config", "set", "gates", f"[{{name: check, command: [{sys.executable}, check.py]}}]")
    task = cf.add("Do it")
    outcome = work(cf, engine, "start", task, "--max-corrections", "0")
    assert "failed (gates)" not in outcome.stdout
    assert " (gates); 1 engine call; " in outcome.stdout.splitlines()[0]
    shown = cf("work", "why", task).stdout
    assert "      a.py is wrong\n" in shown
    (path,) = re.findall("whole output: (.*)", shown)
    assert "a.py is wrong" in Path(path).read_text()


def test_a_timeout_says_after_what_and_offers_more_time(cf: Cf, engine: FakeEngine) -> None:
    engine.calls(call(session(hang())))
    task = cf.add("Do it")
    outcome = work(cf, engine, "start", task, "--timeout", "1s")
    assert outcome.exit_code == 4
    assert outcome.stdout.startswith("TIMEOUT after 1s; ")
    assert "$0.0000" not in outcome.stdout
    assert f"Go on with more time: cf work resume {task[:8]} --timeout 1h" in outcome.stdout
    assert f"Next: cf work resume {task[:8]} --timeout 1h" in cf("status").stdout


def test_a_resume_after_a_timeout_does_not_run_into_the_same_limit(cf: Cf, engine: FakeEngine) -> None:
    engine.calls(call(session(hang())), call(session(wrote("a.py", "x = 1\n"), verdict("made a.py"))))
    task = cf.add("Do it")
    assert work(cf, engine, "start", task, "--timeout", "1s").exit_code == 4
    outcome = work(cf, engine, "resume", task)
    assert outcome.exit_code == 0, outcome
    assert "Time limit: 1h; the run before used up its 1s." in outcome.stderr
    latest = find_workspace(cf.where).store.runs.latest(task)
    assert latest is not None
    assert latest.options["timeout_s"] == 3600.0


def test_no_corrections_are_said_to_be_none(cf: Cf, engine: FakeEngine) -> None:
    cf("config", "set", "gates", "[{name: check, command: [sh, -c, '! test -e a.py']}]")
    task = cf.add("Do it")
    outcome = work(cf, engine, "start", task, "--max-corrections", "0")
    assert "The gates fail, and no corrections were allowed." in outcome.stdout
    assert "Sending the engine back" not in outcome.stderr


def test_stop_from_another_terminal(cf: Cf, engine: FakeEngine, tmp_path: Path) -> None:
    engine.calls(call(session(wrote("half.py", "x"), touch(tmp_path / "here"), hang())))
    task = cf.add("Do it")
    running = begun(cf, engine, task)
    wait_until((tmp_path / "here").exists)
    status = cf("work", "status").stdout
    assert status.splitlines()[0].split() == ["TASK", "ENGINE", "RUN", "SINCE", "TITLE"]
    assert re.fullmatch(rf"{task[:8]}  claude-code  [0-9a-f]{{8}}  \d+[sm] +Do it", status.splitlines()[1])
    assert f"Running: {task[:8]} “Do it” with claude-code" in cf("status").stdout
    for refusal in (["work", "start", task, "--execute"], ["work", "undo", task], ["tasks", "delete", task]):
        assert f"cf work stop {task[:8]}" in cf(*refusal, code=1).stderr
    stopped = cf("work", "stop", task)
    assert re.fullmatch(
        rf"Run [0-9a-f]{{8}} ended as STOPPED; its work is kept\. Go on: cf work resume {task[:8]}\n",
        stopped.stdout,
    )
    out_, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert f"Go on: cf work resume {task[:8]}" in out_
    assert f"take it back: cf work undo {task[:8]}" in out_
    assert "Traceback" not in err
    refused(cf("work", "stop", task, code=1), "is not running")
    other = cf.add("Other", "--priority", "9")
    assert f"Next: cf work resume {task[:8]}    (“Do it”)" in cf("status").stdout
    for view in ("show", "why"):
        assert cf("work", view, task).stdout.endswith(f"Go on: cf work resume {task[:8]}\n")
    refused(
        work(cf, engine, "start", other),
        "still holds unaccepted work",
        "half.py",
        f"cf work resume {task[:8]}",
        f"keep it: cf work start {other[:8]} --execute --keep",
    )


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_stops_the_run_and_says_how_to_go_on(
    cf: Cf, engine: FakeEngine, tmp_path: Path, name: str, status: int
) -> None:
    engine.calls(call(session(touch(tmp_path / "here"), hang())))
    task = cf.add("Do it")
    running = begun(cf, engine, task)
    wait_until((tmp_path / "here").exists)
    running.send_signal(signal.Signals[name])
    out_, _ = running.communicate(timeout=60)
    assert running.returncode == status
    assert out_.startswith("STOPPED (cancelled); ")
    assert out_.splitlines()[-1] == f"Go on: cf work resume {task[:8]}    why: cf work why {task[:8]}"


def test_bytes_of_an_engine_that_are_no_text_are_shown_as_text(cf: Cf, engine: FakeEngine) -> None:
    engine.calls(call(session(raw(b"\xff\x00\x1b[2J\x9b1m half\n"), wrote("a.py", "x\n"), verdict("ok"))))
    task = cf.add("Do it")
    assert work(cf, engine, "start", task).exit_code == 0
    shown = in_shell(f"cf work logs {task} --raw", cwd=cf.where).stdout
    assert "half" in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
