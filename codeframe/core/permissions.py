"""What git does not record of a tree: permission bits, and folders with nothing in them (rule 4.2).

Looked at with every snapshot, so it must not cost what git costs: what was seen is kept in a cache, and
only files that git found changed, and what may have changed within the same second, are looked at again.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any, NamedTuple

_PLAIN, _EXECUTABLE, _FOLDER = "plain", "executable", "folder"
_RECENT_NS = 2_000_000_000  # git compares whole seconds: a second change within one goes unseen


class Permissions(NamedTuple):
    """Bits (as of `stat.S_IMODE`) of the files and of the folders of a snapshot, by path; "" is the top."""

    files: Mapping[str, int]
    folders: Mapping[str, int]
    empty: frozenset[str]


class Look:
    """One look at the tree `top`. `cache` belongs to the index that says what changed: without one, or
    with another one, it must not be there."""

    def __init__(self, top: Path, cache: Path) -> None:
        self._top = top
        self._cache = cache
        self._since = time.time_ns() - _RECENT_NS
        try:
            self._known: dict[str, Any] = json.loads(cache.read_bytes())
        except (OSError, ValueError):
            self._known = {}
        # Away until the end: the index is about to be told of changes that the cache does not know.
        cache.unlink(missing_ok=True)

    def facts(self, paths: Set[str], changed: Iterable[str]) -> dict[str, Any]:
        """The facts of the files at `paths` (of which `changed` differ from the index) and of their
        folders, JSON-ready; `expand` reads them.

        The usual bits of each kind are said once, the others with their paths: {"usual": {kind: bits},
        "other": {octal bits: [path]}, "empty": [folder]}. A tree of one mind takes a line.
        """
        known = self._known
        recent = [path for path in known.get("recent", ()) if path in paths]
        seen: dict[str, tuple[str, int]] = {}
        self._recent: list[str] = []
        for path in {*changed, *recent} if known else paths:
            self._note(seen, path)
        folders = folders_of(paths)
        empty = self._folders(seen, folders)
        usual: dict[str, int] = known.get("usual") or _most_usual(seen.values())
        other = {path: bits for path, bits in known.get("other", {}).items() if path in paths}
        for path, (kind, bits) in seen.items():
            other.pop(path, None)
            if bits != usual.setdefault(kind, bits):
                other[path] = bits
        if known and len(other) > 1000 + len(paths) // 2:
            self._known = {}  # what is usual has changed
            return self.facts(paths, changed)
        kept = {"usual": usual, "other": other, "recent": self._recent, "inside": self._inside}
        temporary = self._cache.with_suffix(".new")
        temporary.write_text(json.dumps(kept))
        temporary.replace(self._cache)
        by_bits: dict[str, list[str]] = {}
        for path in sorted(other):
            by_bits.setdefault(f"{other[path]:o}", []).append(path)
        return {"usual": usual, "other": by_bits, "empty": sorted(empty)}

    def _note(self, seen: dict[str, tuple[str, int]], path: str) -> os.stat_result | None:
        try:
            found = os.lstat(f"{self._top}/{path}")
        except OSError:
            return None
        if stat.S_ISDIR(found.st_mode):
            seen[path] = _FOLDER, stat.S_IMODE(found.st_mode)
        elif stat.S_ISREG(found.st_mode):
            bits = stat.S_IMODE(found.st_mode)
            seen[path] = _EXECUTABLE if bits & stat.S_IXUSR else _PLAIN, bits
            if found.st_ctime_ns > self._since:
                self._recent.append(path)
        return found

    def _folders(self, seen: dict[str, tuple[str, int]], folders: set[str]) -> list[str]:
        """Note the folders; returns those with nothing in them. Which folders are in a folder is listed
        anew only where its time has changed."""
        before: dict[str, tuple[int, list[str]]] = self._known.get("inside", {})
        self._inside: dict[str, tuple[int, list[str]]] = {}
        emptied: dict[str, list[str]] = {}
        for path in before.keys() - folders:
            emptied.setdefault(path.rpartition("/")[0], []).append(path)
        empty: list[str] = []
        for folder in folders:
            found = self._note(seen, folder)
            if found is None or not stat.S_ISDIR(found.st_mode):
                continue
            when, inside = before.get(folder, (0, []))
            if when != found.st_ctime_ns or when > self._since:
                inside = self._listed(folder)
            inside = [path for path in {*inside, *emptied.get(folder, ())} if path not in folders]
            self._inside[folder] = found.st_ctime_ns, inside
            for path in inside:
                empty += self._bare(path)
        for folder in empty:
            self._note(seen, folder)
        return empty

    def _listed(self, folder: str) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        try:
            with os.scandir(f"{self._top}/{folder}") as inside:
                folders = [each.name for each in inside if each.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        return [prefix + name for name in folders if name != ".git"]

    def _bare(self, folder: str) -> list[str]:
        """`folder` and all in it where there are only folders; nothing at the first file, soon found."""
        found = [folder]
        try:
            with os.scandir(f"{self._top}/{folder}") as inside:
                for each in inside:
                    real = each.is_dir(follow_symlinks=False)
                    deeper = self._bare(f"{folder}/{each.name}") if real else []
                    if not deeper:
                        return []
                    found += deeper
        except OSError:
            return []
        return found


def expand(facts: Mapping[str, Any], modes: Mapping[str, str]) -> Permissions:
    """The facts by path. `modes` are git's modes of all paths of the snapshot's tree."""
    usual, empty = facts["usual"], frozenset(facts["empty"])
    other = {path: int(bits, 8) for bits, paths in facts["other"].items() for path in paths}
    kinds = {"100644": _PLAIN, "100755": _EXECUTABLE}
    files = {}
    for path, mode in modes.items():
        bits = other.get(path, usual.get(kinds.get(mode, "")))
        if bits is not None and mode in kinds and bool(bits & stat.S_IXUSR) == (mode == "100755"):
            files[path] = bits
    folders = {path: other.get(path, usual[_FOLDER]) for path in {*folders_of(modes), *empty}}
    return Permissions(files, folders, empty)


def changed_bits(before: Permissions, after: Permissions) -> set[str]:
    """Files and folders that are in both, with other bits."""
    pairs = ((before.files, after.files), (before.folders, after.folders))
    return {path for old, new in pairs for path, bits in old.items() if new.get(path, bits) != bits}


def folders_of(paths: Iterable[str]) -> set[str]:
    """All folders above `paths`, the top ("") among them."""
    found = {""}
    for path in paths:
        while path := path.rpartition("/")[0]:
            if path in found:
                break
            found.add(path)
    return found


def _most_usual(seen: Iterable[tuple[str, int]]) -> dict[str, int]:
    return {kind: bits for (kind, bits), _ in reversed(Counter(seen).most_common())}
