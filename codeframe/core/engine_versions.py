"""Which version of its program an engine has here: asked once, and kept until the program is another file."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from codeframe.core.errors import CodeFrameError
from codeframe.core.safe_read import read_regular
from codeframe.core.state_home import state_home
from codeframe.core.whole_file import write_named

ASK_S = 10.0  # the slowest took 3.4 s on a busy machine
_FILE = "engine-versions.json"
_MAX_BYTES = 256 * 1024
_MOST = 200  # programs that are remembered
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+][\w.]+)?")


def program_of(adapter_class: Any) -> Path | None:
    """The engine's program on PATH; None where there is none, or it runs none."""
    found = filter(None, map(shutil.which, getattr(adapter_class, "commands", ())))
    return next(map(Path, found), None)


class Versions:
    """What is known, in one small file of the person's state folder; `environ` says where that is.

    A program is known by its real path, its time and its size. What cannot be read or kept is as if it was not
    known: this is a cache.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._known = self._load()

    def of(self, program: Path) -> str | None:
        """Its version; "" when it was asked and did not say, None when it was not asked yet."""
        path, now = _identity(program)
        entry = self._known.get(path)
        return entry["version"] if entry and [entry["mtime_ns"], entry["size"]] == now else None

    def note(self, program: Path, version: str) -> None:
        """Remember it."""
        self._keep({program: version})

    def ask(self, engines: Iterable[Any]) -> dict[Path, str]:
        """Ask the programs of these adapter classes, all at once, each for ASK_S at most; remember what they say."""
        from concurrent.futures import ThreadPoolExecutor

        wanted = {program: engine for engine in engines if (program := program_of(engine)) is not None}
        cancel = threading.Event()
        with ThreadPoolExecutor(max_workers=max(1, len(wanted))) as pool:
            jobs = {program: pool.submit(_asked, program, wanted[program], cancel) for program in wanted}
            try:
                found = {program: job.result() for program, job in jobs.items()}
            except BaseException:
                cancel.set()
                raise
        self._keep(found)
        return found

    def _keep(self, found: Mapping[Path, str]) -> None:
        for program, version in found.items():
            path, (mtime_ns, size) = _identity(program)
            self._known.pop(path, None)  # what is newest stands last
            self._known[path] = {"mtime_ns": mtime_ns, "size": size, "version": version}
        kept = dict(list(self._known.items())[-_MOST:])
        with suppress(OSError, CodeFrameError):
            file = state_home(self._environ) / _FILE
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_named(file, json.dumps(kept, indent=1).encode("utf-8", "replace"))

    def _load(self) -> dict[str, Any]:
        try:
            known = json.loads(read_regular(state_home(self._environ) / _FILE, _MAX_BYTES))
            return {
                str(path): {
                    "mtime_ns": int(entry["mtime_ns"]),
                    "size": int(entry["size"]),
                    "version": str(entry["version"]),
                }
                for path, entry in known.items()
            }
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, CodeFrameError):
            return {}


def learn(engine: Any, version: object) -> None:
    """What an engine (its adapter class) said of itself in a run, where it was not asked before."""
    if isinstance(version, str) and version and (program := program_of(engine)) is not None:
        versions = Versions()
        if versions.of(program) is None:
            versions.note(program, version)


def is_older(version: str, than: str) -> bool:
    """Whether major or minor is a lower one; what comes after them is no news."""
    return _numbers(version) < _numbers(than)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:2]]


def _identity(program: Path) -> tuple[str, list[int]]:
    """The real path, and what changes with its content. Where it has vanished nothing is known of it."""
    path = os.path.realpath(program)
    try:
        about = os.stat(path)
    except OSError:
        return path, [-1, -1]
    return path, [about.st_mtime_ns, about.st_size]


def _asked(program: Path, engine: Any, cancel: threading.Event) -> str:
    from codeframe.core.adapters.asking import printed_by
    from codeframe.core.adapters.engine_environment import engine_environment

    env = engine_environment(getattr(engine, "env_add", {}), getattr(engine, "env_drop", frozenset()))
    found = _VERSION.search(printed_by([str(program), "--version"], env, ASK_S, cancel))
    return found[0] if found else ""
