"""`cf deinit`: all of a workspace goes, nothing else does, and a kill in the middle leaves nothing half."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codeframe.core.leftovers import snapshots_of
from codeframe.core.models import RunStatus, TaskStatus
from codeframe.core.process_sweep import process_identity
from codeframe.core.run_lock import lock_run
from codeframe.core.trust import Trust
from codeframe.core.workspace import Workspace, find_workspace
from tests.cli.conftest import Cf
from tests.kit.engines import ROOT
from tests.kit.repos import git, make_repo, write


def used(cf: Cf) -> Workspace:
    """A workspace with a task, a run that ended and a snapshot; a person's work is in the tree."""
    workspace = find_workspace(cf.where)
    task = cf.add()
    run = workspace.store.runs.claim(task, engine="e", process=process_identity())
    workspace.store.runs.finish(run.id, RunStatus.FAILED, TaskStatus.FAILED)
    write(cf.where, {"README.md": "edited\n", "mine.txt": "mine\n"})
    snapshots_of(workspace).take(task, "base")
    return workspace


def everything(cf: Cf) -> dict[str, bytes]:
    """What a person sees: the files of the tree, and git's own view of it."""
    files = {str(p.relative_to(cf.where)): p.read_bytes() for p in cf.where.rglob("*") if p.is_file()}
    seen = {name: content for name, content in files.items() if not name.startswith((".git/", ".codeframe/"))}
    return seen | {"status": git(cf.where, "status", "--porcelain", "-uall").encode()}


def is_gone(cf: Cf, workspace: Workspace) -> None:
    assert not workspace.state_dir.exists()
    assert git(cf.where, "for-each-ref", f"refs/codeframe/{workspace.id}/") == ""
    assert not workspace.config_dir.exists()
    assert "cf init" in cf("status", code=2).stderr


def test_an_unused_workspace_goes_without_a_word_and_can_be_made_again(cf: Cf) -> None:
    workspace = find_workspace(cf.where)
    assert "no workspace any more" in cf("deinit").stdout
    is_gone(cf, workspace)
    assert "cf init" in cf("deinit", code=2).stderr
    cf("init")
    cf.add()


def test_what_is_in_it_is_said_and_stays_unless_forced(cf: Cf) -> None:
    workspace = used(cf)
    before = everything(cf)
    said = cf("deinit", code=1).stderr
    assert "1 snapshot, 1 task, 1 run" in said
    assert "cf deinit --force" in said
    assert cf("tasks", "list", "--json").json() != []
    cf("deinit", "--force")
    is_gone(cf, workspace)
    assert everything(cf) == before


def test_settings_stay_and_are_named_unless_forced(cf: Cf) -> None:
    """Nobody knows who wrote them: `cf config set`, or a person in their editor."""
    settings = cf.where / ".codeframe/config.yaml"
    write(cf.where, {".codeframe/config.yaml": "# why: ask Ada\nengine: built-in\n"})
    before = settings.read_bytes()
    assert f"The settings {settings} stay." in cf("deinit").stdout
    assert settings.read_bytes() == before
    assert git(cf.where, "status", "--porcelain", "-uall") == ""
    cf("init")
    workspace = used(cf)
    assert str(settings) in cf("deinit", code=1).stderr
    cf("deinit", "--force")
    is_gone(cf, workspace)


@pytest.mark.parametrize("what", ["another repository", "a workspace of its own within"])
def test_what_is_where_a_working_tree_once_was_keeps_its_settings(cf: Cf, what: str) -> None:
    """`git worktree list` names a tree that is gone until somebody prunes it."""
    place = cf.where.parent / "tree" if what == "another repository" else cf.where / "tree"
    git(cf.where, "worktree", "add", "-q", "--detach", str(place))
    shutil.rmtree(place)
    make_repo(place) if what == "another repository" else place.mkdir()
    cf("init", "--nested", where=place)
    cf("config", "set", "engine", "built-in", where=place)
    assert str(place) in git(cf.where, "worktree", "list")
    cf("deinit", "--force")
    assert "built-in" in cf("config", "show", where=place).stdout


def test_a_persons_files_among_the_settings_stay_hidden_as_they_were(cf: Cf) -> None:
    cf("config", "set", "engine", "built-in")
    write(cf.where, {".codeframe/notes.txt": "mine\n"})
    cf("deinit", "--force")
    assert sorted(os.listdir(cf.where / ".codeframe")) == [".gitignore", "notes.txt"]
    assert git(cf.where, "status", "--porcelain", "-uall") == ""


def test_what_is_trusted_goes_with_the_workspace(cf: Cf) -> None:
    cf("config", "set", "gates", "[{name: t, command: ls}]")
    cf("trust", "--yes")
    record = Trust(find_workspace(cf.where)).path
    assert record.exists()
    cf("deinit", "--force")
    assert [*record.parent.iterdir()] == []


