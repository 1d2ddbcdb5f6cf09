"""`cf gates`: the checks that decide whether work is verified."""

from __future__ import annotations

import typer

from codeframe.cli.grammar import Commands
from codeframe.cli.here import workspace_here
from codeframe.cli.output import STATUS_COLOURS, emit_json, note, say

app = Commands("List the gates and run them by hand.")
JSON = typer.Option(False, "--json", help="Print as JSON.")
NO_GATES = "No gates found: work would be unverified. Declare some under gates: in .codeframe/config.yaml."


@app.command("list")
def list_(json: bool = JSON) -> None:
    """List the gates that would run here, as they would be run, and why each is one."""
    from codeframe.core.admission import gate_suite
    from codeframe.core.config import load_environment_config

    workspace = workspace_here()
    suite = gate_suite(workspace, load_environment_config(workspace.root))
    lines = suite.describe()
    if json:
        runs = [line.removeprefix(f"{name}: ") for name, line in zip(suite.names, lines, strict=True)]
        emit_json([
            {"name": name, "runs": run, "missing": run.startswith("cannot run: "), "why": why}
            for name, run, why in zip(suite.names, runs, suite.reasons(), strict=True)
        ])  # fmt: skip
        return
    if not lines:
        note(NO_GATES)
    for line, why in zip(lines, suite.reasons(), strict=True):
        say(f"{line}  (found: {why})" if why else line)
    for hint in suite.hints():
        note(hint)


@app.command()
def run(json: bool = JSON) -> None:
    """Run the gates on the tree as it is; every failure counts.

    The exit status is 1 when one fails, 5 when no tool of theirs is there.
    """
    from codeframe.cli.trusting import had_to_ask
    from codeframe.core.admission import gate_suite
    from codeframe.core.config import load_environment_config
    from codeframe.core.errors import EXIT_FAILED, EXIT_REQUIREMENTS
    from codeframe.core.gates import GateOutcome
    from codeframe.core.run_lock import gates_folder
    from codeframe.core.stop_switch import StopSwitch
    from codeframe.core.trust import Trust
    from codeframe.core.would_run import gate_items

    workspace = workspace_here()
    suite = gate_suite(workspace, load_environment_config(workspace.root))
    while had_to_ask(workspace, Trust(workspace).untrusted(gate_items(workspace, suite))):
        pass
    note(f"Running {', '.join(suite.names)}." if suite.names else NO_GATES)
    stop = StopSwitch()
    with gates_folder(workspace) as folder, stop.on_signals():
        report = suite.check(folder / "out", marker=f"{folder.name}/0", cancel=stop.event)
    if stop.signal is not None:
        note("Interrupted.")
        raise typer.Exit(128 + stop.signal)
    if json:
        emit_json(report.to_evidence())
    else:
        for verdict, line in zip(report.verdicts, report.summary_lines(), strict=True):
            say(line, STATUS_COLOURS["FAILED" if verdict.blocking else "DONE"])
        if report.status == "failed":
            say(f"\n{report.feedback().rstrip()}")
    if report.verdicts and all(v.result.outcome is GateOutcome.TOOL_MISSING for v in report.verdicts):
        raise typer.Exit(EXIT_REQUIREMENTS)
    if report.status == "failed":
        raise typer.Exit(EXIT_FAILED)
