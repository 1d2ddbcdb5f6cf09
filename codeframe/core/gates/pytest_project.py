"""What pytest would import in a project: its settings, the project's packages, where they come from."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from codeframe.core.gates.project import Probe
from codeframe.core.gates.signs import read, read_toml

# Top-level folders that are no package of the project although they may hold an __init__.py.
_NOT_PACKAGES = frozenset({"test", "tests", "doc", "docs", "examples", "scripts", "bench", "benchmarks"})


def configuration(root: Path) -> tuple[str, dict[str, Any]] | None:
    """Which file at `root` configures pytest and what its section holds; None where no file does."""
    import configparser

    for name, section in (
        ("pytest.ini", "pytest"),
        (".pytest.ini", "pytest"),
        ("tox.ini", "pytest"),
        ("setup.cfg", "tool:pytest"),
    ):
        parser = configparser.RawConfigParser(strict=False)
        with contextlib.suppress(configparser.Error):
            parser.read_string(read(root / name))
        if parser.has_section(section):
            return name, dict(parser[section])
        if name.endswith("pytest.ini") and (root / name).is_file():
            return name, {}  # the file alone counts, even empty
    for name in ("pytest.toml", ".pytest.toml", "pyproject.toml"):
        data = read_toml(root / name)
        found = data.get("pytest")
        if name == "pyproject.toml":
            tools = data.get("tool")
            found = tools.get("pytest") if isinstance(tools, dict) else None
        elif found is None and (root / name).is_file():
            found = {}
        if isinstance(found, dict):
            inner = found.get("ini_options", found)
            return name, inner if isinstance(inner, dict) else {}
    return None


def python_path(root: Path) -> tuple[str, ...]:
    """The folders pytest's `pythonpath` option puts in front of the search path."""
    _, options = configuration(root) or ("", {})
    value = options.get("pythonpath", ())
    return tuple(value.split() if isinstance(value, str) else map(str, value))


def puts_root_first(root: Path) -> bool:
    """Whether a bare `pytest` imports from the root, as `python -m pytest` always does (pytest's
    manual, "prepend" import mode: the first folder above a test file without an __init__.py)."""
    return (root / "conftest.py").exists() or (root / "tests" / "__init__.py").exists()


def own_packages(root: Path) -> tuple[str, ...]:
    """Names of the project's own top-level packages, in the flat and in the src layout."""
    flat = (p.parent.name for p in root.glob("*/__init__.py"))
    in_src = [
        *(p.parent.name for p in root.glob("src/*/__init__.py")),
        *(p.stem for p in root.glob("src/*.py")),
    ]
    return tuple(sorted({n for n in (*flat, *in_src) if n.isidentifier() and n not in _NOT_PACKAGES}))


def foreign_package(probe: Probe, packages: tuple[str, ...], root: Path) -> tuple[str, str] | None:
    """The first package that would come from outside this tree, or from a copy
    in the venv inside it, and the folder it comes from (rule 6.2)."""
    inside, prefix = root.resolve(), probe.prefix.resolve()
    for name in packages:
        if not (where := probe.modules[name]):
            continue
        real = (inside / where).resolve()
        copied = prefix.is_relative_to(inside) and prefix != inside and real.is_relative_to(prefix)
        if copied or not real.is_relative_to(inside):
            return name, str(real.parent)
    return None
