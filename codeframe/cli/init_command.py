"""`cf init`: make this folder a workspace."""

from __future__ import annotations

from pathlib import Path

import typer

from codeframe.cli.output import say

app = typer.Typer(rich_markup_mode=None)


@app.command()
def init(
    detect: bool = typer.Option(False, "--detect", help="Look at the project and record its tech stack."),
    git_init: bool = typer.Option(False, "--git-init", help="Make it a git repository first, if it is none."),
) -> None:
    """Make this folder a workspace. Nothing that git shows is added; running it again changes nothing."""
    from codeframe.core.admission import gate_suite
    from codeframe.core.config import load_environment_config, set_value
    from codeframe.core.workspace import init_workspace

    workspace, created = init_workspace(Path.cwd(), git_init=git_init)
    say(f"{'Made' if created else 'Already'} a workspace: {workspace.root}")
    config = load_environment_config(workspace.root)
    if detect:
        from codeframe.core.tech_stack import detect_tech_stack

        stack = detect_tech_stack(workspace.root)
        if stack:
            config = set_value(workspace.root, "tech_stack", stack)
            for line in stack.splitlines():
                say(f"  {line}")
        else:
            say("  no manifest found that says what this project is built with")
    suite = gate_suite(workspace, config)
    for line in suite.describe():
        say(f"  gate {line}")
    if not suite.names:
        say("  no gates found: work would be unverified; declare some under gates: in .codeframe/config.yaml")
    say('Next: cf tasks add "what is to be done"')
