"""Tests in other languages, by their words: what marks them as not to be run, and how many checks there are.

No parser stands behind it: comments are left out, all else is counted over all files of a change (rule 6.5).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from codeframe.core.gates.integrity.finding import TEST, Finding, Pair, text_of


class _Language(NamedTuple):
    """`files` by path; patterns of what keeps tests from running, of tests, and of the checks in them."""

    files: str
    skips: str
    tests: str
    checks: str


_LANGUAGES = (
    _Language(
        r"(?:.*[._-](?:test|spec|cy)\.[cm]?[jt]sx?|(?:.*/)?(?:__tests__|tests?|spec)/.*\.[cm]?[jt]sx?)",
        r"\b(?:it|test|describe|context|suite)(?:\.\w+)*\.(?:skip|skipIf|todo|fixme|failing|fails|only)\b"
        r"|\b(?:xit|xtest|xdescribe|fit|fdescribe)(?=\s*[(.])|\bthis\.skip\(|\bt\.skip\(",
        r"\b(?:it|test)(?:\.\w+)*\s*\(",
        r"\b(?:expect(?:\.\w+)?|assert(?:\.\w+)*|t\.(?:is|deepEqual|throws|true|false|equal|ok))\s*\(|\.should\b",
    ),
    _Language(
        r".*_test\.go",
        r"\b\w+\.Skip(?:f|Now)?\(|^//(?:go:build|\s*\+build)\b.*$",
        r"^func (?:Test|Example|Fuzz)\w*",
        r"\b\w+\.(?:Error|Fatal)f?\(|\b\w+\.Fail(?:Now)?\(|\b(?:require|assert)\.\w+\(",
    ),
    _Language(r".*\.rs", r"#\[\s*cfg\(\s*any\(\s*\)\s*\)\s*\]", r"#\[(?:\w+::)*test\b", r"\b(?:debug_)?assert\w*!"),
    _Language(
        r".*(?:Tests?|IT|Spec)\.(?:java|kt|scala|groovy)|(?:.*/)?src/test/.*\.(?:java|kt|scala|groovy)",
        r"@(?:Disabled\w*|Ignore)\b|\bassume(?:True|False|That)\b",
        r"@(?:ParameterizedTest|RepeatedTest|Test)\b",
        r"\b(?:assert\w*|verify|fail)\s*\(|\bshould\w*",
    ),
    _Language(
        r".*_(?:spec|test)\.rb",
        r"^\s*(?:skip|pending|xit|xdescribe|fit|fdescribe)\b",
        r"^\s*(?:it|specify|test|def test_\w+)\b",
        r"\b(?:expect|assert\w*|refute\w*|must_\w+|wont_\w+|should\w*)\b",
    ),
)  # fmt: skip
# What is not closed reaches to the end of its line or file: nothing is looked through twice.
_STRING = r"\"(?:\\.|[^\"\\\n])*+[\"\n]?|'(?:\\.|[^'\\\n])*+['\n]?|`(?:\\.|[^`\\])*+`?"
_COMMENT = re.compile(
    rf"({_STRING}|//go:build[^\n]*|//\s*\+build[^\n]*)|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL
)
_HASH_COMMENT = re.compile(rf"({_STRING})|\#[^\n]*")


def looks_at(path: str) -> bool:
    """Whether the file may hold tests of one of these languages."""
    return _language(path) is not None


def findings(pairs: Sequence[Pair]) -> list[Finding]:
    """Where there are more marks than before, or fewer tests or checks, for each language over all its files."""
    found = []
    for language in _LANGUAGES:
        mine = [pair for pair in pairs if _language(pair.path) is language]
        skips, tests, checks = (
            [(pair.path, _count(what, pair)) for pair in mine]
            for what in (language.skips, language.tests, language.checks)
        )
        more: Counter[str] = Counter()
        for _, (before, after) in skips:
            more.update(after)
            more.subtract(before)
        for path, (before, after) in skips:
            found += [
                Finding(TEST, path, 0, f"{mark} added")
                for mark in sorted((after - before).keys() & (+more).keys())
            ]
        for name, counted in (("tests", tests), ("assertions", checks)):
            total = sum(after.total() - before.total() for _, (before, after) in counted)
            for path, (before, after) in counted if total < 0 else ():
                if (left := after.total()) < (had := before.total()):
                    found.append(Finding(TEST, path, 0, f"{left or 'no'} {name} instead of {had}"))
    return found


def _count(pattern: str, pair: Pair) -> tuple[Counter[str], Counter[str]]:
    comment = _HASH_COMMENT if pair.path.endswith(".rb") else _COMMENT
    before, after = (comment.sub(lambda m: m[1] or "", text_of(data)) for data in (pair.before, pair.after))
    was, now = (
        Counter(" ".join(m[0].rstrip(" (").split()) for m in re.finditer(pattern, each, re.MULTILINE))
        for each in (before, after)
    )
    return was, now


def _language(path: str) -> _Language | None:
    name = str(PurePosixPath(path))
    return next((each for each in _LANGUAGES if re.fullmatch(each.files, name)), None)
