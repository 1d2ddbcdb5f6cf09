"""Put a file in its place in one step; what a kill leaves of that is swept by the next one (rule 4.2)."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path


class Replacing:
    """Makes files in `folder`, out of the person's sight, and renames them into place.

    Where that is another file system, a file is made beside its place, and `folder` has a note of where.
    One process at a time: whoever uses it holds the lock of the working tree.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def sweep(self) -> None:
        """Remove what a killed process left."""
        try:
            left = list(self._folder.iterdir())
        except FileNotFoundError:
            return
        for each in left:
            if each.suffix == ".beside":
                with contextlib.suppress(OSError):
                    Path(os.fsdecode(each.read_bytes())).unlink()
            each.unlink(missing_ok=True)

    def put(self, place: Path, make: Callable[[Path], None]) -> None:
        """Let `make` write a new file at the path it is given, and let that be the file at `place`."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._folder / secrets.token_hex(8)
        try:
            make(new)
            try:
                new.replace(place)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._put_beside(place, make)
        finally:
            new.unlink(missing_ok=True)

    def _put_beside(self, place: Path, make: Callable[[Path], None]) -> None:
        new = place.with_name(f".codeframe-undo-{secrets.token_hex(8)}")
        note = self._folder / f"{new.name}.beside"
        note.write_bytes(os.fsencode(new))
        try:
            make(new)
            new.replace(place)
        finally:
            new.unlink(missing_ok=True)
            note.unlink()
