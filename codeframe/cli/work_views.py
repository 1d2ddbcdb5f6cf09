"""The looking half of `cf work`: status, show, why, diff and logs. Nothing here changes anything, but that runs
whose process is gone are closed first."""

from __future__ import annotations

import json as jsonlib
import shlex
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from codeframe.cli import typed
from codeframe.cli.failures import new_failures, short
from codeframe.cli.here import recovered_workspace, tell_trouble
from codeframe.cli.output import MARKS, STATUS_COLOURS, ago, clean, columns, emit_json, note, say, verbatim
from codeframe.cli.run_words import done_by, engine_name, error_class, state, tokens, verdict_line
from codeframe.core.shown import shown

if TYPE_CHECKING:
    from codeframe.core.models import Run, Task
    from codeframe.core.workspace import Workspace

JSON = typer.Option(False, "--json", help="Print as JSON.")
RUN = typer.Option(None, "--run", metavar="RUN", help="A run of the task; the latest unless given.")
ID = typer.Argument(..., metavar="ID", help="Task, by the beginning of its id.")


def register(app: typer.Typer) -> None:
    """Add the viewing commands to `cf work`."""
    for command in (status, show, why, diff, logs, follow):
        app.command(command.__name__)(command)


def status(json: bool = JSON) -> None:
    """Show what is running now, and what waits for a person."""
    from codeframe.cli.next_step import answer_step, next_step
    from codeframe.cli.views import blocker_json, run_json
    from codeframe.core.models import BlockerStatus

    workspace = recovered_workspace()
    tell_trouble(workspace)
    store = workspace.store
    running = store.runs.running()
    blockers = store.blockers.list(status=BlockerStatus.OPEN)
    if json:
        emit_json(
            {"running": [run_json(r) for r in running], "blockers": [blocker_json(b) for b in blockers]}
        )
        return
    if running:
        rows = []
        for run in running:
            task = store.tasks.get(run.task_id)
            rows.append((task.id[:8], engine_name(run), run.id[:8], ago(run.started_at), task.title))
        columns(rows, ("task", "engine", "run", "since", "title"))
        for run in running:
            say(str(next_step(store, store.tasks.get(run.task_id))))
    else:
        say("Nothing is running.")
    for blocker in blockers:
        say(f"Blocked: {blocker.task_id[:8]} {blocker.question}\n  {answer_step(workspace.store, blocker)}")


def show(task_id: str = ID, json: bool = JSON) -> None:
    """Show a task with its runs, the newest last."""
    from codeframe.cli.next_step import next_step
    from codeframe.cli.views import blocker_json, run_json, task_json
    from codeframe.core.models import Leftover, RunKind

    workspace = recovered_workspace()
    task = workspace.store.tasks.find(task_id)
    runs = sorted(workspace.store.runs.list(task_id=task.id), key=lambda r: r.attempt)
    blockers = workspace.store.blockers.history(task.id)
    if json:
        emit_json(
            {
                "task": task_json(task),
                "runs": [run_json(r) for r in runs],
                "blockers": [blocker_json(b) for b in blockers],
            }
        )
        return
    say(f"{task.id}  {task.status.value}  {task.title}")
    if task.description:
        say(f"\n{task.description}")
    rows = [(r.id[:8], r.kind.value if r.kind is not RunKind.MANUAL else "-", engine_name(r),
             state(r) + (", undone" if r.leftover is Leftover.UNDONE else ""),
             r.verification or "-", error_class(r) or "-", tokens(r) or "-", ago(r.started_at))
            for r in runs]  # fmt: skip
    say()
    if rows:
        columns(rows, ("run", "kind", "engine", "status", "gates", "error", "tokens", "started"))
    else:
        say("No run yet.")
    for run in runs:
        for line in moved_lines(workspace, run):
            say(f"run {run.id[:8]} moved: {line}")
    for r in runs:
        if line := _maybe_yours(workspace, r):
            say(line)
    for line in runs[-1].evidence.get("notes", []) if runs else ():
        say(f"Note: {line}")
    for blocker in blockers:
        say(
            f"{blocker.status.value.lower()}: {blocker.question}"
            + (f" -> {blocker.answer}" if blocker.answer else "")
        )
    if step := next_step(workspace.store, task):
        say(f"\n{step}")


