"""`cf doctor`: each finding, that its command mends it, and that looking changes nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from codeframe.core.leftovers import snapshots_of
from codeframe.core.models import RunStatus, TaskStatus
from codeframe.core.process_sweep import MARKER, is_alive, process_identity
from codeframe.core.run_lock import lock_run, tree_reserved
from codeframe.core.workspace import Workspace, find_workspace
from tests.cli.conftest import Cf
from tests.kit.engines import CF
from tests.kit.repos import git, write
from tests.kit.trusting import trust
from tests.kit.waiting import wait_until


def workspace_of(cf: Cf) -> Workspace:
    return find_workspace(cf.where)


def found(cf: Cf, kind: str, code: int = 1) -> dict[str, Any]:
    """The one finding there is, which is of this kind."""
    findings = cf("doctor", "--json", code=code).json()["findings"]
    assert [f["kind"] for f in findings] == [kind], findings
    only: dict[str, Any] = findings[0]
    assert only["problem"].endswith(".")
    assert only["command"]
    return only


def mended_by_fix(cf: Cf) -> str:
    """What --fix says it did, after which nothing is left."""
    done = cf("doctor", "--fix")
    assert done.stdout == "Nothing to mend.\n"
    assert cf("doctor").stdout == "Nothing to mend.\n"
    return done.stderr


def dead_run(workspace: Workspace, task_id: str, **owner: Any) -> str:
    """A run whose process is gone; its id."""
    place = {"tree": workspace.tree_key, "toplevel": str(workspace.repo.toplevel)}
    run = workspace.store.runs.claim(task_id, engine="e", process={**place, **process_identity(), **owner})
    return run.id


def test_a_healthy_workspace_has_nothing_to_mend_used_or_not(cf: Cf) -> None:
    assert cf("doctor").stdout == "Nothing to mend.\n"
    assert not (workspace_of(cf).state_dir / "state.db").exists()  # looking made nothing
    cf.add()
    assert cf("doctor", "--json").json() == {"findings": [], "locks": []}


def test_where_no_workspace_is_it_says_so(cf: Cf, outside: Path) -> None:
    assert "cf init" in cf("doctor", code=2, where=outside).stderr


def test_a_dead_run_is_named_and_closed_by_the_command_it_names(cf: Cf) -> None:
    dead_run(workspace_of(cf), cf.add())
    assert found(cf, "dead run")["command"] == "cf work status"
    assert found(cf, "dead run")  # looking recovered nothing
    assert cf("doctor", "--fix", code=1).stderr == ""  # nor does this
    cf("work", "status")
    assert cf("doctor").stdout == "Nothing to mend.\n"


@pytest.mark.parametrize(
    "command", ["tasks list", "tasks show ID", "work show ID", "work diff ID", "work logs ID"]
)
def test_no_command_shows_a_dead_run_as_running(cf: Cf, command: str) -> None:
    task = cf.add()
    dead_run(workspace_of(cf), task)
    done = cf(*(task if word == "ID" else word for word in command.split()))
    assert "was lost" in done.stderr or "crashed" in done.stderr, done.stderr
    assert "RUNNING" not in done.stdout
    assert "IN_PROGRESS" not in done.stdout


def test_a_run_that_cannot_be_seen_is_named_with_what_closes_it(cf: Cf) -> None:
    dead_run(workspace_of(cf), cf.add(), host="another")
    command = found(cf, "unseen")["command"]
    cf(*shlex.split(command)[1:])
    assert cf("doctor").stdout == "Nothing to mend.\n"


def test_a_living_run_is_no_finding_but_its_lock_is_told(cf: Cf) -> None:
    workspace = workspace_of(cf)
    task = workspace.store.tasks.find(cf.add("Write it"))
    (workspace.state_dir / "gates-x").mkdir()  # that run's own, perhaps
    lock = lock_run(workspace, "0123456789ab", task)
    try:
        said = cf("doctor", "--json").json()
        assert "“Write it”" in said["locks"][0]
        assert str(os.getpid()) in said["locks"][0]
    finally:
        lock.discard()
    found(cf, "temporary")


def test_fix_is_refused_while_a_run_is_alive(cf: Cf) -> None:
    workspace = workspace_of(cf)
    workspace.state_dir.chmod(0o755)
    lock = lock_run(workspace, "0123456789ab", workspace.store.tasks.find(cf.add()))
    try:
        assert "is in use by task" in cf("doctor", "--fix", code=1).stderr
    finally:
        lock.discard()
    assert "is now 700" in mended_by_fix(cf)


def test_a_start_that_is_refused_leaves_no_folder_of_a_run(cf: Cf) -> None:
    task = cf.add()
    (workspace_of(cf).repo.git_dir / "MERGE_HEAD").touch()
    cf("work", "start", task, "--execute", "--engine", "claude-code", code=5)
    (workspace_of(cf).repo.git_dir / "MERGE_HEAD").unlink()
    assert cf("doctor").stdout == "Nothing to mend.\n"


@contextmanager
def marked(owner: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that was started for this run."""
    env = {**os.environ, MARKER: f"{owner}/0"}
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=env) as left:
        try:
            environ = Path(f"/proc/{left.pid}/environ")
            wait_until(lambda: not environ.exists() or owner.encode() in environ.read_bytes())
            yield left
        finally:
            left.kill()


