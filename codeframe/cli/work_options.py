"""The options that the commands of `cf work` which do a run have in common."""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable
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
FALLBACK = typer.Option(
    None,
    "--fallback",
    metavar="NAMES",
    help="Engines that take over where one cannot go on: one,another.",
)
QUOTA = typer.Option(
    None,
    "--wait-for-quota",
    metavar="D",
    rich_help_panel=LIMITS,
    help="Wait so long at most for a used-up quota; it does not count for --timeout.",
)
TOKENS = typer.Option(
    None,
    "--max-tokens",
    metavar="N",
    rich_help_panel=LIMITS,
    parser=typed.whole_number("--max-tokens", 1),
    help="Tokens this run may use, not counting those from a cache.",
)
COST = typer.Option(
    None, "--max-cost", metavar="USD", rich_help_panel=LIMITS, help="US dollars this run may cost."
)
FORCE = typer.Option(False, "--force", help="Even if tasks it depends on are not done.")
COMMIT = typer.Option(
    False, "--commit", help="Commit the work once it is verified, as cf commit create does."
)


# What a run may be told, in the order of `--help`.
_SHARED: dict[str, tuple[Any, Any]] = {
    "model": (str | None, MODEL),
    "message": (str | None, NOTE),
    "fallback": (str | None, FALLBACK),
    "timeout": (str | None, TIMEOUT),
    "stall_timeout": (str | None, STALL),
    "stall_action": (str | None, STALL_ACTION),
    "wait_for_quota": (str | None, QUOTA),
    "max_corrections": (int | None, CORRECTIONS),
    "max_tokens": (int | None, TOKENS),
    "max_cost": (str | None, COST),
    "strict": (bool | None, STRICT),
    "require_gates": (bool | None, REQUIRE),
    "no_gates": (bool | None, NO_GATES),
    "autonomy": (str | None, AUTONOMY),
    "network": (str | None, NETWORK),
}


RUN_OPTIONS: dict[str, Any] = {}  # the default of the parameter below


def takes_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the options of a run in the place of its parameter `options`, which gets what was typed of
    them, checked: RunOptions fields."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = inspect.signature(command, eval_str=True).parameters.values()
    shared = [inspect.Parameter(name, kind, default=o, annotation=t) for name, (t, o) in _SHARED.items()]
    parameters = [p for each in own for p in (shared if each.name == "options" else [each])]

    @functools.wraps(command)
    def told(**given: Any) -> None:
        command(options=chosen(**{name: given.pop(name) for name in _SHARED}), **given)

    told.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    told.__annotations__ = {each.name: each.annotation for each in parameters}
    return told


def chosen(
    *, model: str | None = None, message: str | None = None, fallback: str | None = None,
    timeout: str | None = None, stall_timeout: str | None = None, stall_action: str | None = None,
    wait_for_quota: str | None = None, max_corrections: int | None = None, max_tokens: int | None = None,
    max_cost: str | None = None, strict: bool | None = None, require_gates: bool | None = None,
    no_gates: bool | None = None, autonomy: str | None = None, network: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The RunOptions fields that were typed, checked."""
    from codeframe.core.durations import parse_duration

    typed.one_of("--stall-action", stall_action, ("blocker", "retry", "fail"))
    typed.one_of("--autonomy", autonomy, ("workspace", "full"))
    typed.one_of("--network", network, ("on", "off"))

    def seconds(text: str | None) -> float | None:
        return parse_duration(text) if text is not None else None

    return {
        "model": typed.utf8(model, "model") if model else None,
        "note": typed.text(message, "message") if message else None,
        "fallback": typed.names("--fallback", fallback) if fallback is not None else None,
        "max_corrections": max_corrections, "strict": strict,
        "require_gates": require_gates, "no_gates": no_gates, "stall_action": stall_action,
        "autonomy": autonomy, "network": network,
        "timeout_s": seconds(timeout), "stall_timeout_s": seconds(stall_timeout),
        "wait_for_quota_s": seconds(wait_for_quota),
        "max_tokens": max_tokens, "max_cost": typed.amount("--max-cost", max_cost) if max_cost is not None else None,
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
        ("network", "--network"), ("fallback", "--fallback"), ("wait_for_quota_s", "--wait-for-quota"),
        ("max_tokens", "--max-tokens"), ("max_cost", "--max-cost"),
    ):  # fmt: skip
        value = given.get(field)
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            said = format_duration(value) if field.endswith("_s") else str(value)
            words += [option, ",".join(value) if field == "fallback" else said]
    words += ["--force"] if request.force else []
    words += ["--keep"] if request.keep else []
    words += ["--commit"] if request.commit else []
    return shlex.join(words)
