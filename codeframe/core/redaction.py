"""Takes secrets out of text before it is stored or sent: known values, and tokens known by their prefix."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

REDACTED = "[redacted]"

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
    # To the closing line, or to the end where the text was cut before it.
    (
        "PRIVATE KEY-----",
        r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
    ),
)
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD")
MIN_LENGTH = 8


def contains_secret(text: str) -> bool:
    """Whether `text` holds something shaped like a token or a private key."""
    return any(literal in text and re.search(pattern, text) for literal, pattern in _TOKENS)


def secret_values(env: Mapping[str, str]) -> list[str]:
    """The values of `env` that are secrets by their variable's name, longest first.

    Left out as too ordinary to be one, since taking them out would spoil the text: short values, plain
    words, numbers, paths, addresses without a login in them, and values of very few different characters.
    """
    return sorted(
        {value for name, value in env.items() if _names_secret(name) and not _ordinary(value)},
        key=lambda value: (-len(value), value),
    )


def _names_secret(name: str) -> bool:
    upper = name.upper()
    return any(word in upper for word in _SECRET_NAMES)


def _ordinary(value: str) -> bool:
    if len(value) < MIN_LENGTH or len(set(value)) < 4:
        return True
    if value.startswith(("/", "~", "./")) or (value.startswith(("http://", "https://")) and "@" not in value):
        return True
    return len(value) < 16 and (value.isdigit() or (value.isalpha() and value.islower()))


class Redactor:
    """Replaces secrets with `[redacted]`.

    `env` is where known secret values are taken from (see `secret_values`); each is also looked for in
    the form it has inside a JSON string. Thread-safe: it holds no state.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        values = secret_values(env)
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
