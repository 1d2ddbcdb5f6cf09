"""How many problems a tool says it found, told apart from all other numbers it prints (rule 6.4).

A fingerprint has no numbers in it, so that moved lines and times do not look new; without this, a red
gate that goes from "1 errors" to "9 errors" would look as it did before.
"""

from __future__ import annotations

import re
from pathlib import Path

from codeframe.core.gates.text import clean, normalise

_NOUNS = (
    r"errors?|failures?|problems?|warnings?|issues?|violations?|offen[cs]es?|findings?|mistakes?|defects?"
    r"|vulnerabilit(?:y|ies)|(?:tests?|specs?|suites?|examples?|checks?) (?:failed|failing)"
)
_KINDS = (
    r"(?:fatal|previous|type|style|lint|syntax|compile|compilation|build|critical|serious|high|medium|moderate"
    r"|low|new|unique|possible|potential|total|test|security|severity) "
)
# A number after one of these words names something: "line 12 error", "step 3 failures".
_NAMING = re.compile(
    r"\b(?:lines?|row|col|column|char|at|code|status|step|test|case|attempt|try|retry|port|pid|process|job|worker"
    r"|thread|request|connection|node|shard|version|exit|signal|year|seed) $",
    re.IGNORECASE,
)
# "Found 9 errors", "3 previous errors", "1 tests failed".
_COUNTED = re.compile(
    rf"(?<![\w.:,/#-])(?P<number>[0-9]{{1,9}}(?:,[0-9]{{3}}){{0,3}}) "
    rf"(?P<noun>(?:{_KINDS}){{0,2}}(?:{_NOUNS}))\b",
    re.IGNORECASE,
)
# "3 failed, 2 passed", "===== 1 failed in 0.1s", "FAILED. 3 passed; 2 failed;": never after a word.
_FAILED = re.compile(
    r"(?:^|(?<=[^\w\s]))\s*(?P<number>[0-9]{1,9}) (?P<noun>failed|failing|errored|broken)"
    r"(?=\s*(?:[,;|)(]|in \d|of \d|out of \d|$))",
    re.IGNORECASE,
)
# "Errors: 9, ...", "FAILED (failures=1)", "# fail 3".
_LISTED = re.compile(
    r"\b(?P<noun>errors|failures|failed|failing|problems|warnings|violations|issues)\s*[:=]\s*"
    r"(?P<number>[0-9]{1,9})(?=\s*(?:[,;|)]|\.(?!\d)|$|\s[A-Za-z]+\s*[:=]))"
    r"|^\#\s*(?P<tap>fail|errors?)\s+(?P<tapped>[0-9]{1,9})\s*$",
    re.IGNORECASE,
)


def fingerprint(text: str, root: Path | None = None) -> tuple[str, tuple[int, ...]]:
    """What identifies a failure across edits: the words of `text` in any order of its lines, without numbers;
    and how many problems it counts. Equal words mean that the counts stand for the same things, one by one."""
    lines = sorted(_line(line, root) for line in clean(text).splitlines())
    return "\n".join(words for words, _ in lines), tuple(n for _, counts in lines for n in counts)


def worse(now: tuple[int, ...], before: tuple[int, ...]) -> bool:
    """Whether any of the counts has grown."""
    return any(a > b for a, b in zip(now, before, strict=False))


def _line(line: str, root: Path | None) -> tuple[str, tuple[int, ...]]:
    counts: list[int] = []

    def take(match: re.Match[str]) -> str:
        number, noun = match["number"], match["noun"]
        if _NAMING.search(match.string[max(match.start() - 20, 0) : match.start()]):
            return match[0]
        counts.append(int(number.replace(",", "")))
        return f" # {noun.lower().replace('ies', 'y').rstrip('s')} "

    def take_listed(match: re.Match[str]) -> str:
        counts.append(int(match["number"] or match["tapped"]))
        return f" {(match['noun'] or match['tap']).lower()} # "

    text = _LISTED.sub(take_listed, _FAILED.sub(take, _COUNTED.sub(take, line)))
    return normalise(text, root), tuple(counts)
