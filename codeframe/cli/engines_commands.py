"""`cf engines`: which coding agents can be used here."""

from __future__ import annotations

import typer

from codeframe.cli.output import columns, emit_json, note, say

app = typer.Typer(help="List engines and check what they need.", no_args_is_help=True, rich_markup_mode=None)
JSON = typer.Option(False, "--json", help="Print as JSON.")


@app.command("list")
def list_(json: bool = JSON) -> None:
    """Engines that are built, and which one would run here and why."""
    from pathlib import Path

    from codeframe.core.engine_registry import EngineRegistry, resolve_engine
    from codeframe.core.errors import UsageError
    from codeframe.core.workspace import find_workspace

    names = EngineRegistry.available()
    try:
        chosen, why = resolve_engine(find_workspace(Path.cwd()), None)
    except UsageError:
        chosen, why = None, "no workspace here"
    engines = [(name, EngineRegistry.describe(name)) for name in names]
    if json:
        emit_json({
            "engines": [{"name": n, "description": d, "chosen": n == chosen} for n, d in engines],
            "chosen": chosen, "why": why,
        })  # fmt: skip
        return
    columns([("*" if n == chosen else " ", n, d) for n, d in engines])
    for name, problem in EngineRegistry.problems().items():
        note(f"{name} does not work: {problem}")
    if chosen is None:
        return
    if chosen in names:
        say(f"\n{chosen} would run here ({why}).")
    else:
        say(
            f"\nThe engine chosen here is {chosen} ({why}), which is not available; name another with --engine,"
        )
        say(f"or for good: cf config set engine {names[0] if names else 'NAME'}")


@app.command()
def check(name: str = typer.Argument(..., metavar="NAME"), json: bool = JSON) -> None:
    """Whether everything an engine needs is there; exit status 5 when something is missing."""
    from codeframe.core.engine_registry import EngineRegistry
    from codeframe.core.errors import EXIT_REQUIREMENTS, UsageError

    try:
        found = EngineRegistry.check_requirements(name)
    except ValueError as e:
        raise UsageError(str(e), "Type: cf engines list") from None
    if json:
        emit_json({"engine": name, "requirements": found, "ready": all(found.values())})
    else:
        columns([("ok" if there else "missing", what) for what, there in found.items()])
        if all(found.values()):
            say(f"{name} is ready.")
        else:
            hint = (
                getattr(EngineRegistry.adapter_class(name), "login_hint", "")
                if found.get("logged in") is False
                else ""
            )
            say(f"{name} is not ready." + (f" {hint}." if hint else ""))
    if not all(found.values()):
        raise typer.Exit(EXIT_REQUIREMENTS)