def test_a_process_that_an_ended_run_left_is_ended_by_fix(cf: Cf) -> None:
    workspace = workspace_of(cf)
    run = dead_run(workspace, cf.add())
    workspace.store.runs.finish(run, RunStatus.FAILED, TaskStatus.FAILED)
    with marked(run) as left:
        assert str(left.pid) in found(cf, "process")["problem"]
        assert str(left.pid) in mended_by_fix(cf)
        assert left.wait() < 0


def test_an_open_run_by_hand_is_not_dead_and_its_gates_are_left_over_when_their_cf_is(cf: Cf) -> None:
    task = cf.add()
    cf("work", "start", task)
    assert cf("doctor").stdout == "Nothing to mend.\n"
    workspace = workspace_of(cf)
    with marked(workspace.store.runs.running()[0].id) as left:
        with tree_reserved(workspace, f"verification of task {task[:8]}"):  # at work
            assert cf("doctor", "--json").json()["findings"] == []
            assert "ended" not in cf("status").stderr
        assert str(left.pid) in found(cf, "process")["problem"]
        assert str(left.pid) in mended_by_fix(cf)
        assert left.wait() < 0
    with marked(workspace.store.runs.running()[0].id) as left:
        assert "ended 1 process it left" in cf("status").stderr
        assert left.wait() < 0


def test_the_gate_of_a_killed_gates_run_is_ended_by_fix_and_that_of_a_living_one_is_not(cf: Cf) -> None:
    here = cf.where / "gate.pid"
    cf(
        "config",
        "set",
        "gates",
        "[{name: slow, command: [sh, -c, 'sleep 60 & echo $$ > gate.pid; exec sleep 60']}]",
    )
    cf.add()
    trust(cf.where, os.environ)
    run = subprocess.Popen([*CF, "gates", "run"], cwd=cf.where, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: here.exists() and here.read_text().endswith("\n"))
        gate = psutil.Process(int(here.read_text()))
        here.unlink()
        assert cf("doctor", "--fix").stdout == "Nothing to mend.\n"  # it goes on, and its folder is there
        assert [*workspace_of(cf).state_dir.glob("gates-*")]
    finally:
        run.kill()
        run.wait()
    assert is_alive(gate)
    assert str(gate.pid) in cf("doctor", code=1).stdout
    said = mended_by_fix(cf)
    assert str(gate.pid) in said
    assert said.count("Ended:") == 1  # both processes of it
    assert not is_alive(gate)


def deleted(cf: Cf) -> tuple[Workspace, str, Path]:
    """A task with a snapshot and a run's folder, deleted by a command that was killed after its first step."""
    workspace = workspace_of(cf)
    task = cf.add()
    run = dead_run(workspace, task)
    workspace.store.runs.finish(run, RunStatus.FAILED, TaskStatus.FAILED)
    snapshot = snapshots_of(workspace).take(task, "base")
    folder = workspace.run_dir(run)
    write(folder, {"prompt.md": "secret plans\n"})
    kept = folder.with_name("kept")
    shutil.copytree(folder, kept)
    cf("tasks", "delete", task, "--force")
    kept.rename(folder)
    git(cf.where, "update-ref", snapshot.ref, snapshot.commit)
    return workspace, snapshot.ref, folder


