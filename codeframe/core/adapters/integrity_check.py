"""Looks at what an engine did to the checks themselves, over all its calls, and says what of it blocks (rule 6.5)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from codeframe.core.adapters.rounds import FINDINGS_IN_EVIDENCE, RoundRecord
from codeframe.core.safe_read import read_regular
from codeframe.core.snapshots import FileChange, Snapshots

if TYPE_CHECKING:
    from codeframe.core.gates import GateReport
    from codeframe.core.gates.integrity import Finding
    from codeframe.core.raw_git import Entry

BLOCK = "block"  # the policy under which findings keep work from counting
FOUND, ASKED = (
    "integrity",
    "integrity_asked",
)  # in a run's evidence: all findings; keys a person was asked about
_MAX_FILES = 2_000
_MAX_CONFIG_BYTES = 256 * 1024
_NOTED = 10


class Before(NamedTuple):
    """What a run goes on with: the snapshot its chain began with, the paths that engines changed since, and the
    keys of the findings that a person was asked about and answered."""

    base: str | None = None
    paths: frozenset[str] = frozenset()
    accepted: frozenset[str] = frozenset()


class IntegrityCheck:
    """For one run in the workspace folder `root`. After `look`, `found` is all there is, `open` what blocks."""

    def __init__(
        self,
        snapshots: Snapshots,
        root: Path,
        redact: Callable[[str], str],
        before: Before = Before(),
        *,
        policy: str = "report",
    ) -> None:
        self._snapshots = snapshots
        self._root = root
        self._redact = redact
        self._before = before
        self._policy = policy
        self._config = self._own_config()
        self.found: tuple[Finding, ...] = ()

    @property
    def open(self) -> tuple[Finding, ...]:
        """The findings that keep the work from counting: none where they are only reported."""
        if self._policy != BLOCK:
            return ()
        return tuple(each for each in self.found if each.key not in self._before.accepted)

    def evidence(self, *, asked: bool) -> dict[str, Any]:
        """JSON-ready, for the run: all findings, and the keys of those a person is asked about."""
        rows = [each._asdict() for each in self.found[:FINDINGS_IN_EVIDENCE]]
        return {FOUND: rows, ASKED: [each.key for each in self.open] if asked else []}

    def look(self, rounds: Sequence[RoundRecord], report: GateReport) -> None:
        """Compare what the engine changed with what was there. Tests that `report` names as gone are told there."""
        config = self._own_config()
        changed = [c for c in self._changes(rounds) if c.before != c.after and _relevant(c.path)]
        self.found = ()
        if not changed and config == self._config:
            return
        from codeframe.core.gates.integrity import UNREAD, Finding, Pair, examine

        pairs = {pair.path: pair for pair in self._pairs(changed[:_MAX_FILES])}
        for path in config.keys() | self._config.keys():
            pairs.setdefault(path, Pair(path, self._config.get(path), config.get(path)))
        found = list(examine(pairs.values()))
        if (more := len(changed) - _MAX_FILES) > 0:
            found.append(Finding(UNREAD, ".", 0, f"{more} more changed files were not examined"))
        top = self._root.relative_to(self._snapshots.repo.toplevel).as_posix()
        prefix = "" if top == "." else f"{top}/"
        gone = {prefix + test.partition("[")[0] for verdict in report.verdicts for test in verdict.gone}
        self.found = tuple(
            each._replace(words=self._redact(each.words)) for each in found if each.test not in gone
        )

    def notes(self) -> list[str]:
        """A line each for people; long lists are cut."""
        lines = [f"check changed: {each}" for each in self.found[:_NOTED]]
        more = len(self.found) - _NOTED
        return lines + ([f"and {more} more such changes: see cf work why"] if more > 0 else [])

    def _changes(self, rounds: Sequence[RoundRecord]) -> Sequence[FileChange]:
        """What all engine calls changed together, with what files held before the first and after the last."""
        if len(rounds) == 1 and self._before.base is None:
            return rounds[0].changes
        paths = {change.path for record in rounds for change in record.changes} | self._before.paths
        compared = self._snapshots.compare(self._before.base or rounds[0].start, rounds[-1].end)
        return [FileChange(path, "", was, now) for path, was, now in compared if path in paths]

    def _pairs(self, changes: Iterable[FileChange]) -> Iterable[Any]:
        from codeframe.core.gates.integrity import Pair

        with self._snapshots.git.blobs() as blobs:

            def read(entry: Entry | None) -> bytes | None:
                if entry is None or not entry.mode.startswith("100"):  # a link or a repository holds no check
                    return None
                blobs.copy(entry.oid, content := io.BytesIO())
                return content.getvalue()

            for change in changes:
                yield Pair(change.path, read(change.before), read(change.after))

    def _own_config(self) -> Mapping[str, bytes]:
        """This machine's configuration, which snapshots do not hold where git ignores it."""
        found = {}
        for name in ("config.yaml", "config.json"):
            path = self._root / ".codeframe" / name
            try:
                found[path.relative_to(self._snapshots.repo.toplevel).as_posix()] = read_regular(
                    path, _MAX_CONFIG_BYTES
                )
            except OSError:
                continue
        return found


def _relevant(path: str) -> bool:
    from codeframe.core.gates.integrity import relevant

    return relevant(path)
