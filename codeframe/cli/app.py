"""`cf`: the root command, its global options, and the one place where errors become words and exit statuses."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from functools import cache
from pathlib import Path
from typing import Any

import typer

from codeframe import __version__
from codeframe.cli.grammar import ClickUsageError, Commands, Group, in_words
from codeframe.cli.output import note
from codeframe.core.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    CodeFrameError,
    UsageError,
    how_to_write,
)

# Command (group) -> module that holds it as `app`. A module is imported when its command is typed,
# so that one command never pays for another (rule 10.5).
COMMANDS = {
    "init": "codeframe.cli.init_command",
    "status": "codeframe.cli.status_command",
    "tasks": "codeframe.cli.tasks_commands",
    "prd": "codeframe.cli.prd_commands",
    "work": "codeframe.cli.work_commands",
    "blocker": "codeframe.cli.blocker_commands",
    "commit": "codeframe.cli.commit_commands",
    "patch": "codeframe.cli.patch_commands",
    "events": "codeframe.cli.events_command",
    "engines": "codeframe.cli.engines_commands",
    "gates": "codeframe.cli.gates_commands",
    "config": "codeframe.cli.config_commands",
    "trust": "codeframe.cli.trust_command",
    "doctor": "codeframe.cli.doctor_command",
    "deinit": "codeframe.cli.deinit_command",
    "completion": "codeframe.cli.completion_command",
    "demo": "codeframe.cli.demo_command",
}
ROOT_OPTIONS = ("-C", "--debug", "--version")
SIGPIPE_STATUS = 141  # what a shell reports of a program that the signal ended


class RootGroup(Group):
    """The root group: knows its commands by name and imports one only when it is used."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # `cf` alone is a first look, no mistake.
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name) if cmd_name in COMMANDS else None


@cache
def _command(name: str) -> Any:
    """The same one however often it is asked for."""
    command = importlib.import_module(COMMANDS[name]).app.made()
    command.name = name
    return command


app = Commands(cls=RootGroup)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"codeframe {__version__}")
        raise typer.Exit


@app.callback()
def root(
    directories: list[str] = typer.Option([], "-C", metavar="DIR", help="Act as if started in DIR."),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Hand tasks to coding agents, verify what comes back with your own gates, lose nothing."""
    for directory in filter(None, directories):  # as in git: each is relative to the one before, "" is none
        try:
            os.chdir(directory)
        except (OSError, ValueError) as e:
            why = getattr(e, "strerror", None) or e
            raise UsageError(
                f"Cannot enter {directory}: {why}.", "Name an existing folder after -C."
            ) from None


def main(argv: list[str] | None = None) -> None:
    """Run `cf` with `argv` (default: the process's own) and exit with its status (rule 10.1)."""
    arguments = sys.argv[1:] if argv is None else argv
    for signum in (signal.SIGTERM, signal.SIGHUP):  # SIGHUP stays ignored under nohup
        if signal.getsignal(signum) is signal.SIG_DFL:
            signal.signal(signum, _terminate)
    _prepare_streams()
    sys.exit(_flushed(_run(arguments, debug="--debug" in arguments)))


class Terminated(BaseException):
    """SIGTERM or SIGHUP, where no run turns it into a stop."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def _terminate(signum: int, frame: object) -> None:
    raise Terminated(signum)


def _end_git() -> None:
    """Threads may wait for git processes, which would outlive us with the locks that they hold."""
    if watch := sys.modules.get("codeframe.core.git_watch"):
        watch.end_all()


def _flushed(status: int) -> int:
    """`status`, or another one when what was printed could not be written."""
    try:
        sys.stdout.flush()
    except OSError as e:
        if isinstance(e, BrokenPipeError):
            status = SIGPIPE_STATUS
        elif status == 0:
            status = fail(
                f"The output cannot be written: {e.strerror}.", "Make room, then try again.", EXIT_FAILED
            )
        # The interpreter tries once more when it ends, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return status


def _run(arguments: list[str], *, debug: bool) -> int:
    try:
        command = typer.main.get_command(app)
        with command.make_context("cf", list(arguments)) as context:
            command.invoke(context)
        return 0
    except typer.Exit as e:
        return e.exit_code
    except BrokenPipeError:
        return SIGPIPE_STATUS  # the reader went away (`cf ... | head`)
    except (KeyboardInterrupt, typer.Abort):
        _end_git()
        return fail("Interrupted.", "", EXIT_INTERRUPTED)
    except Terminated as e:
        _end_git()
        return 128 + e.signum
    except ClickUsageError as e:
        return fail(*in_words(e, ROOT_OPTIONS), EXIT_USAGE)
    except Exception as e:
        if debug:
            import traceback

            note(traceback.format_exc().rstrip())
        if isinstance(e, CodeFrameError):
            return fail(e.problem, e.hint, e.exit_code)
        if isinstance(e, OSError) and e.strerror:
            problem = f"{e.strerror}: {e.filename}." if e.filename else f"{e.strerror}."
            if e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                return fail(problem, how_to_write(Path(e.filename or "."), e), EXIT_FAILED)
        else:
            problem = f"Internal error: {type(e).__name__}: {e}."
        return fail(problem, "To see where, type the same with --debug right after cf.", EXIT_FAILED)


def fail(problem: str, hint: str, status: int) -> int:
    """Say on stderr what is wrong and what to type; returns `status`."""
    note(f"cf: {problem}")
    if hint:
        note(f"    {hint}")
    return status


def _prepare_streams() -> None:
    """Give a closed standard stream its number back, and print what a locale cannot as `?`."""
    # Else the next file that is opened, the database, gets the number and what is printed.
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