def test_what_a_deletion_that_was_cut_short_left_is_removed_by_fix(cf: Cf) -> None:
    _, ref, folder = deleted(cf)
    kinds = [f["kind"] for f in cf("doctor", "--json", code=1).json()["findings"]]
    assert kinds == ["snapshots", "folder"]
    mended_by_fix(cf)
    assert git(cf.where, "for-each-ref", ref) == ""
    assert not folder.exists()


def test_snapshots_of_a_task_that_was_lost_are_never_removed_by_fix(cf: Cf) -> None:
    """Such as after the database was deleted: they may be the only copy of somebody's work."""
    workspace, ref, folder = deleted(cf)
    for file in workspace.state_dir.glob("state.db*"):
        file.unlink()
    cf.add("Begin anew")
    findings = {f["kind"]: f for f in cf("doctor", "--fix", "--json", code=1).json()["findings"]}
    assert findings.keys() == {"snapshots", "folder"}
    assert git(cf.where, "for-each-ref", ref) != ""
    assert (folder / "prompt.md").exists()
    # And the commands that it names work.
    look, drop = findings["snapshots"]["command"].removeprefix("To look at it: ").split("; to drop it: ")
    for command in (look, drop, findings["folder"]["command"]):
        subprocess.run(["sh", "-ec", command], cwd=cf.where, check=True, stdout=subprocess.DEVNULL)
    assert cf("doctor").stdout == "Nothing to mend.\n"


def test_what_killed_commands_left_half_written_is_removed_by_fix(cf: Cf) -> None:
    workspace = workspace_of(cf)
    cf.add()
    litter = [
        workspace.state_dir / name for name in ("gates-abc/log", "index/main/index.new", "scratch-abc/index")
    ]
    litter += [
        workspace.config_dir / ".config.yaml.123.codeframe-new",
        workspace.run_dir("feedfeedfeed") / "lease",
    ]
    refs = workspace.repo.common_dir / "refs" / "codeframe" / workspace.id
    litter += [refs / "t" / "1.lock", workspace.state_dir.parent / "abcdef123456" / "workspace.json.new"]
    for path in litter:
        write(path.parent, {path.name: "x"})
    mine = [
        workspace.config_dir / name for name in ("notes.txt", ".config.yaml.2026-01-01", ".config.yaml.123")
    ]
    for path in mine:
        path.write_text("mine\n")
    mended_by_fix(cf)
    assert [path for path in litter if path.exists()] == []
    assert [path for path in mine if path.exists()] == mine
    cf("tasks", "list")


@pytest.mark.parametrize("where", ["state", "locks", "home"])
def test_a_state_folder_that_others_can_read_is_closed_by_fix(cf: Cf, where: str) -> None:
    workspace = workspace_of(cf)
    folder = {
        "state": workspace.state_dir, "locks": workspace.locks_dir, "home": workspace.state_dir.parent
    }[where]  # fmt: skip
    folder.chmod(0o755)
    finding = found(cf, "permissions")
    assert "755" in finding["problem"]
    assert finding["command"] == f"chmod 700 {folder}"
    mended_by_fix(cf)


def test_a_merge_in_progress_is_named_with_what_ends_it(cf: Cf) -> None:
    git(cf.where, "switch", "-q", "-c", "other")
    write(cf.where, {"README.md": "theirs\n"})
    git(cf.where, "commit", "-qam", "theirs")
    git(cf.where, "switch", "-q", "main")
    write(cf.where, {"README.md": "ours\n"})
    git(cf.where, "commit", "-qam", "ours")
    subprocess.run(["git", "merge", "other"], cwd=cf.where, capture_output=True)
    assert "git merge --abort" in found(cf, "operation")["command"]
    git(cf.where, "merge", "--abort")
    assert cf("doctor").stdout == "Nothing to mend.\n"


@pytest.mark.parametrize("name", ["index.lock", "HEAD.lock", "packed-refs.lock", "refs/heads/main.lock"])
def test_a_lock_that_git_left_is_named_with_what_removes_it(cf: Cf, name: str) -> None:
    lock = cf.where / ".git" / name
    lock.touch()
    only = found(cf, "git lock")
    assert f"{lock} has been there for" in only["problem"]
    assert "no git is at work here" in only["problem"]
    assert only["command"] == f"rm {lock}"
    cf("doctor", "--fix", code=1)
    assert lock.exists()  # it may be somebody's that cannot be seen
    subprocess.run(only["command"], shell=True, check=True)
    assert cf("doctor").stdout == "Nothing to mend.\n"


