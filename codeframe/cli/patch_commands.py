"""`cf patch`: what a task changed, as a file to carry elsewhere."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from codeframe.cli.commit_commands import PATHS, left_out_lines
from codeframe.cli.grammar import Commands
from codeframe.cli.here import recovered_workspace
from codeframe.cli.output import note, verbatim

app = Commands("Carry what tasks changed elsewhere.")


@app.callback()
def group() -> None:
    """Carry what tasks changed elsewhere."""


@app.command()
def export(
    task_id: str = typer.Argument(..., metavar="ID", help="Task, by the beginning of its id."),
    paths: list[str] | None = PATHS,
    output: str | None = typer.Option(None, "-o", "--output", metavar="FILE", help="Write it there instead."),
    force: bool = typer.Option(False, "--force", help="Replace FILE if it is there."),
) -> None:
    """Print what a task changed as a patch for `git am`, against HEAD.

    What cf commit create leaves out is left out here as well.
    """
    from codeframe.core.errors import CodeFrameError, UsageError
    from codeframe.core.take_back import from_top
    from codeframe.core.task_patch import patch_of
    from codeframe.core.task_work import EXPORT
    from codeframe.core.whole_file import regular_place, write_named

    workspace = recovered_workspace()
    task = workspace.store.tasks.find(task_id)
    patch, left_out = patch_of(workspace, task, [from_top(workspace, path) for path in paths or ()])
    for line in left_out_lines(task, left_out, EXPORT):
        note(line)
    if output is None or output == "-":
        verbatim(patch, patch=True)
        return
    path = Path(output)
    if not path.name or path.is_dir():
        raise UsageError(f"“{output}” is no name of a file.", "Name one after -o.")
    try:
        if regular_place(path).exists() and not force:
            raise UsageError(f"{output} is there already.", "Name another file, or add --force.")
        write_named(path, patch)
    except OSError as e:
        more = "".join(f" {shlex.quote(each)}" for each in ("--", *paths)) if paths else ""
        raise CodeFrameError(
            f"{output} cannot be written: {e.strerror}.",
            f"Choose the place yourself: cf {EXPORT} {task.id[:8]}{more} > FILE",
        ) from e
    keep = (
        "--keep-cr " if b"\r\n" in patch else ""
    )  # else git takes the line ends of the files for the mail's
    note(f"Written: {output}. Apply it elsewhere with: git am {keep}{shlex.quote(output)}")
