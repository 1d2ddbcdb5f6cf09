"""`cf engines`: which coding agents can be used here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from codeframe.cli import typed
from codeframe.cli.grammar import Commands
from codeframe.cli.here import autonomy_here, engines_here, folder_here
from codeframe.cli.output import columns, emit_json, note, say

if TYPE_CHECKING:
    from codeframe.core.agent_adapter import Capabilities
    from codeframe.core.engine_registry import EngineRegistry
    from codeframe.core.engine_status import EngineCheck, EngineStatus
    from codeframe.core.engine_versions import Versions

app = Commands("List engines and check what they need.")
JSON = typer.Option(False, "--json", help="Print as JSON.")
_CAN = {
    "resume": "go on in a session",
    "structured_verdict": "report by a schema",
    "cost": "tell what it costs",
}


@app.command("list")
def list_(json: bool = JSON) -> None:
    """List the engines there are, whether they can run here, and which one would and why.

    A program that was not seen before is asked once for its version. Whether an engine is logged in is for
    cf engines check to find out.
    """
    from codeframe.core.engine_registry import EngineRegistry, resolve_engine
    from codeframe.core.engine_status import status_of
    from codeframe.core.engine_versions import Versions
    from codeframe.core.errors import UsageError
    from codeframe.core.workspace import find_workspace

    try:
        workspace = find_workspace(folder_here())
    except UsageError:
        workspace = None
    known = EngineRegistry.at(workspace.root) if workspace else EngineRegistry
    names = known.available()
    chosen, why = resolve_engine(workspace, None) if workspace else (None, "no workspace here")
    # Another name of an engine that stands above (its description says so) is no line of its own.
    first: dict[object, str] = {}
    for name in names:
        first.setdefault(known.adapter_class(name), name)
    versions = Versions()
    _ask_new(known, list(first.values()), versions, workspace.repo.toplevel if workspace else folder_here())
    engines = [status_of(known, name, versions) for name in first.values()]
    shown = first[known.adapter_class(chosen)] if chosen in names else None
    problems = known.problems()
    if json:
        emit_json({
            "engines": [_status_json(engine) | {"chosen": engine.name == shown} for engine in engines],
            "chosen": chosen, "why": why, "problems": problems,
        })  # fmt: skip
        return
    rows = [
        (
            "*" if e.name == shown else "",
            e.name,
            e.version or "-",
            e.state,
            f"{e.description} ({e.origin})" if e.origin else e.description,
        )
        for e in engines
    ]
    columns(rows, ("", "engine", "version", "state", "what it is"))
    for name, problem in problems.items():
        note(f"{name} does not work: {problem}")
    if chosen in names:
        say(f"\n{chosen} would run here ({why}).")
    elif chosen is not None:
        other = known.to_suggest()[0] if names else "NAME"
        say(
            f"\n{chosen} would run here ({why}), but it is not there. Choose another: cf config set engine {other}"
        )


def _ask_new(known: type[EngineRegistry], names: list[str], versions: Versions, here: Path) -> None:
    """Ask programs not seen before for their versions; none of the repository's own, which a list does not run."""
    from codeframe.core.engine_versions import program_of

    new = []
    for of in map(known.adapter_class, names):
        program = program_of(of)
        if program is not None and versions.of(program) is None:
            places = (program.absolute(), program.resolve())
            new += [of] if not any(place.is_relative_to(here.resolve()) for place in places) else []
    if new:
        note("Asking programs not seen before for their versions, once.")
        versions.ask(new)


