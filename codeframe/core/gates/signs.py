"""Where a project says that it uses a tool: configuration, dependencies, pre-commit, environment (rule 6.1)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codeframe.core.gates.project import ENVIRONMENTS, up_to_top
from codeframe.core.safe_read import Unreadable, read_text_inside

_MAX_BYTES = 4 * 1024 * 1024
_PRE_COMMIT = (".pre-commit-config.yaml", ".pre-commit-config.yml")
# Files that name one tool or requirement at the beginning of a line.
_LISTS = ("requirements*.txt", "*requirements.txt", "requirements/*.txt", "Pipfile", "setup.cfg", "tox.ini")


def sign_of(root: Path, tool: str, configuration: tuple[str, ...] = ()) -> str:
    """In words, where the project at `root` or a folder above it in its repository asks for `tool`; "" where
    nothing does.

    `configuration` are names of the tool's own files. Nothing of the project is run (rule 9.1).
    """
    return next(
        (sign for folder in up_to_top(root) for sign in _signs(folder, root, tool, configuration)), ""
    )


def read(path: Path) -> str:
    """The text of a file of the project, "" when it is not there or not fit to be read."""
    try:
        return read_text_inside(path.parent.resolve(), path, _MAX_BYTES)
    except Unreadable:
        return ""


def read_toml(path: Path) -> dict[str, Any]:
    """The same as TOML; {} when it is none."""
    import tomllib

    try:
        return tomllib.loads(read(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _signs(folder: Path, root: Path, tool: str, configuration: tuple[str, ...]) -> Iterator[str]:
    def here(name: str | Path) -> str:
        return os.path.relpath(folder / name, root)

    yield from (here(name) for name in configuration if (folder / name).is_file())
    pyproject = read_toml(folder / "pyproject.toml")
    tools = pyproject.get("tool")
    if isinstance(tools, dict) and tool in tools:
        yield f"[tool.{tool}] in {here('pyproject.toml')}"
    if tool in _required(pyproject):
        yield f"a dependency in {here('pyproject.toml')}"
    first_word = re.compile(rf"^[ \t]*{tool}(?![\w-])", re.MULTILINE)
    for path in sorted(path for pattern in _LISTS for path in folder.glob(pattern)):
        if first_word.search(read(path)):
            yield here(path)
    hook = re.compile(rf"^[ \t-]*id:[ \t]*['\"]?{tool}(?:-check)?['\"]?[ \t]*(?:#.*)?$", re.MULTILINE)
    yield from (here(name) for name in _PRE_COMMIT if hook.search(read(folder / name)))
    for name in ENVIRONMENTS:
        if os.access(folder / name / "bin" / tool, os.X_OK):
            yield f"installed in {here(name)}"


def _required(value: Any, inside: bool = False) -> set[str]:
    """Names in all tables and lists of a pyproject.toml that are called dependencies, of whatever tool."""
    if isinstance(value, dict):
        names = {str(key).lower() for key in value} if inside else set()
        return names.union(*(_required(v, inside or "dependenc" in str(k)) for k, v in value.items()))
    if isinstance(value, list) and inside:
        return set().union(*(_required(item, inside) for item in value))
    word = re.match(r"[A-Za-z0-9][\w.-]*", value) if inside and isinstance(value, str) else None
    return {word[0].lower()} if word else set()
