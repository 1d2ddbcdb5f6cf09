"""Tasks and the dependencies between them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from codeframe.core import state_machine
from codeframe.core.errors import CodeFrameError, UsageError
from codeframe.core.models import Task, TaskStatus, utc_now
from codeframe.core.store.columns import LARGEST_PRIORITY
from codeframe.core.store.database import Database, clean, new_id, stamp

FINISHED = (TaskStatus.DONE, TaskStatus.MERGED)  # what satisfies a dependency

# One statement reads a task with its dependencies: no second query per task, and no moment
# between two queries in which another process changes what the second one finds.
_SELECT = """SELECT t.id, t.title, t.description, t.status, t.priority, t.engine, t.created_at, t.updated_at,
    (SELECT group_concat(depends_on) FROM
        (SELECT depends_on FROM dependencies WHERE task_id = t.id ORDER BY position)) AS depends_on
    FROM tasks t"""
_ORDER = "ORDER BY t.priority DESC, t.created_at, t.id"
_RESOLVE = "UPDATE blockers SET status = 'RESOLVED' WHERE status = 'OPEN'"
_UNMET = """SELECT 1 FROM dependencies d JOIN tasks n ON n.id = d.depends_on
    WHERE d.task_id = t.id AND n.status NOT IN ('DONE', 'MERGED')"""


class TaskStore:
    """Every change is checked against rule 8.1. An unknown id raises UsageError."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(
        self,
        title: str,
        *,
        description: str = "",
        depends_on: Sequence[str] = (),
        priority: int = 0,
        engine: str | None = None,
        status: TaskStatus = TaskStatus.READY,
    ) -> Task:
        """Store a new task. `depends_on` holds ids or unique prefixes of them.

        UsageError: an empty title, an unknown dependency, a priority out of range, or a status
        other than BACKLOG or READY.
        """
        if status not in (TaskStatus.BACKLOG, TaskStatus.READY):
            raise UsageError(
                f"A new task cannot be {status}: only BACKLOG and READY may be.", "Leave the state out."
            )
        values = _checked(
            {"title": title, "description": description, "priority": priority, "engine": engine}
        )
        with self._db.write() as connection:
            needed = dict.fromkeys(self.find(prefix).id for prefix in depends_on)
            now = stamp(utc_now())
            id_ = new_id(connection, "tasks")
            connection.execute(
                "INSERT INTO tasks (id, status, created_at, updated_at, title, description, priority, engine)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (id_, status, now, now, *values.values()),
            )
            connection.executemany(
                "INSERT INTO dependencies (task_id, depends_on) VALUES (?, ?)", [(id_, on) for on in needed]
            )
            return self.get(id_)

    def get(self, id: str) -> Task:
        """The task with exactly this id."""
        tasks = self._read("WHERE t.id = ?", (id,))
        if not tasks:
            raise UsageError(f"There is no task '{id}'.", "Type: cf tasks list")
        return tasks[0]

    def find(self, prefix: str) -> Task:
        """The one task whose id starts with `prefix`; UsageError when none or several do."""
        return self.get(
            self._db.find_id("tasks", prefix, noun="task", label="title", list_with="cf tasks list")
        )

    def count(self, status: TaskStatus | None = None) -> int:
        """How many tasks there are, of one status or of all."""
        counts = self.counts()
        return sum(counts.values()) if status is None else counts[status]

    def counts(self) -> dict[TaskStatus, int]:
        """How many tasks each status has; every status is a key."""
        rows = self._db.query("SELECT status, count(*) FROM tasks GROUP BY status")
        found = {row[0]: row[1] for row in rows}
        return {status: found.get(status, 0) for status in TaskStatus}

    def update(self, id: str, **fields: Any) -> Task:
        """Change any of title, description, priority, engine; the status has `set_status`."""
        values = _checked(fields)
        with self._db.write() as connection:
            self.get(id)
            columns = ", ".join(f"{name} = ?" for name in (*values, "updated_at"))
            connection.execute(
                f"UPDATE tasks SET {columns} WHERE id = ?", (*values.values(), stamp(utc_now()), id)
            )
            return self.get(id)

    def set_status(self, id: str, to: TaskStatus, *, expect: TaskStatus | None = None) -> Task:
        """Move a task by hand. To the status it already has is no change.

        CodeFrameError when rule 8.1 forbids it, when the status is not `expect`, and for anything
        to or from IN_PROGRESS: a task enters and leaves that only together with its run
        (`RunStore.claim` and `finish`). Leaving BLOCKED resolves its open blockers: nobody waits any more.
        """
        with self._db.write() as connection:
            task = self.get(id)
            if expect is not None and task.status != expect:
                raise CodeFrameError(
                    f"Task {id} is {task.status}, not {expect} any more.",
                    f"Look at it: cf tasks show {id[:8]}",
                )
            if task.status == to:
                return task
            if to == TaskStatus.IN_PROGRESS:
                raise CodeFrameError(
                    f"Task {id} becomes IN_PROGRESS only when it is started.",
                    f"Type: cf work start {id[:8]} --execute",
                )
            if task.status == TaskStatus.IN_PROGRESS:
                raise CodeFrameError(
                    f"Task {id} is being worked on.", f"Stop that first: cf work stop {id[:8]}"
                )
            if to != TaskStatus.BLOCKED:
                _check_settable(task.status, to, _way_out(task, to))
            else:
                raise CodeFrameError(
                    f"Task {id} becomes BLOCKED only with what blocks it.",
                    f'Type: cf blocker create {id[:8]} "what has to be settled first"',
                )
            _write_status(connection, id, to)
            if task.status == TaskStatus.BLOCKED:
                connection.execute(f"{_RESOLVE} AND task_id = ?", (id,))
            return self.get(id)

    def block(self, id: str) -> Task:
        """Make a task BLOCKED that nobody works on; its blocker comes in the same transaction (`blockers`)."""
        with self._db.write() as connection:
            task = self.get(id)
            if task.status == TaskStatus.IN_PROGRESS:
                raise CodeFrameError(
                    f"Task {id} is being worked on.", f"Stop that first: cf work stop {id[:8]}"
                )
            if task.status != TaskStatus.BLOCKED:
                state_machine.check("task", task.status, TaskStatus.BLOCKED, _way_out(task))
                _write_status(connection, id, TaskStatus.BLOCKED)
            return self.get(id)

    def set_all_status(self, frm: TaskStatus, to: TaskStatus) -> int:
        """Move every task in `frm` to `to`, under the same rules; returns how many moved."""
        if TaskStatus.IN_PROGRESS in (frm, to):
            raise CodeFrameError(
                "Tasks become IN_PROGRESS, and leave it, only one by one.",
                "See what there is: cf tasks list",
            )
        if to == TaskStatus.BLOCKED:
            raise CodeFrameError(
                "Tasks become BLOCKED only one by one, with what blocks them.",
                'Type: cf blocker create ID "what has to be settled first"',
            )
        if frm == to:
            return 0
        _check_settable(frm, to, "Type: cf tasks set --all --from BACKLOG status READY")
        with self._db.write() as connection:
            if frm == TaskStatus.BLOCKED:
                connection.execute(
                    f"{_RESOLVE} AND task_id IN (SELECT id FROM tasks WHERE status = ?)", (frm,)
                )
            return connection.execute(
                "UPDATE tasks SET status = ?, updated_at = ? WHERE status = ?", (to, stamp(utc_now()), frm)
            ).rowcount

    def enter(self, connection: sqlite3.Connection, id: str, expect: Sequence[TaskStatus]) -> None:
        """Make a task IN_PROGRESS from one of `expect`; for `RunStore.claim`, in its transaction.

        From anything but READY it passes through READY: starting a BACKLOG task approves it.
        """
        task = self.get(id)
        if task.status not in expect:
            raise CodeFrameError(
                f"Task {id} '{task.title}' is {task.status} and cannot be started.", _way_out(task)
            )
        if task.status != TaskStatus.READY:
            state_machine.check("task", task.status, TaskStatus.READY)
        state_machine.check("task", TaskStatus.READY, TaskStatus.IN_PROGRESS)
        _write_status(connection, id, TaskStatus.IN_PROGRESS)

    def leave(self, connection: sqlite3.Connection, id: str, to: TaskStatus) -> None:
        """Take a task out of IN_PROGRESS; for `RunStore.finish`, in its transaction."""
        state_machine.check("task", self.get(id).status, to)
        _write_status(connection, id, to)

    def add_dependency(self, id: str, depends_on: str) -> Task:
        """Let `id` wait for `depends_on` (both whole ids). UsageError prints the cycle it would close."""
        with self._db.write() as connection:
            self.get(id), self.get(depends_on)
            cycle = _path(self._edges(), depends_on, id)
            if cycle:
                titles = [f"{step} '{self.get(step).title}'" for step in (id, *cycle)]
                raise UsageError(f"That would be a cycle: {' -> '.join(titles)}.", "Leave one of them out.")
            connection.execute(
                "INSERT OR IGNORE INTO dependencies (task_id, depends_on) VALUES (?, ?)", (id, depends_on)
            )
            connection.execute("UPDATE tasks SET updated_at = ? WHERE id = ?", (stamp(utc_now()), id))
            return self.get(id)

    def remove_dependency(self, id: str, depends_on: str) -> Task:
        """Let `id` no longer wait for `depends_on`; no error when it did not."""
        with self._db.write() as connection:
            self.get(id)
            connection.execute(
                "DELETE FROM dependencies WHERE task_id = ? AND depends_on = ?", (id, depends_on)
            )
            connection.execute("UPDATE tasks SET updated_at = ? WHERE id = ?", (stamp(utc_now()), id))
            return self.get(id)

    def delete(self, id: str, *, force: bool = False) -> None:
        """Delete a task with its runs, blockers and events.

        CodeFrameError while it is IN_PROGRESS, and while others depend on it unless `force`, which
        takes it out of their dependencies.
        """
        with self._db.write() as connection:
            task = self.get(id)
            if task.status == TaskStatus.IN_PROGRESS:
                raise CodeFrameError(
                    f"Task {id} is being worked on.", f"Stop that first: cf work stop {id[:8]}"
                )
            waiting = self.dependents(id)
            if waiting and not force:
                raise CodeFrameError(
                    f"Other tasks depend on {id} '{task.title}': {_named(waiting)}.",
                    f"Delete it all the same: cf tasks delete {id[:8]} --force",
                )
            connection.execute("DELETE FROM tasks WHERE id = ?", (id,))

    def next_ready(self) -> Task | None:
        """The first READY task, in the order of `list`, whose dependencies are all DONE or MERGED."""
        tasks = self._read(f"WHERE t.status = 'READY' AND NOT EXISTS ({_UNMET}) {_ORDER} LIMIT 1")
        return tasks[0] if tasks else None

    def done_without_commit(self) -> list[Task]:
        """DONE tasks with a run that changed something, was not undone, and that no `commit` event follows."""
        changed = (
            "SELECT 1 FROM runs r WHERE r.task_id = t.id AND r.leftover != 'undone'"
            " AND json_extract(r.evidence, '$.changed') AND NOT EXISTS (SELECT 1 FROM events e"
            " WHERE e.task_id = t.id AND e.type = 'commit' AND e.created_at >= r.ended_at)"
        )
        return self._read(f"WHERE t.status = 'DONE' AND EXISTS ({changed}) {_ORDER}")

    def unmet_dependencies(self, id: str) -> list[Task]:
        """What `id` still waits for: its dependencies that are neither DONE nor MERGED."""
        return [needed for needed in map(self.get, self.get(id).depends_on) if needed.status not in FINISHED]

    def dependents(self, id: str) -> list[Task]:
        """The tasks that directly depend on `id`, in the order of `list`."""
        return self._read(
            f"WHERE t.id IN (SELECT task_id FROM dependencies WHERE depends_on = ?) {_ORDER}", (id,)
        )

    def _read(self, clauses: str, args: Sequence[Any] | Mapping[str, Any] = ()) -> list[Task]:
        return self._db.models("tasks", Task, f"{_SELECT} {clauses}", args)

    def _edges(self) -> dict[str, list[str]]:
        edges: dict[str, list[str]] = {}
        for id_, on in self._db.query("SELECT task_id, depends_on FROM dependencies ORDER BY position"):
            edges.setdefault(id_, []).append(on)
        return edges

    # Last in the class: from here on, its name hides the builtin's.
    def list(self, status: TaskStatus | None = None, limit: int | None = None, offset: int = 0) -> list[Task]:
        """Tasks by priority (highest first), then age (oldest first)."""
        where = "" if status is None else "WHERE t.status = :status"
        return self._read(
            f"{where} {_ORDER} LIMIT :limit OFFSET :offset",
            {"status": status, "limit": -1 if limit is None else limit, "offset": offset},
        )


