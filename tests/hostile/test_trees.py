"""Trees that are strange, or that the engine makes strange: nothing is lost, and what is wrong is said in words."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.hostile.stage import COMMITTED, Stage, safety_of
from tests.kit.claude_runs import ran, session, verdict, wrote
from tests.kit.repos import commit, git, make_repo, write
from tests.kit.scenario import call, touch, wait_for
from tests.kit.waiting import wait_until

WORK = "x = 1\n"
DONE = call(session(wrote("work.py", WORK), verdict("done")))


@pytest.mark.parametrize(
    "name", ["my project", "projet été", 'quote\'d "name"', "-dash $HOME `x`", "line\nbreak"]
)
def test_paths_with_spaces_accents_and_worse(tmp_path: Path, name: str) -> None:
    stage = Stage.build(tmp_path, {f"src/{name}.txt": "old\n"}, name=name)
    mine = f"src/{name}.txt"
    stage.gate("test -e README.md")
    stage.engine.calls(call(session(wrote(mine, "new\n"), wrote(f"{name} é/work.py", WORK), verdict("done"))))
    task = stage.task()
    outcome = stage.start(task, gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    outcome.check_work_kept(mine, "new\n")
    assert f"{name} é".replace("\n", "\\n") in outcome.said.stdout
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert stage.read(mine) == "old\n"
    assert not stage.is_there(f"{name} é")
    stage.check_persons_work()


def test_names_that_are_not_utf_8_survive(stage: Stage) -> None:
    raw = os.fsencode(stage.repo) + b"/caf\xe9.txt"
    with open(raw, "wb") as file:
        file.write(b"latin\n")
    stage.engine.calls(call(session(ran("printf changed > \"$(printf 'caf\\351.txt')\""), verdict("done"))))
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert stage.cf("work", "why", task.id, "--json").exit_code == 0
    assert stage.cf("work", "diff", task.id).exit_code == 0
    assert stage.cf("work", "undo", task.id).exit_code == 0
    with open(raw, "rb") as file:
        assert file.read() == b"latin\n"


def test_started_from_a_subdirectory(tmp_path: Path) -> None:
    stage = Stage.build(tmp_path, {"deep/down/here.txt": "x\n"})
    stage.place = stage.repo / "deep" / "down"
    stage.engine.calls(DONE)
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert stage.engine.invocations()[0].cwd == stage.repo
    outcome.check_work_kept("work.py", WORK)
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert not stage.is_there("work.py")


def test_everything_git_handles_badly_in_one_tree(tmp_path: Path) -> None:
    library = make_repo(tmp_path / "library", {"lib.py": "l = 1\n"})
    stage = Stage.build(tmp_path)
    git(stage.repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "sub")
    git(stage.repo, "commit", "-q", "-m", "a submodule", "--", "sub", ".gitmodules")
    nested = make_repo(stage.repo / "nested", {"inner.txt": "inner\n"})
    write(nested, {"dirty.txt": "a person's\n"})
    write(stage.repo, {"sub/dirty.txt": "a person's\n"})
    (stage.repo / "link").symlink_to("README.md")
    (stage.repo / "dangling").symlink_to("/no/such/place")
    (stage.repo / "loop").symlink_to("loop")
    os.mkfifo(stage.repo / "fifo")
    (stage.repo / "empty").mkdir()
    with open(stage.repo / "huge.bin", "wb") as file:
        file.truncate(400_000_000)
    stage.engine.calls(DONE)
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(0, "COMPLETED", None, "DONE")
    outcome.check_work_kept("work.py", WORK)
    assert "huge.bin" in outcome.said.stderr  # not covered, and that is said
    assert outcome.rounds[0]["files"] == ["created work.py"]
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert not stage.is_there("work.py")
    assert (nested / "dirty.txt").read_text() == "a person's\n"
    assert stage.read("sub/dirty.txt") == "a person's\n"
    assert os.readlink(stage.repo / "link") == "README.md"
    assert (stage.repo / "huge.bin").stat().st_size == 400_000_000
    assert all(stage.is_there(p) for p in ("dangling", "loop", "fifo", "empty"))
    stage.check_persons_work()


def test_what_a_person_does_while_the_engine_works_stays(stage: Stage) -> None:
    there, go = stage.repo.parent / "there", stage.repo.parent / "go"
    stage.engine.calls(call(session(wrote("work.py", WORK), touch(there), wait_for(go), verdict("done"))))
    task = stage.task()
    process = stage.begin(task)
    wait_until(there.exists)
    write(stage.repo, {"README.md": "edited meanwhile\n", "notes.txt": "meanwhile\n"})
    git(stage.repo, "add", "notes.txt")
    go.touch()
    outcome = stage.ended(task, process)
    outcome.expect(0, "COMPLETED", None, "DONE")
    outcome.check_work_kept("work.py", WORK)
    assert stage.read("README.md") == "edited meanwhile\n"
    assert git(stage.repo, "show", ":notes.txt") == "meanwhile"
    # Undo cannot tell the two apart; what it takes back is in the snapshot it took first.
    safety = safety_of(stage.cf("work", "undo", task.id).stdout)
    assert git(stage.repo, "show", f"{safety}:README.md") == "edited meanwhile"
    assert git(stage.repo, "show", f"{safety}:notes.txt") == "meanwhile"
    stage.check_persons_work()


def test_the_folder_of_the_local_configuration_is_deleted(stage: Stage) -> None:
    stage.gate("! grep -q wrong work.py")
    stage.engine.calls(call(session(ran("rm -rf .codeframe"), wrote("work.py", WORK), verdict("done"))))
    outcome = stage.start(stage.task(), gates=True)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert outcome.run.verification == "verified"  # by the gate that was declared when it started
    outcome.check_work_kept("work.py", WORK)


def test_the_engine_cannot_change_its_gates(stage: Stage) -> None:
    stage.gate("! grep -q wrong work.py")
    easy = json.dumps({"gates": [{"name": "check", "command": "true"}]})
    stage.engine.calls(
        call(session(wrote(".codeframe/config.yaml", easy), wrote("work.py", "wrong\n"), verdict("done")))
    )
    outcome = stage.start(stage.task(), "--max-corrections", "0", gates=True)
    outcome.expect(1, "FAILED", "gates", "FAILED")


# -- in .git ------------------------------------------------------------------------------------------


def test_programs_the_engine_puts_into_git_are_not_run_by_us(stage: Stage) -> None:
    mark = stage.repo.parent / "it-ran"
    trap = f"printf '#!/bin/sh\\ntouch {mark}\\n' > .git/trap; chmod +x .git/trap; for h in post-index-change " \
        "reference-transaction pre-commit; do cp .git/trap .git/hooks/$h; done; " \
        "for k in core.fsmonitor diff.external core.pager filter.x.clean; do git config $k \"$PWD/.git/trap\"; done; " \
        "echo '* filter=x' > .git/info/attributes"  # fmt: skip
    stage.engine.calls(
        call(session(ran(f"mkdir -p .git/hooks .git/info; {trap}"), wrote("work.py", WORK), verdict("done")))
    )
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert stage.cf("work", "diff", task.id).exit_code == 0
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert not mark.exists()


def test_locks_left_in_git_hold_nothing_up(stage: Stage) -> None:
    locks = "touch .git/index.lock .git/HEAD.lock .git/config.lock .git/packed-refs.lock"
    stage.engine.calls(call(session(ran(locks), wrote("work.py", WORK), verdict("done"))))
    outcome = stage.start(stage.task())
    outcome.expect(0, "COMPLETED", None, "DONE")
    outcome.check_work_kept("work.py", WORK)


CONFLICT = (
    "git switch -q -c side && echo side > README.md && git commit -qam side && "
    "git switch -q main && echo main > README.md && git commit -qam main"
)
UNFINISHED = {
    "merge": (f"{CONFLICT}; git merge side || true", "git merge --abort"),
    "rebase": (f"{CONFLICT}; git rebase side || true", "git rebase --abort"),
    "stash": ("echo a > README.md; git stash -q; echo b > README.md; git commit -qam b; git stash pop || true",
              "git add README.md"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNFINISHED)
def test_what_is_left_unfinished_is_a_blocker_that_says_how_to_go_on(tmp_path: Path, what: str) -> None:
    stage = Stage.build(tmp_path, clean=True)
    command, ending = UNFINISHED[what]
    stage.engine.calls(
        call(session(wrote("work.py", WORK), ran(command), verdict("done"))),
        call(session(wrote("more.py", WORK), verdict("done"))),
    )
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(3, "BLOCKED", None, "BLOCKED")
    assert ending in outcome.told
    assert f"cf work resume {task.id[:8]}" in outcome.told
    outcome.check_work_kept("work.py", WORK)
    git(stage.repo, *ending.split()[1:])
    blocker = stage.workspace.store.blockers.list(task_id=task.id)[0]
    stage.workspace.store.blockers.answer(blocker.id, "mended it")
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")


RUINS = {
    "index": "echo rubbish > .git/index",
    "HEAD": "echo rubbish > .git/HEAD",
    "no HEAD": "rm .git/HEAD",
    "config": "printf '[core\\n' > .git/config",
    "no objects": "rm -rf .git/objects",
    "no refs": "rm -rf .git/refs",
    "a file for objects": "rm -rf .git/objects && touch .git/objects",
}


@pytest.mark.parametrize("ruin", RUINS)
def test_a_ruined_repository_is_said_in_words_and_the_tree_stays(stage: Stage, ruin: str) -> None:
    stage.engine.calls(call(session(wrote("work.py", WORK), ran(RUINS[ruin]), verdict("done"))))
    task = stage.task()
    outcome = stage.start(task)
    assert outcome.exit == 1
    assert outcome.run.status.value == "FAILED"
    assert outcome.run.error_class is not None
    assert outcome.run.error_class.value == "crashed"
    assert outcome.run.leftover.value == "pending"
    assert stage.status(task) == "READY"
    assert stage.read("work.py") == WORK
    assert stage.read("untracked.txt") == "new by a person\n"


def test_a_ruined_index_can_be_mended_and_the_run_goes_on(stage: Stage) -> None:
    stage.engine.calls(
        call(session(wrote("work.py", WORK), ran(RUINS["index"]), verdict("done"))),
        call(session(wrote("more.py", WORK), verdict("done"))),
    )
    task = stage.task()
    outcome = stage.start(task)
    assert outcome.exit == 1
    (stage.repo / ".git" / "index").unlink()
    git(stage.repo, "reset", "-q")
    stage.clean = True  # what was staged went with the index; it is in the base snapshot
    assert outcome.run.base is not None
    assert git(stage.repo, "show", f"{outcome.run.base}^2:staged.txt") == "staged by a person"
    stage.again("resume", task).expect(0, "COMPLETED", None, "DONE")
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert not stage.is_there("work.py")
    assert stage.read("untracked.txt") == "new by a person\n"


@pytest.mark.parametrize(
    "ruin",
    [
        "rm -rf .git",
        "rm -rf .git/codeframe",
        # Not state.db-shm: SQLite has it mapped, so cutting it short ends cf by SIGBUS, as kill -9 would.
        "for f in .git/codeframe/*/state.db .git/codeframe/*/state.db-wal; do echo rubbish > $f; done",
        "rm -rf .git/codeframe/*/runs",
        "d=$(echo .git/codeframe/*/index); rm -r $d; touch $d",
    ],
)
def test_a_ruined_state_is_said_in_words(stage: Stage, ruin: str) -> None:
    stage.engine.calls(call(session(wrote("work.py", WORK), ran(ruin), verdict("done"))))
    task = stage.task()
    said = stage.cf(*stage.start_args(task))
    assert "Traceback" not in said.stderr
    assert "Internal error" not in said.stderr
    assert (said.exit_code == 1) == ("cf: " in said.stderr), said
    assert said.exit_code == (0 if ruin.endswith("/runs") else 1), said
    if ruin.endswith("touch $d"):  # the database is whole, so the run must be over in it
        assert stage.workspace.store.runs.list()[0].leftover.value == "pending"
        assert stage.status(task) == "READY"
    assert stage.read("work.py") == WORK
    assert stage.read("untracked.txt") == "new by a person\n"


def test_the_whole_folder_is_deleted_and_that_is_said(stage: Stage) -> None:
    stage.engine.calls(call(session(ran(f"rm -rf '{stage.repo}'"), verdict("done"))))
    said = stage.cf(*stage.start_args(stage.task()))
    assert said.exit_code == 1
    assert "Traceback" not in said.stderr
    assert "Internal error" not in said.stderr


def test_files_that_cannot_be_stored_are_named_and_do_no_harm(stage: Stage) -> None:
    """For root every file can be read: what no one can read is a socket, or a folder in a file's place."""
    strange = (
        "mkfifo pipe; rm README.md; mkdir README.md; touch README.md/inside; mkdir -p a/.git; touch a/.git/x; "
        "ln -s loop loop; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"; "
        "touch unreadable; chmod 000 unreadable; mkdir closed; touch closed/x; chmod 000 closed"
    )
    stage.engine.calls(call(session(wrote("work.py", WORK), ran(strange), verdict("done"))))
    task = stage.task()
    outcome = stage.start(task)
    outcome.expect(0, "COMPLETED", None, "DONE")
    outcome.check_work_kept("work.py", WORK)
    os.chmod(stage.repo / "closed", 0o700)
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert stage.read("README.md") == COMMITTED["README.md"]
    stage.check_persons_work()


