"""`cf engines stats`: how engines have done in this workspace so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codeframe.cli import typed
from codeframe.cli.here import recovered_workspace
from codeframe.cli.output import columns, emit_json, note

if TYPE_CHECKING:
    from codeframe.core.engine_stats import EngineHistory, Figures

_MANY = 10  # below it a percentage would say more than is known
_HEADER = (
    "engine", "model", "done", "first try", "calls/task", "median", "tokens in", "cached", "out", "cost"
)  # fmt: skip


def show(since: str | None, *, as_json: bool) -> None:
    """Print it; `since` as it was typed."""
    from codeframe.core.engine_stats import history

    begin = typed.since("--since", since) if since is not None else None
    found = history(recovered_workspace().store, begin)
    if as_json:
        emit_json({"since": begin, "engines": [_json(each) for each in found]})
        return
    if not found:
        note(
            "No engine has ended a run here"
            + (" since then." if since else " yet. Type: cf work start --execute")
        )
        return
    rows = []
    for each in found:
        names = [name or "-" for name in each.models]
        rows.append(_row(each.engine, names[0] if len(names) == 1 else f"{len(names)} models", each.figures))
        if len(names) > 1:
            rows += [_row("", name or "-", figures) for name, figures in each.models.items()]
    columns(rows, _HEADER)
    for each in found:
        if each.taken_over:
            note(
                f"{each.engine}: {each.taken_over} of {each.figures.runs} runs were begun by another engine; "
                "what that used is counted here."
            )
    note("done: of the tasks that came to an end. first try: of those that gates could judge.")


def _row(engine: str, model: str, f: Figures) -> tuple[str, ...]:
    from codeframe.core.durations import format_duration

    cost = "-" if f.cost_usd is None else f"${f.cost_usd:.2f}"
    if f.cost_usd is not None and f.priced < f.runs:
        cost += f" ({f.priced} of {f.runs} runs)"
    return (
        engine, model, _share(f.done, f.done + f.failed), _share(f.first_try, f.checked),
        f"{f.calls / f.tasks:.1f}", format_duration(f.seconds) if f.seconds is not None else "-",
        str(f.input_tokens), str(f.cached_input_tokens), str(f.output_tokens), cost,
    )  # fmt: skip


def _share(part: int, whole: int) -> str:
    if not whole:
        return "-"
    return f"{part} of {whole}" + (f" ({100 * part // whole}%)" if whole >= _MANY else "")


def _json(each: EngineHistory) -> dict[str, Any]:
    """Keys: engine, those of Figures, runs_taken_over, models (a list of the same with `model`, null if unknown)."""
    models = [{"model": name or None, **figures._asdict()} for name, figures in each.models.items()]
    return {
        "engine": each.engine, **each.figures._asdict(), "runs_taken_over": each.taken_over, "models": models
    }  # fmt: skip
