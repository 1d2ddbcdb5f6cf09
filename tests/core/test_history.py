"""What an engine does to branches, tags, stashes and HEAD is told with what puts it back, and nothing of it is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from codeframe.core.git import discover
from codeframe.core.history import MAX_LINES, History
from codeframe.core.snapshots import Snapshots
from tests.kit.repos import commit, git, git_home, repo, write

__all__ = ["git_home", "repo"]


def shell(where: Path, script: str) -> None:
    subprocess.run(["sh", "-ec", script], cwd=where, check=True, capture_output=True)


def refs(where: Path) -> str:
    """All of a person's refs and stashes, and where HEAD is."""
    said = git(where, "for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    kept = [line for line in said if " refs/codeframe/" not in line and " refs/stash" not in line]
    return "\n".join([*kept, git(where, "rev-parse", "HEAD", "--symbolic-full-name", "HEAD"),
                      git(where, "stash", "list", "--format=%H %gs")])  # fmt: skip


@pytest.fixture
def watched(repo: Path, tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """A repository with branches, tags and stashes; the fixture does a script in it as an engine would."""
    commit(repo, "second", {"README.md": "2\n"})
    commit(repo, "third", {"README.md": "3\n"})
    git(repo, "branch", "old", "HEAD~2")
    shell(repo, "git switch -qc side HEAD~1; echo s > s; git add s; git commit -qm side; git switch -q main")
    shell(repo, "git tag light side; git tag -m annotated annotated side")
    shell(repo, "git notes add -m note; git update-ref refs/wip/x $(git commit-tree -m wip HEAD^{tree})")
    git(repo, "update-ref", "refs/remotes/o/x", "HEAD~2")
    for number in "12":
        write(repo, {"README.md": f"stashed {number}\n"})
        git(repo, "stash", "push", "-q", "-m", f"my work {number}")
    snapshots = Snapshots(discover(repo), "w", tmp_path / "cache")
    folder = tmp_path / "run"
    folder.mkdir()
    history = History(discover(repo), "refs/codeframe/w/t", folder)

    def engine(script: str) -> tuple[str, ...]:
        history.begin()()
        base = snapshots.take("t", "base")
        shell(repo, script)
        after = history.look()
        return history.moved(after, base, snapshots.take("t", "end"))

    return engine


GC = "; git reflog expire --expire=now --all; git gc -q --prune=now"
MOVES = {
    "reset": ("git reset -q --hard HEAD~2", "branch main went from", 1),
    "amend": ("git commit -q --amend -m amended", "branch main went from", 1),
    "a branch deleted": ("git branch -qD side", "branch side is gone", 1),
    "a branch moved": ("git branch -f old main", "branch old went from", 1),
    "a branch made": ("git branch new", "branch new is new", 1),
    "a tag deleted": ("git tag -d light", "tag light is gone", 1),
    "a tag moved": ("git tag -f light main", "tag light went from", 1),
    "an annotated tag and its branch deleted": (
        "git tag -d annotated light; git branch -qD side", "tag annotated is gone", 3),
    "a stash dropped": ("git stash drop -q 'stash@{1}'", "“On main: my work 1” is gone", 1),
    "all stashes dropped": ("git stash clear", "“On main: my work 2” is gone", 2),
    "a note removed": ("git update-ref -d refs/notes/commits", "ref refs/notes/commits is gone", 1),
    "a ref of a person's own removed": ("git update-ref -d refs/wip/x", "ref refs/wip/x is gone", 1),
    "a remote branch removed": ("git update-ref -d refs/remotes/o/x", "ref refs/remotes/o/x is gone", 1),
    "another branch": ("git switch -q side", "HEAD was on main and is on side", 1),
    "detached": ("git switch -q --detach", "HEAD was on main and is on no branch", 1),
}  # fmt: skip


@pytest.mark.parametrize("move", MOVES)
def test_what_moved_is_told_with_the_command_that_puts_it_back(
    watched: Callable[[str], tuple[str, ...]], repo: Path, move: str
) -> None:
    script, words, count = MOVES[move]
    before = refs(repo)
    lines = watched(script)
    assert refs(repo) != before
    assert len(lines) == count
    assert any(words in line for line in lines), lines
    # Whatever gc does then, all of it can be brought back: by what is told.
    shell(
        repo, "git reflog expire --expire=now HEAD main; git gc -q --prune=now"
    )  # keeps the list of stashes
    for line in lines:
        shell(repo, line.rpartition(" type: ")[2])
    assert sorted(refs(repo).splitlines()) == sorted(before.splitlines())


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("git reset -q", "of README.md, a\\nCOMPLETED, gone changed"),
        ("git add -A", "of README.md changed"),
        ("rm .git/index", "of README.md, a\\nCOMPLETED, kept changed"),
        ("git rm -q --cached kept", "of kept changed"),
        ("git reset -q; git add -A; git commit -qm all", "of README.md changed"),
        ("echo x > new; git add new; git rm -q kept", ""),
        ("git commit -qm staged", ""),
    ],
)
def test_what_becomes_of_what_a_person_staged_is_told_and_comes_back(
    watched: Callable[[str], tuple[str, ...]], repo: Path, script: str, told: str
) -> None:
    commit(repo, "more", {"gone": "g\n", "kept": "k\n"})
    write(repo, {"README.md": "staged\n", "a\nCOMPLETED": "s\n"})
    git(repo, "rm", "-q", "gone")
    git(repo, "add", "-A")
    write(repo, {"README.md": "edited since\n"})
    before = git(repo, "ls-files", "-s")
    lines = watched(script)
    assert [told in line for line in lines] == ([True] if told else [])
    for line in lines:
        shell(repo, f"git gc -q --prune=now; {line.rpartition(' type: ')[2]}")
        assert git(repo, "ls-files", "-s") == before


