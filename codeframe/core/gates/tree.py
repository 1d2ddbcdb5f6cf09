"""Looking at files: a bounded walk over a project's Python files, and the end of a log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from codeframe.core.gates.text import DETAIL_BYTES, clean
from codeframe.core.safe_read import open_regular

_MAX_ENTRIES = 50_000
_PRUNED = frozenset({"venv", "env", "node_modules", "site-packages", "build", "dist", "target", "vendor"})


def python_files(root: Path) -> Iterator[Path]:
    """Python files below `root`, relative to it, shallow ones first within a folder. Hidden folders,
    environments and build output are passed over; stops after 50,000 directory entries."""
    seen = 0
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(
            d
            for d in subfolders
            if not d.startswith(".") and d not in _PRUNED and not d.endswith(".egg-info")
        )
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(folder, name).relative_to(root)
        seen += len(files) + len(subfolders)
        if seen > _MAX_ENTRIES:
            return


def tail_of(path: Path, limit: int = DETAIL_BYTES) -> str:
    """The last `limit` bytes of a text file, cleaned; "" when it cannot be read."""
    try:
        with open_regular(path) as stream:
            stream.seek(max(os.fstat(stream.fileno()).st_size - limit, 0))
            return clean(stream.read(limit).decode("utf-8", "replace")).strip()
    except OSError:
        return ""
