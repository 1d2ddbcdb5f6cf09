"""Expressions in one form, so that what checks the same reads the same however it is written.

Names are replaced by what they stand for and literal lists are written out: loops, `all()`, parametrized cases
and helpers come out as the single conditions they examine. Nothing is run.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from codeframe.core.gates.integrity.source import flat, names_in, pairs

Env = dict[str, ast.expr]
UNKNOWN = ast.Name(id="_", ctx=ast.Load())  # what cannot be known without running
MAX_ITEMS = 200
_MAX_NODES = 400  # of the value of a name
_MAX_NUMBER = 10**9
_MUTABLE = ast.List | ast.Dict | ast.Set
_COPIES = ("list", "tuple", "set", "sorted", "reversed", "iter", "frozenset")


class _Op(NamedTuple):
    """A comparison: how it is reckoned, its contrary, and itself with the sides exchanged (None: there is none)."""

    reckon: Callable[[Any, Any], Any]
    contrary: type[ast.cmpop]
    mirrored: type[ast.cmpop] | None


_OPS: dict[type[ast.cmpop], _Op] = {
    ast.Eq: _Op(operator.eq, ast.NotEq, ast.Eq),
    ast.NotEq: _Op(operator.ne, ast.Eq, ast.NotEq),
    ast.Is: _Op(operator.eq, ast.IsNot, ast.Is),
    ast.IsNot: _Op(operator.ne, ast.Is, ast.IsNot),
    ast.Lt: _Op(operator.lt, ast.GtE, ast.Gt),
    ast.GtE: _Op(operator.ge, ast.Lt, ast.LtE),
    ast.Gt: _Op(operator.gt, ast.LtE, ast.Lt),
    ast.LtE: _Op(operator.le, ast.Gt, ast.GtE),
    ast.In: _Op(lambda one, many: one in many, ast.NotIn, None),
    ast.NotIn: _Op(lambda one, many: one not in many, ast.In, None),
}
_SUMS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def text(node: ast.AST) -> str:
    """As Python would write it."""
    try:
        return ast.unparse(node)
    except ValueError:  # a text put into an f-string that cannot hold its quotes (Python < 3.12)
        return ast.dump(node)


def is_literal(node: ast.expr) -> bool:
    """Whether it says all of itself: nothing in it has a name, but what is unknown."""
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Call | ast.Attribute))
    return all(isinstance(each, ast.Name) and each.id == UNKNOWN.id for each in names)


def fits(node: ast.expr) -> bool:
    """Whether a value is small enough to stand in place of its name: x = x + x may not grow for ever."""
    return sum(1 for _ in islice(ast.walk(node), _MAX_NODES + 1)) <= _MAX_NODES


def bindings(target: ast.expr, value: ast.expr | None) -> Env:
    """What a loop variable or parameter stands for; `UNKNOWN` where it cannot be read."""
    return {name: its if its is not None else UNKNOWN for name, its in pairs(target, value)}


class Values:
    """Reads expressions of one module; `Env` maps names to their values, in this one form. `work` counts the
    nodes that were read."""

    def __init__(self, module: ast.Module) -> None:
        self.work = 0
        self._aliases: dict[str, str] = {}
        self._modules: set[str] = set()
        for node in flat(module.body):
            if isinstance(node, ast.ImportFrom):
                self._aliases |= {each.asname or each.name: each.name for each in node.names}
            elif isinstance(node, ast.Import):
                self._modules |= {each.asname or each.name.partition(".")[0] for each in node.names}

    def put(self, node: Any, env: Mapping[str, ast.expr]) -> Any:
        """A copy of `node` with names replaced, modules left out (`calc.add` is `add`) and sums reckoned.

        The name of a list, set or dictionary stays: what is in it may have changed since.
        """
        self.work += 1
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                value = env.get(name)
                if value is None:
                    return ast.Name(id=self._aliases.get(name, name), ctx=node.ctx)
                return node if isinstance(value, _MUTABLE) else value
            case ast.Attribute(value=ast.Name(id=name)) if name in self._modules and name not in env:
                return ast.Name(id=node.attr, ctx=ast.Load())
            case ast.NamedExpr():
                return self.put(node.value, env)
            case ast.Subscript(value=ast.Name() as of, slice=ast.Constant(value=int(index))):
                row = self.items(of, env)
                if row and -len(row) <= index < len(row):
                    return row[index]
            case ast.ListComp() if (items := self.items(node, env)) is not None:
                return ast.List(elts=items, ctx=ast.Load())
            case ast.Lambda() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.ListComp():
                own = {
                    n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                }
                own |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
                env = {name: value for name, value in env.items() if name not in own}
        if not isinstance(node, ast.AST):
            return node
        copy = type(node)()
        for field, value in ast.iter_fields(node):
            many = isinstance(value, list)
            setattr(copy, field, [self.put(each, env) for each in value] if many else self.put(value, env))
        match copy:
            case ast.BinOp(ast.Constant(int(one)), op, ast.Constant(int(two))) if type(op) in _SUMS:
                if max(abs(one), abs(two)) < _MAX_NUMBER:
                    return ast.Constant(_SUMS[type(op)](one, two))
        return copy

    def items(self, node: ast.expr | None, env: Mapping[str, ast.expr]) -> list[ast.expr] | None:
        """What a loop over `node` goes through; None where that cannot be read, or is much."""
        found: Sequence[ast.expr | None] | None = None
        match node:
            case ast.Name(id=name) if name in env:
                return self.items(env[name], {})
            case ast.List() | ast.Tuple() | ast.Set():
                found = node.elts
            case ast.Dict():
                found = node.keys
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return self._written_out(node.elt, node.generators, dict(env))
            case ast.Call(func=ast.Attribute(value=of, attr=("items" | "keys" | "values") as what), args=[]):
                table = env.get(of.id) if isinstance(of, ast.Name) else of
                if isinstance(table, ast.Dict):
                    rows = [_row(*each) for each in zip(table.keys, table.values, strict=True)]
                    found = rows if what == "items" else table.keys if what == "keys" else table.values
            case ast.Call(func=ast.Name(id="range"), args=args):
                ends = [self.put(each, env) for each in args]
                numbers = [n.value for n in ends if isinstance(n, ast.Constant) and isinstance(n.value, int)]
                if len(numbers) == len(ends) < 3:
                    found = [ast.Constant(each) for each in range(*numbers)[: MAX_ITEMS + 1]]
            case ast.Call(func=ast.Name(id=name), args=args) if name == "zip" or name in _COPIES:
                lists = [self.items(each, env) for each in args]
                known = [each for each in lists if each is not None]
                if known and len(known) == len(lists):
                    found = [_row(*each) for each in zip(*known, strict=False)] if name == "zip" else known[0]
        if found is None or len(found) > MAX_ITEMS:
            return None
        whole = [each for each in found if each is not None and not isinstance(each, ast.Starred)]
        return [self.put(each, env) for each in whole] if len(whole) == len(found) else None

    def _written_out(
        self, element: ast.expr, loops: Sequence[ast.comprehension], env: Env
    ) -> list[ast.expr] | None:
        if not loops:
            return [self.put(element, env)]
        found: list[ast.expr] = []
        items = self.items(loops[0].iter, env)
        for item in items or ():
            inner = self._written_out(element, loops[1:], env | bindings(loops[0].target, item))
            if inner is None or len(found) > MAX_ITEMS:
                return None
            found += inner
        return None if items is None or loops[0].ifs else found

    def conditions(self, node: ast.expr, wanted: bool = True) -> Iterator[ast.expr]:
        """The single conditions that make up `node` (already `put`), each in its one form."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                yield from self.conditions(inner, not wanted)
            case ast.BoolOp(op=op, values=parts) if isinstance(op, ast.And) == wanted:
                for each in parts:
                    yield from self.conditions(each, wanted)
            case ast.Call(ast.Name(id=("all" | "any") as name), args=[inner]) if (name == "all") == wanted:
                items = self.items(inner, {})
                if items is None and isinstance(inner, ast.GeneratorExp):
                    every = [bindings(loop.target, None) for loop in inner.generators]
                    items = [self.put(inner.elt, {k: v for env in every for k, v in env.items()})]
                for each in items if items is not None else [inner]:
                    yield from self.conditions(each, wanted)
            case ast.Compare(left=left, ops=ops, comparators=others) if wanted and len(ops) > 1:
                for one, op, other in zip((left, *others), ops, others, strict=False):
                    yield from self.conditions(ast.Compare(one, [op], [other]))
            case ast.Compare(
                left=(ast.List() | ast.Tuple()) as one,
                ops=[ast.Eq()],
                comparators=[(ast.List() | ast.Tuple()) as other],
            ) if wanted and one.elts and len(one.elts) == len(other.elts):
                for mine, its in zip(one.elts, other.elts, strict=True):
                    yield from self.conditions(ast.Compare(mine, node.ops, [its]))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield _ordered(left, type(op) if wanted else _OPS[type(op)].contrary, right)
            case _:
                yield node if wanted else ast.UnaryOp(ast.Not(), node)