def why(task_id: str = ID, run: str | None = RUN, json: bool = JSON) -> None:
    """Show the evidence behind a run's verdict."""
    from codeframe.cli.next_step import next_step
    from codeframe.cli.views import run_json
    from codeframe.core.gates import describe_gate
    from codeframe.core.models import RunKind

    workspace = recovered_workspace()
    task, chosen = _run_of(workspace, task_id, run)
    rounds = workspace.store.runs.rounds(chosen.id)
    if json:
        emit_json({"run": run_json(chosen), "rounds": rounds})
        return
    chosen_why = "" if chosen.kind is RunKind.MANUAL else f" ({chosen.engine_why})"
    say(f"Task {task.id[:8]} “{task.title}”, run {chosen.id[:8]} {done_by(chosen)}{chosen_why}")
    say(verdict_line(chosen), STATUS_COLOURS.get(chosen.status.value, ""))
    if chosen.error:
        say(chosen.error)
    if arguments := chosen.options.get("engine_args", {}).get(chosen.engine):
        say(f"Arguments by engine_args: {shlex.join(arguments)}")
    for blocker in workspace.store.blockers.history(task.id):
        if blocker.run_id == chosen.id:
            say(f"Question: {blocker.question}")
            say(f"Answer: {blocker.answer}" if blocker.answer else "No answer was given.")
    for r in rounds:
        by_hand = chosen.kind is RunKind.MANUAL
        say(f"\nRound {r['round'] + 1} ({r['reason']})" + ("" if by_hand else f": the engine ended as {r['status']}")
            + (f", {r['error_class']}" if r.get("error_class") else "")
            + (f": {r['error']}" if r.get("error") else ""))  # fmt: skip
        files = r.get("changed", 0)
        say(
            f"  changed {files} file{'s' if files != 1 else ''} between {r['start'][:10]} and {r['end'][:10]}"
        )
        for line in r.get("files", [])[:20]:
            say(f"    {shown(line)}")
        for commit in r.get("commits", []):
            say(f"  {'' if by_hand else 'the engine '}committed {commit}")
        for line in r.get("moved", []):
            say(f"  moved: {line}")
        for key, value in sorted((r.get("engine") or {}).items()):
            if value not in (None, [], {}, "", False):
                say(f"  {key.replace('_', ' ')}: {short(value)}")
        by_gates = r.get("gates_changed") or {}
        for line in by_gates.get("files", [])[:20]:
            say(f"  running the gates {shown(line)}")
        for gate in (r.get("gates") or {}).get("gates", []):
            say(f"  gate {describe_gate(gate)}")
            for line in new_failures(gate):
                say(line)
            for failure in gate["old"][:20]:
                say(f"    failed before the run, too: {failure['title']}")
            if gate["blocking"] and gate["output"]:
                say(f"    whole output: {gate['output']}")
        for row in r.get("integrity") or ():
            where = f"{row['path']}:{row['line']}" if row["line"] else row["path"]
            say(f"  check changed: {shown(where)}: {row['words']}")
    for line in chosen.evidence.get("notes", []):
        say(f"Note: {line}")
    if chosen.evidence.get("stopped_by"):
        say(f"Stopped by: {chosen.evidence['stopped_by']}")
    if chosen.kind is not RunKind.MANUAL:
        kept = workspace.run_dir(chosen.id)
        say(f"\nEverything the engine said: cf work logs {task.id[:8]} --raw    kept in {kept}")
    if step := next_step(workspace.store, task):
        say(str(step))


