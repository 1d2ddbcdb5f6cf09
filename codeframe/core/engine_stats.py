"""How engines have done so far, from the history of one workspace: counts with what they are counted from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from codeframe.core.models import ErrorClass, Run, RunKind, RunStatus
from codeframe.core.store import Store

_JUDGED = ("verified", "failed")  # what gates can say of a call; "unverified" tells nothing of the engine


class Figures(NamedTuple):
    """Of one engine, or of one model of it.

    A task counts by its last run: `done`, `failed` (time limits included), or neither where it waits for a person or
    was stopped by one. `first_try` of `checked` tasks, those of which gates ever judged a call, passed at the first
    one. `calls` are engine calls of all kinds. `seconds` is the median over the done tasks of what their runs took,
    gates and waiting for a service included; None where none is done. `cost_usd` is the sum over `priced` of the
    `runs`, None where no run told what it cost. Tokens are as in TokenUsage.
    """

    tasks: int
    done: int
    failed: int
    runs: int
    checked: int
    first_try: int
    calls: int
    seconds: float | None
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    cost_usd: float | None
    priced: int


class EngineHistory(NamedTuple):
    """`models` are parts of `figures`, by name ("" where it was not told), most tasks first. `taken_over` of its runs
    were begun by another engine, whose calls and tokens are counted here, as only the whole run's are kept."""

    engine: str
    figures: Figures
    models: Mapping[str, Figures]
    taken_over: int


def history(store: Store, since: datetime | None = None) -> list[EngineHistory]:
    """Each engine that has ended a run, begun at or after `since`; most tasks first."""
    runs = [
        run
        for run in store.runs.list()
        if run.kind is not RunKind.MANUAL
        and run.status is not RunStatus.RUNNING
        and (since is None or run.started_at >= since)
    ]
    gates = {run.id: _first_judged(store.runs.rounds(run.id)) for run in runs if run.rounds}
    found = []
    for engine, own in _by(runs, "engine").items():
        models = {model: _figures(part, gates) for model, part in _by_model(own).items()}
        ordered = dict(sorted(models.items(), key=lambda each: (-each[1].tasks, each[0])))
        taken = sum(run.engine_why.startswith("fallback: ") for run in own)
        found.append(EngineHistory(engine, _figures(own, gates), ordered, taken))
    return sorted(found, key=lambda each: (-each.figures.tasks, each.engine))


def _figures(runs: Sequence[Run], gates: Mapping[str, bool | None]) -> Figures:
    tasks = [sorted(own, key=lambda run: run.attempt) for own in _by(runs, "task_id").values()]
    last = [own[-1].status for own in tasks]
    judged = [next((seen for run in own if (seen := gates.get(run.id)) is not None), None) for own in tasks]
    took = [sum(map(_seconds, own)) for own in tasks if own[-1].status is RunStatus.COMPLETED]
    costs = [run.usage.cost_usd for run in runs if run.usage.cost_usd is not None]
    return Figures(
        tasks=len(tasks),
        done=last.count(RunStatus.COMPLETED),
        failed=last.count(RunStatus.FAILED) + last.count(RunStatus.TIMEOUT),
        runs=len(runs),
        checked=sum(passed is not None for passed in judged),
        first_try=sum(passed is True for passed in judged),
        calls=sum(run.rounds for run in runs),
        seconds=median(took) if took else None,
        input_tokens=sum(run.usage.input_tokens for run in runs),
        cached_input_tokens=sum(run.usage.cached_input_tokens for run in runs),
        output_tokens=sum(run.usage.output_tokens for run in runs),
        cost_usd=sum(costs) if costs else None,
        priced=len(costs),
    )


def _first_judged(rounds: Iterable[Mapping[str, Any]]) -> bool | None:
    """Whether gates passed where they first judged a call; None where they never did."""
    said = ((each.get("gates") or {}).get("status") for each in rounds)
    return next((status == "verified" for status in said if status in _JUDGED), None)


def _seconds(run: Run) -> float:
    """What a run took; nothing where it died, as then its end is when that was noticed."""
    if run.ended_at is None or run.error_class is ErrorClass.CRASHED:
        return 0.0
    return max(0.0, (run.ended_at - run.started_at).total_seconds())


def _by(runs: Iterable[Run], field: str) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(getattr(run, field), []).append(run)
    return groups


def _by_model(runs: Iterable[Run]) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.usage.model or run.model or "", []).append(run)
    return groups
