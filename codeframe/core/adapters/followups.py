"""What an engine is told when it is called again within a run: short, and only what is new."""

from __future__ import annotations

from codeframe.core.models import ErrorClass

NO_CHANGE = (
    "You reported success, but no file of the repository changed. If the task really needs a change, make it now. "
    "If the repository already does what the task asks, report completed with already_satisfied set to true and "
    "name the files that prove it. If something keeps you from working, report blocked and ask."
)


def correction(feedback: str, left: int, changed: str = "") -> str:
    """The prompt of a correction round: the failures in `feedback`, that `left` more rounds remain, and what
    the gates `changed` in the tree, if anything."""
    more = (
        "This is the last round."
        if left == 0
        else f"After this, {left} more round{'s' if left > 1 else ''} remain."
    )
    note = f"Running the checks changed files in the tree: {changed}.\n\n" if changed else ""
    return (
        "The checks ran on your work and it does not pass yet. Fix what is listed below, in the code rather than by "
        f"weakening the checks. Do not delete, skip or loosen tests. {more}\n\n{note}{feedback}"
    )


def after_interruption(why: ErrorClass) -> str:
    """The prompt that continues a session cut short by a passing fault."""
    return (
        f"The connection to the model failed ({why.value.replace('_', ' ')}) before you finished. Look at what is "
        "already done in the working tree and go on with the task."
    )


def cold(task_prompt: str, extra: str, summary: str = "") -> str:
    """The whole task prompt for a fresh session, with what an earlier one did and what is asked now."""
    parts = [task_prompt, "# Where this task stands"]
    parts.append("An earlier session worked on this task; its changes are in the working tree.")
    if summary:
        parts.append(f"Its last words:\n\n{summary}")
    parts.append(extra)
    return "\n\n".join(parts)