def diff(
    task_id: str = ID,
    run: str | None = RUN,
    stat: bool = typer.Option(False, "--stat", help="Only file names and counts."),
    json: bool = JSON,
) -> None:
    """Show what a task changed, as a patch: in its latest run and those it went on with.

    What running the gates changed is in it, and is named apart.
    """
    from codeframe.core.leftovers import chain, snapshots_of, spans, uncertain
    from codeframe.core.models import RunKind, RunStatus

    workspace = recovered_workspace()
    task, chosen = _run_of(workspace, task_id, run)
    snapshots = snapshots_of(workspace)
    runs = [chosen] if run else chain(workspace, chosen)
    calls = [span for each in runs for span in spans(workspace, each)]
    if chosen.kind is RunKind.MANUAL and chosen.status is RunStatus.RUNNING:
        from codeframe.core.manual_run import span_now

        calls += [span_now(workspace, chosen)]
    start, end = (calls[0][0], calls[-1][1]) if calls else (None, None)
    # A screen has no use for the bytes of binary files; `git apply` at the end of a pipe needs them.
    whole = not sys.stdout.isatty()
    checked = [r for each in runs for r in workspace.store.runs.rounds(each.id) if r.get("gates_end")]
    by_gates = list(dict.fromkeys(file for r in checked for file in r["gates_changed"]["files"]))
    # Between runs people changed files of their own: only what the runs changed is shown.
    paths = {c.path for span in calls for c in snapshots.changes(*span)} if len(runs) > 1 else set()
    patch = b""
    if start and end:
        patch = snapshots.diff_bytes(start, end, sorted(paths), stat=stat, binary=whole)
    if json:
        changes = snapshots.changes(start, end) if start and end else []
        changes = [c for c in changes if c.path in paths] if paths else changes
        emit_json({
            "task_id": task.id, "run_id": chosen.id, "start": start, "end": end,
            "files": [{"path": c.path, "kind": c.kind} for c in changes],
            "uncertain": list(uncertain(workspace, chosen)), "changed_by_gates": by_gates,
            "diff": patch.decode("utf-8", "replace"),
        })  # fmt: skip
    elif patch.strip():
        verbatim(patch, patch=True)
        if by_gates:
            note(f"Of this, running the gates changed: {', '.join(map(shown, by_gates))}.")
        if line := _maybe_yours(workspace, chosen):
            note(line)
    else:
        running = chosen.status is RunStatus.RUNNING
        what = "is still running; nothing of it is recorded yet" if running else "changed nothing"
        note(f"Run {chosen.id[:8]} of task {task.id[:8]} {what}.")


def logs(
    task_id: str = ID,
    run: str | None = RUN,
    raw: bool = typer.Option(False, "--raw", help="Every line the engine printed, as it printed it."),
    tools: bool = typer.Option(False, "--tools", help="Only what it did: commands, files."),
    text: bool = typer.Option(False, "--text", help="Only what it said."),
    limit: int = typer.Option(
        0,
        "--limit",
        metavar="N",
        parser=typed.whole_number("--limit", 0),
        help="Only the last N lines; 0 for all.",
    ),
    json: bool = typer.Option(False, "--json", help="Print each line as a JSON object."),
) -> None:
    """Print what the engine said and did in a run, line by line, with the times (UTC)."""
    from codeframe.core.errors import UsageError
    from codeframe.core.models import RunKind

    if raw and (tools or text):
        raise UsageError("--raw is all there is; it goes with neither --tools nor --text.", "Leave one out.")
    workspace = recovered_workspace()
    task, chosen = _run_of(workspace, task_id, run)
    if chosen.kind is RunKind.MANUAL:
        short = task.id[:8]
        note(
            f"Run {chosen.id[:8]} is by hand; nothing of it is logged. Type: cf work diff {short}; cf work why {short}"
        )
        return
    run_dir = workspace.run_dir(chosen.id)
    records = _raw_lines(run_dir) if raw else _told_lines(run_dir, tools=tools, text=text)
    for record in deque(records, maxlen=limit) if limit else records:
        if json:
            print(jsonlib.dumps(record))
        else:
            mark = record["s"] if raw else MARKS.get(record["s"], ".")
            print(f"{record['t'][11:19]} {mark} {clean(record['line'])}")


def _raw_lines(run_dir: Path) -> Iterator[dict[str, Any]]:
    from codeframe.core.adapters.transcript import TRANSCRIPT_NAME, read_transcript

    for record in read_transcript(run_dir / TRANSCRIPT_NAME):
        when = str(record.get("t", "")).replace("+00:00", "Z")
        yield {**record, "t": when, "s": str(record.get("s", "")), "line": str(record.get("line", ""))}


