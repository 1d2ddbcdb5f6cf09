"""Code that reaches every test without being called by one: what a conftest.py or test file runs when it is
imported, hooks, autouse fixtures, and modules in place of the tools' own (rule 6.5)."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from codeframe.core.gates.integrity.finding import SETTING, Finding, Pair, short
from codeframe.core.gates.integrity.source import bound, flat, is_conftest, is_test_file, names_in, parse

_SHADOWED = frozenset(
    {"pytest", "_pytest", "pluggy", "iniconfig", "xdist", "pytest_cov", "sitecustomize", "usercustomize"}
    | {"ruff", "mypy", "coverage", "flake8", "pylint", "unittest", "doctest"}
)
_SPECIAL = re.compile(r"pytest_\w+|collect_ignore(_glob)?|__test__")
# Calls that change what other names mean.
_DYNAMIC = frozenset(
    {"globals", "locals", "vars", "exec", "eval", "setattr", "delattr", "__import__", "__setattr__"}
    | {"__setitem__", "patch", "start", "register"}
)


def looks_at(path: str) -> bool:
    """Whether code in this file may reach tests that do not ask for it."""
    return is_conftest(path) or is_test_file(path) or _shadows(path)


def findings(pairs: Sequence[Pair]) -> list[Finding]:
    """What of it was added, changed or removed; in a test file what was added or changed."""
    found = []
    for pair in pairs:
        if _shadows(pair.path):
            how = "added" if pair.before is None else "changed"
            if pair.after is not None:
                words = f"{how}: Python imports it in place of the module of that name"
                found.append(Finding(SETTING, pair.path, 0, words))
        if not (is_conftest(pair.path) or is_test_file(pair.path)):
            continue
        was, now = (parse(data) for data in (pair.before, pair.after))
        if was is None or now is None:
            continue  # told with the tests
        before, after = (dict(_reach(each, pair.path)) for each in (was, now))
        for label in sorted(before.keys() | after.keys()):
            old, new = before.get(label), after.get(label)
            if new is None:
                if is_conftest(pair.path):
                    found.append(Finding(SETTING, pair.path, 0, f"{label} removed"))
            elif old is None or ast.dump(old) != ast.dump(new):
                how = "added" if old is None else "changed"
                found.append(Finding(SETTING, pair.path, new.lineno, f"{label} {how}"))
    return found


def _shadows(path: str) -> bool:
    where = PurePosixPath(path)
    if where.suffix != ".py":
        return False
    name = where.parent.name if where.name == "__init__.py" else where.stem
    standard = len(where.parts) == 1 and name in sys.stdlib_module_names and name not in ("test", "__main__")
    return name in _SHADOWED or standard


def _reach(tree: ast.Module, path: str) -> Iterator[tuple[str, ast.stmt]]:
    """(words for people, statement). Ordinary are functions, classes, constants, imports and plain fixtures."""
    conftest = is_conftest(path)
    for node in flat(tree.body):
        special = [name for name, _ in bound(node) if _SPECIAL.fullmatch(name)] if conftest else []
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if any(_autouse(d) for d in node.decorator_list):
                yield f"fixture {node.name} (autouse)", node
            case ast.ImportFrom() if node.names[0].name == "*":
                yield f"names of {node.module or '.'}, whatever they are,", node
            case _ if special:
                yield from ((name if name.startswith("coll") else f"hook {name}", node) for name in special)
            case (
                ast.Expr(value=ast.Constant())
                | ast.Pass()
                | ast.Import()
                | ast.ImportFrom()
                | ast.If()
                | ast.Try()
            ):
                pass
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.With() | ast.Raise():
                pass
            case ast.Delete() if all(isinstance(each, ast.Name) for each in node.targets):
                pass
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() if not _far(node):
                pass
            case _:
                yield f"code that runs at import ({short(ast.unparse(node).partition(chr(10))[0])})", node


def _far(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> bool:
    """Whether an assignment changes more than a name of its own module."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    deep = any(isinstance(n, ast.Attribute | ast.Subscript) for t in targets for n in ast.walk(t))
    calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
    return deep or any(_DYNAMIC & names_in(func) for func in calls)


def _autouse(decorator: ast.expr) -> bool:
    return any(
        isinstance(n, ast.keyword)
        and n.arg == "autouse"
        and not (isinstance(n.value, ast.Constant) and not n.value.value)
        for n in ast.walk(decorator)
    )
