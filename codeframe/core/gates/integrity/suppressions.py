"""Comments and annotations that tell a checker to look away, and which were added (rule 6.5)."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from codeframe.core.gates.integrity.finding import SUPPRESSION, Finding, Pair, short, text_of

_PY = ("py", "pyi")
_JS = ("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte")
_C = ("c", "h", "cc", "cpp", "cxx", "hpp")
_JVM = ("java", "kt", "kts", "scala", "groovy")
_CODES = r"(?:\s*[:=]\s*(?P<codes>[\w./@,\- ]+))?"
_BRACKETS = r"(?:\[(?P<codes>[^\]]*)\])?"
_REST = r"[ \t]*(?P<codes>(?:@?[a-z][\w@/-]*(?:\s*,\s*)?)*)"

# (name for people, pattern with what it is limited to as `codes`, endings of files it means something in)
_TABLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("# noqa", r"#\s*(?i:noqa)\b(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?", _PY),
    ("# ruff: noqa", rf"#\s*ruff\s*:\s*(?i:noqa)\b{_CODES}", _PY),
    ("# flake8: noqa", rf"#\s*flake8\s*:\s*(?i:noqa)\b{_CODES}", _PY),
    ("# type: ignore", rf"#\s*type\s*:\s*ignore\b{_BRACKETS}", _PY),
    ("# mypy:", r"#\s*mypy\s*:\s*(?P<codes>[\w\-]+(?:\s*=\s*[^#]+)?)", _PY),
    ("# pyright:", rf"#\s*pyright\s*:\s*(?:ignore|basic)\b{_BRACKETS}", _PY),
    ("# pylint: disable", rf"#\s*pylint\s*:\s*(?:disable(?:-next)?|skip-file)\b{_CODES}", _PY),
    ("# pragma: no cover", r"#\s*pragma\s*:\s*no\s*(?:cover|branch)\b", _PY),
    ("# nosec", rf"#\s*nosec\b{_CODES}", (*_PY, "go", "tf")),
    ("nosemgrep", rf"\bnosemgrep\b{_CODES}", (*_PY, *_JS, *_JVM, "go", "rb")),
    ("eslint-disable", rf"\beslint-disable(?:-next-line|-line)?\b{_REST}", _JS),
    ("@ts-ignore", r"@ts-ignore\b", _JS),
    ("@ts-nocheck", r"@ts-nocheck\b", _JS),
    ("@ts-expect-error", r"@ts-expect-error\b", _JS),
    ("biome-ignore", r"\bbiome-ignore\b\s*(?P<codes>[\w/]*)", _JS),
    ("tslint:disable", rf"\btslint:disable(?:-next-line|-line)?\b{_CODES}", _JS),
    ("coverage ignore", r"\b(?:istanbul|c8|v8) ignore\b", _JS),
    ("stylelint-disable", rf"\bstylelint-disable(?:-next-line|-line)?\b{_REST}", ("css", "scss", "less")),
    ("#[allow]", r"#!?\[\s*(?:allow|expect)\s*\((?P<codes>[^)\]]*)", ("rs",)),
    ("#[ignore]", r"#\[\s*ignore\b", ("rs",)),
    ("//nolint", rf"//\s*nolint\b{_CODES}", ("go",)),
    ("@SuppressWarnings", r"@SuppressWarnings\b\s*\(?(?P<codes>[^)\n]*)", _JVM),
    ("@Suppress", r"@(?:file:)?Suppress\b\s*\(?(?P<codes>[^)\n]*)", _JVM),
    ("NOSONAR", r"\bNOSONAR\b", (*_PY, *_JS, *_JVM, *_C, "cs", "go", "php")),
    ("NOLINT", r"\bNOLINT(?:NEXTLINE|BEGIN)?\b(?:\((?P<codes>[^)]*)\))?", _C),
    ("diagnostic ignored", r"#\s*pragma\s+(?:GCC|clang)\s+diagnostic\s+ignored\b(?P<codes>.*)", _C),
    ("#pragma warning disable", r"#\s*pragma\s+warning\s+disable\b(?P<codes>.*)", ("cs",)),
    ("rubocop:disable", r"\brubocop:(?:disable|todo)\b(?P<codes>.*)", ("rb", "rake")),
    ("phpstan-ignore", r"@phpstan-ignore[\w-]*(?P<codes>.*)", ("php",)),
    ("psalm-suppress", r"@psalm-suppress\b(?P<codes>.*)", ("php",)),
    ("phpcs:ignore", r"\bphpcs:(?:ignore|disable)[\w-]*(?P<codes>.*)", ("php",)),
    ("shellcheck disable", r"#\s*shellcheck\s+disable=(?P<codes>[\w,]+)", ("sh", "bash", "zsh")),
    ("swiftlint:disable", r"\bswiftlint:disable[\w:]*(?P<codes>.*)", ("swift",)),
)
_BY_ENDING: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _name, _pattern, _endings in _TABLE:
    for _suffix in _endings:
        _BY_ENDING.setdefault(_suffix, []).append((_name, re.compile(_pattern)))


class _Mark(NamedTuple):
    """What looks away from what; `codes` empty: from everything."""

    name: str
    codes: frozenset[str]


class _Place(NamedTuple):
    mark: _Mark
    path: str
    line: int
    text: str


def looks_at(path: str) -> bool:
    """Whether a suppression in this file would mean something."""
    return _ending(path) in _BY_ENDING


def findings(pairs: Sequence[Pair]) -> list[Finding]:
    """The suppressions that were added, over all files: what moved, or became narrower, was not added."""
    before = [place for pair in pairs for place in _places(pair.path, pair.before)]
    after = [place for pair in pairs for place in _places(pair.path, pair.after)]
    gone = Counter(place.mark for place in before)
    gone.subtract(Counter(place.mark for place in after))
    spare = +gone
    lines = Counter((place.mark, place.text) for place in before)
    new: list[_Place] = []
    kept: list[_Place] = []
    for place in after:  # lines that were there are not the ones to be named
        known = lines[place.mark, place.text] > 0
        lines[place.mark, place.text] -= 1
        (kept if known else new).append(place)
    more = -gone  # mark -> how many there are too many
    found = []
    for place in (*new, *reversed(kept)):
        if more[place.mark] <= 0:
            continue
        more[place.mark] -= 1
        wider = (m for m in spare if spare[m] > 0 and m.name == place.mark.name)
        if paid := next(
            (m for m in wider if not m.codes or (place.mark.codes and m.codes > place.mark.codes)), None
        ):
            spare[paid] -= 1
            continue
        what = f"{place.mark.name} added: {short(place.text, 100)}"
        found.append(Finding(SUPPRESSION, place.path, place.line, what))
    return found


def _places(path: str, data: bytes | None) -> Iterator[_Place]:
    patterns = _BY_ENDING.get(_ending(path), [])
    text = text_of(data)
    wanted = [(name, pattern) for name, pattern in patterns if pattern.search(text)]
    if not wanted:
        return
    lines = text.split("\n")
    comments = _comments(text) if _ending(path) in _PY else None
    for number, line in comments if comments is not None else enumerate(lines, 1):
        for name, pattern in wanted:
            for match in pattern.finditer(line):
                codes = match.groupdict().get("codes") or ""
                parts = frozenset(re.findall(r"[\w@./\-]+", codes))
                yield _Place(_Mark(name, parts), path, number, lines[number - 1].strip())


def _comments(text: str) -> list[tuple[int, str]] | None:
    """(line number, text) of the comments of a Python file; None when it cannot be told what is one."""
    try:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None


def _ending(path: str) -> str:
    return PurePosixPath(path).suffix[1:].lower()
