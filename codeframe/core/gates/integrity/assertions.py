"""How much a Python test checks: its assertions that can fail, counted over its cases, by `ast`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef

# Markers, decorators and calls that keep a test from deciding anything.
SKIPS = frozenset(
    {
        "skip",
        "skipif",
        "skipIf",
        "skipUnless",
        "skipTest",
        "xfail",
        "expectedFailure",
        "importorskip",
        "flaky",
    }
)
_RAISES = re.compile(r"raises|warns|deprecated_call|assertRaises(Regex)?|assertWarns(Regex)?|assertLogs")
_ASSERTING = re.compile(r"_*(assert|expect|should|verify|ensure|check)|fail$", re.IGNORECASE)
_ANYTHING = frozenset({"Exception", "BaseException"})
_SWALLOWS = _ANYTHING | {"AssertionError"}
_MAX_WEIGHT = 10_000


@dataclass
class Strength:
    """What one function checks.

    `checks` counts assertions that can fail, `raises` those of them that want a certain exception; `lost`
    says why others cannot fail; `skips` counts what keeps the test from deciding.
    """

    checks: int = 0
    raises: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)

    def add(self, other: Strength, times: int = 1) -> None:
        """Count another function's as one's own, so many `times`."""
        self.checks += other.checks * times
        self.raises += other.raises * times
        self.lost.update(other.lost)
        self.skips.update(other.skips)


def name_of(node: ast.AST | None) -> str:
    """The last name of `a.b.c`, `c` or a call of it; "" for anything else."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def without_docstring(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements without those that do nothing: texts, `...` and `pass`."""
    return [
        statement
        for statement in body
        if not isinstance(statement, ast.Pass)
        and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]


def does_nothing(function: Function) -> bool:
    """Whether nothing of the function can fail: empty, or returns, or asserts what is always so."""
    for statement in without_docstring(function.body):
        if isinstance(statement, ast.Return) and not any(
            isinstance(n, ast.Call) for n in ast.walk(statement)
        ):
            return True
        if not (isinstance(statement, ast.Assert) and always_true(statement.test)):
            return False
    return True


