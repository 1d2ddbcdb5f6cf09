"""`cf tasks`: the list of what is to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from codeframe.cli.here import recovered_workspace, text_argument, workspace_here
from codeframe.cli.output import columns, emit_json, note, say

if TYPE_CHECKING:
    from codeframe.core.models import TaskStatus

app = typer.Typer(help="Add, list and change tasks.", no_args_is_help=True, rich_markup_mode=None)
JSON = typer.Option(False, "--json", help="Print as JSON.")
FIELDS = ("status", "title", "description", "priority", "engine")


@app.command()
def add(
    title: str = typer.Argument(..., help="What is to be done, in a line."),
    description: str = typer.Option(
        "", "--description", metavar="TEXT|-", help="More words; - reads standard input."
    ),
    depends_on: list[str] = typer.Option(
        [], "--depends-on", metavar="ID", help="A task to be done first; repeatable."
    ),
    priority: int = typer.Option(0, "--priority", metavar="N", help="Higher comes first."),
    engine: str | None = typer.Option(None, "--engine", metavar="NAME", help="Engine for this task."),
    backlog: bool = typer.Option(False, "--backlog", help="Only note it down; not READY yet."),
    json: bool = JSON,
) -> None:
    """Add a task; prints its id."""
    from codeframe.cli.views import task_json
    from codeframe.core.models import TaskStatus

    store = workspace_here().store
    task = store.tasks.add(
        title, description=text_argument(description), priority=priority, engine=engine,
        depends_on=[store.tasks.find(d).id for d in depends_on],
        status=TaskStatus.BACKLOG if backlog else TaskStatus.READY,
    )  # fmt: skip
    if json:
        emit_json(task_json(task))
    else:
        say(task.id)


@app.command("list")
def list_(
    status: str | None = typer.Option(None, "--status", metavar="S", help="Only tasks in this state."),
    limit: int = typer.Option(50, "--limit", min=0, metavar="N", help="At most N tasks (0: all)."),
    json: bool = JSON,
) -> None:
    """Tasks, the most urgent first."""
    from codeframe.cli.views import task_json

    store = workspace_here().store
    wanted = _status(status) if status else None
    tasks = store.tasks.list(status=wanted, limit=limit or None)
    if json:
        emit_json([task_json(t) for t in tasks])
        return
    if not tasks:
        note(
            'No tasks. Add one: cf tasks add "what is to be done"'
            if wanted is None
            else f"No task is {wanted.value}."
        )
        return
    columns(
        [
            (t.id[:8], t.status.value, str(t.priority), ",".join(d[:8] for d in t.depends_on) or "-", t.title)
            for t in tasks
        ],
        ("id", "status", "prio", "after", "title"),
    )
    total = store.tasks.count(wanted)
    if total > len(tasks):
        note(f"{len(tasks)} of {total} shown; --limit 0 shows all.")


@app.command()
def show(task_id: str = typer.Argument(..., metavar="ID"), json: bool = JSON) -> None:
    """One task in full."""
    from codeframe.cli.views import task_json

    store = workspace_here().store
    task = store.tasks.find(task_id)
    if json:
        emit_json(task_json(task))
        return
    say(task.title)
    rows = [
        ("id", task.id),
        ("status", task.status.value),
        ("priority", str(task.priority)),
        ("engine", task.engine or "-"),
    ]
    rows += [("after", f"{d[:8]} {store.tasks.get(d).title}") for d in task.depends_on]
    rows += [
        ("created", f"{task.created_at:%Y-%m-%d %H:%M} UTC"),
        ("updated", f"{task.updated_at:%Y-%m-%d %H:%M} UTC"),
    ]
    columns(rows)
    if task.description:
        say(f"\n{task.description}")


@app.command("set")
def set_(
    words: list[str] = typer.Argument(..., metavar="[ID] FIELD VALUE", help="FIELD: " + ", ".join(FIELDS)),
    every: bool = typer.Option(False, "--all", help="Every task that is in the state given by --from."),
    from_status: str | None = typer.Option(
        None, "--from", metavar="S", help="With --all: the state to change."
    ),
    json: bool = JSON,
) -> None:
    """Change a field: `cf tasks set ID status READY`, `cf tasks set --all --from BACKLOG status READY`."""
    from codeframe.cli.views import task_json
    from codeframe.core.errors import UsageError

    store = recovered_workspace().store
    usage = "Type: cf tasks set ID FIELD VALUE"
    if every:
        if len(words) != 2 or words[0] != "status" or from_status is None:
            raise UsageError(
                "--all needs --from STATE and `status STATE`.",
                "Type: cf tasks set --all --from BACKLOG status READY",
            )
        changed = store.tasks.set_all_status(_status(from_status), _status(words[1]))
        say(f"{changed} task{'s' if changed != 1 else ''} changed.")
        return
    if from_status is not None:
        raise UsageError("--from goes with --all.", "Type: cf tasks set --all --from BACKLOG status READY")
    if len(words) != 3:
        raise UsageError(f"Three words are needed, not {len(words)}.", usage)
    task_id, field, value = words
    task = store.tasks.find(task_id)
    if field == "status":
        task = store.tasks.set_status(task.id, _status(value))
    elif field == "priority":
        try:
            task = store.tasks.update(task.id, priority=int(value))
        except ValueError:
            raise UsageError(f"A priority is a whole number, not “{value}”.", usage) from None
    elif field == "engine":
        task = store.tasks.update(task.id, engine=value or None)
    elif field in ("title", "description"):
        task = store.tasks.update(task.id, **{field: text_argument(value)})
    else:
        raise UsageError(f"There is no field “{field}”; it is one of {', '.join(FIELDS)}.", usage)
    if json:
        emit_json(task_json(task))
    else:
        say(f"{task.id[:8]}  {task.status.value}  {task.title}")


@app.command()
def delete(
    task_id: str = typer.Argument(..., metavar="ID"),
    force: bool = typer.Option(False, "--force", help="Also when other tasks depend on it."),
) -> None:
    """Remove a task with its runs and snapshots; the working tree is not touched."""
    from codeframe.core.leftovers import snapshots_of

    workspace = recovered_workspace()
    task = workspace.store.tasks.find(task_id)
    runs = workspace.store.runs.list(task_id=task.id)
    workspace.store.tasks.delete(task.id, force=force)
    # The row is gone first: a crash here leaves files and refs that nobody asks for, never a task without them.
    snapshots_of(workspace).delete_task(task.id)
    import shutil

    for run in runs:
        shutil.rmtree(workspace.run_dir(run.id), ignore_errors=True)
    say(f"Deleted {task.id[:8]} “{task.title}”.")


def _status(word: str) -> TaskStatus:
    from codeframe.core.errors import UsageError
    from codeframe.core.models import TaskStatus

    try:
        return TaskStatus(word.upper())
    except ValueError:
        names = ", ".join(s.value for s in TaskStatus)
        raise UsageError(
            f"There is no state “{word}”; it is one of {names}.", "Type: cf tasks list"
        ) from None
