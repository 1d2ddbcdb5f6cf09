"""The tests in a Python file: which functions pytest would run as it stands, how often, and what precedes them."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import product
from typing import NamedTuple

from codeframe.core.gates.integrity.checks import SKIPS
from codeframe.core.gates.integrity.source import Function, bound, flat, is_test_file, name_of, names_in
from codeframe.core.gates.integrity.values import MAX_ITEMS, UNKNOWN, Env, Values, bindings, fits

_SETUP = frozenset(
    {"setUpModule", "setup_module", "setUpClass", "setup_class"}
    | {"setUp", "setup", "setup_method", "setup_function"}
)


class Test(NamedTuple):
    """One function of a file. `collected`: pytest would run it. `decorators` are also those of its classes and the
    module; `shape` is the same for the same body under any name."""

    path: str
    name: str
    function: Function
    collected: bool
    decorators: tuple[ast.expr, ...]
    shape: str

    @property
    def last(self) -> str:
        """The function's own name."""
        return self.function.name

    @property
    def around(self) -> str:
        """The class it is in, "" for none."""
        return self.name.rpartition("::")[0]

    @property
    def id(self) -> str:
        """As pytest writes it, without parameters."""
        return f"{self.path}::{self.name}"


class Module:
    """One file: its functions by name (`TestA::test_b`), what its names stand for, which of them were `imported`
    and in which line the others were made, and its context managers that may let no failure out."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path = path
        self.values = Values(tree)
        self.functions: dict[str, Test] = {}
        self.constants: Env = {}
        self.imported: set[str] = set()
        self.made: dict[str, int] = {}
        self.swallowing = frozenset(
            each.name for each in tree.body if isinstance(each, Function | ast.ClassDef) and _swallows(each)
        )
        times = Counter(name for node in flat(tree.body) for name, _ in bound(node))
        for node in flat(tree.body):
            if isinstance(node, ast.ImportFrom | ast.Import):
                self.imported |= {name for name, _ in bound(node)}
                continue
            for name, value in bound(node):
                self.made[name] = node.lineno
                if value is not None and times[name] == 1 and fits(put := self._put(value)):
                    self.constants[name] = put
        self._collect(tree.body, "", is_test_file(path), ())

    def cases(self, test: Test) -> list[Env]:
        """What parametrize puts for the names of a test, each time it runs."""
        every: list[list[Env]] = []
        for each in test.decorators:
            if not (isinstance(each, ast.Call) and name_of(each) == "parametrize"):
                continue
            given = {k.arg: k.value for k in each.keywords}
            given |= dict(zip(("argnames", "argvalues"), each.args, strict=False))
            names = _names(given.get("argnames"))
            rows = self.values.items(given.get("argvalues"), self.constants)
            values = [None] if rows is None else [row for row in map(_row, rows) if row is not None]
            every.append([bindings(names, value) for value in values])
        if math.prod(map(len, every)) > MAX_ITEMS:
            every = [[dict.fromkeys(envs[0], UNKNOWN)] for envs in every]
        return [{name: value for env in envs for name, value in env.items()} for envs in product(*every)]

    def before(self, test: Test) -> list[Function]:
        """Fixtures and set-up functions of the same file that run before a test."""
        asked: set[object] = {n.arg for n in ast.walk(test.function.args) if isinstance(n, ast.arg)}
        uses = [each for each in test.decorators if name_of(each) == "usefixtures"]
        asked |= {n.value for each in uses for n in ast.walk(each) if isinstance(n, ast.Constant)}
        found = []
        for other, fixture, auto in self._preparing if test.collected else ():
            wanted = not fixture or auto or other.last in asked
            if wanted and other.around in ("", test.around):
                found.append(other.function)
        return found

    @cached_property
    def _preparing(self) -> list[tuple[Test, bool, bool]]:
        """(function, whether it is a fixture, whether that is an autouse one)."""
        found = []
        for each in self.functions.values():
            marks = [ast.dump(mark) for mark in each.decorators if name_of(mark) == "fixture"]
            if marks or each.last in _SETUP:
                found.append((each, bool(marks), any("autouse" in mark for mark in marks)))
        return found

    def _put(self, node: ast.expr) -> ast.expr:
        put: ast.expr = self.values.put(node, self.constants)
        return put

    def _collect(
        self, body: Iterable[ast.stmt], prefix: str, collected: bool, around: tuple[ast.expr, ...]
    ) -> None:
        statements = list(flat(body))
        for node in statements:
            marked = False
            for name, value in bound(node):
                if name == "pytestmark" and value is not None:
                    put, marked = self._put(value), True
                    around = (*around, *(put.elts if isinstance(put, ast.List | ast.Tuple) else [put]))
                elif name == "__test__" and not (isinstance(value, ast.Constant) and value.value):
                    collected = False
            if isinstance(node, ast.Expr | ast.Assign | ast.Raise) and not marked:
                around = (*around, *_skips(self.values.put(node, {})))
        for node in statements:
            if isinstance(node, Function):
                name = prefix + node.name
                yields = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node))
                runs = collected and node.name.startswith("test") and not yields
                shape = "\n".join(ast.dump(each) for each in node.body if not says_nothing(each))
                decorators = (*around, *map(self._put, node.decorator_list))
                self.functions[name] = Test(self.path, name, node, runs, decorators, shape)
            elif isinstance(node, ast.ClassDef):
                name = f"{prefix}{node.name}::"
                for earlier in [key for key in self.functions if key.startswith(name)]:
                    del self.functions[earlier]  # a second class of that name hides the first
                inner = {each for statement in flat(node.body) for each, _ in bound(statement)}
                made = bool({"__init__", "__new__"} & inner)
                runs = collected and not made and (node.name.startswith("Test") or bool(node.bases))
                self._collect(node.body, name, runs, (*around, *map(self._put, node.decorator_list)))
            else:  # another value under its name, or none: what was defined there is not run
                for other, _ in bound(node):
                    if (old := self.functions.get(prefix + other)) is not None:
                        self.functions[old.name] = old._replace(collected=False)


def says_nothing(node: ast.stmt) -> bool:
    """Whether it is `pass`, `...` or a text."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _skips(node: ast.AST) -> Iterator[ast.expr]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Call) and name_of(n) in SKIPS)


