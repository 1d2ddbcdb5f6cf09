"""Rule 4.2: undo gives back what was there before the run, and never touches what a person did since."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeframe.core.errors import CodeFrameError
from codeframe.core.git import discover
from codeframe.core.snapshots import Snapshots
from codeframe.core.staged_moves import staged_moved
from codeframe.core.undo import undo
from tests.kit.repos import commit, git, git_home, make_repo, repo, write

__all__ = ["git_home", "repo"]

State = dict[str, tuple[str, bytes]]


def snapshots(where: Path) -> Snapshots:
    found = discover(where)
    return Snapshots(found, "ws", found.git_dir / "codeframe" / "snapshots", large_file_bytes=1000)


def files(where: Path) -> State:
    """Every file: path -> (kind, bytes or target)."""
    found: State = {}
    for folder, folders, names in os.walk(where):
        if ".git" in folders:
            folders.remove(".git")
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for place in (Path(folder) / name for name in [*names, *links]):
            path = str(place.relative_to(where))
            if place.is_symlink():
                found[path] = ("link", os.fsencode(os.readlink(place)))
            else:
                found[path] = ("exec" if os.access(place, os.X_OK) else "file", place.read_bytes())
    return found


def staged(where: Path) -> list[str]:
    return git(where, "ls-files", "-z", "-s").split("\0")


# Round trips

NAMES = ["a", "b.txt", "d", "d/x", "d/e/y", "-n", "é ü", 'q"\n\t', os.fsdecode(b"\xff"), "README.md"]
CONTENTS = [b"", b"x\n", b"a\r\nb\r\n", b"a\nb\n", b"\0\xff\r\n", b"$Id$\n"]
OPERATION = st.tuples(
    st.sampled_from(["file", "file", "exec", "link", "delete", "stage", "unstage", "rename"]),
    st.sampled_from(NAMES),
    st.sampled_from(CONTENTS),
)
OPERATIONS = st.lists(OPERATION, max_size=6)


def clear(where: Path, path: str) -> None:
    """Make room for `path`: whatever is there, and files where folders must be."""
    place = where / path
    for each in [*reversed(place.relative_to(where).parents[:-1]), Path(path)]:
        if (where / each).is_symlink() or (where / each).is_file():
            (where / each).unlink()
    if place.is_dir():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)


def apply(where: Path, operations: list[tuple[str, str, bytes]]) -> None:
    for kind, path, content in operations:
        place = where / path
        if kind == "stage":
            git(where, "-c", "core.safecrlf=false", "add", "-A")
        elif kind == "unstage":
            git(where, "reset", "-q")
        elif kind == "delete":
            clear(where, path)
        elif kind == "rename":
            if place.is_file() and not place.is_symlink():
                place.replace(where / "renamed")
        else:
            clear(where, path)
            if kind == "link":
                place.symlink_to(content.decode("latin-1").strip("\0") or "nowhere")
            else:
                place.write_bytes(content)
                place.chmod(0o755 if kind == "exec" else 0o644)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = make_repo(tmp_path_factory.mktemp("template") / "project")
    write(where, {".gitattributes": "*.txt text=auto\n*.md text ident\n"})
    git(where, "config", "core.safecrlf", "false")
    commit(
        where, "first", {"README.md": b"$Id$\r\n", "a": "1\n", "b.txt": b"1\r\n", "d/x": "1", "d/e/y": b"\0"}
    )
    return where


@contextmanager
def copy_of(template: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(shutil.copytree(template, Path(folder) / "a project", symlinks=True))


BOUNDED = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@BOUNDED
@given(person=OPERATIONS, engine=OPERATIONS, commits=st.booleans())
def test_undo_gives_back_bytes_types_modes_and_what_was_staged(
    template: Path,
    git_home: Path,
    person: list[tuple[str, str, bytes]],
    engine: list[tuple[str, str, bytes]],
    commits: bool,
) -> None:
    with copy_of(template) as where:
        ours = snapshots(where)
        apply(where, person)
        before, index = files(where), staged(where)
        base = ours.take("t", "base")
        apply(where, engine)
        if commits:
            git(where, "commit", "-q", "--allow-empty", "-am", "by the engine")
        after, after_index = files(where), staged(where)
        end = ours.take("t", "end")
        result = undo(ours, "t", [(base, end)])
        assert result.kept == ()
        assert (files(where), staged(where)) == (before, index)
        # An empty folder that comes back with them is no file.
        assert {path for path in result.restored if not path.endswith("/")} == {
            path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
        }
        # The undo can be undone.
        undone = ours.take("t", "end")
        assert (undone.tree, undone.index_tree) == (base.tree, base.index_tree)
        undo(ours, "t", [(result.safety, undone)])
        assert (files(where), staged(where)) == (after, after_index)


@BOUNDED
@given(engine=OPERATIONS, person=OPERATIONS)
def test_what_a_person_did_after_the_run_survives(
    template: Path, git_home: Path, engine: list[tuple[str, str, bytes]], person: list[tuple[str, str, bytes]]
) -> None:
    with copy_of(template) as where:
        ours = snapshots(where)
        before = files(where)
        base = ours.take("t", "base")
        apply(where, engine)
        at_end = files(where)
        end = ours.take("t", "end")
        apply(where, person)
        mine = files(where)
        result = undo(ours, "t", [(base, end)])
        now = files(where)
        for path in mine.keys() | at_end.keys():
            if mine.get(path) != at_end.get(path):
                assert now.get(path) == mine.get(path), path
        kept_safe = git(where, "ls-tree", "-r", "-z", "--name-only", result.safety.tree).split("\0")
        assert set(filter(None, kept_safe)) == mine.keys()
        for path in before.keys() | at_end.keys():
            if before.get(path) != at_end.get(path):
                assert now.get(path) == before.get(path) or path in dict(result.kept), path


# One symptom each


def test_without_changes_nothing_happens(repo: Path) -> None:
    write(repo, {"mine": "x"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    result = undo(ours, "t", [(base, ours.take("t", "end"))])
    assert (result.restored, result.kept, result.note) == ((), (), "")
    assert result.safety.label == "undo"
    assert files(repo).keys() == {"README.md", "mine"}


def test_before_the_first_commit(git_home: Path, tmp_path: Path) -> None:
    where = make_repo(tmp_path / "new")
    write(where, {"mine": "x"})
    git(where, "add", "mine")
    ours = snapshots(where)
    base = ours.take("t", "base")
    write(where, {"mine": "y", "theirs": "z"})
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", "by the engine")
    result = undo(ours, "t", [(base, ours.take("t", "end"))])
    assert result.restored == ("mine", "theirs")
    assert files(where) == {"mine": ("file", b"x")}
    assert git(where, "ls-files") == "mine"


def test_in_a_linked_worktree(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked tree"
    git(repo, "worktree", "add", "-q", "-b", "other", str(linked))
    ours = snapshots(linked)
    base = ours.take("t", "base")
    write(linked, {"README.md": "x", "deep/er/new": "y"})
    git(linked, "add", "-A")
    assert undo(ours, "t", [(base, ours.take("t", "end"))]).restored == ("README.md", "deep/er/new")
    assert git(linked, "status", "--porcelain", "--ignored") == ""
    assert not (linked / "deep").exists()  # emptied folders go


def test_a_half_finished_undo_is_finished_by_the_next(repo: Path) -> None:
    commit(repo, "x", {"a": "1", "b": "1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {"a": "2", "b": "2", "c": "2"})
    git(repo, "add", "-A")
    end = ours.take("t", "end")
    write(repo, {"a": "1"})  # as if killed after the first file
    result = undo(ours, "t", [(base, end)])
    assert (result.restored, result.kept) == (("b", "c"), ())
    assert git(repo, "status", "--porcelain") == ""


def test_what_the_person_staged_since_stays_staged(repo: Path) -> None:
    commit(repo, "x", {"a": "1", "b": "1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {"a": "2", "b": "2"})
    git(repo, "add", "a")
    end = ours.take("t", "end")
    write(repo, {"b": "3", "d": "mine"})
    git(repo, "add", "b", "d")
    result = undo(ours, "t", [(base, end)])
    assert result.restored == ("a",)
    assert result.kept == (("b", "changed after the run"),)
    assert git(repo, "status", "--porcelain").splitlines() == ["M  b", "A  d"]


def test_an_index_lock_that_an_engine_left_refuses_the_undo_before_it_touches_anything(repo: Path) -> None:
    ours = snapshots(repo)
    start = ours.take("t", "start")
    write(repo, {"README.md": "changed\n"})
    git(repo, "add", "-A")
    end = ours.take("t", "end")
    (repo / ".git/index.lock").touch()
    before = files(repo), staged(repo)
    with pytest.raises(CodeFrameError, match=r"index\.lock has been there for") as refused:
        undo(ours, "t", [(start, end)])
    assert f"rm {ours.repo.git_dir / 'index.lock'}" in refused.value.hint
    assert (files(repo), staged(repo)) == before
    (repo / ".git/index.lock").unlink()
    assert undo(ours, "t", [(start, end)]).restored == ("README.md",)
    assert git(repo, "status", "--porcelain") == ""


def test_what_the_person_staged_under_an_unchanged_file_stays(repo: Path) -> None:
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {"README.md": "engine\n"})
    git(repo, "add", "-A")
    end = ours.take("t", "end")
    mine = git(repo, "hash-object", "-w", "--stdin", stdin=b"mine\n")
    git(repo, "update-index", "--cacheinfo", f"100644,{mine},README.md")
    assert undo(ours, "t", [(base, end)]).restored == ("README.md",)
    assert git(repo, "show", ":README.md") == "mine"


def test_only_staging_is_undone_too(repo: Path) -> None:
    write(repo, {"README.md": "edited\n"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    git(repo, "add", "README.md")
    result = undo(ours, "t", [(base, ours.take("t", "end"))])
    assert result.restored == ()
    assert git(repo, "status", "--porcelain") == " M README.md"


def test_commits_of_the_engine_are_kept_and_named(repo: Path) -> None:
    ours = snapshots(repo)
    base = ours.take("t", "base")
    made = commit(repo, "by the engine", {"new": "x"})
    end = ours.take("t", "end")
    result = undo(ours, "t", [(base, end)])
    assert git(repo, "rev-parse", "HEAD") == made
    assert result.note == f"The run's own commits are kept; to drop them type: git reset --soft {base.head}"
    git(repo, *result.note.rsplit("git ", 1)[1].split())
    assert git(repo, "status", "--porcelain") == ""
    # With a person's commit on top, no command that would drop it is given.
    git(repo, "reset", "-q", "--hard", made)
    commit(repo, "mine", {"other": "y"})
    assert "reset" not in undo(ours, "t", [(base, end)]).note


def test_a_switched_branch_is_named(repo: Path) -> None:
    ours = snapshots(repo)
    base = ours.take("t", "base")
    git(repo, "checkout", "-q", "-b", "elsewhere")
    note = undo(ours, "t", [(base, ours.take("t", "end"))]).note
    assert note == "HEAD is on elsewhere and was on main before the run; to go back type: git switch main"


def test_required_filters_do_not_run(repo: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    write(repo, {".gitattributes": "*.bin filter=lfs\n", "x.bin": b"raw\r\n"})
    for key in ("clean", "smudge", "process"):
        git(repo, "config", f"filter.lfs.{key}", f"touch '{ran}'; exit 1")
    git(repo, "config", "filter.lfs.required", "true")
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {"x.bin": "engine"})
    assert undo(ours, "t", [(base, ours.take("t", "end"))]).restored == ("x.bin",)
    assert (repo / "x.bin").read_bytes() == b"raw\r\n"
    assert not ran.exists()


def test_permissions_git_does_not_know_of_are_kept(repo: Path) -> None:
    (repo / "README.md").chmod(0o640)
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {"README.md": "x"})
    (repo / "README.md").chmod(0o750)
    undo(ours, "t", [(base, ours.take("t", "end"))])
    assert (repo / "README.md").stat().st_mode & 0o777 == 0o640


def test_nothing_is_written_through_a_symlink_out_of_the_tree(repo: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, {"a": "precious", "b/c": "precious"})
    commit(repo, "x", {"folder/a": "1", "folder/b/c": "1", "folder/new/d": "1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    shutil.rmtree(repo / "folder")
    end = ours.take("t", "end")
    (repo / "folder").symlink_to(outside)  # by a person, after the run
    result = undo(ours, "t", [(base, end)])
    assert dict(result.kept) == dict.fromkeys(
        ("folder/a", "folder/b/c", "folder/new/d"), "a file or symlink is in the way"
    )
    assert files(outside) == {"a": ("file", b"precious"), "b/c": ("file", b"precious")}
    # Made by the run itself, the symlink goes and the folder comes back.
    result = undo(ours, "t", [(base, ours.take("t", "end"))])
    assert result.restored == ("folder", "folder/a", "folder/b/c", "folder/new/d")
    assert files(outside) == {"a": ("file", b"precious"), "b/c": ("file", b"precious")}
    assert (repo / "folder/a").read_text() == "1"


def test_a_folder_or_fifo_in_the_way_is_kept(repo: Path) -> None:
    commit(repo, "x", {"a": "1", "b": "1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    (repo / "a").unlink()
    (repo / "b").unlink()
    end = ours.take("t", "end")
    write(repo, {"a/mine": "x"})
    os.mkfifo(repo / "b")
    assert undo(ours, "t", [(base, end)]).kept == (
        ("a", "a folder is in its place"),
        ("b", "not a regular file"),
    )
    assert (repo / "a/mine").read_text() == "x"


def test_an_empty_folder_makes_room(repo: Path) -> None:
    commit(repo, "x", {"a": "1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    (repo / "a").unlink()
    (repo / "a/b/c").mkdir(parents=True)
    assert undo(ours, "t", [(base, ours.take("t", "end"))]).restored == ("a",)
    assert (repo / "a").read_text() == "1"


def test_left_out_files_are_kept_and_listed(repo: Path) -> None:
    write(repo, {".env": "TOKEN=mine"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {".env": "TOKEN=engine", "new.bin": b"x" * 2000})
    result = undo(ours, "t", [(base, ours.take("t", "end"))])
    assert result.restored == ()
    assert result.kept == (
        (".env", "not covered by snapshots: looks like a secret"),
        ("new.bin", "not covered by snapshots: larger than 0.001 MB"),
    )
    assert (repo / "new.bin").exists()


def test_a_small_file_that_an_engine_made_too_large_or_a_fifo_comes_back(repo: Path) -> None:
    write(repo, {"grows": "mine", "pipe": "mine", "later": "mine"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    (repo / "pipe").unlink()
    os.mkfifo(repo / "pipe")
    write(repo, {"grows": b"x" * 2000, "later": b"x" * 2000})
    first = ours.take("t", "end")
    write(repo, {"grows": b"y" * 3000})
    end = ours.take("t", "end")
    write(repo, {"later": b"a person's" * 1000})
    result = undo(ours, "t", [(base, first), (first, end)])
    assert result.restored == ("grows", "pipe")
    kept = dict(result.kept)
    assert kept.pop("grows.after-run") == "not covered by snapshots: what the run left at grows"
    assert kept.pop("later").endswith(f"git show {base.ref}:later")
    assert not kept
    assert (repo / "grows").read_text() == (repo / "pipe").read_text() == "mine"
    assert (repo / "grows.after-run").read_bytes() == b"y" * 3000
    assert (repo / "later").read_bytes() == b"a person's" * 1000


def test_folders_that_a_killed_undo_left_go_with_the_next(repo: Path) -> None:
    ours = snapshots(repo)
    start = ours.take("t", "base")
    write(repo, {"made/deep/file": "x"})
    end = ours.take("t", "end")
    (repo / "made/deep/file").unlink()
    (repo / "made/deep").rmdir()
    undo(ours, "t", [(start, end)])
    assert not (repo / "made").exists()


def test_files_an_engine_only_uncovered_are_not_deleted(repo: Path) -> None:
    commit(repo, "x", {".gitignore": "data/\n*.tmp\n"})
    write(repo, {"data/precious": "x", "x.tmp": "y"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {".gitignore": "*.tmp\n", "new": "by the engine"})
    result = undo(ours, "t", [(base, ours.take("t", "end"))])
    assert result.restored == (".gitignore", "new")
    assert result.kept == (("data/precious", "ignored before the run, so it may be older"),)
    assert files(repo).keys() == {".gitignore", "README.md", "data/precious", "x.tmp"}


def test_files_an_engine_ignored_come_back(repo: Path) -> None:
    write(repo, {"notes": "mine"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {".gitignore": "notes\n", "notes": "spoilt"})
    assert undo(ours, "t", [(base, ours.take("t", "end"))]).restored == (".gitignore", "notes")
    assert files(repo) == {"README.md": ("file", b"hello\n"), "notes": ("file", b"mine")}


def test_nested_repositories_are_kept(repo: Path) -> None:
    make_repo(repo / "old", {"a": "1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    make_repo(repo / "new", {"a": "1"})
    commit(repo / "old", "more", {"a": "2"})
    result = undo(ours, "t", [(base, ours.take("t", "end"))])
    assert result.kept == (("new", "a nested repository"), ("old", "a nested repository"))
    assert (repo / "old/a").read_text() == "2"


def test_large_files_come_back_whole(git_home: Path, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    where = make_repo(tmp_path / "r", {"tracked": content})
    ours = snapshots(where)
    base = ours.take("t", "base")
    (where / "tracked").unlink()
    undo(ours, "t", [(base, ours.take("t", "end"))])
    assert (where / "tracked").read_bytes() == content


def test_sha256_repositories(git_home: Path, tmp_path: Path) -> None:
    where = tmp_path / "new"
    where.mkdir()
    git(where, "init", "-q", "--object-format=sha256")
    write(where, {"a": "1"})
    ours = snapshots(where)
    base = ours.take("t", "base")
    write(where, {"a": "2", "b": "2"})
    git(where, "add", "-A")
    assert undo(ours, "t", [(base, ours.take("t", "end"))]).restored == ("a", "b")
    assert files(where) == {"a": ("file", b"1")}
    assert git(where, "ls-files") == ""


def test_refused_during_a_merge_with_nothing_changed(repo: Path) -> None:
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {"README.md": "x\n"})
    end = ours.take("t", "end")
    (repo / ".git/MERGE_HEAD").write_text(git(repo, "rev-parse", "HEAD"))
    with pytest.raises(CodeFrameError, match="merge is in progress"):
        undo(ours, "t", [(base, end)])
    assert (repo / "README.md").read_text() == "x\n"


def test_what_a_person_did_between_two_spans_stays(repo: Path) -> None:
    """Edits outside the engine's calls are not the engine's: undo of both calls leaves them."""
    write(repo, {"first": "old", "second": "old", "mine": "old"})
    ours = snapshots(repo)
    one = ours.take("t", "start")
    write(repo, {"first": "engine"})
    two = ours.take("t", "end")
    write(repo, {"mine": "edited between"})
    three = ours.take("t", "start")
    write(repo, {"first": "engine again", "second": "engine"})
    result = undo(ours, "t", [(one, two), (three, ours.take("t", "end"))])
    assert result.restored == ("first", "second")
    assert {name: (repo / name).read_text() for name in ("first", "second", "mine")} == {
        "first": "old", "second": "old", "mine": "edited between",
    }  # fmt: skip


def test_a_path_given_back_in_one_span_only_is_listed_as_kept(repo: Path) -> None:
    ours = snapshots(repo)
    spans = []
    for engine in ("one", "two"):
        write(repo, {"README.md": f"mine, before {engine}"})
        start = ours.take("t", "start")
        write(repo, {"README.md": f"engine {engine}"})
        spans.append((start, ours.take("t", "end")))
    result = undo(ours, "t", spans)
    assert (repo / "README.md").read_text() == "mine, before two"
    assert (result.restored, result.kept) == ((), (("README.md", "changed after the run"),))


@pytest.mark.parametrize(
    "hide",
    [
        ("update-index", "--skip-worktree", "mine", "kept"),
        ("sparse-checkout", "set", "--no-cone", "/README.md"),
    ],
)
def test_files_an_engine_hides_from_git_are_deleted_and_come_back(
    repo: Path, tmp_path: Path, hide: tuple[str, ...]
) -> None:
    commit(repo, "x", {"mine": "committed", "kept": "k"})
    ours = snapshots(repo)
    write(repo, {"mine": "not committed"})
    start = ours.take("t", "base")
    git(repo, *hide)
    for name in ("mine", "kept"):
        (repo / name).unlink(missing_ok=True)
    end = ours.take("t", "end")
    assert [(c.path, c.kind) for c in ours.changes(start.commit, end.commit)] == [
        ("kept", "deleted"),
        ("mine", "deleted"),
    ]
    told = staged_moved(ours.git, start, end, tmp_path)
    assert len(told) == 1
    assert "skip-worktree is new for kept" in told[0]
    result = undo(ours, "t", [(start, end)])
    assert (result.restored, result.kept) == (("kept", "mine"), ())
    assert (repo / "mine").read_text() == "not committed"
    assert git(repo, "ls-files", "-v").splitlines() == ["H README.md", "H kept", "H mine"]


def test_what_an_engine_writes_where_a_sparse_checkout_has_nothing_goes_again(repo: Path) -> None:
    commit(repo, "x", {"in/a": "a", "out/b": "b"})
    git(repo, "sparse-checkout", "set", "in")
    ours = snapshots(repo)
    start = ours.take("t", "base")
    write(repo, {"out/b": "engine"})
    git(repo, "add", "--sparse", "-A")
    end = ours.take("t", "end")
    assert undo(ours, "t", [(start, end)]).restored == ("out/b",)
    assert not (repo / "out/b").exists()
    assert git(repo, "ls-files", "-t").splitlines() == ["H README.md", "H in/a", "S out/b"]


def test_flags_and_intents_of_the_index_come_back(repo: Path) -> None:
    commit(repo, "x", {"assumed": "1", "skipped": "1"})
    write(repo, {"planned": "p"})
    git(repo, "add", "-N", "planned")
    git(repo, "update-index", "--assume-unchanged", "assumed")
    git(repo, "update-index", "--skip-worktree", "skipped")
    ours = snapshots(repo)
    before = git(repo, "ls-files", "-v"), git(repo, "status", "--porcelain")
    start = ours.take("t", "base")
    git(repo, "update-index", "--no-assume-unchanged", "assumed")
    git(repo, "update-index", "--no-skip-worktree", "skipped")
    git(repo, "add", "-A")
    undo(ours, "t", [(start, ours.take("t", "end"))])
    assert (git(repo, "ls-files", "-v"), git(repo, "status", "--porcelain")) == before
