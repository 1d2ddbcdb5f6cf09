"""What a person is asked where the gate loop cannot go on by itself."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from codeframe.core.budget import Breach
from codeframe.core.snapshots import Snapshot

_LISTED = 20


def unfinished(end: Snapshot) -> str:
    """The engine left a merge or the like under way."""
    return (
        f"The engine left the repository in the middle of something. {end.unfinished}, "
        "then answer and resume. Its work is saved."
    )


def branch_switched(start: Snapshot, end: Snapshot, by: str = "The engine") -> str:
    """HEAD is on another branch than before."""
    before, after = ((each.branch or "").removeprefix("refs/heads/") for each in (start, end))
    back = f"git switch {shlex.quote(before)}" if before else f"git switch --detach {start.head}"
    return (
        f"{by} switched the branch from {before or 'a detached HEAD'} to {after or 'a detached HEAD'}. "
        f"Its work is in the tree. Type `{back}` to go back, or stay, then answer and resume."
    )


def tests_gone(tests: Sequence[str]) -> str:
    """All that blocks is tests that are no longer there or skipped."""
    listed = ", ".join(tests[:_LISTED]) + (" and more" if len(tests) > _LISTED else "")
    return (
        f"The engine removed or disabled {len(tests)} test{'s' if len(tests) != 1 else ''} that passed before: "
        f"{listed}. Is that wanted?"
    )


def checks_changed(lines: Sequence[str], by: str = "the engine") -> str:
    """The gates pass, and what blocks is what was done to the checks; `lines` say what, one each."""
    listed = "; ".join(lines[:_LISTED]) + (
        f"; and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    )
    return f"The gates pass, but {by} changed the checks themselves: {listed}. Is that wanted?"


def over_budget(breach: Breach, task_id: str) -> str:
    """The budget of the run, of its task or of the workspace is used up."""
    short = task_id[:8]
    used, limit = (
        f"${amount:.2f}" if breach.what == "cost" else f"{amount:,.0f} tokens"
        for amount in (breach.used, breach.limit)
    )
    whose = {"run": "This run", "task": f"Task {short}", "workspace": "This workspace"}[breach.scope]
    if breach.scope == "run":
        more = breach.limit * 2
        option = f"--max-cost {more:g}" if breach.what == "cost" else f"--max-tokens {more:.0f}"
        on = f"Go on with as much again: `cf work resume {short}`, or with more: `cf work resume {short} {option}`"
    else:
        amount = f"{breach.limit * 2:g}" if breach.what == "cost" else f"{breach.limit * 2:.0f}"
        raised = f"cf config set budget '{{{breach.scope}: {{{breach.what}: {amount}}}}}'"
        on = f"To go on raise it, such as by `{raised}`, then: `cf work resume {short}`"
    return (
        f"{whose} has used {used}, and its budget is {limit}; the work is kept. {on}. Another engine: "
        f"`cf work resume {short} --engine NAME`. To give it up: `cf work undo {short}`."
    )


def untrusted(named: str) -> str:
    """The engine is not called again, as what it would execute of the tree is not what a person trusted."""
    return (
        f"What the engine would execute here has changed since the run began: {named} So it was not called again; "
        "its work is kept. Look at it: `cf trust --show`. Trust it with `cf trust`, or take it away, then answer and "
        "resume."
    )
