"""What a look at the checks is given and what it tells: pairs of files, and findings about them (rule 6.5)."""

from __future__ import annotations

from typing import NamedTuple

from codeframe.core.shown import shown

TEST, SUPPRESSION, SETTING, UNREAD = "test", "suppression", "setting", "unread"
MAX_BYTES = 1_000_000  # of a file that is looked into


class Pair(NamedTuple):
    """A file that an engine changed, before and after; None where there is none."""

    path: str
    before: bytes | None
    after: bytes | None


class Finding(NamedTuple):
    """One thing done to the checks. `kind` is one of the words above; `line` counts from 1, 0 is the whole file;
    `test` is the id of the test it is about, as it was called before ("" for none)."""

    kind: str
    path: str
    line: int
    words: str
    test: str = ""

    def __str__(self) -> str:
        return f"{shown(self.path)}{f':{self.line}' if self.line else ''}: {self.words}"

    @property
    def key(self) -> str:
        """The same for the same finding after lines were added above it."""
        return f"{self.kind} {self.path}: {self.words}"


def text_of(data: bytes | None) -> str:
    """A file as text with `\\n` at line ends; "" for none."""
    text = (data or b"").decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def short(value: object, limit: int = 60) -> str:
    """A value in one line, cut."""
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
