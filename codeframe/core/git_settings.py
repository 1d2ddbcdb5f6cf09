"""What an engine did to the settings that decide what git sees of a tree, and what puts each back."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from codeframe.core.git import Git, Repo, settings_of
from codeframe.core.raw_git import records
from codeframe.core.safe_read import read_regular
from codeframe.core.whole_file import write_whole

_MAX_BYTES = 10_000_000


class _Seen(NamedTuple):
    config: bytes
    exclude: bytes | None


class GitSettings:
    """core.* of the configuration of `repo`, and its info/exclude, in one run. `folder` is the run's folder.

    Reading two small files is all it costs, as long as nothing changes.
    """

    def __init__(self, repo: Repo, folder: Path) -> None:
        self._config = repo.common_dir / "config"
        self._exclude = repo.common_dir / "info" / "exclude"
        self._kept = folder / "exclude"
        self._before: _Seen | None = None

    def begin(self) -> None:
        """Note how they are."""
        self._before = self._look()

    def moved(self) -> Iterator[str]:
        """A line for each that is another than at the last look, with what to type to put it back."""
        before, now = self._before, self._look()
        self._before = now
        if before is None or before == now:
            return
        if before.config != now.config:
            was, is_now = _core(before.config), _core(now.config)
            for key in sorted({*was, *is_now}):
                if was.get(key) != is_now.get(key):
                    yield self._setting(key, was.get(key), is_now.get(key))
        if before.exclude != now.exclude:
            yield self._excluded(before.exclude)

    def _look(self) -> _Seen:
        exclude = None
        with contextlib.suppress(OSError):
            exclude = read_regular(self._exclude, _MAX_BYTES)
        with contextlib.suppress(OSError):
            return _Seen(read_regular(self._config, _MAX_BYTES), exclude)
        return _Seen(b"", exclude)

    def _setting(self, key: str, was: str | None, now: str | None) -> str:
        value = "--unset-all" if was is None else "--replace-all"
        words = [*settings_of(self._config), value, key, *([] if was is None else [was])]
        said = "not set" if was is None else f"“{was}”"
        return (
            f"the setting {key} of the repository was {said} and is {'gone' if now is None else f'“{now}”'}; "
            f"to put it back type: {shlex.join(words)}"
        )

    def _excluded(self, was: bytes | None) -> str:
        back = ["rm", str(self._exclude)]
        if was is not None:
            write_whole(self._kept, was.decode("utf-8", "surrogateescape"))
            back = ["mv", str(self._kept), str(self._exclude)]
        return f"what git ignores changed ({self._exclude}); to put it back type: {shlex.join(back)}"


def _core(config: bytes) -> dict[str, str]:
    """core.* of a configuration file: name -> value, the last of several."""
    # From elsewhere: a setting may keep git from starting in the tree.
    asked = ("config", "--file", "-", "-z", "--no-includes", "--get-regexp", r"^core\.")
    said = Git(Path("/")).run(*asked, stdin=config, check=False).stdout
    return {key: value for key, _, value in (each.partition("\n") for each in records(said))}