def always_true(node: ast.expr) -> bool:
    """Whether an assertion of this cannot fail, whatever the code under test does."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return bool(node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return isinstance(node.operand, ast.Constant) and not node.operand.value
    if isinstance(node, ast.BoolOp):
        some_or_all = any if isinstance(node.op, ast.Or) else all
        return some_or_all(always_true(value) for value in node.values)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.Is):
        return ast.dump(node.left) == ast.dump(node.comparators[0])
    return False


def length(node: ast.expr | None, constants: Mapping[str, ast.expr]) -> int | None:
    """How many items a written-out list has, also by the name of a constant of the module; None: not known."""
    if isinstance(node, ast.Name):
        node = constants.get(node.id)
    if not isinstance(node, ast.List | ast.Tuple | ast.Set) or any(
        isinstance(each, ast.Starred) for each in node.elts
    ):
        return None
    return sum(not (isinstance(each, ast.Call) and _skipped_case(each)) for each in node.elts)


def _skipped_case(call: ast.Call) -> bool:
    marks = [keyword.value for keyword in call.keywords if keyword.arg == "marks"]
    return any(name_of(node) in SKIPS for mark in marks for node in ast.walk(mark))


def cases(decorators: Iterable[ast.expr], constants: Mapping[str, ast.expr]) -> int | None:
    """How often `parametrize` runs a test; None where that cannot be read."""
    product: int | None = 1
    for decorator in decorators:
        if not (isinstance(decorator, ast.Call) and name_of(decorator) == "parametrize"):
            continue
        values = [k.value for k in decorator.keywords if k.arg == "argvalues"]
        values += decorator.args[1:2]
        count = length(values[0], constants) if values else None
        product = None if count is None or product is None else product * count
    return product


class Measure:
    """Measures functions of one file. `helper` gives what a function that tests call checks, None for none of
    that name; `constants` are the lists of the module."""

    def __init__(self, helper: Callable[[str], Strength | None], constants: Mapping[str, ast.expr]) -> None:
        self._helper = helper
        self._constants = constants
        self._nested: frozenset[str] = frozenset()

    def of(self, function: Function) -> Strength:
        """What `function` checks, with the helpers it calls."""
        strength = Strength()
        inner = (n for n in ast.walk(function) if isinstance(n, Function) and n is not function)
        self._nested = frozenset(node.name for node in inner)  # counted where they stand
        self._walk(function.body, strength, 1, "")
        return strength

    def _walk(self, body: Iterable[ast.stmt], to: Strength, weight: int, void: str) -> None:
        for statement in body:
            self._statement(statement, to, weight, void)
            if isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break):
                void = void or f"after {type(statement).__name__.lower()}"

    def _count(self, to: Strength, weight: int, void: str, *, raises: bool = False) -> None:
        if void:
            to.lost[void] += 1
        else:
            to.checks += weight
            to.raises += weight if raises else 0

    def _statement(self, node: ast.stmt, to: Strength, weight: int, void: str) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._walk(node.body, to, weight, void)
            case ast.Assert():
                self._count(to, weight, void or ("always true" if always_true(node.test) else ""))
            case ast.Raise():
                if name_of(node.exc) == "AssertionError":
                    self._count(to, weight, void)
                else:
                    self._calls(node, to, weight, void)
            case ast.With() | ast.AsyncWith():
                inner = void
                for item in node.items:
                    self._calls(item.context_expr, to, weight, void)
                    if name_of(item.context_expr) == "suppress" and _named(item.context_expr) & _SWALLOWS:
                        inner = inner or "swallowed"
                self._walk(node.body, to, weight, inner)
            case ast.Try() | ast.TryStar():
                swallowed = any(map(_swallows, node.handlers))
                self._walk(node.body, to, weight, void or ("swallowed" if swallowed else ""))
                for handler in node.handlers:
                    self._walk(handler.body, to, weight, void)
                self._walk((*node.orelse, *node.finalbody), to, weight, void)
            case ast.If() | ast.While():
                self._calls(node.test, to, weight, void)
                known = node.test.value if isinstance(node.test, ast.Constant) else None
                never = "never run"
                constant = isinstance(node.test, ast.Constant)
                self._walk(node.body, to, weight, void or (never if constant and not known else ""))
                self._walk(node.orelse, to, weight, void or (never if constant and known else ""))
            case ast.For() | ast.AsyncFor():
                self._calls(node.iter, to, weight, void)
                count = length(node.iter, self._constants)
                times = min(weight * (1 if count is None else count), _MAX_WEIGHT)
                self._walk(node.body, to, times, void or ("never run" if times == 0 else ""))
                self._walk(node.orelse, to, weight, void)
            case ast.Match():
                self._calls(node.subject, to, weight, void)
                for one in node.cases:
                    self._walk(one.body, to, weight, void)
            case _:
                self._calls(node, to, weight, void)

    def _calls(self, node: ast.AST, to: Strength, weight: int, void: str) -> None:
        for call in ast.walk(node):
            if isinstance(call, ast.Call):
                self._call(call, to, weight, void)

    def _call(self, call: ast.Call, to: Strength, weight: int, void: str) -> None:
        name = name_of(call)
        plain = isinstance(call.func, ast.Name) or (
            isinstance(call.func, ast.Attribute) and name_of(call.func.value) in ("self", "cls")
        )
        helper = self._helper(name) if plain and name not in self._nested else None
        if name in SKIPS:
            to.skips[name] += 1
        elif helper is not None:
            if not void:
                to.add(helper, weight)
            elif helper.checks:
                to.lost[void] += 1
        elif _RAISES.fullmatch(name):
            certain = not (call.args and name_of(call.args[0]) in _ANYTHING)
            self._count(to, weight, void, raises=certain)
        elif _ASSERTING.match(name) and not (plain and name in self._nested):
            self._count(to, weight, void or ("always true" if _trivial(name, call.args) else ""))


def _trivial(name: str, args: Sequence[ast.expr]) -> bool:
    if name in ("assertTrue", "assert_", "assertIsNotNone") and args:
        return always_true(args[0])
    if name == "assertFalse" and args:
        return isinstance(args[0], ast.Constant) and not args[0].value
    return name in ("assertEqual", "assertIs") and len(args) > 1 and ast.dump(args[0]) == ast.dump(args[1])


def _named(node: ast.AST) -> set[str]:
    return set(_names(node))


def _names(node: ast.AST) -> Iterator[str]:
    return (name for each in ast.walk(node) if (name := name_of(each)))


def _swallows(handler: ast.ExceptHandler) -> bool:
    """Whether a failed assertion ends here, unseen."""
    if handler.type is not None and not _named(handler.type) & _SWALLOWS:
        return False
    inside = [node for statement in handler.body for node in ast.walk(statement)]
    return not any(
        isinstance(node, ast.Raise | ast.Assert)
        or (isinstance(node, ast.Call) and (name_of(node) in SKIPS or bool(_ASSERTING.match(name_of(node)))))
        for node in inside
    )
