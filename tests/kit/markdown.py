"""Reading a prompt as a CommonMark reader would."""

from __future__ import annotations

import re


def fenced_texts(markdown: str) -> list[str]:
    """What stands inside the fenced blocks, in order; asserts that each one is closed."""
    return _split(markdown)[0]


def outside_fences(markdown: str) -> str:
    """What stands outside of all fenced blocks; asserts that each one is closed."""
    return _split(markdown)[1]


def _split(markdown: str) -> tuple[list[str], str]:
    found: list[str] = []
    outside, inside, marks = [], [], ""
    for line in markdown.split("\n"):
        if marks and re.fullmatch(rf" {{0,3}}`{{{len(marks)},}}[ \t]*", line):
            found.append("\n".join(inside))
            marks, inside = "", []
        elif marks:
            inside.append(line)
        elif match := re.match(r" {0,3}(`{3,})[^`]*$", line):
            marks = match[1]
        else:
            outside.append(line)
    assert not marks, "a fence is left open"
    return found, "\n".join(outside)