def always_true(node: ast.expr) -> bool:
    """Whether an assertion of this cannot fail, whatever the code under test does."""
    match node:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
            return bool(parts)
        case ast.JoinedStr(values=pieces):
            return any(isinstance(each, ast.Constant) for each in pieces)
        case ast.Lambda() | ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.Name(id="object")]):
            return True
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return always_false(inner)
        case ast.BoolOp(op=op, values=values):
            return (any if isinstance(op, ast.Or) else all)(always_true(each) for each in values)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            if is_literal(left) and is_literal(right):
                return _reckoned(node) is True
            same = text(left) == text(right) and UNKNOWN.id not in names_in(left)
            return same and isinstance(op, ast.Eq | ast.Is | ast.LtE | ast.GtE)
    return False


def always_false(node: ast.expr) -> bool:
    """Whether this can never be so."""
    match node:
        case ast.Constant(value=value):
            return not value
        case ast.Tuple(elts=[]) | ast.List(elts=[]):
            return True
    return isinstance(node, ast.Compare) and is_literal(node) and _reckoned(node) is False


def _reckoned(node: ast.Compare) -> bool | None:
    try:
        one, two = ast.literal_eval(node.left), ast.literal_eval(node.comparators[0])
        return bool(_OPS[type(node.ops[0])].reckon(one, two)) if len(node.ops) == 1 else None
    except (ValueError, TypeError):
        return None


def _row(*parts: ast.expr | None) -> ast.expr | None:
    whole = [each for each in parts if each is not None]
    return ast.Tuple(elts=whole, ctx=ast.Load()) if len(whole) == len(parts) else None


def _ordered(left: ast.expr, op: type[ast.cmpop], right: ast.expr) -> ast.expr:
    """What is examined on the left, what is expected on the right."""
    mirrored = _OPS[op].mirrored
    swap = is_literal(left) > is_literal(right) or (
        mirrored is op and is_literal(left) == is_literal(right) and text(right) < text(left)
    )
    if mirrored is not None and swap:
        left, op, right = right, mirrored, left
    return ast.Compare(left=left, ops=[op()], comparators=[right])
