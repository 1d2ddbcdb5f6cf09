"""`cf commit create`: only what the task changed; the person's own work, hooks and index are respected."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from codeframe.core.models import Task
from tests.cli.conftest import Cf, refused
from tests.cli.test_cli_app import in_shell
from tests.hostile.stage import STAGED, UNSTAGED, Stage
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.engines import Completed, start_cf
from tests.kit.repos import Content, commit, git, write
from tests.kit.scenario import FakeEngine, call, sh
from tests.kit.waiting import wait_until

TEN = "".join(f"line {n}\n" for n in range(10))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.build(tmp_path, {"ten.txt": TEN})


def done(stage: Stage, *steps: object, title: str = "Write the module") -> Task:
    """A task that is DONE after an engine call of these steps."""
    stage.engine.calls(call(session(*steps, verdict("made it so"))))
    task = stage.task(title)
    stage.start(task).expect(0, "COMPLETED", None, "DONE")
    return task


def committed(stage: Stage) -> list[str]:
    return committed_in(stage.repo)


def committed_in(repo: Path) -> list[str]:
    return git(repo, "show", "--format=", "--name-only", "--no-renames", "HEAD").split()


def hook(stage: Stage, name: str, script: str) -> None:
    path = stage.repo / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_only_what_the_task_changed_is_committed_and_staged_stays_staged(stage: Stage) -> None:
    task = done(stage, wrote("work.py", "x = 1\n"), wrote("README.md", "better\n"))
    before = git(stage.repo, "rev-parse", "HEAD")
    said = stage.cf("commit", "create")
    assert said.exit_code == 0, said
    assert committed(stage) == ["README.md", "work.py"]
    assert git(stage.repo, "rev-parse", "HEAD^") == before
    assert said.stdout.startswith(f"{git(stage.repo, 'rev-parse', 'HEAD')[:10]} Write the module\n")
    told = git(stage.repo, "log", "-1", "--format=%B")
    assert told.startswith("Write the module\n\nmade it so\n")
    assert f"CodeFrame-Task: {task.id}\n" in told
    assert "CodeFrame-Engine: claude-code" in told
    assert git(stage.repo, "status", "--porcelain").splitlines() == [
        "M  staged.txt",
        " M unstaged.txt",
        "?? untracked.txt",
    ]
    stage.check_persons_work()
    again = stage.cf("commit", "create", "--task", task.id)
    assert (again.exit_code, "a commit of it is in HEAD" in again.stderr) == (1, True)
    assert stage.cf("commit", "create").exit_code == 1


def test_a_persons_edits_of_the_same_file_are_not_committed(stage: Stage) -> None:
    mine = TEN.replace("line 1\n", "line 1, mine\n")
    write(stage.repo, {"ten.txt": mine})
    done(stage, sh("sed -i 's/line 8/line 8, the task/' ten.txt"))
    write(stage.repo, {"ten.txt": stage.read("ten.txt") + "later\n"})
    assert stage.cf("commit", "create").exit_code == 0
    assert git(stage.repo, "show", "HEAD:ten.txt") == TEN.replace("line 8", "line 8, the task").strip()
    assert stage.read("ten.txt") == mine.replace("line 8", "line 8, the task") + "later\n"
    assert " M ten.txt" in git(stage.repo, "status", "--porcelain").splitlines()


def test_what_a_person_staged_in_the_same_file_is_staged_afterwards(stage: Stage) -> None:
    mine = TEN.replace("line 1\n", "line 1, mine\n")
    write(stage.repo, {"ten.txt": mine})
    git(stage.repo, "add", "ten.txt")
    done(stage, sh("sed -i 's/line 8/line 8, the task/' ten.txt"))
    assert stage.cf("commit", "create").exit_code == 0
    assert git(stage.repo, "show", "HEAD:ten.txt") == TEN.replace("line 8", "line 8, the task").strip()
    assert "+line 1, mine" in git(stage.repo, "diff", "--cached", "ten.txt")
    assert "line 8" not in git(stage.repo, "diff", "--cached", "-U0", "ten.txt")
    assert git(stage.repo, "diff", "ten.txt") == ""


@pytest.mark.parametrize("staged", [False, True])
def test_edits_that_overlap_refuse_the_commit_and_change_nothing(stage: Stage, staged: bool) -> None:
    write(stage.repo, {"ten.txt": TEN.replace("line 8", "line 8, mine")})
    if staged:
        git(stage.repo, "add", "ten.txt")
    task = done(stage, sh("sed -i 's/line 8.*/line 8, the task/' ten.txt"), wrote("work.py", "x = 1\n"))
    (stage.repo / "sub").mkdir(exist_ok=True)
    before = git(stage.repo, "rev-parse", "HEAD"), git(stage.repo, "status", "--porcelain")
    said = stage.cf("commit", "create", "--task", task.id)
    assert said.exit_code == 1
    assert before == (git(stage.repo, "rev-parse", "HEAD"), git(stage.repo, "status", "--porcelain"))
    # What is to be typed gets past it.
    both, rest = said.stderr.splitlines()[-1].split("; then the rest: ")
    editor = {"GIT_EDITOR": "sh -c 'echo Both >$1' -"}
    assert in_shell(both.partition("together: ")[2], stage.repo / "sub", editor).exit_code == 0
    assert git(stage.repo, "show", "HEAD:ten.txt") == TEN.replace("line 8", "line 8, the task").strip()
    assert stage.cf(*rest.split()[1:]).exit_code == 0
    assert committed(stage) == ["work.py"]


def test_a_hook_that_refuses_is_heard_and_leaves_everything_as_it_was(stage: Stage) -> None:
    hook(stage, "pre-commit", "echo 'no tabs, please' >&2; exit 1")
    task = done(stage, wrote("work.py", "x = 1\n"))
    before = git(stage.repo, "rev-parse", "HEAD"), git(stage.repo, "status", "--porcelain")
    said = stage.cf("commit", "create", "--task", task.id)
    assert (said.exit_code, "no tabs, please" in said.stderr) == (1, True)
    assert before == (git(stage.repo, "rev-parse", "HEAD"), git(stage.repo, "status", "--porcelain"))


def test_a_hook_that_formats_is_followed(stage: Stage) -> None:
    hook(stage, "pre-commit", "echo 'x = 2' > work.py; git add work.py")
    done(stage, wrote("work.py", "x  =  2\n"))
    assert stage.cf("commit", "create").exit_code == 0
    assert git(stage.repo, "show", "HEAD:work.py") == "x = 2"
    assert "work.py" not in git(stage.repo, "status", "--porcelain")
    stage.check_persons_work()


def test_deletions_modes_and_the_first_commit(tmp_path: Path) -> None:
    stage = Stage.build(tmp_path, clean=True)
    done(stage, sh("rm README.md; echo hi > run.sh; chmod +x run.sh; ln -s run.sh link"))
    assert stage.cf("commit", "create", "-m", "Tidy up").exit_code == 0
    assert git(stage.repo, "status", "--porcelain") == ""
    assert git(stage.repo, "show", "--format=%s", "--summary", "HEAD").splitlines() == [
        "Tidy up",
        "",
        " delete mode 100644 README.md",
        " create mode 120000 link",
        " create mode 100755 run.sh",
    ]
    (tmp_path / "new").mkdir()
    empty = Stage.build(tmp_path / "new", empty=True)
    done(empty, wrote("work.py", "x = 1\n"))
    said = empty.cf("commit", "create")
    assert said.exit_code == 0, said
    assert committed(empty) == ["work.py"]
    assert "?? README.md" in git(empty.repo, "status", "--porcelain")


def test_a_file_that_became_a_folder_and_a_folder_that_became_a_file_are_committed(cf: Cf) -> None:
    commit(cf.where, "both kinds", {"tool": "x\n", "pkg/f": "f\n"})
    task = cf.add("Turn them round")
    cf("work", "start", task)
    (cf.where / "tool").unlink()
    shutil.rmtree(cf.where / "pkg")
    write(cf.where, {"tool/main": "y\n", "pkg": "z\n"})
    cf("work", "verify", task)
    hooks = cf.where / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-commit").chmod(0o755)
    before = git(cf.where, "ls-files", "-s")
    refused(cf("commit", "create", code=1), "git refused the commit")
    for verb in ("start", "resume"):  # a `cf` that was killed before the commit leaves the same
        assert f"cf commit create --task {task[:8]}" in cf("work", verb, task, code=1).stderr
    assert git(cf.where, "ls-files", "-s") == before
    (hooks / "pre-commit").unlink()
    cf("commit", "create")
    assert committed_in(cf.where) == ["pkg", "pkg/f", "tool", "tool/main"]
    assert git(cf.where, "status", "--porcelain") == ""


def test_line_ends_are_committed_as_git_would(stage: Stage) -> None:
    commit(stage.repo, "attributes", {".gitattributes": "*.txt text eol=crlf\n"})
    done(stage, sh("printf 'a\\r\\nb\\r\\n' > new.txt"))
    assert stage.cf("commit", "create").exit_code == 0
    assert git(stage.repo, "cat-file", "blob", "HEAD:new.txt") == "a\nb"
    assert "new.txt" not in git(stage.repo, "status", "--porcelain")


def test_two_tasks_become_two_commits(stage: Stage) -> None:
    first = done(stage, wrote("work.py", "x = 1\n"), title="One")
    second = done(stage, wrote("work.py", "x = 2\n"), wrote("more.py", "y = 1\n"), title="Two")
    said = stage.cf("commit", "create")
    assert (said.exit_code, first.id[:8] in said.stderr, "Two" in said.stderr) == (2, True, True)
    early = stage.cf("commit", "create", "--task", second.id)
    assert (early.exit_code, f"--task {first.id[:8]}" in early.stderr) == (1, True)
    assert stage.cf("commit", "create", "--task", first.id).exit_code == 0
    assert git(stage.repo, "show", "HEAD:work.py") == "x = 1"
    assert stage.cf("commit", "create").exit_code == 0
    assert git(stage.repo, "show", "HEAD:work.py") == "x = 2"
    assert git(stage.repo, "log", "-2", "--format=%s").split() == ["Two", "One"]
    assert stage.cf("commit", "create", "--task", first.id).exit_code == 1


def test_a_task_that_is_not_done_is_not_committed(stage: Stage) -> None:
    task = stage.task()
    said = stage.cf("commit", "create", "--task", task.id)
    assert (said.exit_code, "is READY, not DONE" in said.stderr) == (1, True)
    assert (stage.read("staged.txt"), stage.read("unstaged.txt")) == (STAGED, UNSTAGED)


def test_a_patch_carries_the_task_to_another_clone(stage: Stage) -> None:
    for key, value in {"diff.noprefix": "true", "format.coverLetter": "true", "format.attach": "x"}.items():
        git(stage.repo, "config", key, value)
    commit(stage.repo, "clean", {})
    git(stage.repo, "clone", "-q", ".", "../other")
    other = stage.repo.parent / "other"
    task = done(stage, wrote("work.py", "x = 1\n"), sh("printf '\\0\\1' > data.bin; rm README.md"))
    write(stage.repo, {"unstaged.txt": "mine, not the task's\n"})
    before = git(stage.repo, "status", "--porcelain")
    patch = stage.cf("patch", "export", task.id).stdout
    assert git(stage.repo, "status", "--porcelain") == before
    name = ("-c", "user.name=A Person", "-c", "user.email=person@example.invalid")
    git(other, *name, "am", "-q", stdin=patch.encode())
    assert committed_in(other) == ["README.md", "data.bin", "work.py"]
    assert git(other, "log", "-1", "--format=%s%n%(trailers:key=CodeFrame-Task,valueonly)") == (
        f"Write the module\n{task.id}"
    )
    file = stage.repo.parent / "the.patch"
    assert stage.cf("patch", "export", task.id, "-o", str(file)).exit_code == 0
    assert stage.cf("commit", "create").exit_code == 0
    again = stage.cf("patch", "export", task.id, "-o", str(file))
    assert (again.exit_code, "--force" in again.stderr) == (2, True)
    assert stage.cf("patch", "export", task.id, "-o", str(file), "--force").exit_code == 0
    git(other, "reset", "-q", "--hard", "HEAD^")
    git(other, *name, "am", "-q", stdin=file.read_bytes())
    assert committed_in(other) == ["README.md", "data.bin", "work.py"]


def test_a_task_that_changed_nothing_has_no_patch(stage: Stage) -> None:
    task = stage.task()
    said = stage.cf("patch", "export", task.id)
    assert (said.exit_code, said.stdout) == (1, "")


def test_what_later_commits_changed_again_is_not_to_be_committed_again(stage: Stage) -> None:
    first = done(stage, wrote("work.py", "x = 1\n"), title="One")
    assert stage.cf("commit", "create").exit_code == 0
    done(stage, wrote("work.py", "x = 2\ny = 3\n"), title="Two")
    assert stage.cf("commit", "create").exit_code == 0
    done(stage, wrote("more.py", "y = 1\n"), title="Three")
    write(stage.repo, {"work.py": "mine\n"})
    said = stage.cf("commit", "create")
    assert said.exit_code == 0, said
    assert committed(stage) == ["more.py"]
    again = stage.cf("commit", "create", "--task", first.id)
    assert (again.exit_code, "a commit of it is in HEAD" in again.stderr) == (1, True)


def test_what_gates_leave_behind_is_not_committed(stage: Stage) -> None:
    stage.gate("echo report > report.txt")
    stage.engine.calls(call(session(wrote("work.py", "x = 1\n"), verdict("made it so"))))
    task = stage.task()
    stage.start(task, gates=True).expect(0, "COMPLETED", None, "DONE")
    assert stage.cf("commit", "create").exit_code == 0
    assert committed(stage) == ["work.py"]


def test_ctrl_c_while_a_hook_runs_after_the_commit_leaves_nothing_staged_the_wrong_way_round(
    stage: Stage,
) -> None:
    hook(stage, "post-commit", "touch ../committed; sleep 5")
    task = done(stage, wrote("work.py", "x = 1\n"), wrote("README.md", "better\n"))
    process = start_cf("commit", "create", "--task", task.id, cwd=stage.repo, env=stage.env)
    wait_until((stage.repo.parent / "committed").exists)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    assert (process.returncode, "the commit is made" in str(said)) == (130, True)
    assert committed(stage) == ["README.md", "work.py"]
    left = git(stage.repo, "status", "--porcelain").splitlines()
    assert left == ["M  staged.txt", " M unstaged.txt", "?? untracked.txt"]


def test_a_commit_that_a_hook_puts_on_top_stays(stage: Stage) -> None:
    bump = (
        "test -e ../bumped || { touch ../bumped; echo 2 > version; git add version; git commit -q -m bump; }"
    )
    hook(stage, "post-commit", f"unset GIT_INDEX_FILE; {bump}")
    done(stage, wrote("work.py", "x = 1\n"))
    said = stage.cf("commit", "create")
    assert said.exit_code == 0, said
    assert git(stage.repo, "log", "-2", "--format=%s").splitlines() == ["bump", "Write the module"]
    assert said.stdout.startswith(git(stage.repo, "rev-parse", "--short=10", "HEAD^"))


@pytest.mark.parametrize(("path", "mine"), [("new/f", ["new"]), ("new", ["new/0", "new/1"])])
def test_what_is_staged_where_the_task_has_a_folder_or_a_file_is_never_dropped(
    stage: Stage, path: str, mine: list[str]
) -> None:
    task = done(stage, wrote(path, "x = 1\n"))
    git(stage.repo, "clean", "-fdq", "new")
    write(stage.repo, dict.fromkeys(mine, "mine\n"))
    git(stage.repo, "add", *mine)
    before = git(stage.repo, "ls-files", "-s")
    said = stage.cf("commit", "create", "--task", task.id)
    assert said.exit_code == 1, said
    assert git(stage.repo, "ls-files", "-s") == before


def test_a_file_that_a_hook_adds_is_followed_only_where_the_person_staged_nothing(stage: Stage) -> None:
    add = "oid=$(echo bumped | git hash-object -w --stdin); git update-index --cacheinfo 100644,$oid,"
    hook(stage, "pre-commit", f"{add}staged.txt; {add}ten.txt")
    done(stage, sh("echo 'x = 1' > work.py"))
    before = git(stage.repo, "show", ":staged.txt")
    assert stage.cf("commit", "create").exit_code == 0
    assert git(stage.repo, "show", "HEAD:staged.txt") == git(stage.repo, "show", "HEAD:ten.txt") == "bumped"
    assert git(stage.repo, "show", ":staged.txt") == before
    assert git(stage.repo, "show", ":ten.txt") == "bumped"
    stage.check_persons_work()


def test_a_staged_file_that_is_marked_for_git_to_leave_alone_stays_marked(stage: Stage) -> None:
    write(stage.repo, {"ten.txt": TEN.replace("line 1\n", "line 1, mine\n")})
    git(stage.repo, "add", "ten.txt")
    git(stage.repo, "update-index", "--skip-worktree", "ten.txt")
    done(stage, sh("sed -i 's/line 8/line 8, the task/' ten.txt"))
    assert stage.cf("commit", "create").exit_code == 0
    assert "line 8, the task" in git(stage.repo, "show", "HEAD:ten.txt")
    assert git(stage.repo, "ls-files", "-v", "ten.txt") == "S ten.txt"


def test_a_file_that_is_marked_for_git_to_leave_alone_stays_marked(stage: Stage) -> None:
    git(stage.repo, "update-index", "--skip-worktree", "ten.txt")
    write(stage.repo, {"ten.txt": TEN.replace("line 1\n", "PASSWORD=mine\n")})
    done(stage, sh("sed -i 's/line 8/line 8, the task/' ten.txt"))
    stage.cf("commit", "create")
    assert git(stage.repo, "ls-files", "-v", "ten.txt") == "S ten.txt"


@pytest.mark.parametrize(
    "words",
    [
        "did it\n---\ndiff --git a/evil.sh b/evil.sh\nnew file mode 100755\n--- /dev/null\n+++ b/evil.sh\n"
        "@@ -0,0 +1 @@\n+boo\n",
        "From: Somebody Else <else@example.invalid>\nDATE: Thu, 1 Jan 1990 00:00:00 +0000\nSubject: Approved\n\nhi",
        "[PATCH] Approved\n>From nobody Mon Sep 17 00:00:00 2001",
    ],
    ids=["a patch", "headers", "a subject"],
)
def test_words_of_an_engine_are_no_patch_and_no_author(stage: Stage, words: str) -> None:
    stage.engine.calls(call(session(wrote("work.py", "x = 1\n"), verdict(words))))
    task = stage.task()
    git(stage.repo, "clone", "-q", ".", "../other")
    other = stage.repo.parent / "other"
    stage.start(task).expect(0, "COMPLETED", None, "DONE")
    patch = stage.cf("patch", "export", task.id).stdout
    git(other, "-c", "user.name=p", "-c", "user.email=p@example.invalid", "am", "-q", stdin=patch.encode())
    assert committed_in(other) == ["work.py"]
    told = git(other, "log", "-1", "--format=%an %ad %s%n%b", "--date=format:%Y").splitlines()
    assert told[0] == f"A Person {datetime.now(tz=UTC).year} Write the module"
    assert "CodeFrame-Task" in told[-3]


def test_a_verified_run_is_committed_where_that_was_asked_for(stage: Stage) -> None:
    stage.gate("test -e work.py")
    stage.engine.calls(call(session(wrote("work.py", "x = 1\n"), verdict("made it so"))))
    hook(stage, "pre-commit", "test -e ../allowed || { echo no >&2; exit 1; }")
    task, before = stage.task(), git(stage.repo, "status", "--porcelain")
    said = stage.start(task, "--commit", gates=True)
    said.expect(1, "COMPLETED", None, "DONE")
    assert "Not committed yet: " in said.told
    assert "git refused the commit: no" in said.told
    assert (
        f"is DONE, but not committed. When that is mended: cf commit create --task {task.id[:8]}" in said.told
    )
    assert git(stage.repo, "status", "--porcelain") == f"{before}\n?? work.py"
    (stage.repo.parent / "allowed").touch()
    stage.engine.calls(call(session(wrote("more.py", "x = 1\n"), verdict("made it so"))))
    stage.cf("commit", "create")
    other = stage.task("Another")
    told = stage.start(other, "--commit", "--json", gates=True)
    told.expect(0, "COMPLETED", None, "DONE")
    made = told.said.json()["commit"]
    assert (made["commit"], made["files"]) == (git(stage.repo, "rev-parse", "HEAD"), ["more.py"])
    assert committed(stage) == ["more.py"]
    assert git(stage.repo, "status", "--porcelain") == before
    stage.check_persons_work()


# -- what is left out, and why -----------------------------------------------------------------------


def by_hand(cf: Cf, files: dict[str, Content], title: str = "Do it") -> str:
    """A task that is DONE, in which these files were written."""
    task = cf.add(title)
    cf("work", "start", task)
    write(cf.where, files)
    cf("work", "verify", task)
    return task


def left_out(done: Completed) -> dict[str, str]:
    lines = [line.removeprefix("Left out: ") for line in done.stdout.splitlines() if "Left out: " in line]
    return {path: why.rstrip(")") for path, why in (line.split(" (", 1) for line in lines)}


@pytest.mark.parametrize("mark", ["skip-worktree", "assume-unchanged"])
def test_files_that_git_was_told_to_leave_alone_are_left_out_with_the_reason(cf: Cf, mark: str) -> None:
    git(cf.where, "update-index", f"--{mark}", "README.md")
    task = by_hand(cf, {"README.md": "by the task\n", "work.py": "x = 1\n"})
    said = cf("commit", "create")
    assert committed_in(cf.where) == ["work.py"]
    assert left_out(said) == {"README.md": f"marked {mark} for git to leave it alone"}
    more = f"cf commit create --task {task[:8]} -- :/README.md"
    assert more in said.stdout
    refused(cf("commit", "create", "--task", task, "--", "work.py", code=2), "is not among what a commit")
    assert committed_in(cf.where) == ["work.py"]
    cf(*more.split()[1:])
    assert committed_in(cf.where) == ["README.md"]
    assert git(cf.where, "ls-files", "-v", "README.md")[0] in "Sh"


def test_what_is_not_committed_is_named_with_its_true_reason(cf: Cf) -> None:
    commit(cf.where, "more", {"back.txt": "old\n"})
    files = ("gone/a.txt", "hidden.log", "back.txt", "id_rsa", "work.py")
    task = by_hand(cf, dict.fromkeys(files, "x = 1\n"))
    shutil.rmtree(cf.where / "gone")
    write(cf.where, {".git/info/exclude": "*.log\n", "back.txt": "old\n"})
    expected = {
        "back.txt": "the same as in HEAD: taken back since, or committed with later changes",
        "gone/a.txt": "deleted since",
        "hidden.log": "ignored now",
        "id_rsa": "looks like a secret",
    }
    told = cf("patch", "export", task)
    assert "work.py" in told.stdout
    assert left_out(Completed(0, told.stderr, "")) == expected
    assert left_out(cf("commit", "create")) == expected
    assert committed_in(cf.where) == ["work.py"]
    other = by_hand(cf, {"new/f": "1\n"})
    shutil.rmtree(cf.where / "new")
    write(cf.where, {"new": "mine\n"})
    git(cf.where, "add", "new")
    for command in (("commit", "create", "--task"), ("patch", "export")):
        refused(cf(*command, other, code=1), "There is nothing", "left out: new/f (deleted since).")


def test_what_was_ignored_before_the_run_may_be_older_and_is_left_out(cf: Cf) -> None:
    commit(cf.where, "rules", {".gitignore": "local.cfg\n/data/\n"})
    write(cf.where, {"local.cfg": "PASSWORD=mine\n", "data/mine.txt": "mine\n"})
    task = by_hand(cf, {".gitignore": "", "work.py": "x = 1\n", "more/local.txt": "1\n"})
    said = cf("commit", "create")
    assert committed_in(cf.where) == [".gitignore", "more/local.txt", "work.py"]
    why = "ignored before the run, so it may be older"
    assert left_out(said) == {"data/mine.txt": why, "local.cfg": why}
    cf("commit", "create", "--task", task, "--", "data/mine.txt")
    assert committed_in(cf.where) == ["data/mine.txt"]


def test_the_state_of_head_is_read_once_for_all_tasks(
    cf: Cf, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, real = cf.where.parent / "count", shutil.which("git")
    stub = engine.bin / "git"
    stub.write_text(f"#!/bin/sh\necho \"$*\" >> '{count}'\nexec '{real}' \"$@\"\n")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", engine.path())
    used = []
    for n in range(3):
        by_hand(cf, {f"work{n}.py": "x = 1\n"}, f"Task {n}")
        if n:
            count.unlink()
            cf("commit", "create", code=2)
            used.append(len(count.read_text().splitlines()))
    assert used[1] - used[0] <= 2, used  # what the task changed, and whether git converts it


@pytest.mark.parametrize("there", ["fifo", "link to a fifo", "link to nowhere", "below a file"])
def test_export_replaces_no_device_no_fifo_and_no_link(cf: Cf, tmp_path: Path, there: str) -> None:
    task, place = by_hand(cf, {"work.py": "x = 1\n"}), tmp_path / "it"
    os.mkfifo(tmp_path / "fifo")
    if there == "fifo":
        place = tmp_path / "fifo"
    elif there == "below a file":
        place = cf.where / "README.md" / "x"
    else:
        place.symlink_to(tmp_path / ("fifo" if "fifo" in there else "nowhere"))
    before = sorted(os.listdir(tmp_path))
    for force in ((), ("--force",)):
        refused(
            cf("patch", "export", task, "-o", str(place), *force, code=1),
            f"cf patch export {task[:8]} > FILE",
        )
    assert sorted(os.listdir(tmp_path)) == before
    assert stat.S_ISFIFO((tmp_path / "fifo").lstat().st_mode)


def test_export_writes_where_a_link_leads_and_keeps_the_permissions(cf: Cf, tmp_path: Path) -> None:
    task, real, link = by_hand(cf, {"work.py": "x = 1\n"}), tmp_path / "real", tmp_path / "link"
    real.write_text("old\n")
    real.chmod(0o600)
    link.symlink_to(real)
    cf("patch", "export", task, "-o", str(link), "--force")
    assert (link.is_symlink(), "+x = 1" in real.read_text()) == (True, True)
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_an_empty_path_is_not_the_current_folder(cf: Cf) -> None:
    task = by_hand(cf, {"work.py": "x = 1\n"})
    for command in (("work", "undo", task), ("patch", "export", task), ("commit", "create", "--task", task)):
        refused(cf(*command, "--", "", code=2), "A path is empty.")
    assert (cf.where / "work.py").exists()


def test_a_hook_that_drops_the_trailers_does_not_hide_the_commit(cf: Cf) -> None:
    script = cf.where / ".git" / "hooks" / "commit-msg"
    write(cf.where, {".git/hooks/commit-msg": '#!/bin/sh\necho short > "$1"\n'})
    script.chmod(0o755)
    task = by_hand(cf, {"work.py": "x = 1\n"})
    said = cf("commit", "create", "--task", task)
    made = git(cf.where, "rev-parse", "HEAD")[:10]
    assert said.stdout.startswith(f"{made} Do it\n  work.py\nIts message lacks the lines that name the task")
    assert f"git format-patch -1 {made}" in said.stdout
    assert git(cf.where, "status", "--porcelain") == ""


def test_modes_are_committed_as_git_would_where_it_does_not_look_at_them(cf: Cf) -> None:
    git(cf.where, "config", "core.fileMode", "false")
    task = cf.add()
    cf("work", "start", task)
    write(cf.where, {"run.sh": "echo hi\n", "README.md": "better\n"})
    (cf.where / "run.sh").chmod(0o755)
    (cf.where / "README.md").chmod(0o755)
    cf("work", "verify", task)
    cf("commit", "create", "--task", task)
    assert committed_in(cf.where) == ["README.md", "run.sh"]
    assert "100755" not in git(cf.where, "ls-tree", "HEAD")


def test_git_add_intent_is_no_staged_content(cf: Cf) -> None:
    task = by_hand(cf, {"work.py": "x = 1\n", "sub/.gitignore": "*.log\n"})
    git(cf.where, "add", "-N", ".")
    before = git(cf.where, "status", "--porcelain")
    script = cf.where / ".git" / "hooks" / "pre-commit"
    write(cf.where, {".git/hooks/pre-commit": "#!/bin/sh\nexit 1\n"})
    script.chmod(0o755)
    cf("commit", "create", "--task", task, code=1)
    assert git(cf.where, "status", "--porcelain") == before
    script.unlink()
    cf("commit", "create", "--task", task)
    assert committed_in(cf.where) == ["sub/.gitignore", "work.py"]
    assert git(cf.where, "status", "--porcelain") == ""


def test_verified_work_that_is_not_committed_is_named_until_it_is(cf: Cf) -> None:
    """`cf status` said `DONE 1`; and a second check without an edit hid what there was to commit."""
    task = cf.add("By hand")
    cf("work", "start", task)
    (cf.where / "a.txt").write_text("a\n")
    cf("work", "verify", task, "--require-gates", code=1)
    said = cf("work", "verify", task).stdout
    assert "created a.txt" in said
    assert f"cf commit create --task {task[:8]}" in said
    named = f"Not committed: {task[:8]} “By hand”\n  cf commit create --task {task[:8]}\n"
    assert named in cf("status").stdout
    refused(cf("work", "verify", task, code=1), f"commit it: cf commit create --task {task[:8]}")
    cf("commit", "create", "--task", task)
    assert "Not committed" not in cf("status").stdout
    assert "task_added  By hand" in cf("events").stdout
    assert "UTC" in cf("events").stdout
    assert "run_finished  COMPLETED, unverified" in cf("events").stdout


def test_work_that_was_taken_back_is_said_to_be(cf: Cf) -> None:
    task = cf.add()
    cf("work", "start", task)
    (cf.where / "a.txt").write_text("a\n")
    cf("work", "verify", task)
    cf("work", "undo", task)
    assert "COMPLETED, undone" in cf("work", "show", task).stdout
    assert "taken back since" in cf("work", "why", task).stdout
    assert "Not committed" not in cf("status").stdout
    refused(cf("patch", "export", task, code=1), "what it changed was taken back")
    refused(cf("work", "resume", task, code=1), "COMPLETED and was taken back", f"cf work start {task[:8]}")
    refused(cf("work", "why", task, "--run", "zz", code=2), f"Type: cf work show {task[:8]}")


def test_no_identity_is_told_before_the_gates_run(cf: Cf, monkeypatch: pytest.MonkeyPatch) -> None:
    task = cf.add()
    cf("work", "start", task)
    (cf.where / "a.txt").write_text("a\n")
    git(cf.where, "config", "user.useConfigOnly", "true")
    git(cf.where, "config", "--unset-all", "user.email")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for name in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    refused(
        cf("work", "verify", task, "--commit", code=1), "does not know who commits", "git config user.name"
    )
    assert cf("tasks", "show", task, "--json").json()["status"] == "IN_PROGRESS"
