"""git on a working tree with every conversion off: what it stores is what is on disk, byte for byte.

It works through a git folder of our own that shares only the repository's objects. There,
`info/attributes` beats whatever .gitattributes in the tree say, and no filter, hook or setting of
the repository exists, so nothing of it can run either.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from codeframe.core.git import Completed, Git, Repo
from codeframe.core.safe_read import read_regular

GITLINK = "160000"

# What git may be told about a path of the index (skip-worktree, assume-unchanged, intent to add), and that the path
# was not on the disk, as in a sparse checkout.
SKIPPED, ASSUMED, INTENDED, ABSENT = "sai-"
MARKS = {SKIPPED: "skip-worktree", ASSUMED: "assume-unchanged"}  # as options of update-index

# With any of these attributes what git stores may differ from what is on disk.
CONVERTING = ("text", "eol", "crlf", "ident", "filter", "working-tree-encoding")

# Unset is not enough for `working-tree-encoding`: git refuses false there, so it is made unspecified.
_ATTRIBUTES = "* -text -ident -filter !eol !crlf !working-tree-encoding\n"

# As `git init --bare` writes it.
_PLAIN_CONFIG = re.compile(
    rb"\[core\]\n\trepositoryformatversion = [01]\n\tfilemode = (true|false)\n\tbare = true\n"
    rb"(\tignorecase = true\n)?(\tprecomposeunicode = true\n)?(\[extensions\]\n\tobjectformat = sha256\n)?"
)

# Beats the person's own git configuration where it would change what is stored or how change is seen.
_CONFIG = {
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.ignoreStat": "false",
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.splitIndex": "false",
    "core.untrackedCache": "false",
    "core.sparseCheckout": "false",
    "core.protectNTFS": "false",
    "core.protectHFS": "false",
}


_EXCLUDE, _EXCLUDES_FILE = "exclude", "excludes-file"
_MAX_BYTES = 10_000_000


class Ignored(NamedTuple):
    """The content of a repository's info/exclude, and of the file that its core.excludesFile names (None where it
    names none: then the person's own configuration says)."""

    exclude: bytes | None
    excludes_file: bytes | None


class Entry(NamedTuple):
    """What git holds at a path: octal mode ("100644", "100755", "120000", GITLINK) and object id."""

    mode: str
    oid: str

    def removal(self) -> Entry:
        """What tells `update-index --index-info` to remove this entry."""
        return Entry("0", "0" * len(self.oid))


