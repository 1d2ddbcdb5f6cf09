"""What an engine did to the checks themselves: tests weakened, suppressions added, gates configured otherwise.

Pure functions over what files held before and after; nothing of the project is run (rule 6.5).
"""

from __future__ import annotations

from collections.abc import Iterable

from codeframe.core.gates.integrity import foreign, reach, settings, suppressions, weakened
from codeframe.core.gates.integrity.finding import (
    MAX_BYTES,
    SETTING,
    SUPPRESSION,
    TEST,
    UNREAD,
    Finding,
    Pair,
)

__all__ = ["MAX_BYTES", "SETTING", "SUPPRESSION", "TEST", "UNREAD", "Finding", "Pair", "examine", "relevant"]

_LOOKS = (weakened, reach, foreign, suppressions, settings)


def relevant(path: str) -> bool:
    """Whether a change of the file at `path` can be one of the checks."""
    return any(each.looks_at(path) for each in _LOOKS)


def examine(pairs: Iterable[Pair]) -> tuple[Finding, ...]:
    """What was done to the checks by changing these files, by path and line.

    All files of a change belong in one call: what moved from one to another is no finding.
    """
    small, found = [], []
    for pair in pairs:
        if max(len(pair.before or b""), len(pair.after or b"")) > MAX_BYTES:
            found.append(Finding(UNREAD, pair.path, 0, "too large to be examined"))
        elif pair.before != pair.after:
            small.append(pair)
    for look in _LOOKS:
        found += look.findings(small)
    return tuple(sorted(set(found), key=lambda each: (each.path, each.line, each.words)))
