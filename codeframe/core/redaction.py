"""Takes secrets out of text before it is stored or sent: known values, and tokens known by their prefix."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

REDACTED = "[redacted]"

_KEY = "PRIVATE KEY-----"
_KEY_BEGIN = rf"-----BEGIN [A-Z ]{{0,40}}{_KEY}"
_KEY_END = rf"-----END [A-Z ]{{0,40}}{_KEY}"
KEY_CHARS = 32 * 1024  # more than a private key of 16384 bits takes; without its end no more is taken out

# A literal every match must contain -> what to take out. The literal is looked for first: a line
# without one, nearly every line, costs a few substring searches and no regular expression, which is only
# then compiled. Prefixes are those the issuers publish. The lookaheads want a digit, so that hyphenated
# words are left alone.
_TOKENS: tuple[tuple[str, str], ...] = (
    ("sk-", r"(?<![A-Za-z0-9])sk-(?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{16,}"),  # sk-ant-, sk-proj-, sk-...
    ("sk_live_", r"(?<![A-Za-z0-9])[sr]k_live_[A-Za-z0-9]{16,}"),
    ("rk_live_", r"(?<![A-Za-z0-9])rk_live_[A-Za-z0-9]{16,}"),
    *((f"gh{kind}_", rf"(?<![A-Za-z0-9])gh{kind}_[A-Za-z0-9]{{20,}}") for kind in "pousr"),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
    ("glpat-", r"glpat-[A-Za-z0-9_-]{16,}"),
    ("xox", r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("AKIA", r"(?<![A-Za-z0-9])AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("ASIA", r"(?<![A-Za-z0-9])ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("AIza", r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{30,}"),
    ("npm_", r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,}"),
    ("pypi-", r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_-]{40,}"),
    ("hf_", r"(?<![A-Za-z0-9_])hf_(?=[A-Za-z0-9]*\d)[A-Za-z0-9]{30,}"),
    # A JSON Web Token: three parts, of which the first two are JSON objects (RFC 7519).
    ("eyJ", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}"),
    # To the closing line; where the text was cut before it, as far as a key may reach.
    (_KEY, rf"(?s){_KEY_BEGIN}(?:.{{0,{KEY_CHARS}}}?{_KEY_END}|.{{0,{KEY_CHARS}}})"),
)
_IN_ADDRESS = r"://[^\s:/@]*:([^\s/@]+)@"  # of a database, as in DATABASE_URL
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD")
MIN_LENGTH = 8


def contains_secret(text: str) -> bool:
    """Whether `text` holds something shaped like a token or a private key."""
    return any(literal in text and re.search(pattern, text) for literal, pattern in _TOKENS)


def secret_values(env: Mapping[str, str]) -> list[str]:
    """The values of `env` that are secrets by their variable's name, and passwords in addresses, longest first.

    Left out as too ordinary to be one, since taking them out would spoil the text: short values, plain
    words, numbers, paths, addresses without a login in them, and values of very few different characters.
    """
    values = {value for name, value in env.items() if _names_secret(name)}
    values |= {password for value in env.values() for password in re.findall(_IN_ADDRESS, value)}
    return sorted((v for v in values if not _ordinary(v)), key=lambda value: (-len(value), value))


def _names_secret(name: str) -> bool:
    upper = name.upper()
    return any(word in upper for word in _SECRET_NAMES)


def _ordinary(value: str) -> bool:
    if len(value) < MIN_LENGTH or len(set(value)) < 4:
        return True
    if value.startswith(("/", "~", "./")) or (value.startswith(("http://", "https://")) and "@" not in value):
        return True
    return len(value) < 16 and (value.isdigit() or (value.isalpha() and value.islower()))


def _telling(line: str) -> bool:
    """Whether a line of a longer secret gives some of it away."""
    return len(line) >= 16 and not line.startswith("-----") and not _ordinary(line)


class Redactor:
    """Replaces secrets with `[redacted]`.

    `env` is where known secret values are taken from (see `secret_values`); each is also looked for in
    the form it has inside a JSON string. Thread-safe: it holds no state.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        values = secret_values(env)
        # Text mostly comes line by line: of a value of several lines each one is a secret.
        lines = {line.strip() for value in values if "\n" in value for line in value.splitlines()}
        values += sorted((line for line in lines if _telling(line)), key=len, reverse=True)
        escaped = (
            json.dumps(value, ensure_ascii=ascii_)[1:-1] for value in values for ascii_ in (True, False)
        )
        self._values = tuple(dict.fromkeys([*values, *escaped]))

    def redact(self, text: str) -> str:
        """`text` without the secrets; the same object when there are none."""
        for value in self._values:
            if value in text:
                text = text.replace(value, REDACTED)
        for literal, pattern in _TOKENS:
            if literal in text:
                text = re.sub(pattern, REDACTED, text)
        return text

    def redact_all(self, value: Any) -> Any:
        """A JSON-ready value with every string in it redacted."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {key: self.redact_all(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_all(item) for item in value]
        return value

    def may_change(self, text: str) -> bool:
        """Whether `redact` has anything to look at in `text`; False is certain, and cheap for long texts."""
        return any(value in text for value in self._values) or any(literal in text for literal, _ in _TOKENS)

    def contains_secret(self, text: str) -> bool:
        """Whether `redact` would change `text`."""
        return any(value in text for value in self._values) or contains_secret(text)


class StreamRedactor:
    """Redacts a text that comes in pieces, each of whole lines: a private key may begin in one and end in
    another. Holds nothing back: what a piece gives is safe to be written."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._inside = 0  # characters that may still be of a key whose end has not come
        self._gap = False

    @property
    def in_key(self) -> bool:
        """Whether the next piece may begin inside of a key."""
        return bool(self._inside) or self._gap

    def redact(self, text: str) -> str:
        """The next piece, without the secrets."""
        if self._gap:
            self._gap = False
            text = re.sub(rf"\A[A-Za-z0-9+/=:,.\s-]{{0,{KEY_CHARS}}}?{_KEY_END}", REDACTED, text)
        if self._inside:
            end = re.search(_KEY_END, text[: self._inside])
            taken = end.end() if end else min(self._inside, len(text))
            self._inside = 0 if end else self._inside - taken
            text = text[taken:]
        if _KEY in text:
            begins = [match.end() for match in re.finditer(_KEY_BEGIN, text)]
            if begins and not re.search(_KEY_END, text[begins[-1] :]):
                self._inside = max(KEY_CHARS - (len(text) - begins[-1]), 0)
        return self._redactor.redact(text)

    def skip(self) -> None:
        """Something was left out here: the next piece may begin in the middle of a key."""
        self._inside, self._gap = 0, True
