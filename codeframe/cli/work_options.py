"""The options that the commands of `cf work` which do a run have in common."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import typer

from codeframe.cli import typed

if TYPE_CHECKING:
    from codeframe.core.admission import Request
    from codeframe.core.models import Task

# The sections of `--help`.
LIMITS = "Limits"
CHECKS = "Gates"
FREEDOM = "What the engine may do"

ENGINE = typer.Option(None, "--engine", metavar="NAME", help="Engine to use; cf engines list names them.")
MODEL = typer.Option(None, "--model", metavar="M", help="Model, in the engine's own terms.")
NOTE = typer.Option(None, "-m", "--message", metavar="TEXT", help="Something more to tell the engine.")
JSON = typer.Option(False, "--json", help="Print the finished run (or the plan) as JSON.")
TIMEOUT = typer.Option(
    None,
    "--timeout",
    metavar="D",
    rich_help_panel=LIMITS,
    help="Limit for all rounds and gates, such as 90s, 15m or 2h (default 1h).",
)
STALL = typer.Option(
    None,
    "--stall-timeout",
    metavar="D",
    rich_help_panel=LIMITS,
    help="Longest silence of the engine (default 10m).",
)
STALL_ACTION = typer.Option(
    None,
    "--stall-action",
    metavar="A",
    rich_help_panel=LIMITS,
    help="What a stall leads to: blocker (default), retry or fail.",
)
CORRECTIONS = typer.Option(
    None,
    "--max-corrections",
    metavar="N",
    rich_help_panel=LIMITS,
    parser=typed.whole_number("--max-corrections", 0, 1000),
    help="How often failed gates go back to the engine (default 3; 0 is never).",
)
STRICT = typer.Option(
    None, "--strict", rich_help_panel=CHECKS, help="Failures that were there before count too."
)
REQUIRE = typer.Option(None, "--require-gates", rich_help_panel=CHECKS, help="Unverified work is a failure.")
NO_GATES = typer.Option(
    None, "--no-gates", rich_help_panel=CHECKS, help="Run no gates; the result is unverified."
)
AUTONOMY = typer.Option(
    None,
    "--autonomy",
    metavar="A",
    rich_help_panel=FREEDOM,
    help="workspace (default): change files in the tree; full: anything.",
)
NETWORK = typer.Option(None, "--network", metavar="N", rich_help_panel=FREEDOM, help="on (default) or off.")
FORCE = typer.Option(False, "--force", help="Even if tasks it depends on are not done.")
COMMIT = typer.Option(
    False, "--commit", help="Commit the work once it is verified, as cf commit create does."
)


def chosen(
    model: str | None, message: str | None, timeout: str | None, stall_timeout: str | None, stall_action: str | None,
    max_corrections: int | None, strict: bool | None, require_gates: bool | None, no_gates: bool | None,
    autonomy: str | None, network: str | None,
) -> dict[str, Any]:  # fmt: skip
    """The RunOptions fields that were typed, checked."""
    from codeframe.core.durations import parse_duration

    typed.one_of("--stall-action", stall_action, ("blocker", "retry", "fail"))
    typed.one_of("--autonomy", autonomy, ("workspace", "full"))
    typed.one_of("--network", network, ("on", "off"))
    return {
        "model": typed.utf8(model, "model") if model else None,
        "note": typed.text(message, "message") if message else None,
        "max_corrections": max_corrections, "strict": strict,
        "require_gates": require_gates, "no_gates": no_gates, "stall_action": stall_action,
        "autonomy": autonomy, "network": network,
        "timeout_s": parse_duration(timeout) if timeout is not None else None,
        "stall_timeout_s": parse_duration(stall_timeout) if stall_timeout is not None else None,
    }  # fmt: skip


def check_commit(commit: bool, no_gates: bool | None) -> None:
    """Only what was verified is committed. Raises UsageError where nothing can be."""
    from codeframe.core.errors import UsageError

    if commit and no_gates:
        raise UsageError(
            "--commit commits verified work, and with --no-gates nothing verifies it.",
            "Leave one out; unverified work is committed by: cf commit create",
        )


def as_typed(task: Task, request: Request) -> str:
    """`cf work start TASK --execute` with the options of a request, for a person to paste."""
    from codeframe.core.durations import format_duration

    given = request.typed or {}
    words = ["cf", "work", "start", task.id[:8], "--execute"]
    words += ["--engine", request.engine] if request.engine else []
    for field, option in (
        ("model", "--model"), ("note", "-m"), ("timeout_s", "--timeout"), ("stall_timeout_s", "--stall-timeout"),
        ("stall_action", "--stall-action"), ("max_corrections", "--max-corrections"), ("strict", "--strict"),
        ("require_gates", "--require-gates"), ("no_gates", "--no-gates"), ("autonomy", "--autonomy"),
        ("network", "--network"),
    ):  # fmt: skip
        value = given.get(field)
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, format_duration(value) if field.endswith("_s") else str(value)]
    words += ["--force"] if request.force else []
    words += ["--keep"] if request.keep else []
    words += ["--commit"] if request.commit else []
    return shlex.join(words)
