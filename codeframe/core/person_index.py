"""The person's own index: what is staged, and entries set in it beside all the others (rules 4.2, 10.4)."""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Mapping
from pathlib import Path

from codeframe.core.git import Git
from codeframe.core.raw_git import INTENDED, MARKS, Entry, index_info, nul, records

Step = tuple[Entry | None, Entry | None]  # what is there, what is to be


def staged_entries(git: Git) -> dict[str, Entry]:
    """What the index holds, by path; of a conflict nothing."""
    found = {}
    for record in records(git.run("ls-files", "-z", "-s").stdout):
        meta, path = record.split("\t", 1)
        mode, oid, stage = meta.split(" ")
        if stage == "0":
            found[path] = Entry(mode, oid)
    return found


def put_entries(git: Git, entries: Mapping[str, Step], index: Path | None = None) -> None:
    """Set entries of the index, or of the one in the file `index`. Runs no filter of the repository's; paths
    that the person told git to leave alone stay marked so."""
    steps: dict[str, Entry] = {}
    for path, (old, new) in entries.items():
        if new is not None and new != old:
            steps[path] = new
        elif new is None and old is not None:
            steps[path] = old.removal()
    if steps:
        marks = {} if index else marked(git, steps)
        env = git.unfiltered() | ({"GIT_INDEX_FILE": str(index)} if index else {})
        git.run("update-index", "-z", "--index-info", stdin=index_info(steps), env=env)
        for option, paths in marks.items():  # a new entry has lost it
            asked = ("update-index", option, "-z", "--stdin")
            git.run(*asked, stdin=nul(sorted(paths)), env=git.unfiltered(), check=False)


def intend_to_add(git: Git, paths: Collection[str]) -> None:
    """As `git add -N`: what `--index-info` cannot say."""
    if paths:
        how = ("-N", "-f", "--pathspec-from-file=-", "--pathspec-file-nul")
        env = git.unfiltered() | {"GIT_LITERAL_PATHSPECS": "1"}
        git.run("add", *how, stdin=nul(sorted(paths)), env=env, check=False)


def marked(git: Git, among: Container[str]) -> dict[str, set[str]]:
    """Option of update-index -> the paths it was used on (the letters of `ls-files -v`)."""
    found: dict[str, set[str]] = {"--skip-worktree": set(), "--assume-unchanged": set()}
    for record in records(git.run("ls-files", "-z", "-v").stdout):
        tag, path = record[0], record[2:]
        if path in among and tag in "Ss":
            found["--skip-worktree"].add(path)
        if path in among and tag.islower():
            found["--assume-unchanged"].add(path)
    return {option: paths for option, paths in found.items() if paths}


def put_marks(git: Git, steps: Mapping[str, tuple[str, str]]) -> None:
    """Of what git was told of paths of the index, change what differs between the two sets of letters (see
    `MARKS`), from the first to the second."""
    for letter, option in MARKS.items():
        added = {path for path, (old, new) in steps.items() if letter in new and letter not in old}
        removed = {path for path, (old, new) in steps.items() if letter in old and letter not in new}
        for asked, paths in ((f"--{option}", added), (f"--no-{option}", removed)):
            if paths:
                how = ("update-index", asked, "-z", "--stdin")
                git.run(*how, stdin=nul(sorted(paths)), env=git.unfiltered(), check=False)
    intended = {path for path, (old, new) in steps.items() if INTENDED in new and INTENDED not in old}
    if intended:
        intended -= staged_entries(git).keys()
        intend_to_add(git, {path for path in intended if os.path.lexists(git.tree / path)})


def collisions(staged: Iterable[str], new: Iterable[str]) -> set[str]:
    """Those of the paths `new` that are a folder of something staged, or lie below a staged file: git would
    drop what is staged there without a word."""
    there = set(staged)
    folders = {folder for path in there for folder in _above(path)}
    return {path for path in new if path in folders or not there.isdisjoint(_above(path))}


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]