def test_gc_in_the_same_breath_takes_no_branch_and_no_stash(
    watched: Callable[[str], tuple[str, ...]], repo: Path
) -> None:
    before = refs(repo)
    lines = watched(
        f"git branch -D old side; git tag -d light; git stash clear; git reset -q --hard HEAD~2{GC}"
    )
    for line in lines:
        shell(repo, line.rpartition(" type: ")[2])
    assert sorted(refs(repo).splitlines()) == sorted(before.splitlines())


@pytest.mark.parametrize(
    "script",
    [
        "true",
        "git commit -q --allow-empty -m one; git commit -q --allow-empty -m two",
        "git fetch -q .",
        "git update-ref refs/remotes/o/x HEAD",
    ],
)
def test_commits_on_top_of_the_branch_are_no_such_thing(
    watched: Callable[[str], tuple[str, ...]], script: str
) -> None:
    assert watched(script) == ()


def test_commits_on_a_detached_head_are_none_either_but_going_back_is(
    watched: Callable[[str], tuple[str, ...]], repo: Path
) -> None:
    git(repo, "switch", "-q", "--detach")
    was = git(repo, "rev-parse", "HEAD")
    assert watched("git commit -q --allow-empty -m one") == ()
    (line,) = watched("git reset -q --hard HEAD~2")
    assert line.startswith("HEAD went from")
    git(repo, "reset", "-q", "--hard", was)


def test_a_stash_that_the_engine_makes_is_told_with_what_brings_its_content_back(
    watched: Callable[[str], tuple[str, ...]], repo: Path
) -> None:
    write(repo, {"README.md": "a person's\n"})
    (line,) = watched("git stash push -q -m hidden")
    assert "“On main: hidden” is new" in line
    shell(repo, line.rpartition(" type: ")[2])
    assert (repo / "README.md").read_text() == "a person's\n"


def test_the_first_commit_of_a_repository_is_no_move(git_home: Path, tmp_path: Path) -> None:
    from tests.kit.repos import make_repo

    where = make_repo(tmp_path / "new")
    snapshots = Snapshots(discover(where), "w", tmp_path / "cache")
    history = History(discover(where), "refs/codeframe/w/t", tmp_path)
    history.begin()()
    base = snapshots.take("t", "base")
    commit(where, "first", {"a": "a"})
    assert history.moved(history.look(), base, snapshots.take("t", "end")) == ()


def test_a_branch_that_names_a_missing_commit_keeps_no_run_from_starting(repo: Path, tmp_path: Path) -> None:
    git(repo, "branch", "good", commit(repo, "second"))
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    (repo / ".git/refs/heads/bad").write_text("1234567890" * 4 + "\n")
    history = History(discover(repo), "refs/codeframe/w/t", tmp_path)
    history.begin()()
    good = git(repo, "rev-parse", "good")
    assert good in git(repo, "log", "--format=%H", "refs/codeframe/w/t/tips-" + tmp_path.name + "-0")