def _names(node: ast.expr | None) -> ast.expr:
    """The names of a parametrize as the target of an assignment."""
    listed = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    said = [each.value for each in listed if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    names = [name.strip() for each in said for name in each.split(",") if name.strip()]
    targets: list[ast.expr] = [ast.Name(id=each, ctx=ast.Store()) for each in names]
    alone = len(targets) == 1 and isinstance(node, ast.Constant)
    return targets[0] if alone else ast.Tuple(elts=targets, ctx=ast.Store())


def _row(node: ast.expr) -> ast.expr | None:
    """The values of one case; None for one that is marked to be skipped."""
    if not (isinstance(node, ast.Call) and name_of(node) == "param"):
        return node
    if any(names_in(each.value) & SKIPS for each in node.keywords if each.arg == "marks"):
        return None
    return node.args[0] if len(node.args) == 1 else ast.Tuple(elts=node.args, ctx=ast.Load())


def _swallows(node: Function | ast.ClassDef) -> bool:
    """Whether it is a context manager that may keep an exception to itself."""
    if isinstance(node, ast.ClassDef):
        exits = [n for n in node.body if isinstance(n, Function) and n.name in ("__exit__", "__aexit__")]
        said = [n.value for each in exits for n in ast.walk(each) if isinstance(n, ast.Return)]
        return any(v is not None and not (isinstance(v, ast.Constant) and not v.value) for v in said)
    if not any("contextmanager" in name_of(each) for each in node.decorator_list):
        return False
    nodes = list(ast.walk(node))
    catches = any(isinstance(each, ast.Try) and each.handlers for each in nodes)
    return catches and not any(isinstance(each, ast.Raise) for each in nodes)
