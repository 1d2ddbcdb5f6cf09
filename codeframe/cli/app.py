"""`cf`: the root command, its global options, and the one place where errors become words and exit statuses."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from codeframe import __version__
from codeframe.core.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, CodeFrameError

# Command (group) -> module that holds it as `app`. A module is imported when its command is typed,
# so that one command never pays for another (rule 10.5).
COMMANDS = {
    "init": "codeframe.cli.init_command",
    "status": "codeframe.cli.status_command",
    "tasks": "codeframe.cli.tasks_commands",
    "prd": "codeframe.cli.prd_commands",
    "work": "codeframe.cli.work_commands",
    "blocker": "codeframe.cli.blocker_commands",
    "engines": "codeframe.cli.engines_commands",
    "gates": "codeframe.cli.gates_commands",
    "config": "codeframe.cli.config_commands",
}

# typer carries its own click; its usage error is reached through the one public subclass.
ClickUsageError: Any = typer.BadParameter.__base__


class LazyGroup(TyperGroup):
    """The root group: knows its commands by name and imports one only when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = typer.main.get_command(importlib.import_module(module).app)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=LazyGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"codeframe {__version__}")
        raise typer.Exit


@app.callback()
def root(
    directory: Path | None = typer.Option(None, "-C", metavar="DIR", help="Act as if started in DIR."),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Hand tasks to coding agents, verify what comes back with your own gates, lose nothing."""
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as e:
            raise CodeFrameError(
                f"Cannot enter {directory}: {e.strerror}.", "Name an existing folder after -C.", EXIT_USAGE
            ) from None


def main(argv: list[str] | None = None) -> None:
    """Run `cf` with `argv` (default: the process's own) and exit with its status (rule 10.1)."""
    arguments = sys.argv[1:] if argv is None else argv
    debug = "--debug" in arguments
    try:
        command = typer.main.get_command(app)
        status = command.main(args=arguments, prog_name="cf", standalone_mode=False)
        sys.stdout.flush()
    except CodeFrameError as e:
        if debug:
            raise
        status = fail(e.problem, e.hint, e.exit_code)
    except ClickUsageError as e:
        path = e.ctx.command_path if e.ctx is not None else "cf"
        status = fail(_sentence(e.format_message()), f"Type: {path} --help", EXIT_USAGE)
    except (KeyboardInterrupt, typer.Abort):
        status = fail("Interrupted.", "", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader went away (`cf ... | head`). Point stdout elsewhere so that the interpreter's
        # own flush at exit stays quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    except Exception as e:
        if debug:
            raise
        status = fail(
            f"Internal error: {type(e).__name__}: {e}", "Add --debug after cf to see where.", EXIT_FAILED
        )
    sys.exit(status if isinstance(status, int) else 0)


def fail(problem: str, hint: str, status: int) -> int:
    """Say on stderr what is wrong and what to type; returns `status`."""
    from codeframe.cli.output import clean

    print(f"cf: {clean(problem, lines=True)}", file=sys.stderr)
    if hint:
        print(f"    {clean(hint, lines=True)}", file=sys.stderr)
    return status


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "?", "!")) else text + "."
