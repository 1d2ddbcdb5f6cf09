"""How commands are declared, how their help reads, and what is said when they are typed wrongly."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_command_from_info, get_command_name, get_group
from typer.models import CommandInfo, Default

from codeframe.cli.output import note
from codeframe.core.errors import EXIT_USAGE, UsageError

# typer carries its own click; its usage error is reached through the one public subclass.
ClickUsageError: Any = typer.BadParameter.__base__


class Command(TyperCommand):
    """A command whose options stand in sections (`rich_help_panel`), without what their help does not say."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except ClickUsageError as e:
            e.ctx = e.ctx or ctx  # so that the message can name the command
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def get_short_help_str(self, limit: int = 45) -> str:
        return _first_sentence(self.help)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                kind = "Arguments" if param.param_type_name == "argument" else "Options"
                section = getattr(param, "rich_help_panel", None) or kind
                sections.setdefault(section, []).append((record[0], getattr(param, "help", None) or ""))
        for name, rows in sections.items():
            with formatter.section(name):
                formatter.write_dl(rows)


class Group(TyperGroup):
    """A group that shows its help on stderr when no command follows, and knows the nearest one to a typo.

    `declared` are commands by name, each made when it is asked for: those of `work`, with all their options,
    take 15 ms together.
    """

    declared: Mapping[str, CommandInfo] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.declared]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.declared and cmd_name not in self.commands:
            info = self.declared[cmd_name]
            self.commands[cmd_name] = get_command_from_info(
                info, pretty_exceptions_short=False, rich_markup_mode=None
            )
        return super().get_command(ctx, cmd_name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            note(ctx.get_help())
            raise typer.Exit(EXIT_USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            guess = _nearest(args[0], self.list_commands(ctx))
            rest = [guess, *args[1:]] if guess else ["--help"]
            raise UsageError(
                f"There is no command {ctx.command_path} {args[0]}."
                + (f" Did you mean {guess}?" if guess else ""),
                f"Type: {ctx.command_path} {shlex.join(rest)}",
            )
        return super().resolve_command(ctx, args)

    def get_short_help_str(self, limit: int = 45) -> str:
        return _first_sentence(self.help)


class Commands(typer.Typer):
    """`typer.Typer` with the classes above, plain text and no completion options in every help."""

    def __init__(self, help: str | None = None, *, cls: type[Group] = Group) -> None:
        super().__init__(
            cls=cls, help=help or Default(None), rich_markup_mode=None, add_completion=False,
            context_settings={"help_option_names": ["-h", "--help"]},
        )  # fmt: skip

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        return super().command(name, **{"cls": Command, **settings})

    def made(self) -> Any:
        """The click command, where one is declared, or the group that makes each of them when it is used."""
        declared = self.registered_commands
        if len(declared) == 1 and self.registered_callback is None:
            return get_command(self)
        self.registered_commands = []
        group: Any = get_group(self)
        self.registered_commands = declared
        group.declared = {_name(info): info for info in declared}
        return group


def _name(command: CommandInfo) -> str:
    return command.name or get_command_name(getattr(command.callback, "__name__", ""))


def in_words(error: Any, root_options: tuple[str, ...]) -> tuple[str, str]:
    """What is wrong and what to type, for a usage error of click's. `root_options` go right after `cf`."""
    typed = error.ctx.command_path if error.ctx is not None else "cf"
    command = typed.removeprefix("cf ")
    usage = f"Type: {typed} --help"
    kind = type(error).__name__
    if kind == "NoSuchOption":
        name = error.option_name
        if name in root_options and command != "cf":
            return (
                f"{name} goes right after cf.",
                f"Type: cf {name}{' DIR' if name == '-C' else ''} {command}",
            )
        known = [option for p in error.ctx.command.get_params(error.ctx) for option in p.opts]
        guess = _nearest(name, known)
        return f"{command} has no option {name}." + (f" Did you mean {guess}?" if guess else ""), usage
    if kind == "MissingParameter":
        needed = [p for p in error.ctx.command.get_params(error.ctx) if p.required]
        words = " ".join(p.make_metavar(error.ctx).split("|")[0] for p in needed)  # in a shell `|` is a pipe
        return f"{command} needs {error.param.make_metavar(error.ctx)}.", f"Type: {typed} {words}"
    if kind == "UsageError" and "unexpected extra argument" in error.message:
        extra = error.message.rpartition("(")[2].rstrip(")")
        return (
            f"{command} does not know what to do with “{extra}”.",
            f"Words that belong together go in quotes; see {typed} --help",
        )
    if kind == "BadOptionUsage" and "requires an argument" in error.message:
        return f"{error.option_name} needs a value.", usage
    message = error.format_message().strip().replace("'", "")
    return message if message.endswith((".", "?", "!")) else f"{message}.", usage


def _nearest(word: str, known: list[str]) -> str:
    bare = {name.lstrip("-"): name for name in known}
    typed = word.lstrip("-")
    found = [n for n in bare if len(typed) > 2 and n.startswith(typed)] or get_close_matches(typed, bare, n=1)
    return bare[found[0]] if found else ""


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split()).split(". ")[0].rstrip(".")
