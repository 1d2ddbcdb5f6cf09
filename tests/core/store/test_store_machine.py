"""Whatever is done in whatever order, tasks and runs agree (rule 8.1)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from codeframe.core.errors import CodeFrameError
from codeframe.core.models import RunStatus, TaskStatus
from codeframe.core.state_machine import RUN_TRANSITIONS, TASK_TRANSITIONS
from codeframe.core.store import Store

R, S = RunStatus, TaskStatus
TABLES = ("tasks", "dependencies", "runs", "blockers", "events")
STATES = st.sampled_from(TaskStatus)


class Machine(RuleBasedStateMachine):
    """The real store beside a model of it: the status of each task, its live run, its dependencies."""

    tasks: Bundle[str] = Bundle("tasks")
    runs: Bundle[str] = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = Store(Path(self.folder.name) / "state.db")
        self.status: dict[str, TaskStatus] = {}
        self.needs: dict[str, set[str]] = {}
        self.live: dict[str, str] = {}  # task -> its running run
        self.owner: dict[str, str] = {}  # run -> task

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def reaches(self, start: str, goal: str) -> bool:
        return start == goal or any(self.reaches(on, goal) for on in self.needs[start])

    @rule(target=tasks, status=st.sampled_from([S.READY, S.BACKLOG]), priority=st.integers(-2, 2))
    def add(self, status: TaskStatus, priority: int) -> str:
        task = self.store.tasks.add("task", status=status, priority=priority)
        self.status[task.id], self.needs[task.id] = status, set()
        return task.id

    @rule(a=tasks, b=tasks)
    def depend(self, a: str, b: str) -> None:
        legal = a in self.status and b in self.status and not self.reaches(b, a)
        if self.done(legal, lambda: self.store.tasks.add_dependency(a, b)):
            self.needs[a].add(b)

    @rule(task=tasks, to=STATES)
    def set_status(self, task: str, to: TaskStatus) -> None:
        frm = self.status.get(task)
        by_hand = frm is not None and frm != S.IN_PROGRESS and to in TASK_TRANSITIONS[frm]
        by_hand = by_hand and to not in (S.IN_PROGRESS, S.BLOCKED)
        if self.done(frm == to or by_hand, lambda: self.store.tasks.set_status(task, to)):
            self.status[task] = to

    @rule(task=tasks)
    def block(self, task: str) -> None:
        frm = self.status.get(task)
        legal = frm is not None and (
            frm == S.BLOCKED or (frm != S.IN_PROGRESS and S.BLOCKED in TASK_TRANSITIONS[frm])
        )
        if self.done(legal, lambda: self.store.tasks.block(task)):
            self.status[task] = S.BLOCKED

    @rule(frm=STATES, to=STATES)
    def set_all_status(self, frm: TaskStatus, to: TaskStatus) -> None:
        legal = S.IN_PROGRESS not in (frm, to) and to != S.BLOCKED
        legal = legal and (frm == to or to in TASK_TRANSITIONS[frm])
        if self.done(legal, lambda: self.store.tasks.set_all_status(frm, to)):
            self.status = {task: to if status == frm else status for task, status in self.status.items()}

    @rule(target=runs, task=tasks, expect=st.sets(STATES))
    def claim(self, task: str, expect: set[TaskStatus]) -> str:
        frm = self.status.get(task)
        legal = frm in expect and frm not in (S.IN_PROGRESS, S.MERGED)
        if self.done(legal, lambda: self.store.runs.claim(task, engine="x", expect=tuple(expect))):
            run = self.store.runs.latest(task)
            assert run is not None
            self.status[task], self.live[task], self.owner[run.id] = S.IN_PROGRESS, run.id, task
            return run.id
        return multiple()  # type: ignore[no-any-return]

    @rule(run=runs, status=st.sampled_from(RunStatus), task_status=STATES, ask=st.booleans())
    def finish(self, run: str, status: RunStatus, task_status: TaskStatus, ask: bool) -> None:
        task = self.owner.get(run, "")
        legal = (
            self.live.get(task) == run
            and status in RUN_TRANSITIONS[R.RUNNING]
            and task_status in TASK_TRANSITIONS[S.IN_PROGRESS]
        )
        blocker = ("?", "question") if ask else None
        if self.done(legal, lambda: self.store.runs.finish(run, status, task_status, blocker=blocker)):
            self.status[task] = task_status
            del self.live[task]

    @rule(task=tasks, force=st.booleans())
    def delete(self, task: str, force: bool) -> None:
        waited_for = any(task in needs for needs in self.needs.values())
        legal = task in self.status and task not in self.live and (force or not waited_for)
        if self.done(legal, lambda: self.store.tasks.delete(task, force=force)):
            del self.status[task], self.needs[task]
            self.needs = {other: needs - {task} for other, needs in self.needs.items()}
            self.owner = {run: owner for run, owner in self.owner.items() if owner != task}

    def done(self, legal: bool, act: object) -> bool:
        """Do it: it must succeed when `legal`, else raise and change nothing at all."""
        assert callable(act)
        before = None if legal else self.everything()
        try:
            act()
        except CodeFrameError:
            assert not legal
            assert self.everything() == before
            return False
        assert legal
        return True

    def everything(self) -> list[object]:
        with self.store.write() as connection:
            return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES]

    @invariant()
    def the_store_agrees_with_the_model(self) -> None:
        tasks = self.store.tasks.list()
        assert {task.id: task.status for task in tasks} == self.status
        assert {task.id: set(task.depends_on) for task in tasks} == self.needs
        assert {run.task_id: run.id for run in self.store.runs.running()} == self.live
        assert {task for task, status in self.status.items() if status == S.IN_PROGRESS} == set(self.live)
        assert {run.id for run in self.store.runs.list()} == set(self.owner)

    @invariant()
    def attempts_count_up(self) -> None:
        for task in self.status:
            attempts = [run.attempt for run in self.store.runs.list(task_id=task)]
            assert attempts == list(range(len(attempts)))[::-1]

    @invariant()
    def the_next_task_waits_for_nothing(self) -> None:
        finished = {S.DONE, S.MERGED}
        free = {
            task
            for task, status in self.status.items()
            if status == S.READY and all(self.status[on] in finished for on in self.needs[task])
        }
        found = self.store.tasks.next_ready()
        assert (found.id in free) if found else not free


TestStore = Machine.TestCase
TestStore.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
