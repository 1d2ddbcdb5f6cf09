"""A Python file as a look at its tests needs it: read without running it, its statements in a row, its names."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

Function = ast.FunctionDef | ast.AsyncFunctionDef
_TEST_FOLDERS = frozenset({"test", "tests", "testing"})


def is_test_file(path: str) -> bool:
    """Whether pytest or Django would look for tests in it, as long as nobody configured it otherwise."""
    name = PurePosixPath(path).name
    known = name.startswith("test_") or name.endswith("_test.py") or name in ("test.py", "tests.py")
    return known and name.endswith(".py")


def is_conftest(path: str) -> bool:
    """Whether pytest imports it before the tests beside and below it."""
    return PurePosixPath(path).name == "conftest.py"


def is_about_tests(path: str) -> bool:
    """Whether the file may hold tests, or what they are made of."""
    if not path.endswith(".py"):
        return False
    return is_test_file(path) or is_conftest(path) or bool(_TEST_FOLDERS & set(PurePosixPath(path).parts))


def parse(data: bytes | None) -> ast.Module | None:
    """The file as Python reads it, its own encoding included; None where it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data or b"")
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
        return None


def flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements with those inside `if`, `try`, `for` and the like, but what only runs as a program."""
    for node in body:
        if isinstance(node, ast.If) and "__name__" in {
            n.id for n in ast.walk(node.test) if type(n) is ast.Name
        }:
            continue
        yield node
        if isinstance(node, Function | ast.ClassDef):
            continue
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            for inner in getattr(node, field, ()):
                yield from flat([inner] if isinstance(inner, ast.stmt) else inner.body)


def bound(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a statement binds or deletes, each with the value where it is written there."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name, None
        case ast.Import() | ast.ImportFrom():
            yield from ((each.asname or each.name.partition(".")[0], None) for each in node.names)
        case ast.Assign():
            for target in node.targets:
                yield from pairs(target, node.value)
        case ast.AnnAssign() if node.value is not None:
            yield from pairs(node.target, node.value)
        case ast.AugAssign(target=ast.Name(id=name)):
            yield name, node.value
        case ast.Delete():
            yield from ((each.id, None) for each in node.targets if isinstance(each, ast.Name))
        case ast.For() | ast.AsyncFor():
            yield from pairs(node.target, None)


def pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    """What an assignment of `value` to `target` binds, unpacked where that can be read."""
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case (
            (ast.Tuple(elts=left) | ast.List(elts=left)),
            (ast.Tuple(elts=right) | ast.List(elts=right)),
        ) if len(left) == len(right) and not any(isinstance(each, ast.Starred) for each in (*left, *right)):
            for one, its in zip(left, right, strict=True):
                yield from pairs(one, its)
        case ((ast.Tuple() | ast.List() | ast.Starred()), _):
            for each in ast.walk(target):
                if isinstance(each, ast.Name):
                    yield each.id, None


def name_of(node: ast.AST | None) -> str:
    """The last name of `a.b.c`, `c` or a call of it; "" for anything else."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def names_in(node: ast.AST | None) -> set[str]:
    """All names below `node`, also the last ones of dotted names."""
    return {name for each in ast.walk(node) if (name := name_of(each))} if node is not None else set()
