"""`cf engines check NAME --live`: the engine does a tiny task, on the very path of `cf work start`."""

from __future__ import annotations

from typing import Any, NoReturn

import typer

from codeframe.cli.failures import failure_lines
from codeframe.cli.here import workspace_here
from codeframe.cli.output import STATUS_COLOURS, emit_json, note, say
from codeframe.cli.progress import Progress
from codeframe.cli.run_words import verdict_line
from codeframe.cli.trusting import had_to_ask
from codeframe.cli.views import run_json
from codeframe.core import git_watch
from codeframe.core.admission import Request, admit, plan
from codeframe.core.durations import format_duration, parse_duration
from codeframe.core.engine_trial import DESCRIPTION, TIMEOUT_S, TITLE, from_here, trial
from codeframe.core.errors import UsageError
from codeframe.core.models import BlockerStatus, Run, RunStatus
from codeframe.core.runtime import execute_agent
from codeframe.core.stop_switch import StopSwitch
from codeframe.core.trust import Trust
from codeframe.core.verdict import exit_status
from codeframe.core.workspace import Workspace


def live_check(name: str, model: str | None, timeout: str | None, checked: dict[str, Any] | None) -> NoReturn:
    """Let it work and tell how that went, with the exit status of `cf work start`; with `checked`, what was found
    before, as one JSON object: that and `live`, the run."""
    timeout_s = parse_duration(timeout) if timeout else TIMEOUT_S
    try:
        here = workspace_here()
    except UsageError:
        here = None
    while here is not None and had_to_ask(here, Trust(here).untrusted(from_here(name, here))):
        pass
    note(
        f"{name} now does a tiny task in a temporary repository, with your login and its model. That costs what its "
        f"own prompt costs, often tens of thousands of tokens; limit {format_duration(timeout_s)}, Ctrl-C stops it."
    )
    # One correction: an engine that needs more for one line is not well.
    typed = {"model": model or None, "timeout_s": timeout_s, "max_corrections": 1}
    stop = StopSwitch()
    stop.on_throw(git_watch.hurry)
    with stop.on_signals(), trial(name, here) as workspace:
        task = workspace.store.tasks.add(TITLE, description=DESCRIPTION)
        request = Request(engine=name, typed=typed)
        run = admit(workspace, plan(workspace, task, request), request)
        with Progress() as progress:
            progress.begin(task, run)
            run = execute_agent(workspace, run, on_event=progress.event, stop=stop)
        if checked is not None:
            emit_json({**checked, "live": run_json(run)})
        else:
            _tell(name, workspace, run)
    raise typer.Exit(exit_status(run))


def _tell(name: str, workspace: Workspace, run: Run) -> None:
    """All that is worth knowing: its folder is about to go."""
    say(verdict_line(run), STATUS_COLOURS.get(run.status.value, ""))
    if run.status is RunStatus.COMPLETED:
        model = f", with {run.usage.model}" if run.usage.model else ""
        say(f"{name} works: it did the task{model}, and the gate passed.")
        return
    if run.error:
        say(run.error)
    for blocker in workspace.store.blockers.list(status=BlockerStatus.OPEN, task_id=run.task_id):
        if blocker.question != run.error:
            say(f"Blocked: {blocker.question}")
    for line in failure_lines(run):
        say(line)
    rounds = workspace.store.runs.rounds(run.id)
    if said := (rounds[-1].get("engine") or {}).get("stderr") if rounds else None:
        say(f"Its last words on stderr: {said}")