@dataclass(frozen=True, eq=False, repr=False)
class RawGit:
    """git through the folder `folder`, on the working tree `tree`, the index `index` and the objects of
    the repository in `objects`. `lock_fd` is inherited by every process: see `SnapshotIndex.locked`."""

    folder: Path
    tree: Path
    objects: Path
    index: Path
    lock_fd: int

    def prepare(self, repo: Repo) -> None:
        """Make the folder for `repo`, and again where it is not as we made it: an engine may have been there,
        and git runs what a configuration names."""
        attributes = self.folder / "info" / "attributes"
        if self._is_ours(attributes):
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        git = Git(repo.toplevel)
        kind = git.text("rev-parse", "--show-object-format")
        git.run("init", "-q", "--bare", "--template=", f"--object-format={kind}", str(self.folder))
        attributes.parent.mkdir(exist_ok=True)
        # Last and in one step: its presence says that the folder is whole.
        temporary = attributes.with_name("attributes.new")
        temporary.write_text(_ATTRIBUTES)
        temporary.replace(attributes)

    def _is_ours(self, attributes: Path) -> bool:
        try:
            there = {entry.name for entry in os.scandir(self.folder)}
            within = {entry.name for entry in os.scandir(attributes.parent)}
            return (
                there <= {"HEAD", "config", "info", "objects", "refs"}
                and within <= {"attributes", _EXCLUDE, _EXCLUDES_FILE}
                and read_regular(attributes, 1000) == _ATTRIBUTES.encode()
                and _PLAIN_CONFIG.fullmatch(read_regular(self.folder / "config", 1000)) is not None
            )
        except OSError:
            return False

    def ignoring(self) -> Ignored | None:
        """What untracked files `ignore` made be left out; None before that."""
        info = self.folder / "info"
        try:
            if (info / _EXCLUDE).is_symlink():  # of earlier versions: it followed what an engine did
                return None
            found = Ignored(*(_content(info / name) for name in (_EXCLUDE, _EXCLUDES_FILE)))
        except OSError:
            return None
        return found if found.exclude is not None else None

    def ignore(self, wanted: Ignored) -> None:
        """Leave out what `wanted` says, from here on, whatever the repository's own files come to say."""
        if self.ignoring() == wanted:
            return
        for name, content in zip((_EXCLUDES_FILE, _EXCLUDE), reversed(wanted), strict=True):
            place = self.folder / "info" / name
            if content is None:
                place.unlink(missing_ok=True)
            else:
                temporary = place.with_name(f"{name}.new")
                temporary.write_bytes(content)
                temporary.replace(place)

    def on(self, *, index: Path, tree: Path | None = None, objects: Path | None = None) -> RawGit:
        """The same with another index, or in another tree."""
        return replace(self, index=index, tree=tree or self.tree, objects=objects or self.objects)

    def run(self, *args: str, stdin: bytes = b"", check: bool = True) -> Completed:
        """Run `git <args>`. Raises GitError when `check` and the exit status is not 0."""
        config = dict(_CONFIG)
        if os.path.lexists(excludes := self.folder / "info" / _EXCLUDES_FILE):
            config["core.excludesFile"] = str(excludes)
        env = {
            "GIT_DIR": str(self.folder),
            "GIT_WORK_TREE": str(self.tree),
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_CONFIG_COUNT": str(len(config)),
        }
        for number, (key, value) in enumerate(config.items()):
            env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return Git(self.tree).run(*args, stdin=stdin, env=env, check=check, pass_fds=(self.lock_fd,))

    def put(self, entries: Mapping[str, Entry]) -> None:
        """Put entries in the index as they are, without stat data; see `Entry.removal`."""
        if entries:
            self.run("update-index", "-z", "--index-info", stdin=index_info(entries))


def _content(file: Path) -> bytes | None:
    """None where it is not there; OSError where it cannot be read."""
    try:
        return read_regular(file, _MAX_BYTES)
    except FileNotFoundError:
        return None


def index_info(entries: Mapping[str, Entry]) -> bytes:
    """Input of `update-index -z --index-info`. Removals first, so that a file can take a folder's place."""
    ordered = sorted(entries.items(), key=lambda item: item[1].mode != "0")
    return b"".join(f"{entry.mode} {entry.oid}\t".encode() + nul([path]) for path, entry in ordered)


def nul(paths: Iterable[str]) -> bytes:
    """Paths as NUL-terminated bytes."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def records(output: bytes) -> list[str]:
    """NUL-terminated fields as text; bytes that are not UTF-8 become surrogates."""
    return os.fsdecode(output).split("\0")[:-1]


def rows(output: bytes, width: int) -> Iterator[tuple[str, ...]]:
    """NUL-terminated fields, `width` at a time."""
    return zip(*[iter(records(output))] * width, strict=True)


def tree_changes(git: Git, start: str, end: str) -> list[tuple[str, Entry | None, Entry | None]]:
    """(path, before, after) wherever two trees or commits differ, exactly as git holds them."""
    said = git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", start, end).stdout
    found = []
    for meta, path in rows(said, 2):
        old_mode, new_mode, old, new, _ = meta[1:].split(" ")
        before = None if old_mode == "000000" else Entry(old_mode, old)
        found.append((path, before, None if new_mode == "000000" else Entry(new_mode, new)))
    return found
