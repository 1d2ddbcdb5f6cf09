"""Which changes of an engine call nobody watched to its end may be a person's (rule 4.4).

After a kill of `cf` the call lasts until its recovery, and people work meanwhile. The kernel's time of
last change tells: it is set by writing, by changing permissions and by renaming, and nothing turns it back.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path


class Watch:
    """What changed in the tree `top` after `until` (the file system's time in ns)."""

    def __init__(self, top: Path, until: int) -> None:
        self._top = top
        self._until = until

    def late(self, paths: Iterable[str]) -> set[str]:
        """Those of `paths` that changed after that, or went, or came with a folder that did."""
        return {path for path in paths if self._is_late(path)}

    def is_late(self, file: Path) -> bool:
        """Whether this file changed after that; False when there is none."""
        try:
            return file.lstat().st_ctime_ns > self._until
        except OSError:
            return False

    def _is_late(self, path: str) -> bool:
        place = self._top
        found = place.lstat()
        for part in path.split("/") if path else ():
            place = place / part
            try:
                found = place.lstat()
            except OSError:
                break  # of what vanished, only the folder knows when
            if not stat.S_ISDIR(found.st_mode):
                break
            # A folder that was moved brings old files; one in which a name came or went has one time for both.
            if found.st_ctime_ns > max(self._until, found.st_mtime_ns):
                return True
        return found.st_ctime_ns > self._until
