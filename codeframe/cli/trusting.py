"""Asking a person whether what the repository brings may run (rule 9.1)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from codeframe.cli.output import clean, note

if TYPE_CHECKING:
    from codeframe.core.trust import Untrusted
    from codeframe.core.workspace import Workspace


def ensure_trusted(workspace: Workspace, untrusted: Untrusted | None) -> None:
    """Return when nothing is untrusted, or a person at a terminal has just said yes, which is then kept.

    Raises RequirementsError otherwise.
    """
    if untrusted is None:
        return
    if not ask(untrusted):
        raise untrusted.refusal()
    from codeframe.core.errors import CodeFrameError
    from codeframe.core.trust import Trust

    try:
        Trust(workspace).accept(item for item, _ in untrusted.items)
    except CodeFrameError as e:  # a yes is a yes, but for this time only
        note(f"{e.problem} It will be asked again. {e.hint}")


def ask(untrusted: Untrusted) -> bool:
    """Show what would run and ask; False where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    note("Of this repository's own, this would run, with your rights:")
    for line in untrusted.lines():
        note(f"  {line}")
    print(clean("Trust it? [y/N] "), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