def test_settings_that_were_committed_stay(cf: Cf) -> None:
    cf("config", "set", "engine", "built-in")
    git(cf.where, "add", "-f", ".codeframe/config.yaml")
    git(cf.where, "commit", "-qm", "settings")
    cf("deinit")
    assert git(cf.where, "status", "--porcelain", "-uall") == ""


def test_a_nested_workspace_and_the_one_around_it_do_not_touch_each_other(cf: Cf) -> None:
    outer = used(cf)
    (cf.where / "sub").mkdir()
    cf("init", "--nested", where=cf.where / "sub")
    inner = find_workspace(cf.where / "sub")
    cf("tasks", "add", "Inside", where=cf.where / "sub")
    cf("deinit", "--force")
    assert not outer.state_dir.exists()
    assert cf("tasks", "list", "--json", where=cf.where / "sub").json()[0]["title"] == "Inside"
    assert inner.config_dir.is_dir()
    assert cf("doctor", where=cf.where / "sub").stdout == "Nothing to mend.\n"


def test_it_is_refused_while_a_run_is_alive_or_cannot_be_seen(cf: Cf) -> None:
    workspace = used(cf)
    store = workspace.store
    task = store.tasks.find(cf.add("Another"))
    lock = lock_run(workspace, "0123456789ab", task)
    place = {"tree": workspace.tree_key, "toplevel": str(cf.where), **process_identity()}
    run = store.runs.claim(task.id, id="0123456789ab", engine="e", process=place)
    try:
        assert f"cf work stop {task.id[:8]}" in cf("deinit", "--force", code=1).stderr
    finally:
        lock.release()
    store.runs.update(run.id, process={**place, "host": "another"})
    assert f"cf work stop {task.id[:8]} --force" in cf("deinit", "--force", code=1).stderr
    store.runs.update(run.id, process=place)  # dead: closed on the way
    cf("deinit", "--force")
    is_gone(cf, workspace)


def test_with_a_database_that_cannot_be_read_it_goes_all_the_same(cf: Cf) -> None:
    workspace = used(cf)
    workspace.store.close()
    for side in ("-wal", "-shm"):
        (workspace.state_dir / f"state.db{side}").unlink(missing_ok=True)
    (workspace.state_dir / "state.db").write_bytes(b"junk" * 5000)
    assert "cf doctor --fix" in cf("deinit", code=1).stderr
    cf("deinit", "--force")
    is_gone(cf, workspace)


KILLED = """
import os, signal, sys
left, root = int(sys.argv.pop(1)), sys.argv.pop(1)
sys.path.insert(0, root)
from codeframe.cli.app import main
def trace(frame, event, arg):
    global left
    if not frame.f_code.co_filename.endswith(("removal.py", "workspace.py")):
        return None
    if event == "line" and frame.f_code.co_name in
        ("remove", "unregister", "finish_removal", "remove_state", "_config_folders", "_remove_config", "settings"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return trace
sys.settrace(trace)
main(["deinit", "--force"])
""".replace("in\n        (", "in (")


@pytest.mark.parametrize(
    ("line", "how"),
    [(2, "deinit"), (5, "doctor"), (11, "deinit"), (20, "doctor"), (25, "deinit"), (36, "doctor")],
)
def test_kill_9_in_the_middle_leaves_no_half_workspace_and_can_be_finished(
    cf: Cf, line: int, how: str
) -> None:
    workspace = used(cf)
    before = everything(cf)
    workspace.store.close()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(line), str(ROOT)], cwd=cf.where, capture_output=True, text=True
    )
    assert killed.returncode == -signal.SIGKILL, killed
    if (workspace.state_dir / "workspace.json").exists():
        assert cf("tasks", "list", "--json").json() != []  # nothing is missing yet
    elif workspace.state_dir.exists():
        assert "cf init" in cf("tasks", "list", code=2).stderr
    if how == "doctor" and not (workspace.state_dir / "workspace.json").exists():
        cf("doctor", "--fix", code=0 if workspace.state_dir.exists() else 2)
    else:
        cf("deinit", "--force", code=0 if workspace.state_dir.exists() else 2)
    is_gone(cf, workspace)
    assert everything(cf) == before


def test_a_workspace_made_anew_while_the_old_one_is_half_gone_is_left_alone(cf: Cf) -> None:
    workspace = used(cf)
    workspace.store.close()
    entry = workspace.state_dir / "workspace.json"
    entry.rename(entry.with_name("removed.json"))
    cf("init")
    fresh = find_workspace(cf.where)
    cf("config", "set", "engine", "built-in")
    cf.add("New")
    assert "cut short" in cf("doctor", code=1).stdout
    cf("doctor", "--fix")
    assert not workspace.state_dir.exists()
    assert cf("tasks", "list", "--json").json()[0]["title"] == "New"
    assert fresh.config_dir.is_dir()
    assert Path(fresh.config_dir / "config.yaml").exists()
