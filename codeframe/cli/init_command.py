"""`cf init`: make this folder a workspace."""

from __future__ import annotations

import typer

from codeframe.cli.grammar import Commands
from codeframe.cli.here import folder_here
from codeframe.cli.output import say

app = Commands()


@app.command()
def init(
    detect: bool = typer.Option(False, "--detect", help="Look at the project and record its tech stack."),
    git_init: bool = typer.Option(False, "--git-init", help="Make it a git repository first, if it is none."),
    nested: bool = typer.Option(False, "--nested", help="Even inside of another workspace."),
) -> None:
    """Make this folder a workspace.

    Nothing that git shows is added, and doing it again changes nothing.
    """
    import shlex

    from codeframe.core.admission import gate_suite
    from codeframe.core.config import load_environment_config, set_value
    from codeframe.core.errors import UsageError
    from codeframe.core.trust import Trust
    from codeframe.core.workspace import init_workspace
    from codeframe.core.would_run import all_that_would_run

    folder = folder_here()
    try:
        workspace, created = init_workspace(folder, git_init=git_init, nested=nested)
    except UsageError as e:
        # What else was typed goes into the hint, which is there to be typed.
        raise UsageError(
            e.problem, f"{e.hint} --detect" if detect and "--git-init" in e.hint else e.hint
        ) from e
    say(f"{workspace.root} is {'now' if created else 'already'} a workspace.")
    top = workspace.repo.toplevel
    if created and workspace.root != top:
        say(
            f"It is a folder of the repository {top}. For a workspace of all of it: cf -C {shlex.quote(str(top))} init"
        )
    config = load_environment_config(workspace.root)
    if detect:
        from codeframe.core.tech_stack import detect_tech_stack

        stack = detect_tech_stack(workspace.root)
        if stack:
            config = set_value(workspace.root, "tech_stack", stack)
        for line in stack.splitlines() or ["nothing here says what it is built with"]:
            say(f"  stack  {line}")
    suite = gate_suite(workspace, config)
    gates = list(zip(suite.describe(), suite.reasons(), strict=True))
    for line, why in gates or [("none found: work would be unverified (cf gates list)", "")]:
        say(f"  gate   {line}  (found: {why})" if why else f"  gate   {line}")
    for hint in suite.hints():
        say(f"  hint   {hint}")
    items = all_that_would_run(workspace, config, suite)
    if items and Trust(workspace).untrusted(items):
        say(
            f"  trust  nothing of this runs before cf trust, which covers: {', '.join(i.name for i in items)}"
        )
    if not workspace.store.tasks.count():
        say('Next: cf tasks add "what is to be done"')
