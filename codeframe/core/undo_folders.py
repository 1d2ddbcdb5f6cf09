"""Undo's part in folders: made with the bits they had, opened to work in, closed again, never lost (rule 4.2)."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from codeframe.core.permissions import Permissions, folders_of
from codeframe.core.snapshot_scan import in_real_folders

_OPEN = 0o700
_NOTHING = Permissions({}, {}, frozenset())


class Folders:
    """The folders of one span. `before` and `after` are what its snapshots saw, None if they did not look."""

    def __init__(self, top: Path, before: Permissions | None, after: Permissions | None) -> None:
        self._top = top
        self._looked = before is not None
        self._before, self._after = before or _NOTHING, after or _NOTHING
        self._closing: dict[str, int] = {}

    def open(self, paths: Iterable[str], changed: Iterable[str]) -> None:
        """Make the folders above `paths` writable until `close`, and note which of the folders `changed`
        still have the bits the run gave them, to give those back."""
        above = folders_of(paths)
        for folder in sorted({*above, *changed}):  # the upper ones first, to reach the lower
            now = self._bits(folder)
            if now is None:
                continue
            was, left = self._before.folders.get(folder, now), self._after.folders.get(folder)
            # The third are those of an undo that was killed.
            wanted = was if now in (left, was | _OPEN) else now
            if folder in above and now & _OPEN != _OPEN:
                with contextlib.suppress(OSError):  # another owner's: what is in it will say so
                    os.chmod(self._top / folder, wanted | _OPEN)
            self._closing[folder] = wanted

    def make(self, folder: str) -> None:
        """Make it and those above, one by one: `mkdir -p` would follow a symlink out of the tree.

        Raises NotADirectoryError where a file or symlink is in the way.
        """
        path = ""
        for part in folder.split("/") if folder else ():
            path = f"{path}/{part}" if path else part
            place = self._top / path
            if not os.path.lexists(place):
                bits = self._before.folders.get(path)
                place.mkdir(_OPEN | (0o777 if bits is None else bits & 0o777))
                if bits is not None:
                    self._closing[path] = bits
            elif place.is_symlink() or not place.is_dir():
                raise NotADirectoryError

    def make_empty(self, wanted: Iterable[str]) -> list[str]:
        """Make those of the folders `wanted` again that had nothing in them and that the run removed."""
        made = []
        for folder in sorted(self._before.empty.intersection(wanted) - self._after.folders.keys()):
            with contextlib.suppress(OSError):  # where something else is now, that stays
                if not os.path.lexists(self._top / folder):
                    self.make(folder)
                    made.append(folder)
        return made

    def prune(self, folder: Path) -> None:
        """Remove it and those above that are empty now and were not there before the run."""
        while folder != self._top:
            path = str(folder.relative_to(self._top))
            if path in self._before.folders:
                return
            if in_real_folders(self._top, f"{path}/."):
                try:
                    folder.rmdir()
                except OSError:
                    return
            elif os.path.lexists(folder):
                return
            folder = folder.parent

    def close(self) -> list[str]:
        """Give the folders their bits; returns those that the run had changed and that are as before now."""
        restored = []
        for folder, bits in sorted(self._closing.items(), reverse=True):
            if self._bits(folder) not in (None, bits):
                with contextlib.suppress(OSError):
                    os.chmod(self._top / folder, bits)
            if self._after.folders.get(folder, bits) != bits == self._bits(folder):
                restored.append(folder)
        return restored

    def _bits(self, folder: str) -> int | None:
        try:
            found = (self._top / folder).lstat()
        except OSError:
            return None
        return stat.S_IMODE(found.st_mode) if stat.S_ISDIR(found.st_mode) else None
