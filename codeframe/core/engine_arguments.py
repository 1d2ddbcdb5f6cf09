"""A person's own arguments for an engine's command line (`engine_args` in the configuration): which, and where."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from codeframe.core.engine_registry import EngineRegistry
from codeframe.core.errors import UsageError
from codeframe.core.redaction import contains_secret

_KEY = "engine_args"


def arguments_for(
    given: Mapping[str, Sequence[str]] | None, engines: Collection[str], known: type[EngineRegistry]
) -> dict[str, Sequence[str]]:
    """Those of `given` (engine -> arguments) that are for one of `engines`.

    UsageError where any of it, for whichever engine, cannot be: an engine that is not there, one that is no command
    line, or a secret, which would be kept with the run.
    """
    for name, arguments in (given or {}).items():
        try:
            of = known.adapter_class(name)
        except ValueError as e:
            raise UsageError(f"{e} It was named by `{_KEY}`.", "Type: cf engines list") from None
        if not getattr(of, "takes_arguments", False):
            raise UsageError(
                f"Engine {name} is no command line, so it takes no `{_KEY}`.",
                f"Leave it out: cf config set {_KEY} '{{}}', or correct it in an editor.",
            )
        if any(map(contains_secret, arguments)):
            raise UsageError(
                f"`{_KEY}` for {name} holds what looks like a secret, and arguments are kept with each run.",
                "Put it into a variable of your environment that the engine reads.",
            )
    return {name: arguments for name, arguments in (given or {}).items() if arguments and name in engines}


def with_arguments(argv: tuple[str, ...], more: Sequence[str]) -> tuple[str, ...]:
    """`argv` with a person's own arguments: last, where they win over ours, but before a `--` that ends the options."""
    at = argv.index("--") if "--" in argv else len(argv)
    return (*argv[:at], *more, *argv[at:])
