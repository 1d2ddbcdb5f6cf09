"""What of the repository's own would run in it: gates, engines it declares, files that engines execute (rule 9.1)."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from codeframe.core.engine_definition import EngineDefinition
from codeframe.core.engine_registry import PRESET, EngineRegistry
from codeframe.core.environment_config import EnvironmentConfig
from codeframe.core.errors import RequirementsError
from codeframe.core.safe_read import open_regular
from codeframe.core.trust import Item, Trust
from codeframe.core.workspace import Workspace

if TYPE_CHECKING:
    from codeframe.core.gates import GateSuite

_MAX_BYTES = 1024 * 1024 * 1024  # of all that engines may execute
_MAX_ENTRIES = 100_000
_FULL = "full"


def would_run(
    workspace: Workspace,
    suite: GateSuite | None,
    engines: Iterable[str] = (),
    *,
    known: type[EngineRegistry] = EngineRegistry,
    full: bool = False,
    arguments: Mapping[str, Sequence[str]] = {},
) -> list[Item]:
    """The items of a run with these gates and engines; `full`: its autonomy is that by a file of the tree;
    `arguments` are those of `engine_args`, by engine.

    `known` are the engines of the workspace. Runs nothing. Raises RequirementsError for a file that cannot be
    looked at.
    """
    engines = list(engines)
    items = gate_items(workspace, suite) if suite is not None else []
    items += configured_items(engines, known, arguments, full=full)
    paths = {path: None for name in engines for path in _project_config(known, name)}
    return items + _file_items(workspace, list(paths))


def configured_items(
    engines: Iterable[str],
    known: type[EngineRegistry],
    arguments: Mapping[str, Sequence[str]],
    *,
    full: bool,
) -> list[Item]:
    """What the configuration brings with these engines: leave to do anything, those it declares, arguments."""
    engines = list(engines)
    items = [_autonomy()] if full else []
    items += _engine_items({name: known.declared[name] for name in engines if name in known.declared})
    return items + _argument_items({name: arguments[name] for name in engines if name in arguments})


def gate_items(workspace: Workspace, suite: GateSuite) -> list[Item]:
    """One for each gate: a declared one by its command, a found one by the command it comes to here. What it says is
    the program that runs; trust does not hang on where that is."""
    from codeframe.core.gates.discovery import KINDS
    from codeframe.core.gates.project import Project

    top = f"{workspace.repo.toplevel}/"
    project = Project.at(workspace.root) if suite.gates else None
    items = []
    for gate in suite.gates:
        words = list(gate.command)
        if not gate.declared and project is not None:
            words = list(KINDS[gate.kind].shown(gate, project))
        says = words
        if gate.declared and project is not None and (program := project.which(words[0])) is not None:
            says = [program, *words[1:]]
        # Where the machine keeps its own python is nothing of the repository's.
        if not gate.declared and os.path.isabs(words[0]) and not words[0].startswith(top):
            words = [os.path.basename(words[0]), *words[1:]]
        items.append(Item(f"gate {gate.name}", shlex.join(says), _digest(json.dumps(words).encode())))
    return items


def trust_set_value(workspace: Workspace, key: str, config: EnvironmentConfig) -> None:
    """Trust what a person has just set with `cf config set`, and nothing else that the file may hold.

    A later change of the file by anybody else is another value. Raises CodeFrameError when it cannot be kept.
    """
    from codeframe.core.gates import GateSuite, declared_gates

    if key == "gates" and config.gates:
        suite = GateSuite(workspace.root, declared_gates(config.gates))
        Trust(workspace).accept(gate_items(workspace, suite))
    elif key == "engines":
        Trust(workspace).accept(_engine_items(config.declared_engines()))
    elif key == "engine_args":
        Trust(workspace).accept(_argument_items(config.engine_args or {}))
    elif key == "autonomy" and config.autonomy == _FULL:
        Trust(workspace).accept([_autonomy()])


def all_that_would_run(workspace: Workspace, config: EnvironmentConfig, suite: GateSuite) -> list[Item]:
    """The items of a start with any engine there is: what `cf trust` covers. Of our presets those that could run:
    what the others would read of a project is nothing to ask about."""
    known = EngineRegistry.at(workspace.root)
    engines = [
        name
        for name in known.available()
        if known.origin(name) != PRESET or all(known.check_requirements(name, quick=True).values())
    ]
    return would_run(
        workspace,
        suite,
        engines,
        known=known,
        full=config.autonomy == _FULL,
        arguments=config.engine_args or {},
    )


def _autonomy() -> Item:
    return Item("setting autonomy", f"{_FULL} (the engine may do anything)", _digest(_FULL.encode()))


def _engine_items(declared: Mapping[str, EngineDefinition]) -> list[Item]:
    """One for each declared engine, shown whole: any word of it may be one that matters."""
    return [
        Item(f"engine {name}", engine.shown(), _digest(json.dumps(engine.data, sort_keys=True).encode()))
        for name, engine in declared.items()
    ]


def _argument_items(arguments: Mapping[str, Sequence[str]]) -> list[Item]:
    """One for each engine: an argument can name a file to execute, or take a limit away."""
    return [
        Item(f"arguments {name}", shlex.join(words), _digest(json.dumps(list(words)).encode()))
        for name, words in arguments.items()
        if words
    ]


def _project_config(known: type[EngineRegistry], engine: str) -> Sequence[str]:
    """Paths an engine executes something of, as its adapter declares them; none for one that is not there."""
    try:
        paths: Sequence[str] = getattr(known.adapter_class(engine), "project_config", ())
    except ValueError:
        return ()
    return paths


def _file_items(workspace: Workspace, paths: Sequence[str]) -> list[Item]:
    items = []
    folders = [workspace.root]  # and those above it in the repository: an engine may look upwards
    while folders[-1] != workspace.repo.toplevel:
        folders.append(folders[-1].parent)
    for folder in folders if paths else ():
        for path in paths:
            place = folder / path
            if not os.path.lexists(place):
                continue
            name = os.path.relpath(place, workspace.root)
            try:
                content = _content(place)
            except OSError as error:
                raise RequirementsError(
                    f"The engine would read {name}, which cannot be looked at: {error.strerror}.",
                    f"Put it right or take it away: find {shlex.quote(str(place))} -ls",
                ) from error
            if content:
                files = f"{len(content)} file{'s' if len(content) != 1 else ''}, " if place.is_dir() else ""
                digest = _digest("\n".join(content).encode("utf-8", "surrogateescape"))
                items.append(Item(f"file {name}", f"{files}which the engine may execute from", digest))
    return items


def _content(top: Path) -> list[str]:
    """A line for each file at or below `top`: path, executable or not, content. Symlinks are followed, each folder
    once: what counts is what an engine would get to read. OSError for what is no plain file, or too much."""
    import hashlib

    lines: list[str] = []
    seen: set[str] = set()
    size = 0
    todo = [top]
    while todo:
        place = todo.pop()
        try:
            mode = place.stat().st_mode
        except FileNotFoundError:  # a link to nothing: nothing is read, until there is something
            continue
        if stat.S_ISDIR(mode):
            real = os.path.realpath(place)
            if real not in seen:
                seen.add(real)
                todo += sorted(place.iterdir(), reverse=True)
        else:
            run = "x" if mode & stat.S_IXUSR else "-"
            with open_regular(place) as file:
                size += os.fstat(file.fileno()).st_size
                if size > _MAX_BYTES:
                    raise OSError(0, f"it holds more than {_MAX_BYTES:,} bytes")
                digest = hashlib.file_digest(cast(Any, file), "sha256").hexdigest()
            lines.append(f"{place.relative_to(top)!s}\0{run}\0{digest}")
        if len(lines) + len(seen) + len(todo) > _MAX_ENTRIES:  # a link to somebody's home, perhaps
            raise OSError(0, f"it holds more than {_MAX_ENTRIES:,} files")
    return lines


def _digest(data: bytes) -> str:
    import hashlib  # it loads OpenSSL: not for a repository where nothing would run

    return hashlib.sha256(data).hexdigest()
