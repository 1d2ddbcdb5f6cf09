"""Entry points of installed packages: what `importlib.metadata` finds in folders, without importing that.

Its import takes 20 ms, with `email` and `zipfile`; all it would do here is read a few small files. Not
looked into: zip files and finders of other kinds, from which nothing with compiled parts can be run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple


class EntryPoint(NamedTuple):
    """One offer: a name, and `value` as "module:attribute"."""

    name: str
    value: str

    def load(self) -> Any:
        """What it names. Raises whatever importing it raises."""
        module, _, attributes = self.value.partition("[")[0].partition(":")
        found = import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            found = getattr(found, attribute)
        return found


def entry_points(group: str) -> Iterator[EntryPoint]:
    """All of a group. Of a package seen twice on `sys.path` the first counts, as it does for imports."""
    seen = set()
    for folder in sys.path:
        try:
            names = sorted(os.listdir(folder or os.curdir))
        except OSError:
            continue
        for name in names:
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            package = name.rpartition(".")[0].partition("-")[0].lower().replace(".", "_")
            if package not in seen:
                seen.add(package)
                yield from _read(f"{folder or os.curdir}/{name}/entry_points.txt", group)


def _read(file: str, group: str) -> Iterator[EntryPoint]:
    try:
        with open(file, encoding="utf-8") as lines:
            text = lines.read()
    except (OSError, UnicodeDecodeError):
        return
    section = ""
    for line in map(str.strip, text.splitlines()):
        name, given, value = map(str.strip, line.partition("="))
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == group and given and not line.startswith("#"):
            yield EntryPoint(name, value)
