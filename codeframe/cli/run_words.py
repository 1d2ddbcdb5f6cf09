"""What is said of a run in a word or a line: who did it, how it ended, what it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codeframe.core.models import Run


def verdict_line(run: Run) -> str:
    """One line: what became of the run, how verified, rounds, time, tokens, money."""
    from codeframe.core.durations import format_duration
    from codeframe.core.run_options import RunOptions

    parts = [state(run)]
    if run.verification and run.verification != "failed":  # which the status says, or what comes after it
        parts[0] += f", {run.verification}"
    if run.error_class == "timeout":
        parts[0] += f" after {format_duration(RunOptions.from_dict(run.options).timeout_s)}"
    elif (error := error_class(run)) and run.status.value != "COMPLETED":
        parts[0] += f" ({error})"
    by_hand = run.kind == "manual"
    parts.append("by hand" if by_hand else f"{run.rounds} engine call{'s' if run.rounds != 1 else ''}")
    if run.ended_at is not None:
        parts.append(format_duration(max(0.0, (run.ended_at - run.started_at).total_seconds())))
    if used := tokens(run):
        parts.append(used)
    money = f"${run.usage.cost_usd or 0:.4f}"
    if money != "$0.0000":
        parts.append(money)
    if run.leftover == "undone":
        parts.append("taken back since")
    return "; ".join(parts)


def why_unverified(run: Run) -> str:
    """The gates that could not tell, or that there were none (rule 6.3)."""
    evidence = run.evidence.get("gates")
    if not evidence:
        return "no gate ran"
    from codeframe.core.gates import untold

    return "; ".join(untold(evidence)) or "no gate ran"


def engine_name(run: Run) -> str:
    """Its engine, as a word in a column."""
    return "by hand" if run.kind == "manual" else run.engine


def state(run: Run) -> str:
    """Its status; by hand nothing runs."""
    return "open" if run.kind == "manual" and run.status == "RUNNING" else run.status.value


def error_class(run: Run) -> str:
    """Why it did not succeed; "" for none, and where one gave up one's own work."""
    given_up = run.kind == "manual" and run.error_class == "cancelled"
    return run.error_class.value if run.error_class and not given_up else ""


def tokens(run: Run) -> str:
    """What it took; "" where it took none."""
    u = run.usage
    if not (u.input_tokens or u.output_tokens):
        return ""
    cached = f" + {u.cached_input_tokens} cached" if u.cached_input_tokens else ""
    return f"{u.input_tokens}{cached} tokens in, {u.output_tokens} out"


def done_by(run: Run) -> str:
    """What follows the name of a run in a sentence."""
    return "by hand" if run.kind == "manual" else f"with {run.engine}"
