"""Can an engine run here? Its name, what it needs, and the engines that are to take over from it."""

from __future__ import annotations

from codeframe.core.engine_registry import DEFAULT_WHY, TYPED_WHY, EngineRegistry
from codeframe.core.errors import RequirementsError, UsageError
from codeframe.core.models import Task
from codeframe.core.run_options import RunOptions

TYPED_CHAIN = "--fallback"


def check_engine(
    name: str, why: str, task: Task | None = None, *, known: type[EngineRegistry] = EngineRegistry
) -> None:
    """Raise RequirementsError when the engine is unknown here or something it needs is missing; UsageError when an
    unknown one was typed."""
    try:
        requirements = known.check_requirements(name, quick=True)
    except ValueError as e:
        others = known.to_suggest()
        target = task.id[:8] if task else "ID"
        hint = "Type: cf engines list"
        if others:
            hint = f"Type: cf work start {target} --execute --engine {others[0]}"
            hint += f"; or choose it for good: cf config set engine {others[0]}"
        if why == DEFAULT_WHY:
            raise RequirementsError(
                f"No engine is chosen, and the default, {name}, is not there.", hint
            ) from None
        if why == TYPED_WHY:
            raise UsageError(str(e), "Type: cf engines list") from None
        raise RequirementsError(f"{e} It was chosen by {why}.", hint) from None
    missing = [what for what, there in requirements.items() if not there]
    if missing:
        hint = getattr(known.adapter_class(name), "install_hint", f"Type: cf engines check {name}")
        if why == DEFAULT_WHY and (ready := _first_ready()):
            hint = (
                f"Type: cf work start {task.id[:8] if task else 'ID'} --execute --engine {ready}; "
                f"or choose it for good: cf config set engine {ready}"
            )
        elif why == DEFAULT_WHY:
            hint = f"{hint}; or choose another engine: cf engines list"
        raise RequirementsError(f"Engine {name} cannot run here; missing: {', '.join(missing)}.", hint)


def check_chain(
    engine: str, options: RunOptions, why: str, known: type[EngineRegistry] = EngineRegistry
) -> None:
    """Raise UsageError or RequirementsError where an engine of the chain cannot take over, or a limit on the cost
    cannot hold as one of them does not tell what it costs."""
    chain = [engine, *options.fallback]
    for at, name in enumerate(chain[1:], start=1):
        try:
            missing = [what for what, ok in known.check_requirements(name, quick=True).items() if not ok]
        except ValueError as e:
            raise UsageError(f"{e} It was named by {why}.", "Type: cf engines list") from None
        if any(known.same(name, before) for before in chain[:at]):
            raise UsageError(f"{name} stands twice in {why}.", f"Leave {name} out.")
        if missing:
            hint = getattr(known.adapter_class(name), "install_hint", "")
            raise RequirementsError(
                f"Engine {name}, named by {why}, cannot run here; missing: {', '.join(missing)}.",
                hint or f"Type: cf engines check {name}",
            )
    for name in chain if options.max_cost is not None else ():
        capabilities = getattr(known.adapter_class(name), "capabilities", None)
        if capabilities is None or not capabilities.cost:
            raise UsageError(
                f"Engine {name} does not tell what it costs, so a limit on the cost cannot hold.",
                "Limit the tokens instead: --max-tokens N",
            )


def _first_ready() -> str | None:
    """An engine that could run here, for a person who chose none."""
    names = EngineRegistry.to_suggest()
    return next((n for n in names if all(EngineRegistry.check_requirements(n, quick=True).values())), None)
