"""`cf config`: the settings of this workspace, in .codeframe/config.yaml."""

from __future__ import annotations

import typer

from codeframe.cli.here import workspace_here
from codeframe.cli.output import columns, emit_json, say

app = typer.Typer(help="Show and change settings.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def show(json: bool = typer.Option(False, "--json", help="Print as JSON.")) -> None:
    """Every setting in force."""
    from codeframe.core.config import load_environment_config

    settings = load_environment_config(workspace_here().root).to_dict()
    if json:
        emit_json(settings)
    else:
        columns([(key, "-" if value is None else str(value)) for key, value in settings.items()])


@app.command("set")
def set_(
    key: str = typer.Argument(..., metavar="KEY"),
    value: str = typer.Argument(..., metavar="VALUE"),
) -> None:
    """Change one setting; a value that makes no sense changes nothing."""
    from codeframe.core.config import set_value

    set_value(workspace_here().root, key, value)
    say(f"{key}: {value}")