def _checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The editable fields as they are stored; UsageError for values that make no sense."""
    unknown = fields.keys() - {"title", "description", "priority", "engine"}
    if unknown:
        raise UsageError(
            f"A task's {', '.join(sorted(unknown))} cannot be set.",
            "Set title, description, priority or engine.",
        )
    values: dict[str, Any] = {
        name: clean(value) if isinstance(value, str) else value for name, value in fields.items()
    }
    if "title" in values:
        values["title"] = values["title"].strip()
        if not values["title"]:
            raise UsageError("A task needs a title.", "Say in a line what is to be done.")
    if abs(values.get("priority", 0)) > LARGEST_PRIORITY:
        raise UsageError(
            f"A priority lies between -{LARGEST_PRIORITY} and {LARGEST_PRIORITY}.", "Type: --priority 1"
        )
    return values


def _write_status(connection: sqlite3.Connection, id: str, to: TaskStatus) -> None:
    connection.execute("UPDATE tasks SET status = ?, updated_at = ? WHERE id = ?", (to, stamp(utc_now()), id))


def _check_settable(frm: TaskStatus, to: TaskStatus, hint: str) -> None:
    """Refuse what rule 8.1 forbids, naming only what a person can set: the rest comes of work, or of a blocker."""
    legal = state_machine.TASK_TRANSITIONS[frm]
    if to not in legal:
        own = [each for each in legal if each not in (TaskStatus.IN_PROGRESS, TaskStatus.BLOCKED)]
        words = f", only to {' or '.join(own)}" if own else ""
        raise CodeFrameError(f"A task that is {frm} cannot be set to {to}{words}.", hint)


def _way_out(task: Task, to: TaskStatus | None = None) -> str:
    """What to type for a task that `start` does not take, or that cannot be set to `to`."""
    if task.status is TaskStatus.READY and to is TaskStatus.BACKLOG:
        return f'To hold it back: cf blocker create {task.id[:8]} "what has to be settled first"'
    if task.status is TaskStatus.READY and to is TaskStatus.DONE:
        short = task.id[:8]
        return f"To do it by hand: cf work start {short}, then: cf work verify {short}"
    return {
        TaskStatus.BACKLOG: f"Approve it: cf tasks set {task.id[:8]} status READY",
        TaskStatus.READY: f"Start it: cf work start {task.id[:8]} --execute",
        TaskStatus.FAILED: f"Try it again: cf work retry {task.id[:8]}",
        TaskStatus.BLOCKED: f"Answer its blocker, then: cf work resume {task.id[:8]}",
        TaskStatus.DONE: f"To do it again: cf tasks set {task.id[:8]} status READY",
    }.get(task.status, "Add a task for what is still to be done: cf tasks add TITLE")


def _named(tasks: Iterable[Task]) -> str:
    return ", ".join(f"{task.id} '{task.title}'" for task in tasks)


def _path(edges: Mapping[str, Sequence[str]], start: str, goal: str) -> list[str]:
    """The steps from `start` to `goal` along `edges`, both included; empty when there is no way."""
    came_from: dict[str, str | None] = {start: None}
    queue = [start]
    while queue:
        here = queue.pop()
        if here == goal:
            steps = [here]
            while (back := came_from[steps[-1]]) is not None:
                steps.append(back)
            return steps[::-1]
        for there in edges.get(here, ()):
            if there not in came_from:
                came_from[there] = here
                queue.append(there)
    return []
