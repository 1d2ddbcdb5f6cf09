"""What HEAD's moves bring is not the task's; what is committed here is (rule 8.1)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from codeframe.core.git import discover
from codeframe.core.head_moves import own_start
from codeframe.core.snapshots import Snapshot, Snapshots
from codeframe.core.undo import undo
from tests.kit.repos import commit, git, git_home, make_repo, write

__all__ = ["git_home"]

BASE = {"lib.py": "old\n", "gone.py": "x\n", "mine.py": "mine\n"}
OWN = {"mine.py": "worked on\n", "new.py": "n\n"}
MINE = {"modified mine.py", "created new.py"}


def snapshots_of(where: Path) -> Snapshots:
    found = discover(where)
    return Snapshots(found, "ws", found.git_dir / "codeframe" / "snapshots")


def changes(snapshots: Snapshots, start: Snapshot, end: Snapshot) -> set[str]:
    return {f"{c.kind} {c.path}" for c in snapshots.changes(start.commit, end.commit)}


@pytest.fixture(scope="session")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository at its first commits, with a colleague's two later ones in `origin/main` and, of an earlier day
    and its own making, one on `feature`, which lacks the newest of `main`. To be copied."""
    folder = tmp_path_factory.mktemp("cloned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        theirs = make_repo(folder / "theirs", BASE)
        git(folder, "clone", "-q", "theirs", "here")
        here = folder / "here"
        for name, value in (
            ("user.name", "P"),
            ("user.email", "p@example.invalid"),
            ("pull.rebase", "false"),
        ):
            git(here, "config", name, value)
        git(here, "switch", "-qc", "feature")
        commit(here, "feature", {"feature.py": "f\n", "lib.py": "feature\n"})
        git(here, "switch", "-q", "main")
        commit(here, "only on main", {"main.py": "m\n"})
        git(here, "push", "-q", "origin", "HEAD:refs/heads/other")
        git(theirs, "merge", "-q", "--ff-only", "other")
        commit(theirs, "one", {"lib.py": "theirs\n"})
        git(theirs, "rm", "-q", "gone.py")
        commit(theirs, "two", {"theirs.py": "t\n"})
        git(theirs, "branch", "release/1.2")
    # A day earlier for git's log of HEAD: what was committed before the work began was not made in it.
    log = here / ".git" / "logs" / "HEAD"
    log.write_text("".join(_a_day_earlier(line) for line in log.read_text().splitlines()))
    return here


@pytest.fixture
def pulled(git_home: Path, cloned: Path, tmp_path: Path) -> Path:
    return shutil.copytree(cloned, tmp_path / "here")


def _a_day_earlier(line: str) -> str:
    who, tab, how = line.partition("\t")
    *head, when, zone = who.split(" ")
    return f"{' '.join([*head, str(int(when) - 86400), zone])}{tab}{how}\n"


def do(here: Path, steps: str) -> None:
    """`WORK`, `COMMIT` (the same work, committed), `OLD` (at another time) and git commands, separated by "; "."""
    for step in steps.split("; "):
        if step == "COMMIT":
            commit(here, "own", OWN)
        elif step == "OLD":
            commit(here, "own", OWN)
            log = here / ".git" / "logs" / "HEAD"
            lines = log.read_text().splitlines(keepends=True)
            log.write_text("".join([*lines[:-1], _a_day_earlier(lines[-1])]))
        elif step == "WORK":
            write(here, OWN)
        else:
            git(here, *step.split(" "))


@pytest.mark.parametrize(
    "steps",
    [
        "WORK",
        "COMMIT",
        "pull -q; WORK",
        "pull -q; COMMIT",
        "pull -q; WORK; add -A; commit -q --amend --no-edit",
        "COMMIT; pull -q --no-edit",
        "COMMIT; pull -q --rebase=merges origin main",
        "COMMIT; pull -q --rebase origin release/1.2",
        "OLD; pull -q",
        "OLD; pull -q --rebase",
        "switch -q feature; WORK",
        "switch -q feature; merge -q --no-edit -X ours main; WORK",
        "switch -qc another; COMMIT; switch -q main; switch -q another",
        "pull -q; COMMIT; commit -q --amend -m again; switch -q feature; switch -q main",
        "WORK; stash -q -u; pull -q; stash pop -q",
        "reset -q --hard origin/other~1; WORK",
    ],
)
def test_only_what_was_done_here_is_the_tasks(pulled: Path, steps: str) -> None:
    snapshots = snapshots_of(pulled)
    start = snapshots.take("task", "start")
    do(pulled, steps)
    end = snapshots.take("task", "end")
    counted = own_start(snapshots, "task", start, end)
    assert changes(snapshots, counted, end) == MINE
    assert Snapshots(snapshots.repo, "ws", snapshots.cache_dir).load(counted.commit) == counted
    assert set(undo(snapshots, "task", [(counted, end)]).restored) == {"mine.py", "new.py"}
    assert (pulled / "mine.py").read_text() == "mine\n"
    # Nothing of what came in is staged away or gone from the tree.
    assert git(pulled, "status", "--porcelain", "--", ".", ":!mine.py", ":!new.py") == ""


def test_what_was_worked_on_after_it_came_in_goes_back_to_how_it_came(pulled: Path) -> None:
    snapshots = snapshots_of(pulled)
    start = snapshots.take("task", "start")
    git(pulled, "pull", "-q")
    write(pulled, {"lib.py": "theirs\nand mine\n"})
    end = snapshots.take("task", "end")
    undo(snapshots, "task", [(own_start(snapshots, "task", start, end), end)])
    assert (pulled / "lib.py").read_text() == "theirs\n"


def test_the_advice_to_drop_commits_names_no_others(pulled: Path) -> None:
    snapshots = snapshots_of(pulled)
    spans = []
    for name in ("a.py", "b.py"):
        start = snapshots.take("task", "start")
        commit(pulled, name, {name: ""})
        spans.append((start, snapshots.take("task", "end")))
        git(pulled, "pull", "-q", "--no-edit")  # between two runs
    git(pulled, "reset", "-q", "--hard", spans[1][1].head or "")
    note = undo(snapshots, "task", spans).note
    assert "git reset" not in note
    assert f"git log {spans[0][0].head}.." in note


def test_without_a_log_of_head_what_head_gained_came_in(pulled: Path) -> None:
    snapshots = snapshots_of(pulled)
    start = snapshots.take("task", "start")
    do(pulled, "pull -q; WORK")
    (pulled / ".git" / "logs" / "HEAD").unlink()
    end = snapshots.take("task", "end")
    counted = own_start(snapshots, "task", start, end)
    assert changes(snapshots, counted, end) == MINE
    assert counted.head == end.head
