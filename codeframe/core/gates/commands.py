"""Small facts about command lines: which word of a declared command is the tool, where options go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

_RUNNERS = frozenset({"uv", "poetry", "pdm", "rye", "hatch", "pipenv"})
# A word that sets a variable, as a shell would read it.
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def tool_index(argv: Sequence[str], names: frozenset[str]) -> int | None:
    """Where in `argv` one of the tools `names` is started, or None.

    Known forms: `tool ...`, `path/to/tool ...`, `env A=b tool ...`, `python -m tool ...` (whatever
    stands before -m), `uv run [options] tool ...` and its like.
    """
    start = 0
    if argv and PurePath(argv[0]).name == "env":
        start = 1
        while start < len(argv) and ASSIGNMENT.match(argv[start]):
            start += 1
    for at in range(start, len(argv)):
        if PurePath(argv[at]).name not in names:
            continue
        if at == start or argv[at - 1] == "-m":
            return at
        if PurePath(argv[start]).name in _RUNNERS and "run" in argv[start + 1 : at]:
            return at
    return None


def with_options(argv: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """`argv` with `options` after its own, so that ours win, but before a `--`."""
    at = list(argv).index("--") if "--" in argv else len(argv)
    return (*argv[:at], *options, *argv[at:])
