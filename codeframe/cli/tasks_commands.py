"""`cf tasks`: the list of what is to be done."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from codeframe.cli import typed
from codeframe.cli.grammar import Commands
from codeframe.cli.here import recovered_workspace, workspace_here
from codeframe.cli.output import columns, emit_json, note, say, verbatim

if TYPE_CHECKING:
    from codeframe.core.models import Task, TaskStatus

app = Commands("Add, list and change tasks.")
JSON = typer.Option(False, "--json", help="Print as JSON.")
ID = typer.Argument(..., metavar="ID", help="Task, by the beginning of its id.")
FIELDS = ("status", "title", "description", "priority", "engine")
APPROVE_ALL = "Type: cf tasks set --all --from BACKLOG status READY"
_priority = typed.whole_number("--priority", -1_000_000, 1_000_000)


@app.command()
def add(
    title: str = typer.Argument(
        ..., metavar="TITLE|-", help="What is to be done, in a line; - reads standard input."
    ),
    description: str = typer.Option(
        "", "-d", "--description", metavar="TEXT|-", help="More words; - reads standard input."
    ),
    depends_on: list[str] = typer.Option(
        [], "--depends-on", metavar="ID", help="A task to be done first; can be given more than once."
    ),
    priority: int = typer.Option(
        0, "--priority", metavar="N", parser=_priority, help="Higher comes first (default 0)."
    ),
    engine: str | None = typer.Option(None, "--engine", metavar="NAME", help="Engine for this task."),
    backlog: bool = typer.Option(False, "--backlog", help="Only note it down; not READY yet."),
    json: bool = JSON,
) -> None:
    """Add a task and print its id."""
    from codeframe.cli.next_step import next_step
    from codeframe.cli.views import task_json
    from codeframe.core.models import TaskStatus

    store = workspace_here().store
    with store.write():
        task = store.tasks.add(
            typed.title(title), description=typed.text(description, "description"), priority=priority,
            engine=typed.engine_name(engine) if engine else None,
            depends_on=[store.tasks.find(d).id for d in depends_on],
            status=TaskStatus.BACKLOG if backlog else TaskStatus.READY,
        )  # fmt: skip
        store.events.add("task_added", task.title, task_id=task.id)
    if json:
        emit_json(task_json(task))
    else:
        say(task.id)
        if sys.stderr.isatty():  # a script needs the id alone
            note(f"{next_step(store, task)}; by hand: cf work start {task.id[:8]}")


@app.command("list")
def list_(
    status: str | None = typer.Option(None, "--status", metavar="S", help="Only tasks in this state."),
    limit: int = typer.Option(
        50, "--limit", metavar="N", parser=typed.whole_number("--limit", 0),
        help="At most N tasks; 0 for all (default 50).",
    ),
    json: bool = JSON,
) -> None:  # fmt: skip
    """List tasks, the most urgent first."""
    from codeframe.cli.views import task_json

    store = recovered_workspace().store
    wanted = _status(status) if status else None
    tasks = store.tasks.list(status=wanted, limit=limit or None)
    total = store.tasks.count(wanted)
    if json:
        emit_json([task_json(t) for t in tasks])
    elif tasks:
        columns(
            [
                (
                    t.id[:8],
                    t.status.value,
                    str(t.priority),
                    ",".join(d[:8] for d in t.depends_on) or "-",
                    t.title,
                )
                for t in tasks
            ],
            ("id", "status", "prio", "after", "title"),
        )
    elif wanted is None:
        note('No tasks. Add one: cf tasks add "what is to be done"')
    else:
        note(f"No task is {wanted.value}.")
    if total > len(tasks):
        note(f"{len(tasks)} of {total} shown; --limit 0 shows all.")


@app.command()
def show(task_id: str = ID, json: bool = JSON) -> None:
    """Show one task in full."""
    from codeframe.cli.views import task_json

    store = recovered_workspace().store
    task = store.tasks.find(task_id)
    if json:
        emit_json(task_json(task))
        return
    say(task.title)
    rows = [("id", task.id), ("status", task.status.value), ("priority", str(task.priority))]
    rows += [("engine", task.engine)] if task.engine else []
    rows += [("after", f"{d[:8]} {store.tasks.get(d).title}") for d in task.depends_on]
    rows += [
        ("created", f"{task.created_at:%Y-%m-%d %H:%M} UTC"),
        ("updated", f"{task.updated_at:%Y-%m-%d %H:%M} UTC"),
    ]
    columns(rows)
    if task.description:
        say()
        verbatim(task.description.rstrip("\n").encode() + b"\n")


@app.command("set", context_settings={"ignore_unknown_options": True})  # `-7` is a priority, no option
def set_(
    words: list[str] = typer.Argument(
        ...,
        metavar="ID FIELD VALUE",
        help=f"FIELD is one of {', '.join(FIELDS)}; VALUE may be - for standard input.",
    ),
    every: bool = typer.Option(False, "--all", help="Every task that is in the state given by --from."),
    from_status: str | None = typer.Option(
        None, "--from", metavar="S", help="With --all: the state to change."
    ),
    json: bool = JSON,
) -> None:
    """Change a field of a task, or the state of many.

    For example: cf tasks set ID status READY, or cf tasks set --all --from BACKLOG status READY.
    An empty VALUE for engine leaves the choice to the configuration again.
    """
    from codeframe.cli.views import task_json
    from codeframe.core.errors import UsageError

    for word in words:
        if word.startswith("--"):
            raise UsageError(f"tasks set has no option {word}.", "Type: cf tasks set --help")
    store = recovered_workspace().store
    if every:
        if len(words) != 2 or words[0] != "status" or from_status is None:
            raise UsageError("--all goes with --from STATE and the words: status STATE.", APPROVE_ALL)
        changed = store.tasks.set_all_status(
            *(_status(word, APPROVE_ALL.removeprefix("Type: ")) for word in (from_status, words[1]))
        )
        if json:
            emit_json({"changed": changed})
        else:
            say(f"{changed} task{'s' if changed != 1 else ''} changed.")
        return
    if from_status is not None:
        raise UsageError("--from goes with --all.", APPROVE_ALL)
    if len(words) != 3:
        lacks = (
            "VALUE is missing"
            if len(words) == 2
            else f"{len(words)} word{'s' if len(words) != 1 else ''} came"
        )
        raise UsageError(
            f"cf tasks set takes ID FIELD VALUE; {lacks}.",
            f"For example: cf tasks set {words[0]} status READY",
        )
    task_id, field, value = words
    task = store.tasks.find(task_id)
    if field == "status":
        before = task.status
        with store.write():
            task = store.tasks.set_status(task.id, _status(value, f"cf tasks set {task.id[:8]} status READY"))
            if task.status is not before:
                store.events.add("task_set", f"{before} -> {task.status}", task_id=task.id)
    else:
        task = store.tasks.update(task.id, **{field: _field_value(task, field, value)})
    if json:
        emit_json(task_json(task))
    else:
        say(f"{task.id[:8]}  {task.status.value}  {task.title}")


@app.command()
def edit(task_id: str = ID, json: bool = JSON) -> None:
    """Change a task's title and description in your editor.

    The first line is the title; an empty text changes nothing.
    """
    from codeframe.cli.editor import edited
    from codeframe.cli.views import task_json
    from codeframe.core.errors import CodeFrameError

    store = recovered_workspace().store
    task = store.tasks.find(task_id)
    instead = f"cf tasks set {task.id[:8]} description -"
    with edited(f"{task.title}\n\n{task.description}".rstrip() + "\n", instead) as text:
        title, _, rest = text.strip().partition("\n")
        if not title or (title, rest.strip()) == (task.title, task.description.strip()):
            note("Nothing changed.")
        else:
            values = {"title": typed.title(title), "description": rest.strip()}
            with store.write():
                now = store.tasks.get(task.id)
                if (now.title, now.description) != (task.title, task.description):
                    raise CodeFrameError(
                        f"Task {task.id[:8]} was changed meanwhile; nothing was overwritten.",
                        f"Look at it: cf tasks show {task.id[:8]}.",
                    )
                task = store.tasks.update(task.id, **values)
    if json:
        emit_json(task_json(task))
    else:
        say(f"{task.id[:8]}  {task.status.value}  {task.title}")


@app.command()
def depend(
    task_id: str = ID,
    others: list[str] = typer.Argument(
        ..., metavar="ON", help="Tasks that are to be done first, one or more."
    ),
    remove: bool = typer.Option(False, "--remove", help="Let it wait for these no longer."),
    json: bool = JSON,
) -> None:
    """Let a task wait for others. A circle is refused, and shown."""
    from codeframe.cli.views import task_json

    store = recovered_workspace().store
    task = store.tasks.find(task_id)
    first = [store.tasks.find(other).id for other in others]
    with store.write():  # all of them or none
        for other in first:
            step = store.tasks.remove_dependency if remove else store.tasks.add_dependency
            task = step(task.id, other)
    if json:
        emit_json(task_json(task))
    else:
        after = ", ".join(f"{d[:8]} “{store.tasks.get(d).title}”" for d in task.depends_on)
        say(f"{task.id[:8]} waits for {after or 'nothing'}.")


@app.command()
def delete(
    task_id: str = ID,
    force: bool = typer.Option(False, "--force", help="Also with runs, or when other tasks depend on it."),
) -> None:
    """Remove a task with its runs, sessions and snapshots.

    The working tree is not touched.
    """
    from codeframe.core.checkup import DELETED
    from codeframe.core.conversation import SESSIONS, forget
    from codeframe.core.errors import CodeFrameError
    from codeframe.core.leftovers import snapshots_of
    from codeframe.core.models import TaskStatus

    workspace = recovered_workspace()
    task = workspace.store.tasks.find(task_id)
    runs = workspace.store.runs.list(task_id=task.id)
    kept = snapshots_of(workspace).of_task(task.id)
    if kept and not force and task.status is not TaskStatus.IN_PROGRESS:
        raise CodeFrameError(
            f"Task {task.id[:8]} has {len(runs)} run{'s' if len(runs) != 1 else ''} and {len(kept)} snapshots, "
            "which may hold work that is nowhere else.",
            f"To delete them too: cf tasks delete {task.id[:8]} --force",
        )
    rounds = (round_ for run in runs for round_ in workspace.store.runs.rounds(run.id))
    sessions = {run.session_id for run in runs} | {round_.get("session_id") for round_ in rounds}
    # The row is gone first: a crash here leaves files and refs that nobody asks for, never a task without them.
    # The event tells `cf doctor` that they were to go.
    freed = workspace.store.tasks.dependents(task.id)
    with workspace.store.write():
        workspace.store.tasks.delete(task.id, force=force)
        workspace.store.events.add(
            DELETED, f"deleted {task.id[:8]} {task.title}",
            metadata={"task": task.id, "runs": [run.id for run in runs]},
        )  # fmt: skip
    snapshots_of(workspace).delete_task(task.id)
    import shutil

    for run in runs:
        shutil.rmtree(workspace.run_dir(run.id), ignore_errors=True)
    forget(workspace.state_dir / SESSIONS, filter(None, sessions))
    say(f"Deleted {task.id[:8]} “{task.title}”.")
    for other in freed:
        say(f"{other.id[:8]} “{other.title}” waits for it no longer.")


def _field_value(task: Task, field: str, value: str) -> Any:
    from codeframe.core.errors import UsageError

    if field == "title":
        return typed.title(value)
    if field == "description":
        return typed.text(value, field)
    if field == "priority":
        return typed.whole_number("priority", -1_000_000, 1_000_000)(value)
    if field == "engine":
        return typed.engine_name(value) if value else None
    raise UsageError(
        f"A task has no field {field}; it has {', '.join(FIELDS)}.",
        f"For example: cf tasks set {task.id[:8]} priority 1",
    )


def _status(word: str, example: str = "cf tasks list --status READY") -> TaskStatus:
    from codeframe.core.errors import UsageError
    from codeframe.core.models import TaskStatus

    try:
        return TaskStatus(word.upper())
    except ValueError:
        names = ", ".join(s.value for s in TaskStatus)
        raise UsageError(f"There is no state “{word}”; there are {names}.", f"Type: {example}") from None
