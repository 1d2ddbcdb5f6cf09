"""What a person trusts to run in this repository, item by item, kept outside of it (rule 9.1)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from codeframe.core.errors import CodeFrameError, RequirementsError, how_to_write, not_written
from codeframe.core.lease import Lease
from codeframe.core.process_sweep import MARKER
from codeframe.core.safe_read import read_regular
from codeframe.core.shown import shown
from codeframe.core.state_home import state_home
from codeframe.core.whole_file import write_whole
from codeframe.core.workspace import Workspace

_MAX_RECORD_BYTES = 4 * 1024 * 1024
_MOST_DIGESTS = 50  # of one item: what was trusted once stays so, as branches and worktrees differ
_LOCK_WAIT_S = 5.0


class Item(NamedTuple):
    """Something of the repository's that would run. `name` is stable ("gate tests", "file .x/hooks"), `says` is
    what it would do, for people, `digest` changes with that."""

    name: str
    says: str
    digest: str

    def __str__(self) -> str:
        return f"{shown(self.name)}: {shown(self.says)}"


class Untrusted(NamedTuple):
    """What nobody trusts yet: (item, "new" or "changed"). `problem` says why the record does not count, if so."""

    items: tuple[tuple[Item, str], ...]
    problem: str = ""

    def lines(self) -> list[str]:
        """For people, one for each item."""
        told = [f"{item}  ({state})" for item, state in self.items]
        return [self.problem, *told] if self.problem else told

    def named(self) -> str:
        """The same in short, as the end of a sentence."""
        named = ", ".join(f"{shown(item.name)} ({state})" for item, state in self.items[:10])
        more = f" and {len(self.items) - 10} more" if len(self.items) > 10 else ""
        return f"{named}{more}." + (f" {self.problem}" if self.problem else "")

    def refusal(self, words: str = "Not trusted to run here") -> RequirementsError:
        """The error for a start that nobody can be asked about."""
        return RequirementsError(
            f"{words}: {self.named()}",
            "Look at it: cf trust --show; then type: cf trust --yes",
        )


class Trust:
    """The record of one workspace.

    It is found by the repository's own place on this disk and the workspace's id: a copy is not trusted, nor
    is a repository that brings another's state along; linked worktrees share it. `environ` says where the
    person's state folder is.
    """

    def __init__(self, workspace: Workspace, environ: Mapping[str, str] = os.environ) -> None:
        self._workspace = workspace
        self._environ = environ
        self.problem = ""

    @cached_property
    def path(self) -> Path:
        """The record's file, there or not. Raises CodeFrameError when nobody's home is known."""
        import hashlib  # it loads OpenSSL: not for a repository where nothing would run

        where = os.path.realpath(self._workspace.repo.common_dir)
        key = hashlib.sha256(os.fsencode(where) + b"\0" + self._workspace.id.encode()).hexdigest()[:24]
        return state_home(self._environ) / "trust" / f"{key}.json"

    def untrusted(self, items: Iterable[Item]) -> Untrusted | None:
        """What of `items` was not accepted as it is now; None when there is nothing of that kind."""
        wanted = list(items)
        if not wanted:
            return None
        known = self._load()
        found = tuple(
            (item, "changed" if item.name in known else "new")
            for item in wanted
            if item.digest not in known.get(item.name, ())
        )
        return Untrusted(found, self.problem) if found else None

    def accept(self, items: Iterable[Item]) -> None:
        """Trust `items` as they are now, beside what is trusted. Raises CodeFrameError when that cannot be kept, or
        when it is no person who says so but an engine or a gate of a run."""
        if self._environ.get(MARKER):
            raise CodeFrameError(
                "What may run here is for a person to say, not for an engine or a gate.",
                "In a terminal of your own type: cf trust",
            )
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.parent.chmod(0o700)
        except OSError as error:
            raise _not_kept(self.path.parent, error) from error
        with self._locked():
            known = self._load()
            for item in items:
                others = [digest for digest in known.get(item.name, ()) if digest != item.digest]
                known[item.name] = [*others[1 - _MOST_DIGESTS :], item.digest]
            self._write(known)
            self.problem = ""

    def forget(self) -> bool:
        """Trust nothing any more; False when nothing was trusted."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise not_written(self.path, error) from error
        return True

    def discard(self) -> None:
        """The same for a workspace that goes: nobody will ever ask for its record, nor lock it."""
        try:
            path = self.path
        except CodeFrameError:  # without a home nothing was kept
            return
        try:
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)
        except OSError as error:
            raise not_written(path, error) from error

    def _load(self) -> dict[str, list[str]]:
        """Item name -> its accepted digests; {} with `problem` set when there is a record that does not count."""
        self.problem = ""
        try:
            if place := self._open_to_others():
                self.problem = (
                    f"{place} could have been written by others, so what is trusted does not count."
                )
                return {}
            record = json.loads(read_regular(self.path, _MAX_RECORD_BYTES))
            return {str(name): [str(digest) for digest in given] for name, given in record["items"].items()}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            self.problem = f"{self.path} cannot be read: {error.strerror}."
        except CodeFrameError as error:
            self.problem = error.problem
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            self.problem = f"{self.path} is damaged, so it does not count."
        return {}

    def _open_to_others(self) -> Path | None:
        """The record, its folder, or one above them in which anybody could put another in its place."""
        for place in (self.path, self.path.parent):
            about = place.stat()
            if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return place
        above = (*self.path.parent.parents, *Path(os.path.realpath(self.path.parent)).parents)
        bits = ((place, place.stat().st_mode) for place in above)
        return next((place for place, mode in bits if mode & stat.S_IWOTH and not mode & stat.S_ISVTX), None)

    def _write(self, known: Mapping[str, list[str]]) -> None:
        about = {"workspace": self._workspace.id, "root": str(self._workspace.root), "items": known}
        try:
            write_whole(
                self.path, json.dumps(about, indent=1), mode=0o600
            )  # one writer at a time: see `_locked`
        except OSError as error:
            raise _not_kept(self.path, error) from error

    def _locked(self) -> Lease:
        lock = Lease.acquire(self.path.with_suffix(".lock"), {"pid": os.getpid()}, wait_s=_LOCK_WAIT_S)
        if lock is None:
            raise CodeFrameError(
                "What is trusted is being written down by another process.", "Try again: cf trust"
            )
        return lock


def _not_kept(path: Path, error: OSError) -> CodeFrameError:
    return CodeFrameError(
        f"What is trusted cannot be kept in {path}: {error.strerror}.",
        f"{how_to_write(path, error)}; or keep it elsewhere: export XDG_STATE_HOME=/path/to/a/folder",
    )
