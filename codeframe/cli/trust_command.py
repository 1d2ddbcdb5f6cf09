"""`cf trust`: what of the repository's own may run here."""

from __future__ import annotations

import typer

from codeframe.cli.grammar import Commands
from codeframe.cli.here import workspace_here
from codeframe.cli.output import emit_json, say

app = Commands()


@app.command()
def trust(
    yes: bool = typer.Option(False, "--yes", help="Trust all that is listed, without a question."),
    show: bool = typer.Option(False, "--show", help="Only list what would run, and whether it is trusted."),
    revoke: bool = typer.Option(False, "--revoke", help="Trust nothing here any more."),
    json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Say that what this repository brings may run: its gates, and what engines execute of its files.

    What it says is kept outside of the repository. What is new or changes later is asked about again.
    The exit status is 5 when something stays untrusted.
    """
    from codeframe.cli.trusting import ask, can_ask
    from codeframe.core.admission import gate_suite
    from codeframe.core.config import load_environment_config
    from codeframe.core.errors import UsageError
    from codeframe.core.trust import Trust
    from codeframe.core.would_run import all_that_would_run

    if yes + show + revoke > 1:
        raise UsageError("--yes, --show and --revoke exclude each other.", "Type one of them.")
    workspace = workspace_here()
    record = Trust(workspace)
    if revoke and not record.forget() and not json:
        say("Nothing was trusted here.")
    config = load_environment_config(workspace.root)
    items = all_that_would_run(workspace, config, gate_suite(workspace, config))
    untrusted = record.untrusted(items)
    refused, asked = None, False
    if untrusted is not None and not (show or revoke):
        refused = untrusted.refusal()
        asked = not yes and can_ask()
        if yes or ask(untrusted):
            asked = False
            record.accept(items)
            # It may have changed under the question: what was shown is what is trusted.
            config = load_environment_config(workspace.root)
            items = all_that_would_run(workspace, config, gate_suite(workspace, config))
            untrusted = record.untrusted(items)
            refused = untrusted.refusal("Not trusted, as it changed meanwhile") if untrusted else None
    states = {item.name: state for item, state in untrusted.items} if untrusted else {}
    if revoke:  # "new" is what nobody ever trusted
        states = dict.fromkeys(states, "not trusted")
    if json:
        emit_json({
            "trusted": not states, "record": record.path, "problem": record.problem or None,
            "items": [{"name": i.name, "runs": i.says, "state": states.get(i.name, "trusted")} for i in items],
        })  # fmt: skip
    else:
        if record.problem:
            say(record.problem)
        for item in items if not (asked and refused) else ():  # the question has listed them
            say(f"{item}  ({states.get(item.name, 'trusted')})")
        if not items:
            say("Nothing of this repository's own would run: there is nothing to trust.")
        elif revoke or (show and states):
            say("To trust it: cf trust --yes")
    if refused is not None:
        raise refused
