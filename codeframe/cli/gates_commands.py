"""`cf gates`: the checks that decide whether work is verified."""

from __future__ import annotations

import typer

from codeframe.cli.here import workspace_here
from codeframe.cli.output import colour, columns, emit_json, note, say

app = typer.Typer(help="List the gates and run them by hand.", no_args_is_help=True, rich_markup_mode=None)
JSON = typer.Option(False, "--json", help="Print as JSON.")


@app.command("list")
def list_(json: bool = JSON) -> None:
    """The gates that would run here, as they would be run."""
    from codeframe.core.admission import gate_suite
    from codeframe.core.config import load_environment_config

    workspace = workspace_here()
    suite = gate_suite(workspace, load_environment_config(workspace.root))
    if json:
        missing = {g.name for g in suite.missing()}
        emit_json(
            [
                {"name": n, "runs": d, "missing": n in missing}
                for n, d in zip(suite.names, suite.describe(), strict=True)
            ]
        )
        return
    if not suite.names:
        note("No gates found; work would be unverified. Declare some under gates: in .codeframe/config.yaml.")
    for line in suite.describe():
        say(line)


@app.command()
def run(json: bool = JSON) -> None:
    """Run the gates on the tree as it is; every failure counts. Exit status 1 when one fails."""
    import secrets
    import shutil
    import tempfile
    from pathlib import Path

    from codeframe.core.admission import gate_suite
    from codeframe.core.config import load_environment_config
    from codeframe.core.stop_switch import StopSwitch

    workspace = workspace_here()
    suite = gate_suite(workspace, load_environment_config(workspace.root))
    out = Path(tempfile.mkdtemp(prefix="gates-", dir=workspace.state_dir))
    stop = StopSwitch()
    try:
        with stop.on_signals():
            report = suite.check({}, out, marker=f"gates-{secrets.token_hex(6)}/0", cancel=stop.event)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    if stop.event.is_set():
        raise typer.Exit(130)
    if json:
        emit_json(report.to_evidence())
    else:
        for verdict in report.verdicts:
            word = verdict.result.outcome.value
            columns([(colour(word, "green" if word == "passed" else "red"), verdict.result.gate.name)])
        if report.status == "failed":
            say(report.feedback())
    if report.status == "failed":
        raise typer.Exit(1)
