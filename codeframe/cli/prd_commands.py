"""`cf prd`: the product requirement every task is read against."""

from __future__ import annotations

import typer

from codeframe.cli import typed
from codeframe.cli.grammar import Commands
from codeframe.cli.here import workspace_here
from codeframe.cli.output import columns, emit_json, note, say, verbatim

app = Commands("Add and show the product requirement.")
JSON = typer.Option(False, "--json", help="Print as JSON.")


@app.command()
def add(
    file: str = typer.Argument(..., metavar="FILE|-", help="Markdown or text; - reads standard input."),
    title: str | None = typer.Option(None, "--title", metavar="TEXT", help="Its first line unless given."),
    json: bool = JSON,
) -> None:
    """Put a requirement in force; earlier ones are kept."""
    from codeframe.cli.views import prd_json
    from codeframe.core.errors import UsageError

    workspace = workspace_here()
    content = typed.file_text(file)
    lines = [line.strip("# \t") for line in content.splitlines() if line.strip("# \t")]
    if not lines:
        raise UsageError("The requirement is empty.", "Type: cf prd add FILE")
    named = (
        typed.title(title, "Say it shorter; the requirement itself may be long.") if title else lines[0][:120]
    )
    prd = workspace.store.prds.current()
    if prd is not None and (prd.title, prd.content) == (named, content):
        note("It is in force already; nothing was added.")
    else:
        prd = workspace.store.prds.add(named, content)
    if json:
        emit_json(prd_json(prd))
    else:
        say(f"{prd.id[:8]}  {prd.title}")


@app.command()
def show(
    prd_id: str | None = typer.Argument(None, metavar="ID", help="The one in force unless given."),
    every: bool = typer.Option(False, "--all", help="List all that were added, the newest first."),
    json: bool = JSON,
) -> None:
    """Show the requirement in force."""
    from codeframe.cli.views import prd_json
    from codeframe.core.errors import UsageError

    prds = workspace_here().store.prds
    if every:
        listed = prds.list()
        if json:
            emit_json([prd_json(p) for p in listed])
        elif listed:
            columns([(p.id[:8], f"{p.created_at:%Y-%m-%d %H:%M} UTC", p.title) for p in listed])
        else:
            note("No requirement has been added. Add one: cf prd add FILE")
        return
    prd = prds.find(prd_id) if prd_id else prds.current()
    if prd is None:
        raise UsageError("No requirement has been added.", "Type: cf prd add FILE")
    if json:
        emit_json(prd_json(prd))
    else:
        verbatim(prd.content.rstrip("\n").encode() + b"\n")