@app.command()
def check(
    name: str = typer.Argument(..., metavar="NAME", help="Engine; cf engines list names them."),
    live: bool = typer.Option(
        False,
        "--live",
        help="Then let it do a tiny real task in a temporary repository: that asks its model.",
    ),
    model: str | None = typer.Option(
        None, "--model", metavar="M", help="For --live, the model on the engine's own terms."
    ),
    timeout: str | None = typer.Option(
        None, "--timeout", metavar="D", help="For --live, its limit (default 5m)."
    ),
    json: bool = JSON,
) -> None:
    """Check that everything an engine needs is there, and say what it can and cannot do.

    Its version, its login and its sandbox are asked for; its model only with --live, whose exit status is that of
    cf work start. The exit status is 5 when something is missing.
    """
    from codeframe.core import engine_status
    from codeframe.core.engine_versions import Versions
    from codeframe.core.errors import EXIT_REQUIREMENTS, UsageError

    if (model or timeout) and not live:
        raise UsageError(
            "--model and --timeout are for a live check.", f"Add --live: cf engines check {name} --live"
        )
    known = engines_here()
    sandboxed = autonomy_here() != "full"
    found = engine_status.check(known, typed.engine_name(name), Versions(), needs_sandbox=sandboxed)
    if json and not (live and found.ready):
        emit_json(_check_json(found))
    elif not json:
        if found.status.origin:
            say(f"{name} is {found.status.origin}: {known.definition(name)}")
        _tell(found)
    if not found.ready:
        raise typer.Exit(EXIT_REQUIREMENTS)
    if live:
        from codeframe.cli.engine_live import live_check

        live_check(name, model, timeout, _check_json(found) if json else None)


def _tell(found: EngineCheck) -> None:
    """A line for each thing that was looked at; what to type comes last."""
    status, name = found.status, found.status.name
    rows = []
    for what, there in found.requirements.items():
        place = f" ({status.program})" if status.program and what.endswith("on PATH") else ""
        rows.append(("ok" if there else "missing", what + place))
    if status.version and not found.warnings:
        rows.append(
            ("ok", f"version {status.version}" + (f" (tested with {found.tested})" * bool(found.tested)))
        )
    if found.sandbox is not None:
        rows.append(("ok" if found.sandbox == "works" else "broken", f"its sandbox: {found.sandbox}"))
    rows += [("warning", warning) for warning in found.warnings]
    if status.capabilities is not None:
        can, cannot = _abilities(status.capabilities)
        rows += [("can", can)] if can else []
        rows += [("cannot", cannot)] if cannot else []
    rows += [("limit", str(limit)) for limit in found.unenforced]
    columns(rows)
    mends = "; then: ".join(found.mends)
    say(f"{name} is ready." if found.ready else f"{name} is not ready. {mends}".rstrip())


def _abilities(capabilities: Capabilities) -> tuple[str, str]:
    """What it declares to be able to do, and what not, in words."""
    told = {words: getattr(capabilities, field) for field, words in _CAN.items()}
    can = ", ".join(words for words, able in told.items() if able)
    return can, ", ".join(words for words, able in told.items() if not able)


def _status_json(status: EngineStatus) -> dict[str, Any]:
    """Keys: name, description, origin, version, ready, missing, program, capabilities (null: it declares none)."""
    capabilities = status.capabilities._asdict() if status.capabilities is not None else None
    if capabilities:
        del capabilities["description"]
    return {
        "name": status.name, "description": status.description, "origin": status.origin or None,
        "version": status.version or None, "ready": not status.missing, "missing": list(status.missing),
        "program": status.program, "capabilities": capabilities,
    }  # fmt: skip


def _check_json(found: EngineCheck) -> dict[str, Any]:
    """Keys: engine, those of `_status_json` but name, requirements, tested, sandbox, warnings, unenforced, mend."""
    status = _status_json(found.status)
    del status["name"]
    return {
        "engine": found.status.name, **status, "requirements": dict(found.requirements), "ready": found.ready,
        "tested": found.tested or None, "sandbox": found.sandbox, "warnings": list(found.warnings),
        "unenforced": [{"options": dict(u.options), "words": u.words} for u in found.unenforced],
        "mend": list(found.mends),
    }  # fmt: skip


@app.command()
def stats(
    since: str | None = typer.Option(
        None,
        "--since",
        metavar="WHEN",
        help="Only runs begun since: 30d or 12h ago, or on a day, 2026-11-30.",
    ),
    json: bool = JSON,
) -> None:
    """Show how engines have done in this workspace: tasks done, gates passed at once, time, tokens, cost.

    Each figure says what it is counted from; a cost that an engine does not tell stays unknown.
    """
    from codeframe.cli.engine_figures import show

    show(since, as_json=json)
