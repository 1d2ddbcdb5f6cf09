"""Which engines there are, and which one runs a task (rules 2.2, 3.3, 3.4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Protocol

from codeframe.core.agent_adapter import AgentAdapter
from codeframe.core.config import CONFIG_DIR, front_matter, load_environment_config
from codeframe.core.entry_points import EntryPoint, entry_points

DEFAULT_ENGINE = "built-in"
TYPED_WHY, DEFAULT_WHY = "--engine", "the default"
ENTRY_POINT_GROUP = "codeframe.engines"
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
    """All engines by name: registered ones, and those packages offer as entry points. Class-level only.

    Entry points are looked up once and loaded one by one when asked for; one that does not load, or is
    no adapter, is as if it were not there and is explained by `problems()`.
    """

    _registered: ClassVar[dict[str, type]] = {}
    _offered: ClassVar[dict[str, EntryPoint] | None] = None
    _problems: ClassVar[dict[str, str]] = {}

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
        if name not in cls._registered:
            cls._load(name)
        if name in cls._registered:
            return cls._registered[name]
        if name in cls._problems:
            raise ValueError(f"The engine {name!r} does not work: {cls._problems[name]}.")
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
        for name in cls._offers():
            cls._load(name)
        return sorted(cls._registered)

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
    def _offers(cls) -> dict[str, EntryPoint]:
        if cls._offered is None:
            offered: dict[str, EntryPoint] = {}
            for point in entry_points(ENTRY_POINT_GROUP):
                first = offered.setdefault(point.name, point)
                if first.value != point.value:  # the same value twice is one package seen on two paths
                    cls._problems[f"{point.name} ({point.value})"] = f"{first.value} has the same name"
            cls._offered = offered
        return cls._offered

    @classmethod
    def _load(cls, name: str) -> None:
        """Register the entry point of this name, if there is one and it was not tried before."""
        point = cls._offers().get(name)
        if point is None or name in cls._registered or name in cls._problems:
            return
        try:
            cls.register(name, point.load())
        except Exception as error:  # whatever someone else's module does when imported
            cls._problems[name] = f"{point.value} could not be loaded ({type(error).__name__}: {error})"


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
