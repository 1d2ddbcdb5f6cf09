"""What an engine is told when it is called again within a run: short, and only what is new."""

from __future__ import annotations

from collections.abc import Sequence

from codeframe.core.models import ErrorClass

_LISTED = 50

NO_CHANGE = (
    "You reported success, but no file of the repository changed. If the task really needs a change, make it now. "
    "If the repository already does what the task asks, report completed with already_satisfied set to true and "
    "name the files that prove it. If something keeps you from working, report blocked and ask."
)


def correction(feedback: str, left: int, changed: str = "", weaker: Sequence[str] = ()) -> str:
    """The prompt of a correction round: the failures in `feedback` ("" for none), that `left` more rounds remain,
    what the gates `changed` in the tree, and what the engine did to the checks themselves (`weaker`), a line each."""
    more = (
        "This is the last round."
        if left == 0
        else f"After this, {left} more round{'s' if left > 1 else ''} remain."
    )
    note = f"Running the checks changed files in the tree: {changed}.\n\n" if changed else ""
    words = ""
    if weaker:
        listed = "\n".join(f"- {line}" for line in weaker[:_LISTED])
        more_listed = f"\n- and {len(weaker) - _LISTED} more" if len(weaker) > _LISTED else ""
        words = (
            "Your work changed the checks themselves. Restore each of these as it was; where the task itself asks for "
            f"the change, leave it and say why in your summary:\n{listed}{more_listed}\n"
        )
    if not feedback:
        return f"The checks ran on your work and pass, but it is not accepted yet. {more}\n\n{note}{words}"
    told = f"{feedback.rstrip()}\n\n{words}" if words else feedback
    return (
        "The checks ran on your work and it does not pass yet. Fix what is listed below, in the code rather than by "
        f"weakening the checks. Do not delete, skip or loosen tests. {more}\n\n{note}{told}"
    )


def after_interruption(why: ErrorClass) -> str:
    """The prompt that continues a session cut short by a passing fault."""
    return (
        f"The connection to the model failed ({why.value.replace('_', ' ')}) before you finished. Look at what is "
        "already done in the working tree and go on with the task."
    )


def handover(task_prompt: str, why: str, summary: str, diff: str, extra: str) -> str:
    """The whole task prompt for another engine, with what the one before did, said and was asked last."""
    parts = [task_prompt, "# Where this task stands"]
    parts.append(f"Another engine worked on this task until {why}. Go on from there.")
    if summary:
        parts.append(f"Its last words:\n\n{summary}")
    parts.append(f"What it changed in the working tree:\n\n{diff}" if diff else "It changed nothing yet.")
    if extra:
        parts.append(f"What it was asked last:\n\n{extra}")
    return "\n\n".join(parts)


def cold(task_prompt: str, extra: str, summary: str = "") -> str:
    """The whole task prompt for a fresh session, with what an earlier one did and what is asked now."""
    parts = [task_prompt, "# Where this task stands"]
    parts.append("An earlier session worked on this task; its changes are in the working tree.")
    if summary:
        parts.append(f"Its last words:\n\n{summary}")
    parts.append(extra)
    return "\n\n".join(parts)
