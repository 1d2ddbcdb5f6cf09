"""`cf prd`: the product requirement every task is read against."""

from __future__ import annotations

from pathlib import Path

import typer

from codeframe.cli.here import workspace_here
from codeframe.cli.output import emit_json, say

app = typer.Typer(help="Add and show the product requirement.", no_args_is_help=True, rich_markup_mode=None)
JSON = typer.Option(False, "--json", help="Print as JSON.")
MAX_BYTES = 2_000_000


@app.command()
def add(
    file: str = typer.Argument(..., metavar="FILE|-", help="Markdown or text; - reads standard input."),
    title: str | None = typer.Option(
        None, "--title", metavar="TEXT", help="Default: the first heading or line."
    ),
    json: bool = JSON,
) -> None:
    """Put a requirement in force; the earlier ones are kept."""
    from codeframe.cli.views import prd_json
    from codeframe.core.errors import UsageError

    workspace = workspace_here()
    text = _read(file)
    if not text.strip():
        raise UsageError("The requirement is empty.", "Type: cf prd add FILE")
    heading = next(line.lstrip("# ").strip() for line in text.splitlines() if line.strip("# \t"))
    prd = workspace.store.prds.add(title or heading[:120], text)
    if json:
        emit_json(prd_json(prd))
    else:
        say(f"{prd.id[:8]}  {prd.title}")


@app.command()
def show(
    prd_id: str | None = typer.Argument(None, metavar="[ID]", help="Default: the one in force."),
    every: bool = typer.Option(False, "--all", help="List all that were added."),
    json: bool = JSON,
) -> None:
    """The requirement in force."""
    from codeframe.cli.views import prd_json
    from codeframe.core.errors import UsageError

    prds = workspace_here().store.prds
    if every:
        listed = prds.list()
        if json:
            emit_json([prd_json(p) for p in listed])
        else:
            for p in listed:
                say(f"{p.id[:8]}  {p.created_at:%Y-%m-%d %H:%M}  {p.title}")
        return
    prd = prds.find(prd_id) if prd_id else prds.current()
    if prd is None:
        raise UsageError("No requirement has been added.", "Type: cf prd add FILE")
    if json:
        emit_json(prd_json(prd))
    else:
        say(prd.content.rstrip("\n"))


def _read(file: str) -> str:
    import sys

    from codeframe.core.errors import UsageError

    if file == "-":
        return sys.stdin.read()
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"There is no file {file}.", "Type: cf prd add FILE")
    if path.stat().st_size > MAX_BYTES:
        raise UsageError(f"{file} is larger than {MAX_BYTES // 1_000_000} MB.", "Give a shorter requirement.")
    try:
        return path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError) as e:
        raise UsageError(f"{file} cannot be read as UTF-8 text: {e}.", "Type: cf prd add FILE") from None
