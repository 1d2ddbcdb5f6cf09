"""`cf doctor`: what is wrong here, and what mends it."""

from __future__ import annotations

import typer

from codeframe.cli.grammar import Commands
from codeframe.cli.here import folder_here
from codeframe.cli.output import emit_json, note, say

app = Commands()


@app.command()
def doctor(
    fix: bool = typer.Option(False, "--fix", help="Mend what can be mended without losing anything."),
    json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Look for what crashes, full disks and other people's tools left behind, and say what mends it.

    Changes nothing without --fix. The exit status is 1 while there is something to mend.
    """
    from codeframe.core.checkup import FIX, Checkup, examine
    from codeframe.core.errors import EXIT_FAILED, CodeFrameError, UsageError
    from codeframe.core.run_lock import repository_reserved

    folder = folder_here()
    checkup = examine(folder)
    mends = [finding.mend for finding in checkup.findings if finding.mend]
    if fix and mends and checkup.workspace:
        with repository_reserved(checkup.workspace, FIX):
            for mend in mends:
                try:
                    if said := mend():
                        note(said)
                except (CodeFrameError, OSError) as error:
                    note(str(error))
                    note(f"    {error.hint}" if isinstance(error, CodeFrameError) else "")
        try:
            checkup = examine(folder)
        except UsageError:  # there was only the rest of a workspace
            checkup = Checkup([], [])
    if json:
        findings = [{"kind": f.kind, "problem": f.problem, "command": f.command, "fix": bool(f.mend)}
                    for f in checkup.findings]  # fmt: skip
        emit_json({"findings": findings, "locks": checkup.locks})
    else:
        for line in checkup.locks:
            say(line)
        for finding in checkup.findings:
            say(f"{finding.problem}\n    {finding.command}")
        if not checkup.findings:
            say("Nothing to mend.")
    if checkup.findings:
        raise typer.Exit(EXIT_FAILED)
