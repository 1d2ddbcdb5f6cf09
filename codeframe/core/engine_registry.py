"""Which engines there are, and which one runs a task (rules 2.2, 3.3, 3.4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from codeframe.core.agent_adapter import AgentAdapter
from codeframe.core.config import CONFIG_DIR, front_matter, load_environment_config
from codeframe.core.engine_definition import EngineDefinition, problem_in
from codeframe.core.entry_points import EntryPoint, entry_points
from codeframe.core.errors import UsageError

DEFAULT_ENGINE = "built-in"
TYPED_WHY, DEFAULT_WHY = "--engine", "the default"
ENTRY_POINT_GROUP = "codeframe.engines"
PROTOCOL_GROUP = "codeframe.engine_protocols"  # name -> function(definition, root, origin) -> adapter class
PROTOCOL = "command"  # of a definition that names none: a command that is run
PRESETS = Path(__file__).parents[1] / "presets"  # definitions we ship: NAME.json
PRESET, DECLARED = "a preset", f"declared in {CONFIG_DIR}/"  # where a definition comes from
ENGINE_VARIABLE = "CODEFRAME_ENGINE"
_KEYS = ("engine", "default_engine")
_DOCUMENTS = ("CODEFRAME.md", "AGENTS.md")
_MEMBERS = ("name", "requires_api_key", "execute", "stream_events")


class HasRoot(Protocol):
    """What is needed of a workspace here."""

    @property
    def root(self) -> Path:
        """The folder its configuration is in."""
        ...


class EngineRegistry:
    """All engines by name: registered ones, those packages offer as entry points, then our presets. Class-level only.

    Entry points are looked up once and loaded one by one when asked for; one that does not load, or is
    no adapter, is as if it were not there and is explained by `problems()`. `at` adds what a workspace declares.
    """

    declared: ClassVar[Mapping[str, EngineDefinition]] = {}  # by the configuration of a workspace; see `at`
    _declared_classes: ClassVar[Mapping[str, type]] = {}
    _registered: ClassVar[dict[str, type]] = {}
    _offered: ClassVar[dict[str, EntryPoint] | None] = None
    _problems: ClassVar[dict[str, str]] = {}

    @classmethod
    def at(cls, root: Path) -> type[EngineRegistry]:
        """The same with the engines that are declared in the configuration of the workspace folder `root`.

        They are known there only, never registered. UsageError where the configuration cannot be read, or
        declares an engine by a name that is taken.
        """
        declared = load_environment_config(root).declared_engines()
        if not declared:
            return cls
        if taken := sorted(set(declared) & set(cls.available())):
            raise UsageError(
                f"`engines` in {root / CONFIG_DIR} declares {taken[0]}, and there is an engine of that name.",
                "Give it another name, in an editor.",
            )
        make = _protocol(PROTOCOL)
        classes = {name: make(definition, root, DECLARED) for name, definition in declared.items()}
        return type(cls.__name__, (cls,), {"declared": declared, "_declared_classes": classes})

    @classmethod
    def register(cls, name: str, adapter_class: type) -> None:
        """Add or replace an engine. TypeError naming the members of AgentAdapter it lacks."""
        missing = [member for member in _MEMBERS if not hasattr(adapter_class, member)]
        if missing:
            raise TypeError(f"{adapter_class!r} is no engine adapter: it lacks {', '.join(missing)}")
        cls._registered[name] = adapter_class
        cls._problems.pop(name, None)

    @classmethod
    def unregister(cls, name: str) -> None:
        """Take back `register`; an entry point of that name is found again. Unknown names are ignored."""
        cls._registered.pop(name, None)

    @classmethod
    def get(cls, name: str, **options: Any) -> AgentAdapter:
        """A new adapter, `options` passed to its class. ValueError when no engine has that name."""
        adapter: AgentAdapter = cls.adapter_class(name)(**options)
        return adapter

    @classmethod
    def adapter_class(cls, name: str) -> Callable[..., Any]:
        """The class behind a name, for its `capabilities` and hints. ValueError when there is none."""
        if name in cls._declared_classes:
            return cls._declared_classes[name]
        if name not in cls._registered:
            cls._load(name)
        if name in cls._registered:
            return cls._registered[name]
        if name in cls._problems:
            raise ValueError(f"The engine {name!r} does not work: {cls._problems[name]}.")
        from difflib import get_close_matches

        names = cls.available()
        near = get_close_matches(name, names, n=1)
        there = f"There are: {', '.join(names)}." if names else "There is none."
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"There is no engine {name!r}. {there}{hint}")

    @classmethod
    def same(cls, one: str, other: str) -> bool:
        """Whether two names mean one engine, whose sessions then serve both; False where one is not there."""
        if one == other:
            return True
        try:
            return (
                cls.adapter_class(one) is cls.adapter_class(other)
                and cls.get(one).name == cls.get(other).name
            )
        except ValueError:
            return False

    @classmethod
    def available(cls) -> list[str]:
        """The names of all engines that load, sorted. Imports their modules."""
        for name in (*cls._offers(), *_presets()):
            cls._load(name)
        return sorted({*cls._registered, *cls._declared_classes})

    @classmethod
    def to_suggest(cls) -> list[str]:
        """The same in the order in which to suggest them: those that are written before those declared."""
        return sorted(cls.available(), key=lambda name: bool(cls.origin(name)))

    @classmethod
    def problems(cls) -> dict[str, str]:
        """Engines a package offers but that do not work: name -> why."""
        cls.available()
        return dict(sorted(cls._problems.items()))

    @classmethod
    def check_requirements(cls, name: str, *, quick: bool = False) -> dict[str, bool]:
        """What the engine needs -> is it there: API keys in the environment, its own `requirements()`, its login.

        `quick` leaves the login out: asking starts the engine (0.6 s for one of them), and a run
        without one ends as a blocker that says what to type. ValueError when no engine has that name.
        """
        adapter_class = cls.adapter_class(name)
        keys: Mapping[str, str] = cls.get(name).requires_api_key
        checked = {key: bool(os.environ.get(key)) for key in keys}
        own = getattr(adapter_class, "requirements", None)
        checked |= own() if own is not None else {}
        logged_in = getattr(adapter_class, "logged_in", None)
        if logged_in is not None and not quick:
            checked["logged in"] = all(checked.values()) and logged_in()
        return checked

    @classmethod
    def describe(cls, name: str) -> str:
        """What the engine says of itself, in a line; empty when it says nothing."""
        capabilities = getattr(cls.adapter_class(name), "capabilities", None)
        return capabilities.description if capabilities is not None else ""

    @classmethod
    def origin(cls, name: str) -> str:
        """Where the definition of an engine comes from, in words; empty for one that is written, not declared."""
        return str(getattr(cls.adapter_class(name), "origin", ""))

    @classmethod
    def definition(cls, name: str) -> str:
        """The definition of such an engine in one line; empty for others."""
        definition = getattr(cls.adapter_class(name), "definition", None)
        return definition.shown() if definition is not None else ""

    @classmethod
    def _offers(cls) -> dict[str, EntryPoint]:
        if cls._offered is None:
            offered: dict[str, EntryPoint] = {}
            for point in entry_points(ENTRY_POINT_GROUP):
                first = offered.setdefault(point.name, point)
                if first.value != point.value:  # the same value twice is one package seen on two paths
                    cls._problems[f"{point.name} ({point.value})"] = f"{first.value} has the same name"
            EngineRegistry._offered = offered
        return EngineRegistry._offered or {}

    @classmethod
    def _load(cls, name: str) -> None:
        """Register the entry point or else the preset of this name, if there is one and it was not tried before."""
        point = cls._offers().get(name)
        if name in cls._registered or name in cls._problems or (point is None and name not in _presets()):
            return
        try:
            cls.register(name, point.load() if point else _preset(name))
        except Exception as error:  # whatever someone else's module does when imported
            what = point.value if point else f"its preset in {PRESETS}"
            cls._problems[name] = f"{what} could not be loaded ({type(error).__name__}: {error})"


@cache
def _presets() -> tuple[str, ...]:
    """The names of the engines we ship a definition of."""
    try:
        return tuple(
            sorted(file.removesuffix(".json") for file in os.listdir(PRESETS) if file.endswith(".json"))
        )
    except OSError:
        return ()


def _preset(name: str) -> type:
    import json  # and no YAML, whose import every list of the engines would pay for

    data = json.loads((PRESETS / f"{name}.json").read_text(encoding="utf-8"))
    if problem := problem_in(name, data):
        raise ValueError(f"it has to give {problem}")
    return _protocol(PROTOCOL)(EngineDefinition.of(name, data), None, PRESET)


def _protocol(name: str) -> Callable[[EngineDefinition, Path | None, str], type]:
    """What makes adapter classes of definitions. It stands above this module, and is found as adapters are."""
    for point in entry_points(PROTOCOL_GROUP):
        if point.name == name:
            make: Callable[[EngineDefinition, Path | None, str], type] = point.load()
            return make
    raise UsageError(
        f"This installation of CodeFrame lacks {PROTOCOL_GROUP}.", "Install it again: pip install codeframe"
    )


def resolve_engine(
    workspace: HasRoot, cli_engine: str | None, task_engine: str | None = None
) -> tuple[str, str]:
    """Which engine runs, and why: (name, where that was said).

    Whether there is one of that name shows in `get`. UsageError when the configuration cannot be read.
    """
    if cli_engine:
        return cli_engine, TYPED_WHY
    if task_engine:
        return task_engine, "the task's own engine"
    root = workspace.root
    if configured := load_environment_config(root).engine:
        return configured, f"{CONFIG_DIR}/ configuration"
    for document in _DOCUMENTS:
        stated = front_matter(root / document)
        for key in _KEYS:
            if isinstance(name := stated.get(key), str) and name.strip():
                return name.strip(), f"front matter of {document}"
    if named := os.environ.get(ENGINE_VARIABLE, "").strip():
        return named, ENGINE_VARIABLE
    return DEFAULT_ENGINE, DEFAULT_WHY
