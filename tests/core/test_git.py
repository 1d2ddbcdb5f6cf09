"""Rule 9.1: our own git calls run nothing of the repository, inherit nothing. Rule 1.4: where they work."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codeframe.core import git_watch
from codeframe.core.errors import RequirementsError, UsageError
from codeframe.core.git import Git, GitError, GitStuck, discover, environment, version
from codeframe.core.workspace import init_workspace
from tests.kit.repos import commit, git, git_home, make_repo, repo, write

__all__ = ["git_home", "repo"]


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_discover_finds_the_top_from_a_subdirectory(repo: Path) -> None:
    (repo / "a dir" / "é").mkdir(parents=True)
    found = discover(repo / "a dir" / "é")
    assert found.toplevel == repo.resolve()
    assert found.git_dir == found.common_dir == (repo / ".git").resolve()


def test_discover_tells_a_linked_worktree_from_the_main_one(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked tree"
    git(repo, "worktree", "add", "-q", "-b", "other", str(linked))
    found = discover(linked)
    assert found.toplevel == linked.resolve()
    assert found.common_dir == (repo / ".git").resolve()
    assert found.git_dir == (repo / ".git/worktrees/linked-tree").resolve()


def test_discover_resolves_symlinks(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repo)
    assert discover(tmp_path / "link").toplevel == repo.resolve()


def test_discover_works_before_the_first_commit(git_home: Path, tmp_path: Path) -> None:
    assert discover(make_repo(tmp_path / "new")).toplevel == (tmp_path / "new").resolve()


def test_a_folder_outside_git_is_refused_with_the_command(git_home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        discover(tmp_path)
    assert caught.value.problem == f"{tmp_path} is not in a git repository."
    assert caught.value.hint == "Type: cf init --git-init"


@pytest.mark.parametrize("where", ["bare", "project/.git"])
def test_no_working_tree_is_refused(repo: Path, tmp_path: Path, where: str) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    with pytest.raises(UsageError, match="no git working tree"):
        discover(tmp_path / where)


def test_a_folder_that_does_not_exist_is_refused(git_home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        discover(tmp_path / "nowhere")


def test_git_missing_says_so(repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(RequirementsError, match="not installed"):
        discover(repo)


def test_git_too_old_says_so(git_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(
        tmp_path / "bin/git",
        'for a; do [ "$a" = version ] && echo git version 2.20.1 && exit; done; exit 129',
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    version.cache_clear()
    try:
        with pytest.raises(RequirementsError, match=r"git 2\.20 is too old"):
            discover(tmp_path)
    finally:
        version.cache_clear()


def test_a_repository_of_another_owner_gives_one_clear_sentence(
    git_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "fatal: detected dubious ownership in repository at '/srv/x'\\nTo add an exception"
    executable(
        tmp_path / "bin/git",
        f'for a; do [ "$a" = version ] && exec /usr/bin/env echo 2.39; done; printf "{said}" >&2; exit 128',
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    version.cache_clear()
    try:
        with pytest.raises(GitError) as caught:
            discover(tmp_path)
    finally:
        version.cache_clear()
    assert caught.value.problem == "git rev-parse failed: /srv/x belongs to another user."
    assert caught.value.hint == "Type: git config --global --add safe.directory /srv/x"


def test_git_variables_of_the_environment_are_ignored(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repo(tmp_path / "other", {"x": "x"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "nothing"))
    assert discover(repo).toplevel == repo.resolve()
    assert Git(repo).text("ls-files") == "README.md"
    assert {name for name in environment() if name.startswith("GIT_")} == {
        "GIT_TERMINAL_PROMPT",
        "GIT_OPTIONAL_LOCKS",
        "GIT_EDITOR",
        "GIT_ALLOW_PROTOCOL",
        "GIT_NO_LAZY_FETCH",
        "GIT_NO_REPLACE_OBJECTS",
    }


def test_programs_the_repository_names_never_run(repo: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    evil = executable(tmp_path / "evil", f'echo "$0 $*" >> "{ran}"; cat; exit 1')
    for key in ("core.fsmonitor", "diff.external", "diff.evil.command", "diff.evil.textconv", "gpg.program"):
        git(repo, "config", key, str(evil))
    for key in ("commit.gpgSign", "log.showSignature"):
        git(repo, "config", key, "true")
    for hook in ("pre-commit", "commit-msg", "post-commit", "post-index-change", "reference-transaction"):
        executable(repo / ".git/hooks" / hook, f"echo {hook} >> '{ran}'; exit 1")
    write(repo, {".gitattributes": "* diff=evil\n", "README.md": "changed\n"})
    ours = Git(repo)
    assert "+changed" in ours.text("diff")
    ours.run("status", "--porcelain")
    ours.run("add", "-A")
    ours.run("commit", "-q", "-m", "ours")
    assert "+changed" in ours.text("log", "-p", "-1") + ours.text("show")
    assert not ran.exists()
    # The traps are armed: plain git does run them. (`status` alone would not prove it: it writes the index,
    # and so runs a hook, only when a file is of the very second the index was written in.)
    write(repo, {"README.md": "again\n"})
    for springs in (("status",), ("diff",), ("commit", "-qam", "theirs"), ("log", "-p", "-1")):
        ran.unlink(missing_ok=True)
        subprocess.run(["git", *springs], cwd=repo, capture_output=True, check=False)
        assert ran.exists(), springs


TRANSPORTS = {
    "uploadpack": {"remote.origin.uploadpack": "EVIL"},
    "allowed by the repository": {"remote.origin.uploadpack": "EVIL", "protocol.file.allow": "always"},
    "ssh": {"remote.origin.url": "ssh://host/x", "core.sshCommand": "EVIL"},
    "ext": {"remote.origin.url": "ext::EVIL", "protocol.ext.allow": "always"},
    "helper": {"remote.origin.vcs": "evil", "protocol.evil.allow": "always"},
}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_a_partial_clone_lacks_is_not_fetched_by_programs_that_it_names(
    repo: Path, tmp_path: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repo, "second", {"README.md": "changed\n"})
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-local", f"file://{repo}", "partial")
    partial, ran = tmp_path / "partial", tmp_path / "ran"
    evil = executable(tmp_path / "bin/git-remote-evil", f"echo ran >> '{ran}'; exit 1")
    monkeypatch.setenv("PATH", f"{evil.parent}{os.pathsep}{os.environ['PATH']}")
    for key, value in TRANSPORTS[transport].items():
        git(partial, "config", key, value.replace("EVIL", str(evil)))
    old = git(repo, "rev-parse", "HEAD~1:README.md")
    ours = Git(partial)
    for args in (("diff-tree", "-p", "HEAD~1", "HEAD"), ("cat-file", "-p", old)):
        with pytest.raises(GitError, match="not in this partial clone") as caught:
            ours.run(*args)
        assert caught.value.hint == f"Fetch it: git cat-file -e {old}"
    with ours.blobs() as blobs, pytest.raises(GitError, match="missing"):
        blobs.copy(old, io.BytesIO())
    assert not ran.exists()
    subprocess.run(["git", "cat-file", "-e", old], cwd=partial, capture_output=True, check=False)
    assert ran.exists()  # the trap is armed


@pytest.mark.parametrize(
    ("ruin", "typed"),
    [
        ("rm .git/HEAD", "ref: refs/heads/"),
        ("echo rubbish > .git/HEAD", "fsck"),
        ("rm -r .git/refs", "mkdir"),
        ("rm -r .git/objects", "objects"),
        ("printf '[core\\n' > .git/config", "fsck"),
        ("rm -r .git; echo gitdir: /no/such/place > .git", "ls -la"),
        ("rm -r .git/objects .git/HEAD", "Bring back objects and HEAD"),
        ("rm -r .git; mkdir -p .git/codeframe/ws", "if there is none, begin anew: git init "),
    ],
)
def test_a_damaged_repository_is_never_answered_with_making_a_new_one(
    repo: Path, tmp_path: Path, ruin: str, typed: str
) -> None:
    (repo / "sub").mkdir()
    subprocess.run(["sh", "-c", ruin], cwd=repo, check=True)
    for folder in (repo, repo / "sub"):
        with pytest.raises(GitError, match="is damaged") as caught:
            discover(folder)
        assert typed in caught.value.hint
        with pytest.raises(GitError):
            init_workspace(folder, git_init=True)
        assert not (repo / "sub/.git").exists()


def test_an_empty_git_folder_above_is_no_damaged_repository(git_home: Path, tmp_path: Path) -> None:
    """git passes by such a folder, and looks for nothing beside it either."""
    (tmp_path / ".git").mkdir()
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "stranger").mkdir()
    os.mkfifo(tmp_path / "stranger/.gitignore")
    assert git_watch.blocking_file(here) is None
    with pytest.raises(UsageError, match="is not in a git repository") as caught:
        discover(here)
    assert "--git-init" in caught.value.hint
    assert init_workspace(here, git_init=True)[0].repo.toplevel == here.resolve()


def test_a_git_that_waits_for_us_is_no_git_that_hangs(repo: Path) -> None:
    (repo / ".gitignore").unlink(missing_ok=True)
    os.mkfifo(repo / ".gitignore")
    oid = git(repo, "rev-parse", "HEAD:README.md")
    with Git(repo).blobs() as blobs:
        for _ in range(2):
            got = io.BytesIO()
            blobs.copy(oid, got)
            assert got.getvalue() == b"hello\n"
            time.sleep(git_watch.STILL_S + 2 * git_watch.LOOK_S)


def test_a_git_that_hangs_on_a_fifo_is_ended_with_its_name(repo: Path) -> None:
    (repo / "a b").mkdir()
    os.mkfifo(repo / "a b/.gitignore")
    with pytest.raises(GitStuck, match="is a FIFO") as caught:
        Git(repo).run("ls-files", "-o", "--exclude-standard", check=False)
    assert caught.value.hint == f"Remove it: rm '{repo.resolve()}/a b/.gitignore'"


def test_a_git_that_hangs_for_no_reason_we_can_see_is_ended_too(
    git_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "bin/git", "exec sleep 1000")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(git_watch, "HURRIED_S", 1.0)
    monkeypatch.setattr(git_watch, "_hurried", False)
    git_watch.hurry()
    with pytest.raises(GitStuck, match="got no further"):
        Git(tmp_path).run("status")


def test_stdin_is_never_inherited(repo: Path) -> None:
    script = "from codeframe.core.git import *; print(Git(Path()).text('hash-object', '--stdin'))"
    path = os.pathsep.join([os.getcwd(), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": path},
        input=b"ours",
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().strip() == git(repo, "hash-object", "--stdin", stdin=b"")


def test_names_with_accents_come_unquoted(repo: Path) -> None:
    commit(repo, "odd", {"é ü.txt": "x"})
    assert "é ü.txt" in Git(repo).text("ls-files").splitlines()


def test_a_failure_is_one_sentence(repo: Path) -> None:
    with pytest.raises(GitError) as caught:
        Git(repo).run("rev-parse", "--verify", "nonsense")
    assert caught.value.problem == "git rev-parse failed: Needed a single revision."
    assert caught.value.git_exit == 128
    assert Git(repo).run("rev-parse", "--verify", "nonsense", check=False).exit_code == 128


def test_objects_that_are_missing_say_what_to_type(repo: Path) -> None:
    subprocess.run(["sh", "-c", "rm -rf .git/objects/??"], cwd=repo, check=True)
    with pytest.raises(GitError, match="invalid object") as caught:
        Git(repo).run("write-tree")
    assert caught.value.hint == "Type: git fsck"


def test_a_held_index_lock_says_what_to_type(repo: Path) -> None:
    lock = repo.resolve() / ".git/index.lock"
    lock.touch()
    write(repo, {"new": "x"})
    with pytest.raises(GitError, match="another git process") as caught:
        Git(repo).run("add", "-A")
    assert caught.value.hint.endswith(f"rm {lock}")


def test_blobs_reads_many_objects_exactly(repo: Path) -> None:
    contents = [b"", b"a\r\nb\0c", os.urandom(3 << 20), b"no newline"]
    oids = [git(repo, "hash-object", "-w", "--no-filters", "--stdin", stdin=each) for each in contents]
    with Git(repo).blobs() as blobs:
        for oid, content in zip(oids, contents, strict=True):
            got = io.BytesIO()
            blobs.copy(oid, got)
            assert got.getvalue() == content
        with pytest.raises(GitError, match="missing"):
            blobs.copy("0" * 40, io.BytesIO())


def test_a_long_input_is_whole_or_not_there(repo: Path) -> None:
    script = "import os, stat; print(stat.S_ISREG(os.fstat(0).st_mode))"
    git(repo, "config", "alias.kind", f"!python3 -c '{script}'")
    assert Git(repo).text("kind", stdin=b"x" * 100) == "False"
    assert Git(repo).text("kind", stdin=b"x" * 100_000) == "True"


@pytest.mark.parametrize(
    ("key", "value"),
    [("bare", "true"), ("worktree", "/nowhere"), ("worktree", "../.."), ("worktree", "OTHER")],
)
def test_a_setting_that_leads_git_away_from_the_tree_is_named_with_what_ends_it(
    repo: Path, key: str, value: str
) -> None:
    settings = repo / ".git/config"
    if value == "OTHER":  # a folder above that has a `.git` of its own
        value = str(repo.parent)
        (repo.parent / ".git").mkdir()
    git(repo, "config", f"core.{key}", value)
    with pytest.raises(UsageError, match=f"says core.{key}") as refused:
        discover(repo)
    subprocess.run(refused.value.hint.partition("type: ")[2], shell=True, check=True)
    assert discover(repo).toplevel == repo, settings.read_text()
