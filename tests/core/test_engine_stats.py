"""What is counted of engines, and from what (rule 1.2)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.engine_stats import EngineHistory, Figures, history
from codeframe.core.models import ErrorClass, RunKind, RunStatus, TaskStatus, TokenUsage, utc_now
from codeframe.core.store import Store
from tests.cli.conftest import Cf, cf, git_home, workspace

__all__ = ["cf", "git_home", "workspace"]

ENDS = {
    RunStatus.COMPLETED: TaskStatus.DONE,
    RunStatus.FAILED: TaskStatus.FAILED,
    RunStatus.TIMEOUT: TaskStatus.FAILED,
    RunStatus.STOPPED: TaskStatus.READY,
    RunStatus.BLOCKED: TaskStatus.BLOCKED,
}
CLAIMABLE = (TaskStatus.READY, TaskStatus.FAILED, TaskStatus.BLOCKED)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "state.db")


def ran(
    store: Store, task: str, status: RunStatus = RunStatus.COMPLETED, *gates: str | None, engine: str = "one",
    took: float = 10.0, usage: TokenUsage = TokenUsage(), **values: Any,
) -> None:  # fmt: skip
    """A run that ended; `gates` are what they said of each call of the engine (None: they did not run)."""
    run = store.runs.claim(task, engine=engine, expect=CLAIMABLE, kind=values.pop("kind", RunKind.START),
                           engine_why=values.pop("engine_why", ""))  # fmt: skip
    for number, said in enumerate(gates):
        store.runs.add_round(run.id, number, {"round": number, "gates": {"status": said} if said else None})
    store.runs.update(run.id, rounds=len(gates))
    blocker = ("What?", "question") if status is RunStatus.BLOCKED else None
    ended = store.runs.finish(run.id, status, ENDS[status], blocker=blocker, usage=usage, **values)
    assert ended.ended_at is not None
    store.runs.update(run.id, started_at=ended.ended_at - timedelta(seconds=took))


def figures(store: Store, engine: str = "one") -> Figures:
    return next(each.figures for each in history(store) if each.engine == engine)


def test_a_task_counts_once_by_its_last_run(store: Store) -> None:
    tasks = [store.tasks.add(f"Task {n}").id for n in range(5)]
    ran(store, tasks[0], RunStatus.FAILED)
    ran(store, tasks[0], RunStatus.COMPLETED)
    ran(store, tasks[1], RunStatus.TIMEOUT)
    ran(store, tasks[2], RunStatus.STOPPED)
    ran(store, tasks[3], RunStatus.BLOCKED)
    store.runs.claim(tasks[4], engine="one")  # is running
    found = figures(store)
    assert (found.tasks, found.runs, found.done, found.failed) == (4, 5, 1, 1)


def test_the_first_try_is_the_first_call_that_gates_could_judge(store: Store) -> None:
    for said in (["verified"], [None, "verified"], ["failed", "verified"], ["unverified"], [None]):
        ran(store, store.tasks.add("A task").id, RunStatus.COMPLETED, *said)
    found = figures(store)
    assert (found.checked, found.first_try, found.calls) == (3, 2, 7)


def test_time_is_of_tasks_that_were_done_and_of_runs_that_did_not_die(store: Store) -> None:
    one, other, never = (store.tasks.add("A task").id for _ in range(3))
    ran(store, one, RunStatus.FAILED, took=20.0)
    ran(store, one, took=30.0)
    ran(store, other, RunStatus.FAILED, took=1e6, error_class=ErrorClass.CRASHED)
    ran(store, other, took=70.0)
    ran(store, never, RunStatus.FAILED, took=999.0)
    assert figures(store).seconds == pytest.approx(60.0)
    ran(store, store.tasks.add("A task").id, RunStatus.FAILED, engine="other")
    assert figures(store, "other").seconds is None


def test_an_unknown_cost_is_none_and_a_partly_known_one_says_of_how_many(store: Store) -> None:
    task = store.tasks.add("A task").id
    ran(store, task, usage=TokenUsage(10, 100, 1), engine="free")
    assert (figures(store, "free").cost_usd, figures(store, "free").priced) == (None, 0)
    for cost in (0.5, None, 0.25):
        ran(store, store.tasks.add("A task").id, usage=TokenUsage(10, 100, 1, cost))
    found = figures(store)
    assert (found.cost_usd, found.priced, found.runs) == (0.75, 2, 3)
    assert (found.input_tokens, found.cached_input_tokens, found.output_tokens) == (30, 300, 3)


def test_models_are_parts_and_work_by_hand_is_no_engine(store: Store) -> None:
    for model in ("big", "small", "small", None):
        ran(store, store.tasks.add("A task").id, usage=TokenUsage(1, model=model))
    ran(store, store.tasks.add("A task").id, engine="", kind=RunKind.MANUAL)
    (found,) = history(store)
    assert [(name, part.tasks) for name, part in found.models.items()] == [("small", 2), ("", 1), ("big", 1)]
    assert found.figures.tasks == 4


def test_only_runs_begun_since_then_and_those_taken_over_are_told(store: Store) -> None:
    ran(store, store.tasks.add("Old").id, took=7200.0)
    ran(store, store.tasks.add("New").id, engine_why="fallback: another could not go on (auth)")
    (found,) = history(store)
    assert (found.figures.runs, found.taken_over) == (2, 1)
    (found,) = history(store, utc_now() - timedelta(hours=1))
    assert isinstance(found, EngineHistory)
    assert (found.figures.runs, found.taken_over) == (1, 1)


# -- on the command line ----------------------------------------------------------------------------


def test_stats_are_shown_with_what_they_are_counted_from(cf: Cf) -> None:
    from codeframe.core.workspace import find_workspace

    none = cf("engines", "stats")
    assert (none.stdout, none.stderr) == (
        "",
        "No engine has ended a run here yet. Type: cf work start --execute\n",
    )
    store = find_workspace(cf.where).store
    for n in range(11):
        end = RunStatus.FAILED if n == 0 else RunStatus.COMPLETED
        ran(store, store.tasks.add("A task").id, end, "verified", usage=TokenUsage(100, 7, 5, 0.5, "big"))
    ran(
        store,
        store.tasks.add("A task").id,
        RunStatus.COMPLETED,
        None,
        engine="two",
        usage=TokenUsage(9, 0, 2),
    )
    ran(
        store,
        store.tasks.add("A task").id,
        RunStatus.BLOCKED,
        None,
        engine="two",
        usage=TokenUsage(1, 0, 1, 1.0, "m"),
    )
    said = cf("engines", "stats").stdout.splitlines()
    assert [" ".join(line.split()) for line in said[:3]] == [
        "ENGINE MODEL DONE FIRST TRY CALLS/TASK MEDIAN TOKENS IN CACHED OUT COST",
        "one big 10 of 11 (90%) 11 of 11 (100%) 1.0 10s 1100 77 55 $5.50",
        "two 2 models 1 of 1 - 1.0 10s 10 0 3 $1.00 (1 of 2 runs)",
    ]
    assert [line.split()[0] for line in said[3:]] == ["-", "m"]
    shown = cf("engines", "stats", "--json").json()
    assert [(e["engine"], e["done"], e["failed"], e["cost_usd"]) for e in shown["engines"]] == [
        ("one", 10, 1, 5.5),
        ("two", 1, 0, 1.0),
    ]
    assert shown["engines"][1]["models"][0]["model"] is None
    assert cf("engines", "stats", "--since", "1s", "--json").json()["engines"] == []
    for since in ("7d", "2h", "2020-01-01"):
        assert len(cf("engines", "stats", "--since", since, "--json").json()["engines"]) == 2
    assert "takes a time like 30d" in cf("engines", "stats", "--since", "soon", code=2).stderr