def test_an_ignored_file_the_engine_unignores_is_no_work_of_its(tmp_path: Path) -> None:
    stage = Stage.build(tmp_path, {".gitignore": "*.log\n"})
    write(stage.repo, {"mine.log": "a person's\n"})
    stage.engine.calls(call(session(wrote(".gitignore", ""), wrote("work.py", WORK), verdict("done"))))
    task = stage.task()
    stage.start(task).expect(0, "COMPLETED", None, "DONE")
    assert stage.cf("work", "undo", task.id).exit_code == 0
    assert stage.read("mine.log") == "a person's\n"
    stage.check_persons_work()


def test_a_workspace_in_a_subdirectory_sees_changes_outside_of_it_too(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "mono")
    commit(repo, "first", {"app/main.py": "m = 1\n", "other/x.py": "x = 1\n"})
    from codeframe.core.workspace import init_workspace

    stage = Stage.build(tmp_path, name="unused")
    workspace, _ = init_workspace(repo / "app")
    inner = Stage(repo, stage.engine, workspace, repo / "app", clean=True)
    inner.engine.calls(call(session(wrote("work.py", WORK), wrote("../other/y.py", WORK), verdict("done"))))
    task = inner.task()
    outcome = inner.start(task)
    outcome.expect(0, "COMPLETED", None, "DONE")
    assert inner.engine.invocations()[0].cwd == repo / "app"
    assert outcome.rounds[0]["files"] == ["created app/work.py", "created other/y.py"]
