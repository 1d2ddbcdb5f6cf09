"""Rule 4.1: a snapshot holds the tree byte for byte and changes nothing. Round trips are in test_undo.py."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from codeframe.core.errors import CodeFrameError
from codeframe.core.git import discover
from codeframe.core.secret_files import looks_secret
from codeframe.core.snapshots import FileChange, LeftOut, Snapshot, Snapshots
from tests.kit.repos import Content, commit, git, git_home, make_repo, repo, write

__all__ = ["git_home", "repo"]

LIMIT = 1000


def snapshots(where: Path) -> Snapshots:
    found = discover(where)
    return Snapshots(found, "ws", found.git_dir / "codeframe" / "snapshots", large_file_bytes=LIMIT)


def held(where: Path, snapshot: Snapshot, path: str) -> bytes:
    return subprocess.run(
        ["git", "cat-file", "blob", f"{snapshot.tree}:{path}"], cwd=where, capture_output=True, check=True
    ).stdout


def paths(where: Path, tree: str) -> list[str]:
    return [p for p in git(where, "ls-tree", "-r", "-z", "--name-only", tree).split("\0") if p]


def mode(where: Path, tree: str, path: str) -> str:
    return git(where, "ls-tree", tree, path).split(" ")[0]


def state(where: Path) -> dict[str, object]:
    """All that `take` must leave alone."""
    folder = Path(git(where, "rev-parse", "--absolute-git-dir"))
    index = folder / "index"
    files = {
        str(p.relative_to(where)): (p.lstat().st_mode, p.lstat().st_mtime_ns)
        for p in sorted(where.rglob("*"))
        if ".git" not in p.parts
    }
    return {
        "index": index.read_bytes() if index.exists() else None,
        "index time": index.stat().st_mtime_ns if index.exists() else None,
        "HEAD": (folder / "HEAD").read_bytes(),
        "branches": git(where, "for-each-ref", "refs/heads", "refs/tags", "refs/stash"),
        "stash": git(where, "stash", "list"),
        "reflog": git(where, "reflog", "show", "--all"),
        "files": files,
    }


# What a snapshot holds


def test_a_snapshot_is_shaped_as_a_stash_and_changes_nothing(repo: Path) -> None:
    commit(repo, "second", {"a.txt": "a\n", "gone.txt": "x\n"})
    write(repo, {"a.txt": "staged\n"})
    git(repo, "add", "a.txt")
    write(repo, {"a.txt": "unstaged\n", 'dir with space/néw\n\t".txt': "untracked\n"})
    (repo / "gone.txt").unlink()
    before = state(repo)
    took = snapshots(repo).take("task1", "base")
    assert state(repo) == before
    assert took.ref == "refs/codeframe/ws/task1/1"
    assert git(repo, "rev-parse", took.ref) == took.commit
    assert took.head == git(repo, "rev-parse", "HEAD")
    assert took.branch == "refs/heads/main"
    assert paths(repo, took.tree) == ["README.md", "a.txt", 'dir with space/néw\n\t".txt']
    assert held(repo, took, "a.txt") == b"unstaged\n"
    assert git(repo, "show", f"{took.index_tree}:a.txt") == "staged"
    assert git(repo, "log", "-1", "--format=%P", took.commit).split()[0] == took.head
    assert git(repo, "rev-parse", f"{took.commit}^2^{{tree}}") == took.index_tree
    git(repo, "reset", "-q", "--hard")
    git(repo, "clean", "-fdq")
    git(repo, "stash", "apply", "--index", took.commit)
    assert (repo / "a.txt").read_text() == "unstaged\n"
    assert git(repo, "show", ":a.txt") == "staged"


def test_load_and_of_task_give_back_what_take_returned(repo: Path) -> None:
    ours = snapshots(repo)
    write(repo, {".env": "TOKEN=1", os.fsdecode(b"caf\xe9.pem"): "x"})
    taken = [ours.take("t", label) for label in ("base", "start", *["end"] * 9)]
    assert ours.of_task("t") == taken  # the tenth after the ninth
    assert ours.load(taken[0].commit) == taken[0]
    assert {each.path for each in taken[0].left_out} == {".env", os.fsdecode(b"caf\xe9.pem")}
    assert ours.of_task("other") == []


def test_load_of_something_else_is_an_error_for_people(repo: Path) -> None:
    with pytest.raises(CodeFrameError, match="not a snapshot"):
        snapshots(repo).load(git(repo, "rev-parse", "HEAD"))
    with pytest.raises(CodeFrameError, match="missing"):
        snapshots(repo).load("1" * 40)


def test_delete_task_drops_only_its_refs(repo: Path) -> None:
    ours = snapshots(repo)
    ours.take("t1", "base")
    kept = ours.take("t2", "base")
    ours.delete_task("t1")
    ours.delete_task("never")
    assert git(repo, "for-each-ref", "--format=%(refname)", "refs/codeframe") == kept.ref


def test_before_the_first_commit(git_home: Path, tmp_path: Path) -> None:
    where = make_repo(tmp_path / "new")
    ours = snapshots(where)
    empty = ours.take("t", "base")
    write(where, {"a": "1", "b": "2"})
    git(where, "add", "a")
    took = ours.take("t", "end")
    assert (took.head, took.branch) == (None, "refs/heads/main")
    assert paths(where, took.tree) == ["a", "b"]
    assert paths(where, took.index_tree) == ["a"]
    assert [c.path for c in ours.changes(empty.commit, took.commit)] == ["a", "b"]
    git(where, "commit", "-q", "-m", "by the engine")
    after = ours.take("t", "end")
    assert [line.split(" ", 1)[1] for line in ours.commits_between(took, after)] == ["by the engine"]


def test_without_any_identity(git_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = make_repo(tmp_path / "new", {"a": "1"})
    git(where, "config", "--unset", "user.name")
    git(where, "config", "--unset", "user.email")
    git(where, "config", "user.useConfigOnly", "true")
    took = snapshots(where).take("t", "base")
    assert git(where, "log", "-1", "--format=%an <%ae>", took.commit) == "codeframe <codeframe@localhost>"


def test_detached_head(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")
    took = snapshots(repo).take("t", "base")
    assert (took.head, took.branch) == (git(repo, "rev-parse", "HEAD"), None)


def test_linked_worktrees_are_apart(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked tree"
    git(repo, "worktree", "add", "-q", "-b", "other", str(linked))
    write(linked, {"only here.txt": "x"})
    took = snapshots(linked).take("t", "base")
    assert took.branch == "refs/heads/other"
    assert paths(linked, took.tree) == ["README.md", "only here.txt"]
    assert paths(repo, snapshots(repo).take("t2", "base").tree) == ["README.md"]
    assert snapshots(repo).load(took.commit) == took  # refs are shared


def test_from_a_subdirectory_the_whole_tree_is_covered(repo: Path) -> None:
    write(
        repo, {"sub/a": "a", "b": "b", "sub/.codeframe/.gitignore": "*\n", "sub/.codeframe/config.yaml": "x"}
    )
    assert paths(repo, snapshots(repo / "sub").take("t", "base").tree) == ["README.md", "b", "sub/a"]


def test_sha256_repositories(git_home: Path, tmp_path: Path) -> None:
    where = tmp_path / "new"
    where.mkdir()
    git(where, "init", "-q", "--object-format=sha256")
    write(where, {"a": "1"})
    ours = snapshots(where)
    base = ours.take("t", "base")
    (where / "a").unlink()
    end = ours.take("t", "end")
    assert len(base.commit) == 64
    assert ours.changes(base.commit, end.commit) == [FileChange("a", "deleted")]


# Bytes, types, modes


@pytest.mark.parametrize("attributes", ["* text=auto\n", "* text eol=crlf\n", "* text eol=lf\n", "* ident\n"])
@pytest.mark.parametrize("tracked", [True, False])
def test_line_endings_are_kept_exactly(repo: Path, attributes: str, tracked: bool) -> None:
    content = b"$Id$ one\r\ntwo\nthree\r\n"
    write(repo, {".gitattributes": attributes, "mixed.txt": content})
    if tracked:
        git(repo, "-c", "core.safecrlf=false", "add", "-A")
        git(repo, "commit", "-q", "-m", "x")
    else:
        git(repo, "add", ".gitattributes")
    assert held(repo, snapshots(repo).take("t", "base"), "mixed.txt") == content


@pytest.mark.parametrize("level", ["--local", "--global"])
def test_autocrlf_changes_nothing(repo: Path, level: str) -> None:
    git(repo, "config", level, "core.autocrlf", "true")
    write(repo, {"tracked.txt": b"a\r\nb\r\n", "new.txt": b"c\r\n"})
    git(repo, "add", "tracked.txt")
    git(repo, "commit", "-q", "-m", "x")
    took = snapshots(repo).take("t", "base")
    assert held(repo, took, "tracked.txt") == b"a\r\nb\r\n"
    assert held(repo, took, "new.txt") == b"c\r\n"


@pytest.mark.parametrize("place", [".gitattributes", ".git/info/attributes", "sub/.gitattributes"])
def test_a_required_filter_is_neither_run_nor_needed(repo: Path, tmp_path: Path, place: str) -> None:
    ran = tmp_path / "ran"
    commit(repo, "x", {"sub/big.bin": "pointer\n"})
    write(repo, {place: "*.bin filter=lfs diff=lfs merge=lfs -text\n", "sub/big.bin": "content\n"})
    for key in ("clean", "smudge", "process"):
        git(repo, "config", f"filter.lfs.{key}", f"touch '{ran}'; exit 1")
    git(repo, "config", "filter.lfs.required", "true")
    took = snapshots(repo).take("t", "base")
    assert held(repo, took, "sub/big.bin") == b"content\n"
    assert not ran.exists()


def test_a_file_that_git_calls_clean_through_a_filter_is_stored_as_it_is(repo: Path) -> None:
    git(repo, "config", "filter.rot.clean", "tr a-z b-za")
    git(repo, "config", "filter.rot.smudge", "tr b-za a-z")
    write(repo, {".gitattributes": "*.rot filter=rot\n*.u16 working-tree-encoding=UTF-16LE\n"})
    content: dict[str, Content] = {"x.rot": "same size\n", "y.u16": "é".encode("utf-16-le")}
    commit(repo, "x", content)
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "show", "HEAD:x.rot") == "tbnf tjaf"
    took = snapshots(repo).take("t", "base")
    assert held(repo, took, "x.rot") == b"same size\n"
    assert held(repo, took, "y.u16") == "é".encode("utf-16-le")


def test_modes_symlinks_and_odd_names(repo: Path) -> None:
    names = [
        "-leading-dash",
        ":(glob)*",
        "tab\there",
        "new\nline",
        'quo"te',
        os.fsdecode(b"latin-\xe9"),
        "git~1",
        "a\\b",
    ]
    write(repo, {name: name.encode("utf-8", "surrogateescape") for name in names})
    write(repo, {"run.sh": "#!/bin/sh\n"})
    (repo / "run.sh").chmod(0o755)
    (repo / "dangling").symlink_to("no/such")
    (repo / "outside").symlink_to("/etc")
    took = snapshots(repo).take("t", "base")
    assert set(paths(repo, took.tree)) == {"README.md", "run.sh", "dangling", "outside", *names}
    assert mode(repo, took.tree, "run.sh") == "100755"
    assert mode(repo, took.tree, "outside") == "120000"
    assert held(repo, took, "outside") == b"/etc"


def test_executable_bits_count_even_where_the_repository_ignores_them(repo: Path) -> None:
    git(repo, "config", "core.fileMode", "false")
    ours = snapshots(repo)
    base = ours.take("t", "base")
    (repo / "README.md").chmod(0o755)
    assert ours.changes(base.commit, ours.take("t", "end").commit) == [FileChange("README.md", "modified")]


def test_a_file_becomes_a_folder_a_folder_a_file_and_a_symlink(repo: Path) -> None:
    commit(repo, "x", {"file": "f", "folder/a": "a", "folder/b/c": "c", "moved/x": "x"})
    ours = snapshots(repo)
    ours.take("t", "base")
    (repo / "file").unlink()
    shutil.rmtree(repo / "folder")
    shutil.rmtree(repo / "moved")
    write(repo, {"file/inside": "1", "folder": "2", "elsewhere/x": "3"})
    (repo / "moved").symlink_to("elsewhere")
    took = ours.take("t", "end")
    assert paths(repo, took.tree) == ["README.md", "elsewhere/x", "file/inside", "folder", "moved"]
    assert mode(repo, took.tree, "moved") == "120000"


# What an index may hide


def test_edits_of_the_same_second_and_size_are_seen(repo: Path) -> None:
    ours = snapshots(repo)
    for number in range(5):  # racy git: same size, same clock tick, right after the index was written
        write(repo, {"a": f"staged {number}"})
        git(repo, "add", "a")
        write(repo, {"a": f"edited {number}"})
        assert held(repo, ours.take("t", "end"), "a") == f"edited {number}".encode()
        write(repo, {"a": f"twice! {number}"})
        assert held(repo, ours.take("t", "end"), "a") == f"twice! {number}".encode()


def test_an_edit_of_the_second_it_was_staged_in_is_seen_later(repo: Path) -> None:
    """git may compare whole seconds: only the time of the index itself tells that the entry is in doubt."""
    while True:
        write(repo, {"a": "one"})
        git(repo, "add", "a")
        write(repo, {"a": "two"})
        index, file = (repo / ".git/index").stat(), (repo / "a").stat()
        if int(index.st_mtime) == int(file.st_mtime) == int(file.st_ctime):
            break
    time.sleep(int(file.st_mtime) + 1.01 - time.time())  # a copy made now would look newer than the edit
    assert held(repo, snapshots(repo).take("t", "base"), "a") == b"two"


def test_assume_unchanged_and_skip_worktree_hide_nothing(repo: Path) -> None:
    commit(repo, "x", {"assumed": "1", "skipped": "1"})
    git(repo, "update-index", "--assume-unchanged", "assumed")
    git(repo, "update-index", "--skip-worktree", "skipped")
    write(repo, {"assumed": "edited", "skipped": "edited"})
    ours = snapshots(repo)
    took = ours.take("t", "base")
    assert held(repo, took, "assumed") == held(repo, took, "skipped") == b"edited"
    write(repo, {"assumed": "again", "skipped": "again"})
    took = ours.take("t", "end")
    assert held(repo, took, "assumed") == held(repo, took, "skipped") == b"again"
    assert git(repo, "ls-files", "-v").splitlines() == ["H README.md", "h assumed", "S skipped"]


def test_what_a_sparse_checkout_leaves_out_stays_in_the_snapshot(repo: Path) -> None:
    commit(repo, "x", {"in/a": "a", "out/b": "b"})
    ours = snapshots(repo)
    git(repo, "sparse-checkout", "set", "--cone", "--sparse-index", "in")
    assert not (repo / "out").exists()
    took = ours.take("t", "base")
    assert paths(repo, took.tree) == ["README.md", "in/a", "out/b"]
    write(repo, {"in/a": "edited", "out/new": "n"})
    end = ours.take("t", "end")
    assert [c.path for c in ours.changes(took.commit, end.commit)] == ["in/a", "out/new"]
    assert git(repo, "ls-files", "-t", "out/b") == "S out/b"


def test_intent_to_add(repo: Path) -> None:
    write(repo, {"planned": "content", "planned then gone": "x"})
    git(repo, "add", "-N", "planned", "planned then gone")
    (repo / "planned then gone").unlink()
    took = snapshots(repo).take("t", "base")
    assert held(repo, took, "planned") == b"content"
    assert paths(repo, took.tree) == ["README.md", "planned"]
    assert paths(repo, took.index_tree) == ["README.md"]


def test_staged_deletions(repo: Path) -> None:
    commit(repo, "x", {"removed": "1", "only from the index": "2"})
    git(repo, "rm", "-q", "removed")
    git(repo, "rm", "-q", "--cached", "only from the index")
    took = snapshots(repo).take("t", "base")
    assert paths(repo, took.tree) == ["README.md", "only from the index"]
    assert paths(repo, took.index_tree) == ["README.md"]


def test_a_split_index(repo: Path) -> None:
    commit(repo, "x", {"a": "1", "b": "1"})
    git(repo, "update-index", "--split-index")
    write(repo, {"a": "2", "c": "3"})
    git(repo, "add", "a")
    before = state(repo)
    took = snapshots(repo).take("t", "base")
    assert state(repo) == before
    assert paths(repo, took.tree) == ["README.md", "a", "b", "c"]
    assert git(repo, "show", f"{took.index_tree}:a") == "2"


def test_an_index_with_conflicts_is_refused(repo: Path) -> None:
    write(repo, {"README.md": "mine\n"})
    git(repo, "stash")
    commit(repo, "theirs", {"README.md": "theirs\n"})
    subprocess.run(["git", "stash", "pop"], cwd=repo, capture_output=True, check=False)
    with pytest.raises(CodeFrameError, match=r"README\.md has unresolved conflicts"):
        snapshots(repo).take("t", "base")


# What is ignored, tracked although ignored, or left out


def test_ignored_files_are_not_covered_but_tracked_ones_are(repo: Path, git_home: Path) -> None:
    write(
        repo,
        {".gitignore": "build/\n*.log\n", "build/x": "x", "kept.log": "tracked", "other.log": "x", "ex": "x"},
    )
    write(repo, {".git/info/exclude": "ex\n", "local": "x", "global": "x", "private": "local\n"})
    write(git_home, {".config/git/ignore": "global\n"})
    git(repo, "add", "-f", "kept.log")
    ours = snapshots(repo)
    assert paths(repo, ours.take("t", "base").tree) == [
        ".gitignore",
        "README.md",
        "kept.log",
        "local",
        "private",
    ]
    git(repo, "config", "core.excludesFile", str(repo / "private"))
    took = snapshots(repo).take("t", "base")
    assert "local" not in paths(repo, took.tree)
    write(repo, {"other.log": "now tracked"})
    git(repo, "add", "-f", "other.log")
    write(repo, {"other.log": "and edited"})
    assert held(repo, ours.take("t", "end"), "other.log") == b"and edited"


def test_a_file_an_engine_adds_to_gitignore_is_not_deleted(repo: Path) -> None:
    write(repo, {"notes.txt": "mine"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {".gitignore": "notes.txt\n", "notes.txt": "edited"})
    end = ours.take("t", "end")
    assert ours.changes(base.commit, end.commit) == [
        FileChange(".gitignore", "created"),
        FileChange("notes.txt", "modified"),
    ]
    assert paths(repo, ours.take("t", "base").tree) == [".gitignore", "README.md"]


@pytest.mark.parametrize("configured", [False, True])
def test_what_an_engine_makes_git_ignore_outside_of_the_tree_is_seen_all_the_same(
    repo: Path, configured: bool
) -> None:
    write(repo, {".git/info/exclude": "theirs\n", "theirs": "x", "mine": "x"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(
        repo, {".git/info/exclude": "mine\nhidden\n", ".git/more": "hidden\n", "hidden": "x", "theirs": "y"}
    )
    if configured:
        git(repo, "config", "core.excludesFile", str(repo / ".git/more"))
    (repo / "mine").unlink()
    for each in (ours, snapshots(repo)):  # a later command, too
        end = each.take("t", "end")
        assert each.changes(base.commit, end.commit) == [
            FileChange("hidden", "created"),
            FileChange("mine", "deleted"),
        ]
    assert paths(repo, ours.take("t", "base").tree) == ["README.md", "theirs"]


def test_large_and_secret_untracked_files_are_listed(repo: Path) -> None:
    commit(repo, "x", {"tracked.bin": b"x" * 2 * LIMIT, "tracked/.env": "A=1"})
    write(repo, {"tracked/.env": "A=2", "new.bin": b"x" * (LIMIT + 1), "edge.bin": b"x" * LIMIT})
    write(repo, {".env": "TOKEN", "keys/id_rsa": "k", ".env.example": "TOKEN="})
    took = snapshots(repo).take("t", "base")
    assert paths(repo, took.tree) == [".env.example", "README.md", "edge.bin", "tracked.bin", "tracked/.env"]
    assert held(repo, took, "tracked/.env") == b"A=2"
    assert took.left_out == (
        LeftOut(".env", "looks like a secret"),
        LeftOut("keys/id_rsa", "looks like a secret"),
        LeftOut("new.bin", "larger than 0.001 MB"),
    )


def test_a_file_that_grows_too_large_is_modified_not_deleted(repo: Path) -> None:
    write(repo, {"data": "small", "shrinks": b"x" * 2 * LIMIT})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {"data": b"x" * 2 * LIMIT, "shrinks": "small"})
    end = ours.take("t", "end")
    assert [each.path for each in end.left_out] == ["data"]
    assert ours.changes(base.commit, end.commit) == [
        FileChange("data", "modified"),
        FileChange("shrinks", "modified"),
    ]


def test_a_secret_taken_out_of_the_index_leaves_the_kept_one_with_the_next_base(repo: Path) -> None:
    commit(repo, "oops", {".env": "TOKEN", "big": b"x" * 2 * LIMIT})
    ours = snapshots(repo)
    assert ".env" in paths(repo, ours.take("t", "base").tree)
    git(repo, "rm", "-q", "--cached", ".env", "big")
    took = ours.take("t2", "base")
    assert paths(repo, took.tree) == ["README.md"]
    assert [each.path for each in took.left_out] == [".env", "big"]


def test_fifos_and_sockets_are_never_opened(repo: Path) -> None:
    commit(repo, "x", {"was a file": "1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    os.mkfifo(repo / "pipe")
    (repo / "was a file").unlink()
    os.mkfifo(repo / "was a file")
    bound = socket.socket(socket.AF_UNIX)
    here = os.open(repo, os.O_RDONLY)
    bound.bind(f"/proc/self/fd/{here}/s" if sys.platform == "linux" else os.path.relpath(repo / "s"))
    end = ours.take("t", "end")
    bound.close()
    os.close(here)
    assert paths(repo, end.tree) == ["README.md"]
    assert end.left_out == (LeftOut("was a file", "not a regular file"),)
    assert ours.changes(base.commit, end.commit) == [FileChange("was a file", "modified")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_files_are_listed(repo: Path) -> None:
    write(repo, {"closed": "x", "folder/x": "x"})
    (repo / "closed").chmod(0)
    (repo / "folder").chmod(0)
    try:
        took = snapshots(repo).take("t", "base")
    finally:
        (repo / "folder").chmod(0o755)
    assert took.left_out == (LeftOut("closed", "cannot be read"), LeftOut("folder", "cannot be read"))


def test_a_name_git_cannot_store_is_listed(repo: Path) -> None:
    if (repo / ".GIT").exists():
        pytest.skip("the file system does not tell case apart")
    write(repo, {"sub/.GIT/config": "x"})
    took = snapshots(repo).take("t", "base")
    assert took.left_out == (LeftOut("sub/.GIT/config", "git cannot store this name"),)


# Nested repositories


def test_submodules_are_recorded_by_their_head_and_not_touched(repo: Path, tmp_path: Path) -> None:
    library = make_repo(tmp_path / "library", {"lib.py": "1\n"})
    for name in ("sub", "closed"):
        git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), name)
    git(repo, "commit", "-q", "-m", "submodules")
    git(repo, "submodule", "deinit", "-q", "closed")
    ours = snapshots(repo)
    base = ours.take("t", "base")
    assert git(repo, "ls-tree", base.tree, "sub").startswith("160000")
    assert git(repo, "ls-tree", base.tree, "closed") == git(repo, "ls-tree", "HEAD", "closed")
    assert base.left_out == ()
    before = state(repo / "sub")
    write(repo, {"sub/lib.py": "2\n"})
    dirty = ours.take("t", "end")
    assert dirty.left_out == (LeftOut("sub", "nested repository with changes of its own"),)
    git(repo / "sub", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qam", "inside")
    moved = ours.take("t", "end")
    assert moved.left_out == ()
    assert ours.changes(base.commit, moved.commit) == [FileChange("sub", "modified")]
    assert git(repo, "rev-parse", f"{moved.tree}:sub") == git(repo / "sub", "rev-parse", "HEAD")
    assert git(repo / "sub", "for-each-ref", "refs/codeframe") == ""
    assert before["index"] is not None
    assert (
        f"from {git(repo, 'rev-parse', 'HEAD:sub')[:10]} to"
        in ours.changes(base.commit, moved.commit)[0].note
    )


def sub_of(repo: Path, tmp_path: Path) -> Path:
    """A submodule `sub` that holds lib.py and itself a submodule `inner`."""
    inner = make_repo(tmp_path / "inner", {"deep.py": "1\n"})
    library = make_repo(tmp_path / "library", {"lib.py": "1\n", ".gitattributes": "* text=auto\n"})
    allowed = ("-c", "protocol.file.allow=always")
    git(library, *allowed, "submodule", "add", "-q", str(inner), "inner")
    git(library, "commit", "-q", "-m", "inner")
    git(repo, *allowed, "submodule", "add", "-q", str(library), "sub")
    git(repo, *allowed, "submodule", "update", "-q", "--init", "--recursive")
    git(repo, "commit", "-q", "-m", "a submodule")
    return repo / "sub"


@pytest.mark.parametrize("edited", ["lib.py", "inner/deep.py", "new.py", "inner/new.py"])
def test_an_edit_inside_a_submodule_is_a_change_even_where_it_was_dirty_before(
    repo: Path, tmp_path: Path, edited: str
) -> None:
    sub = sub_of(repo, tmp_path)
    ours = snapshots(repo)
    clean = ours.take("t", "base")
    assert clean.left_out == ()
    write(sub, {edited: "a person's\n"})
    dirty = ours.take("t", "start")
    (change,) = ours.changes(clean.commit, dirty.commit)
    assert (change.path, change.kind) == ("sub", "modified")
    assert change.note == "nested repository with changes of its own; not covered by undo"
    write(sub, {edited: "an engine's, and longer\n"})
    more = ours.take("t", "end")
    assert [c.path for c in ours.changes(dirty.commit, more.commit)] == ["sub"]
    assert ours.changes(more.commit, ours.take("t", "end").commit) == []
    assert [c.path for c in snapshots(repo).changes(dirty.commit, more.commit)] == ["sub"]  # read back


def test_a_staged_file_that_has_become_a_folder_is_not_left_out(repo: Path) -> None:
    ours = snapshots(repo)
    ours.take("t", "base")
    write(repo, {"d": "x"})
    git(repo, "add", "d")
    (repo / "d").unlink()
    write(repo, {"d/x": "x"})
    took = ours.take("t", "end")
    assert took.left_out == ()
    assert "d/x" in paths(repo, took.tree)


def test_a_look_at_a_submodule_is_no_change(repo: Path, tmp_path: Path) -> None:
    """Only its index is written: a file of an old time was the same all along."""
    sub = sub_of(repo, tmp_path)
    write(sub, {"new.py": "x"})
    os.utime(sub / "lib.py", (1, 1))
    ours = snapshots(repo)
    before = ours.take("t", "start")
    git(sub, "status")
    git(sub, "submodule", "status")
    assert ours.changes(before.commit, ours.take("t", "end").commit) == []
    git(sub, "clean", "-qfd")
    assert ours.take("t", "end").left_out == ()


def test_what_is_left_out_counts_as_changed_when_something_happens_to_it(repo: Path) -> None:
    write(repo, {".env": "A=1\n", "old.pem": "x"})
    ours = snapshots(repo)
    before = ours.take("t", "start")
    write(repo, {".env": "A=12\n", "new.pem": "x"})
    (repo / "old.pem").unlink()
    after = ours.take("t", "end")
    found = {(c.path, c.kind) for c in ours.changes(before.commit, after.commit)}
    assert found == {(".env", "modified"), ("new.pem", "created"), ("old.pem", "deleted")}
    assert ours.changes(after.commit, ours.take("t", "end").commit) == []


def test_nested_repositories(repo: Path) -> None:
    make_repo(repo / "nested", {"a": "1"})
    make_repo(repo / "empty")
    write(repo, {"empty/file": "x", "broken/.git": "gitdir: /nowhere\n"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    assert mode(repo, base.tree, "nested") == "160000"
    assert ("empty", "nested repository without a commit") in [(e.path, e.reason) for e in base.left_out]
    write(repo, {"nested/staged": "x"})
    git(repo / "nested", "add", "staged")
    assert LeftOut("nested", "nested repository with changes of its own") in ours.take("t", "end").left_out
    shutil.rmtree(repo / "nested/.git")
    assert {"nested/a", "nested/staged"} <= set(paths(repo, ours.take("t", "end").tree))


def test_nothing_a_nested_repository_configures_runs(repo: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    nested = make_repo(repo / "nested", {"a.txt": "1"})
    write(nested, {".gitattributes": "* filter=evil\n", "a.txt": "2"})
    for key in ("filter.evil.clean", "filter.evil.process", "core.fsmonitor"):
        git(nested, "config", key, f"touch '{ran}'; false")
    took = snapshots(repo).take("t", "base")
    assert [each.path for each in took.left_out] == ["nested"]
    assert not ran.exists()


# Refusals, concurrency, kills


@pytest.mark.parametrize(
    "operation, command",
    [("merge", "merge"), ("rebase", "rebase"), ("cherry-pick", "cherry-pick"), ("revert", "revert")],
)
def test_refused_while_an_operation_waits(repo: Path, operation: str, command: str) -> None:
    git(repo, "checkout", "-q", "-b", "side")
    theirs = commit(repo, "side", {"README.md": "side\n"})
    git(repo, "checkout", "-q", "main")
    commit(repo, "main", {"README.md": "main\n"})
    target = {"revert": "HEAD~1", "cherry-pick": theirs}.get(operation, "side")
    subprocess.run(["git", command, target], cwd=repo, capture_output=True, check=False)
    with pytest.raises(CodeFrameError) as caught:
        snapshots(repo).take("t", "base")
    assert caught.value.problem == f"A {operation} is in progress in {repo.resolve()}."
    git(repo, *caught.value.hint.removeprefix("Finish it, or type: git ").split())
    assert snapshots(repo).take("t", "base").ref.endswith("/1")


def test_refused_during_a_bisect(repo: Path) -> None:
    git(repo, "bisect", "start")
    with pytest.raises(CodeFrameError, match="A bisect is in progress"):
        snapshots(repo).take("t", "base")


def test_hooks_and_fsmonitor_of_the_repository_never_run(repo: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for name in ("pre-commit", "post-index-change", "reference-transaction", "post-commit"):
        hook = repo / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{ran}'; exit 1\n")
        hook.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external"):
        git(repo, "config", key, f"touch '{ran}'; false")
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {"README.md": "x\n"})
    end = ours.take("t", "end")
    assert "+x" in ours.diff(base.commit, end.commit)
    ours.delete_task("t")
    assert not ran.exists()


def test_variables_of_the_environment_are_ignored(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repo(tmp_path / "other", {"x": "x"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Someone")
    took = snapshots(repo).take("t", "base")
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_AUTHOR_NAME"):
        monkeypatch.delenv(name)
    assert paths(repo, took.tree) == ["README.md"]
    assert git(other, "for-each-ref", "refs/codeframe") == ""


def test_concurrent_takes_wait_for_each_other(repo: Path) -> None:
    write(repo, {f"f{n}": str(n) for n in range(50)})
    taken: list[Snapshot] = []
    ours = snapshots(repo)
    threads = [threading.Thread(target=lambda: taken.append(ours.take("t", "end"))) for _ in range(3)]
    threads += [
        threading.Thread(target=lambda: taken.append(snapshots(repo).take("t", "end"))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.ref[-1] for each in taken) == list("123456")
    assert len({each.tree for each in taken}) == 1


def test_what_a_kill_leaves_does_not_stop_the_next_take(repo: Path) -> None:
    ours = snapshots(repo)
    ours.take("t", "base")
    cache = repo / ".git/codeframe/snapshots"
    for name in ("index.lock", "index.user.lock", "index.new", "index.user.tmp", "git/info/attributes.new"):
        (cache / name).write_bytes(b"half")
    (cache / "git/info/attributes").unlink()
    write(repo, {"a": "1"})
    assert paths(repo, ours.take("t", "end").tree) == ["README.md", "a"]


@pytest.mark.parametrize("damage", [b"", b"DIRC\0\0\0\2garbage"])
def test_a_damaged_kept_index_is_replaced(repo: Path, damage: bytes) -> None:
    ours = snapshots(repo)
    base = ours.take("t", "base")
    (repo / ".git/codeframe/snapshots/index").write_bytes(damage)
    assert ours.take("t", "end").tree == base.tree


def test_a_write_of_the_index_between_snapshots_is_seen(repo: Path) -> None:
    ours = snapshots(repo)
    for number in range(3):
        write(repo, {"a": str(number)})
        git(repo, "add", "a")
        assert git(repo, "show", f"{ours.take('t', 'end').index_tree}:a") == str(number)
        assert git(repo, "show", f"{ours.take('t', 'end').index_tree}:a") == str(number)


def test_objects_collected_under_the_kept_index_are_stored_again(repo: Path) -> None:
    write(repo, {"untracked": "content of its own"})
    ours = snapshots(repo)
    ours.take("t", "base")
    ours.delete_task("t")
    git(repo, "gc", "-q", "--prune=now")
    assert held(repo, ours.take("t2", "base"), "untracked") == b"content of its own"


def test_a_kept_index_is_no_different_from_a_fresh_one(repo: Path) -> None:
    ours = snapshots(repo)
    commit(repo, "x", {"a": "1", "b/c": "2", "d": "3"})
    ours.take("t", "base")
    git(repo, "checkout", "-q", "-b", "other")
    git(repo, "rm", "-q", "d")
    commit(repo, "y", {"a": "one", "e": "new"})
    (repo / "b/c").unlink()
    write(repo, {"b/x": "9"})
    warm = ours.take("t", "base")
    shutil.rmtree(repo / ".git/codeframe/snapshots")
    assert ours.take("t", "base").tree == warm.tree


# Reading


def test_changes_and_diff(repo: Path) -> None:
    commit(repo, "x", {"a é.txt": "1\n", "gone": "x\n", "[a]": "1\n", "bin": b"\0\1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    write(repo, {"a é.txt": "2\n", "new": "n\n", "[a]": "2\n", "a": "x\n", "bin": b"\0\2"})
    (repo / "gone").rename(repo / "renamed")
    end = ours.take("t", "end")
    assert ours.changes(base.commit, end.commit) == [
        FileChange("[a]", "modified"),
        FileChange("a", "created"),
        FileChange("a é.txt", "modified"),
        FileChange("bin", "modified"),
        FileChange("gone", "deleted"),
        FileChange("new", "created"),
        FileChange("renamed", "created"),
    ]
    patch = ours.diff(base.commit, end.commit)
    assert "diff --git a/a é.txt b/a é.txt" in patch
    assert "Binary files a/bin and b/bin differ" in patch
    assert ours.diff(base.commit, end.commit, ["[a]"]).count("diff --git") == 1
    assert "7 files changed" in ours.diff(base.commit, end.commit, stat=True)
    assert ours.diff(base.commit, base.commit) == ""


def test_commits_between(repo: Path) -> None:
    ours = snapshots(repo)
    base = ours.take("t", "base")
    assert ours.commits_between(base, base) == []
    ids = [commit(repo, subject, {"a": subject}) for subject in ("one", "two é")]
    end = ours.take("t", "end")
    lines = ours.commits_between(base, end)
    assert [line.split(" ", 1)[1] for line in lines] == ["two é", "one"]
    assert ids[1].startswith(lines[0].split(" ")[0])


@pytest.mark.parametrize(
    "path, secret",
    [
        (".env", True),
        ("sub/.env.production", True),
        ("prod.env", True),
        (".env.example", False),
        (".env.template", False),
        ("certs/server.pem", True),
        ("ID_RSA", True),
        ("id_ed25519.pub", False),
        (".ssh/config", True),
        (".aws/anything", True),
        (".docker/config.json", True),
        ("app/config.json", False),
        ("credentials.json", True),
        ("credentials.py", False),
        (".npmrc", True),
        ("environment.py", False),
        ("src/keys.py", False),
        ("", False),
    ],
)
def test_looks_secret(path: str, secret: bool) -> None:
    assert looks_secret(path) is secret


def test_permissions_of_the_cache_do_not_open_the_lock(repo: Path) -> None:
    snapshots(repo).take("t", "base")
    assert stat.S_IMODE((repo / ".git/codeframe/snapshots/lock").stat().st_mode) == 0o600


def test_a_lock_that_never_becomes_free_is_an_error_with_the_pid_of_its_holder(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeframe.core.snapshot_index.LOCK_WAIT_S", 0.2)
    ours = snapshots(repo)
    ours.take("t", "base")
    cache = next(repo.parent.glob("**/lock")).parent
    hold = "import fcntl, os, sys; f = open(sys.argv[1], 'r+'); fcntl.flock(f, fcntl.LOCK_EX); "
    hold += "f.truncate(0); f.write(str(os.getpid())); f.flush(); print('held', flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", hold, str(cache / "lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        with pytest.raises(CodeFrameError, match="is not finished") as caught:
            ours.take("t", "end")
        assert f"kill -9 {holder.pid}" in caught.value.hint
        holder.stdin.close()
    ours.take("t", "end")


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_a_tag_or_a_branch_named_head_blocks_nothing(repo: Path, kind: str) -> None:
    commit(repo, "first", {"a": "1"})
    ours = snapshots(repo)
    ours.take("t", "base")
    git(repo, "update-ref", "refs/tags/HEAD" if kind == "tag" else "refs/heads/HEAD", "HEAD")
    write(repo, {"a": "2"})
    end = ours.take("t", "end")
    assert end.branch == "refs/heads/main"
    assert end.ref.endswith("/2")


def test_a_program_planted_in_our_own_git_folder_never_runs(repo: Path, tmp_path: Path) -> None:
    commit(repo, "first", {"a": "1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    (folder,) = [
        path.parent for path in tmp_path.rglob("info/attributes") if path.parent.parent.name == "git"
    ]
    with (folder.parent / "config").open("a") as config:
        config.write(f'[filter "x"]\n\tclean = touch {tmp_path}/ran; cat\n')
    (folder / "attributes").write_text("* filter=x\n")
    write(repo, {"a": "2"})
    end = ours.take("t", "end")
    assert not (tmp_path / "ran").exists()
    assert [(c.path, c.kind) for c in ours.changes(base.commit, end.commit)] == [("a", "modified")]


def test_a_replaced_object_is_not_what_counts(repo: Path) -> None:
    commit(repo, "first", {"a": "1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    real = git(repo, "hash-object", "-w", "a")
    evil = git(repo, "hash-object", "-w", "--stdin", stdin=b"evil")
    git(repo, "replace", real, evil)
    write(repo, {"a": "2"})
    end = ours.take("t", "end")
    assert "-1" in ours.diff(base.commit, end.commit)


@pytest.mark.parametrize("ruin", ["rm -r .git", "mv .git moved; echo gitdir: moved > .git"])
def test_a_repository_that_was_taken_away_is_said_to_be_and_no_folder_takes_its_place(
    repo: Path, ruin: str
) -> None:
    ours = snapshots(repo)
    subprocess.run(["sh", "-c", ruin], cwd=repo, check=True)
    with pytest.raises(CodeFrameError, match="taken away or replaced while it was in use") as caught:
        ours.take("t", "end")
    assert "doctor" in caught.value.hint
    assert not (repo / ".git").is_dir()
