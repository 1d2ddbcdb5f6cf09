"""What `cf work start --dry-run` says: engine, gates, limits and the snapshot a real start would make."""

from __future__ import annotations

import shlex

from codeframe.core.admission import Plan
from codeframe.core.durations import format_duration
from codeframe.core.workspace import Workspace


def preview(workspace: Workspace, planned: Plan) -> str:
    """Lines for people. Nothing is written, started or locked."""
    options = planned.options
    gates = planned.gates.describe() if planned.gates else ("none: switched off",)
    most = options.max_corrections
    corrections = f"{most or 'no'} correction{'s' if most != 1 else ''}"
    lines = [
        f"task      {planned.task.id[:8]} {planned.task.title}",
        f"engine    {planned.engine} ({planned.engine_why})"
        + (f", model {options.model}" if options.model else ""),
        *(f"arguments {shlex.join(words)} ({name})" for name, words in options.engine_args.items()),
        f"limits    {format_duration(options.timeout_s)} in all, "
        f"{format_duration(options.stall_timeout_s)} of silence, {corrections}",
        *(f"gate      {line}" for line in gates or ("none found: the result would be unverified",)),
        f"trust     {trust_in_words(planned)}",
        f"snapshot  refs/codeframe/{workspace.id}/{planned.task.id}/… of {workspace.repo.toplevel}",
        "",
    ]
    return "\n".join(lines)


def trust_in_words(planned: Plan) -> str:
    """Whether a start would be refused for want of trust (rule 9.1)."""
    if planned.untrusted is None:
        return "nothing is missing"
    return f"a start would ask first: {'; '.join(planned.untrusted.lines())} (cf trust)"