def _told_lines(run_dir: Path, *, tools: bool, text: bool) -> Iterator[dict[str, Any]]:
    from codeframe.core.run_log import TEXT, TOOLS, read_log

    wanted = (TOOLS if tools else frozenset()) | (TEXT if text else frozenset())
    for line in read_log(run_dir):
        if not wanted or line.kind in wanted:
            yield {"t": line.when.replace("+00:00", "Z"), "s": line.kind, "line": line.text}


def follow(
    task_id: str | None = typer.Argument(None, metavar="[ID]", help="Task; the one that runs unless given."),
) -> None:
    """Watch a run, from any terminal, to its end. Ctrl-C ends the watching, not the run."""
    from codeframe.core.admission import by_hand
    from codeframe.core.errors import CodeFrameError
    from codeframe.core.models import RunKind, RunStatus
    from codeframe.core.run_lock import is_alive
    from codeframe.core.run_log import follow_log

    workspace = recovered_workspace()
    if task_id is None:
        running = workspace.store.runs.running()
        if len(running) != 1:
            many = ", ".join(run.task_id[:8] for run in running)
            raise CodeFrameError(
                f"Several tasks are running: {many}." if running else "Nothing is running.",
                f"Name one: cf work follow {running[0].task_id[:8]}" if running else "Type: cf work status",
            )
        task_id = running[0].task_id
    task, run = _run_of(workspace, task_id, None)
    if run.kind is RunKind.MANUAL and run.status is RunStatus.RUNNING:
        raise by_hand(workspace, run)
    note(f"Task {task.id[:8]} “{task.title}”: run {run.id[:8]} {done_by(run)}.")

    def is_over() -> bool:
        status = workspace.store.runs.get(run.id).status
        return status is not RunStatus.RUNNING or not is_alive(workspace, run.id)

    for line in follow_log(workspace.run_dir(run.id), is_over):
        print(f"{line.when[11:19]} {MARKS.get(line.kind, '.')} {clean(line.text)}", flush=True)
    run = workspace.store.runs.get(run.id)
    if run.status is RunStatus.RUNNING:
        raise CodeFrameError("The process that ran it is gone.", "Type: cf work status")
    say(verdict_line(run), STATUS_COLOURS.get(run.status.value, ""))
    say(f"The evidence: cf work why {task.id[:8]}")


# -- shared with work_commands ---------------------------------------------------------------------


def change_lines(workspace: Workspace, run: Run) -> list[str]:
    """The files that the run and those it goes on with changed, as `kind path`: at most 20, and a count of the rest."""
    from codeframe.core.leftovers import chain

    files: dict[str, None] = {}
    for each in chain(workspace, run):
        for record in workspace.store.runs.rounds(each.id):
            files.update(dict.fromkeys(record.get("files", [])))
    listed = [shown(line) for line in files]
    return listed[:20] + ([f"… and {len(listed) - 20} more"] if len(listed) > 20 else [])


def moved_lines(workspace: Workspace, run: Run) -> list[str]:
    """What became of branches, tags, stashes and HEAD in the run, each with what puts it back."""
    rounds = workspace.store.runs.rounds(run.id)
    return list(dict.fromkeys(line for record in rounds for line in record.get("moved", [])))


def _maybe_yours(workspace: Workspace, run: Run) -> str:
    """One line on what a person may have changed in a run that crashed; "" for nothing."""
    from codeframe.core.leftovers import uncertain

    paths = uncertain(workspace, run)
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    listed = ", ".join(shown(path) or "./" for path in paths[:5])
    return (
        f"Run {run.id[:8]}, changed after CodeFrame was killed: maybe yours: {listed}{more}" if paths else ""
    )


def _run_of(workspace: Workspace, task_id: str, run: str | None) -> tuple[Task, Run]:
    from codeframe.core.errors import CodeFrameError, UsageError

    task = workspace.store.tasks.find(task_id)
    list_with = f"cf work show {task.id[:8]}"
    look = f"Type: {list_with}"
    store = workspace.store.runs
    chosen = store.find(run, list_with) if run else store.latest(task.id)
    if chosen is None:
        raise CodeFrameError(f"Task {task.id[:8]} has not run yet.", look)
    if chosen.task_id != task.id:
        raise UsageError(f"Task {task.id[:8]} has no run {run}.", look)
    return task, chosen