def with_tags(repo: Path, tmp_path: Path, count: int) -> tuple[Snapshots, History]:
    head = git(repo, "rev-parse", "HEAD")
    git(repo, "pack-refs", "--all")
    with (repo / ".git/packed-refs").open("a") as packed:
        packed.writelines(f"{head} refs/tags/v{number:05}\n" for number in range(count))
    folder = tmp_path / "run"
    folder.mkdir()
    snapshots = Snapshots(discover(repo), "w", tmp_path / "cache")
    return snapshots, History(discover(repo), "refs/codeframe/w/t", folder)


def test_ten_thousand_tags_cost_no_ref_and_no_object(repo: Path, tmp_path: Path) -> None:
    snapshots, history = with_tags(repo, tmp_path, 10_000)
    objects = git(repo, "count-objects")
    history.begin()()
    assert git(repo, "for-each-ref", "refs/codeframe") == ""
    assert git(repo, "count-objects") == objects
    base = snapshots.take("t", "base")
    git(repo, "tag", "-d", "v00007")
    (line,) = history.moved(history.look(), base, snapshots.take("t", "end"))
    assert line.startswith("tag v00007 is gone")


def test_where_very_many_move_one_command_puts_them_back(repo: Path, tmp_path: Path) -> None:
    snapshots, history = with_tags(repo, tmp_path, 70)
    history.begin()()
    base = snapshots.take("t", "base")
    shell(repo, "git tag -d $(git tag)")
    lines = history.moved(history.look(), base, snapshots.take("t", "end"))
    assert len(lines) == MAX_LINES + 1
    assert lines[-1].startswith("and 20 more; to put all branches and tags back type:")
    shell(repo, lines[-1].rpartition(" type: ")[2])
    assert len(git(repo, "tag").splitlines()) == 70


def test_a_run_that_crashed_is_told_apart_by_what_it_had_noted(repo: Path, tmp_path: Path) -> None:
    git(repo, "branch", "side")
    snapshots = Snapshots(discover(repo), "w", tmp_path / "cache")
    history = History(discover(repo), "refs/codeframe/w/t", tmp_path)
    history.begin()()
    base = snapshots.take("t", "base")
    git(repo, "branch", "-D", "side")
    later = History(discover(repo), "refs/codeframe/w/t", tmp_path)
    (line,) = later.moved_before_a_crash(base, snapshots.take("t", "crash"))
    assert line.startswith("branch side is gone")
    later.forget()
    assert later.moved_before_a_crash(base, base) == ()


def test_commits_that_only_the_head_of_another_worktree_leads_to_are_kept(
    watched: Callable[[str], tuple[str, ...]], repo: Path
) -> None:
    git(repo, "worktree", "add", "-q", "--detach", str(repo.parent / "linked"))
    lost = commit(repo.parent / "linked", "only here")
    assert watched("git -C ../linked commit -q --allow-empty -m on") == ()
    git(repo.parent / "linked", "reset", "-q", "--hard", lost)
    gc = "; git -C ../linked reflog expire --expire=now HEAD; git gc -q --prune=now"
    (line,) = watched(f"git -C ../linked switch -q --ignore-other-worktrees main{gc}")
    assert line.startswith(f"worktree linked was at {lost[:10]}, which no branch has")
    shell(repo, line.rpartition(" type: ")[2])
    assert git(repo, "branch", "--contains", lost).strip() == f"kept-{lost[:10]}"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("git config core.bare true", "core.bare of the repository was “false” and is “true”"),
        (
            "git config core.worktree /nowhere",
            "core.worktree of the repository was not set and is “/nowhere”",
        ),
        ("mkdir -p .git/info; echo hidden >> .git/info/exclude", "what git ignores changed"),
    ],
)
def test_settings_that_mislead_git_are_told_with_what_puts_them_back(
    watched: Callable[[str], tuple[str, ...]], repo: Path, script: str, words: str
) -> None:
    git(repo, "config", "core.bare", "false")
    exclude = repo / ".git/info/exclude"
    before = (repo / ".git/config").read_text(), exclude.exists() and exclude.read_text()
    if "worktree" in script:  # else the last snapshot fails, as every git in the tree does
        script = script.replace("/nowhere", str(repo.parent))
        words = words.replace("/nowhere", str(repo.parent))
    (line,) = watched(script)
    assert words in line
    shell(repo, line.rpartition(" type: ")[2])
    now = (repo / ".git/config").read_text(), exclude.exists() and exclude.read_text()
    assert (now[0].replace("[core]\n", "").split(), now[1]) == (
        before[0].replace("[core]\n", "").split(),
        before[1],
    )
