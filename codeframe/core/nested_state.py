"""What a nested repository or submodule holds beyond its HEAD, told from an earlier look by a short mark."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from codeframe.core.git import Git
from codeframe.core.raw_git import GITLINK, RawGit, records, rows

_MAX_FILE_BYTES = 50_000_000  # of a changed file whose content is looked at; of larger ones size and time


def nested_head(place: Path) -> tuple[str, Path, Path] | None:
    """(HEAD's commit, git folder, its common folder) of the repository in `place`; None without a commit."""
    question = ("--path-format=absolute", "--absolute-git-dir", "--git-common-dir", "--revs-only", "HEAD")
    ceiling = {"GIT_CEILING_DIRECTORIES": str(place.parent)}
    asked = Git(place).run("rev-parse", *question, env=ceiling, check=False)
    lines = os.fsdecode(asked.stdout).splitlines()
    if asked.exit_code != 0 or len(lines) != 3:
        return None
    return lines[2], Path(lines[0]), Path(lines[1])


def nested_state(raw: RawGit, place: Path, head: str, git_dir: Path, common_dir: Path) -> str:
    """A mark of all changes in it that are not committed, "" when there are none. Runs none of its programs.

    A tracked file counts by its content and an untracked one by its size and time. Repositories in it
    are looked at in turn.
    """
    nested = raw.on(index=git_dir / "index", tree=place, objects=common_dir / "objects")
    lines = [*_changed(nested), *_staged(nested, head)]
    inner = set()
    listing = nested.run("ls-files", "-z", "-t", "-c", "-s", "-o", "--exclude-standard", check=False)
    for record in records(listing.stdout):
        if record.startswith("? "):
            path = record[2:]
            if path.endswith("/"):
                inner.add(path[:-1])
            lines.append(f"? {path}" if path.endswith("/") else f"? {path} {_stamp(place / path)}")
        else:
            meta, path = record.split("\t", 1)
            if meta.split(" ")[1] == GITLINK:
                inner.add(path)
    for path in sorted(inner):
        found = nested_head(place / path) if os.path.lexists(place / path / ".git") else None
        if found and (state := nested_state(raw, place / path, *found)):
            lines.append(f"{path}/ {found[0]} {state}")
    if not lines:
        return ""
    import hashlib  # it loads OpenSSL, and most trees have no nested repository that is dirty

    return hashlib.sha256(os.fsencode("\n".join(lines))).hexdigest()[:12]


def _staged(nested: RawGit, head: str) -> Iterator[str]:
    done = nested.run("diff-index", "-z", "--cached", "--no-renames", head, check=False)
    if done.exit_code != 0:
        yield f"error {done.stderr}"
    yield from (f"{meta} {path}" for meta, path in rows(done.stdout, 2))


def _changed(nested: RawGit) -> Iterator[str]:
    """What differs from the index. Its times may be old: a file of the same content has not changed."""
    done = nested.run("diff-files", "-z", "--ignore-submodules=dirty", check=False)
    if done.exit_code != 0:
        yield f"error {done.stderr}"
    found = list(rows(done.stdout, 2))
    read = [path for _, path in found if _readable(nested.tree / path)]
    # Paths are given by lines, relative to the tree.
    hashed = (
        nested.run("hash-object", "--no-filters", "--stdin-paths", stdin=_lines(read), check=False)
        if read
        else None
    )
    oids = dict(zip(read, hashed.stdout.decode().split() if hashed else (), strict=False))
    for meta, path in found:
        old_mode, new_mode, old, _, status = meta[1:].split(" ")
        if path in oids and old_mode == new_mode and oids[path] == old:
            continue
        yield f"{old_mode} {new_mode} {status} {path} {oids.get(path) or _stamp(nested.tree / path)}"


def _lines(paths: list[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\n" for path in paths)


def _readable(place: Path) -> bool:
    try:
        found = place.lstat()
    except OSError:
        return False
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_size <= _MAX_FILE_BYTES
        and os.access(place, os.R_OK)
        and not {"\n", '"'} & set(str(place))
    )


def _stamp(place: Path) -> str:
    try:
        found = place.lstat()
    except OSError:
        return ""
    return f"{found.st_mode:o} {found.st_size} {found.st_mtime_ns}"