def test_with_a_lock_a_git_that_is_at_work_is_named(cf: Cf) -> None:
    (cf.where / ".git/index.lock").touch()
    argv = ["git", "cat-file", "--batch"]
    with subprocess.Popen(argv, cwd=cf.where, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        only = found(cf, "git lock")
        assert f"at work: {process.pid} git cat-file --batch" in only["problem"]
        assert only["command"].startswith("When that has ended: rm ")
        process.communicate(b"")


def test_an_entry_that_is_damaged_is_mended_by_the_command_it_names(cf: Cf) -> None:
    entry = workspace_of(cf).state_dir / "workspace.json"
    task = cf.add()
    for spoil in (lambda: entry.write_text("{"), entry.unlink):
        spoil()
        command = found(cf, "registration")["command"].partition(": ")[2]
        subprocess.run(["sh", "-ec", command], cwd=cf.where, check=True)
        assert cf("doctor").stdout == "Nothing to mend.\n"
        assert task[:8] in cf("tasks", "list").stdout


def ruined(cf: Cf, content: bytes) -> Path:
    """The database file with this content and without its log, which alone would be enough for a small one."""
    path = workspace_of(cf).store.path
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)
    path.write_bytes(content)
    return path


def test_a_damaged_database_is_recovered_as_far_as_it_can_be_read(cf: Cf) -> None:
    store = workspace_of(cf).store
    with store.write():
        for number in range(300):
            store.tasks.add(f"t{number}", description="word " * 20)
    store.close()
    with sqlite3.connect(store.path) as connection:
        root = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'tasks_in_order'"
        ).fetchone()[0]
    connection.close()
    whole = store.path.read_bytes()
    before = whole[: (root - 1) * 4096] + b"\xa5" * 4096 + whole[root * 4096 :]
    path = ruined(cf, before)
    assert "cf doctor --fix" in cf("tasks", "list", code=1).stderr
    assert found(cf, "database")["command"] == "cf doctor --fix"
    assert path.read_bytes() == before
    said = mended_by_fix(cf)
    assert "tasks" in said
    assert path.with_name("state.db.damaged-1").read_bytes() == before
    assert len(cf("tasks", "list", "--json", "--limit", "0").json()) == 300


def test_a_database_of_which_nothing_can_be_read_is_left_as_it_is(cf: Cf) -> None:
    cf.add()
    before = b"this is no database " * 500
    path = ruined(cf, before)
    said = cf("doctor", "--fix", code=1)
    assert "Nothing can be read" in said.stderr
    assert path.read_bytes() == before
    command = said.stderr.partition("begin a new one: ")[2].splitlines()[0]
    subprocess.run(["sh", "-ec", command], check=True)
    assert cf("doctor").stdout == "Nothing to mend.\n"


def test_a_database_of_a_newer_version_is_named_and_left_alone(cf: Cf) -> None:
    cf.add()
    path = workspace_of(cf).store.path
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    finding = found(cf, "database")
    assert "newer CodeFrame" in finding["problem"]
    assert "pip install" in finding["command"]
    assert not finding["fix"]


def test_without_git_it_says_so_and_looks_at_the_database_all_the_same(
    cf: Cf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cf.add()
    ruined(cf, b"junk" * 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    kinds = [f["kind"] for f in cf("doctor", "--json", code=1).json()["findings"]]
    assert kinds == ["git", "database"]


def test_a_repository_that_is_damaged_is_said_to_be(cf: Cf) -> None:
    (cf.where / ".git/HEAD").unlink()
    assert "HEAD" in found(cf, "git")["command"]


@pytest.mark.parametrize("text", ["engine: [", "bogus: 1", "engine: nobody"])
def test_a_configuration_that_stops_every_run_is_found(cf: Cf, text: str) -> None:
    (cf.where / ".codeframe" / "config.yaml").write_text(text)
    assert "config" in found(cf, "configuration")["command"]
    if text != "engine: nobody":
        for view in (("status",), ("work", "status")):
            assert "Correct it in an editor" in cf(*view).stderr
