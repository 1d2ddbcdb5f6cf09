"""`cf config`: the settings of this workspace, in .codeframe/config.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from codeframe.cli import typed
from codeframe.cli.grammar import Commands
from codeframe.cli.here import engines_here, workspace_here
from codeframe.cli.output import columns, emit_json, note, say

if TYPE_CHECKING:
    from codeframe.core.environment_config import EnvironmentConfig

app = Commands("Show and change settings.")


@app.command()
def show(json: bool = typer.Option(False, "--json", help="Print as JSON.")) -> None:
    """Show every setting, and whether it was set."""
    from codeframe.core.config import load_environment_config
    from codeframe.core.durations import format_duration
    from codeframe.core.environment_config import DEFAULTS, KEYS
    from codeframe.core.run_options import DEFAULT_STALL_TIMEOUT_S, DEFAULT_TIMEOUT_S

    config = load_environment_config(workspace_here().root)
    settings = {key: getattr(config, key) for key in KEYS}
    if json:
        emit_json(settings)
        return
    unset = {
        "engine": "see: cf engines list", "model": "the engine's own", "engines": "none", "engine_args": "none",
        "gates": "see: cf gates list",
        "timeout": format_duration(DEFAULT_TIMEOUT_S), "stall_timeout": format_duration(DEFAULT_STALL_TIMEOUT_S),
    }  # fmt: skip
    rows = []
    for key, value in settings.items():
        words = (
            unset.get(key, "-")
            if value is None
            else str(value).lower()
            if isinstance(value, bool)
            else str(value)
        )
        rows.append((key, "default" if value == DEFAULTS[key] else "set", "; ".join(words.splitlines())))
    columns(rows)


@app.command("set", context_settings={"ignore_unknown_options": True})  # `-1` is a value, no option
def set_(
    key: str = typer.Argument(..., metavar="KEY", help="A setting; cf config show lists them."),
    value: str = typer.Argument(
        ..., metavar="VALUE", help="Its value, as YAML for gates, engines and engine_args."
    ),
) -> None:
    """Change one setting; a value that makes no sense changes nothing."""
    from codeframe.core.config import set_value
    from codeframe.core.engine_arguments import arguments_for
    from codeframe.core.errors import CodeFrameError, UsageError
    from codeframe.core.would_run import trust_set_value

    def check(new: EnvironmentConfig) -> None:
        if key == "engine_args":
            arguments_for(new.engine_args, (), engines_here())

    for word in (key, value):
        if word.startswith("--"):
            raise UsageError(f"config set has no option {word}.", "Type: cf config set --help")
    workspace = workspace_here()
    if key in ("engine", "default_engine"):
        typed.engine_name(value.strip())
    config = set_value(workspace.root, key, typed.text(value, "value"), check)
    try:
        trust_set_value(workspace, key, config)
    except CodeFrameError as e:  # it is set all the same
        note(f"{e.problem} The next start will ask about it. {e.hint}")
    say(f"{key}: {value}")
