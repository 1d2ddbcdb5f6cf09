"""HEAD, and where the working tree and the index differ from it: read once for all tasks that a command asks about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cached_property

from codeframe.core.git import Git
from codeframe.core.models import Run
from codeframe.core.raw_git import Entry, records

RUN_TRAILER = "CodeFrame-Run"
_OFF = ("false", "no", "off", "0", "")


class HeadState:
    """`carried` looks at commits since `since`, which is to be before the runs it is asked about."""

    def __init__(self, git: Git, since: datetime) -> None:
        self.git = git
        self._since = since - timedelta(days=1)  # clocks differ

    @classmethod
    def for_runs(cls, git: Git, runs: Iterable[Run], otherwise: datetime) -> HeadState:
        """One that can be asked about these runs; `otherwise` counts where there are none."""
        return cls(git, min((run.started_at for run in runs), default=otherwise))

    @cached_property
    def commit(self) -> str | None:
        """Its full id; None before the first commit."""
        return self.git.text("rev-parse", "--verify", "-q", "HEAD^{commit}", check=False) or None

    @cached_property
    def carried(self) -> Mapping[str, str]:
        """Id of each run that a commit names in its trailer -> the newest such commit, abbreviated."""
        if self.commit is None:
            return {}
        form = f"--format=%x00%h%n%(trailers:key={RUN_TRAILER},valueonly)"
        said = self.git.text("log", f"--since={self._since.isoformat()}", form, self.commit, "--")
        found: dict[str, str] = {}
        for commit, *runs in map(str.split, said.split("\0")[1:]):
            found = dict.fromkeys(runs, commit) | found
        return found

    @cached_property
    def changed(self) -> frozenset[str]:
        """Paths where the working tree or the index differs from HEAD, untracked ones among them: what git sees."""
        return frozenset(self._status)

    @property
    def edited(self) -> frozenset[str]:
        """The same without untracked ones."""
        return frozenset(path for path, said in self._status.items() if said != "??")

    @cached_property
    def intended(self) -> frozenset[str]:
        """Paths of which the index holds no more than that they are to be added: `git add -N`."""
        return frozenset(path for path, said in self._status.items() if said == " A")

    @cached_property
    def _status(self) -> dict[str, str]:
        form = ("--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignored=no")
        said = self.git.run("status", *form, env=self.git.unfiltered()).stdout
        return {record[3:]: record[:2] for record in records(said)}

    @property
    def converts_all(self) -> bool:
        """Whether git changes line ends in any text."""
        return self._settings.get("core.autocrlf", "false").lower() not in _OFF

    @property
    def keeps_modes(self) -> bool:
        """Whether git does not look at the permissions of files."""
        return self._settings.get("core.filemode", "true").lower() in _OFF

    @cached_property
    def _settings(self) -> dict[str, str]:
        said = self.git.run(
            "config", "-z", "--get-regexp", r"^core\.(autocrlf|filemode)$", check=False
        ).stdout
        pairs = (record.partition("\n") for record in records(said))
        return {key: value if given else "true" for key, given, value in pairs}

    def entry(self, path: str) -> Entry | None:
        """What HEAD holds at a path."""
        return self._entries.get(path)

    @cached_property
    def _entries(self) -> dict[str, Entry]:
        if self.commit is None:
            return {}
        found = {}
        for record in records(self.git.run("ls-tree", "-r", "-z", "--full-tree", self.commit).stdout):
            meta, path = record.split("\t", 1)
            mode, _, oid = meta.split(" ")
            found[path] = Entry(mode, oid)
        return found
