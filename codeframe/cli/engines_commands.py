"""`cf engines`: which coding agents can be used here."""

from __future__ import annotations

import typer

from codeframe.cli import typed
from codeframe.cli.grammar import Commands
from codeframe.cli.here import engines_here, folder_here
from codeframe.cli.output import columns, emit_json, note, say

app = Commands("List engines and check what they need.")
JSON = typer.Option(False, "--json", help="Print as JSON.")


@app.command("list")
def list_(json: bool = JSON) -> None:
    """List the engines there are, and which one would run here and why."""
    from codeframe.core.engine_registry import EngineRegistry, resolve_engine
    from codeframe.core.errors import UsageError
    from codeframe.core.workspace import find_workspace

    try:
        workspace = find_workspace(folder_here())
    except UsageError:
        workspace = None
    known = EngineRegistry.at(workspace.root) if workspace else EngineRegistry
    names = known.available()
    chosen, why = resolve_engine(workspace, None) if workspace else (None, "no workspace here")
    # Another name of an engine that stands above (its description says so) is no line of its own.
    first: dict[object, str] = {}
    for name in names:
        first.setdefault(known.adapter_class(name), name)
    engines = [(name, known.describe(name), known.origin(name)) for name in first.values()]
    shown = first[known.adapter_class(chosen)] if chosen in names else None
    problems = known.problems()
    if json:
        emit_json({
            "engines": [
                {"name": n, "description": d, "origin": o or None, "chosen": n == shown} for n, d, o in engines
            ],
            "chosen": chosen, "why": why, "problems": problems,
        })  # fmt: skip
        return
    columns([("*" if n == shown else " ", n, f"{d} ({o})" if o else d) for n, d, o in engines])
    for name, problem in problems.items():
        note(f"{name} does not work: {problem}")
    if chosen in names:
        say(f"\n{chosen} would run here ({why}).")
    elif chosen is not None:
        other = known.to_suggest()[0] if names else "NAME"
        say(
            f"\n{chosen} would run here ({why}), but it is not there. Choose another: cf config set engine {other}"
        )


@app.command()
def check(
    name: str = typer.Argument(..., metavar="NAME", help="Engine; cf engines list names them."),
    json: bool = JSON,
) -> None:
    """Check that everything an engine needs is there.

    The exit status is 5 when something is missing.
    """
    from codeframe.core.errors import EXIT_REQUIREMENTS

    known = engines_here()
    found = known.check_requirements(typed.engine_name(name))
    ready = all(found.values())
    origin = known.origin(name)
    if json:
        emit_json({"engine": name, "origin": origin or None, "requirements": found, "ready": ready})
    else:
        if origin:
            say(f"{name} is {origin}: {known.definition(name)}")
        columns([("ok" if there else "missing", what) for what, there in found.items()])
        of = known.adapter_class(name)
        absent = any(not there for what, there in found.items() if what != "logged in")
        hints = [getattr(of, "install_hint", "") if absent else ""]
        if not found.get("logged in", True):
            hints.append(getattr(of, "login_hint", ""))
        hint = "; then log in: ".join(filter(None, hints)) if not ready else ""
        say(f"{name} is {'' if ready else 'not '}ready." + (f" {hint}" if hint else ""))
    if not ready:
        raise typer.Exit(EXIT_REQUIREMENTS)
