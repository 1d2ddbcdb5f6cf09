"""The shape of the house: no import circles, no terminal library in the domain, engines named only at home."""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "codeframe"
# Where an engine may be named: its own adapter (rule 2.1). The default engine is one constant.
ADAPTERS = {
    "claude-code": {"claude_code.py"},
    "claude_code": {"claude_code.py"},
    "built-in": {"builtin.py", "engine_registry.py"},  # the latter for the constant
    "react": {"builtin.py"},
    "aider": set(),  # a preset: data, and no code at all
    "opencode": {"opencode.py", "opencode_setup.py", "opencode_stream.py", "kilocode.py"},
    "kilocode": {"kilocode.py"},
    "kilo": {"kilocode.py"},
}


DATA = {("demo", "project"), ("demo", "answers")}  # folders of files that are copied, never imported


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[1:3] in DATA:
            continue
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path
    return found


def imports_of(path: Path, known: set[str]) -> set[str]:
    """Every module of ours that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in names]
        else:
            continue
        found.update(name for name in names if name in known)
    return found


def test_no_two_files_import_each_other_at_any_depth() -> None:
    known = modules()
    graph = {name: imports_of(path, set(known)) - {name} for name, path in known.items()}
    assert len(graph) > 30
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_the_circle_check_can_fail(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    import b\n")
    (tmp_path / "b.py").write_text("from a import f\n")
    graph = {name: imports_of(tmp_path / f"{name}.py", {"a", "b"}) for name in ("a", "b")}
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("name", sorted(modules()))
def test_an_engine_is_named_only_in_its_own_adapter(name: str) -> None:
    path = modules()[name]
    text = path.read_text(encoding="utf-8").lower()
    for engine, homes in ADAPTERS.items():
        if path.name not in homes and not (path.name == "__init__.py" and path.parent.name == "adapters"):
            assert not re.search(rf"\b{engine}\b", text), f"{path.relative_to(ROOT)} names {engine}"


def test_the_registry_names_an_engine_in_one_constant_only() -> None:
    text = modules()["codeframe.core.engine_registry"].read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if "built-in" in line] == ['DEFAULT_ENGINE = "built-in"']


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_file_says_its_idea_first_and_stays_small(name: str) -> None:
    path = modules()[name]
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), f"{path.relative_to(ROOT)} has no docstring"
    assert text.count("\n") <= 420, f"{path.relative_to(ROOT)} is {text.count(chr(10))} lines long"
