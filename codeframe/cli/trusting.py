"""Asking a person whether what the repository brings may run (rule 9.1)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from codeframe.cli.output import clean, note

if TYPE_CHECKING:
    from codeframe.core.trust import Untrusted
    from codeframe.core.workspace import Workspace


def had_to_ask(workspace: Workspace, untrusted: Untrusted | None) -> bool:
    """Whether a person at a terminal has just said yes to what is untrusted, and to no more than that, which is
    kept: the caller then looks again, as it may have changed under the question. False where nothing is untrusted.

    Raises RequirementsError where nobody said yes, CodeFrameError where that cannot be kept.
    """
    if untrusted is None:
        return False
    if not ask(untrusted):
        raise untrusted.refusal()
    from codeframe.core.trust import Trust

    Trust(workspace).accept(item for item, _ in untrusted.items)
    return True


def can_ask() -> bool:
    """Whether a person sits at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(untrusted: Untrusted) -> bool:
    """Show what would run and ask; False where nobody can be asked."""
    if not can_ask():
        return False
    note("Of this repository's own, this would run, with your rights:")
    for line in untrusted.lines():
        note(f"  {line}")
    print(clean("Trust it? [y/N] "), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
