"""What a test checks: conditions that can fail, exceptions that have to come, and what keeps it from deciding."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from codeframe.core.gates.integrity.source import name_of, names_in
from codeframe.core.gates.integrity.values import Env, Values, always_true, is_literal, text

# Markers, decorators and calls that keep a test from deciding anything.
SKIPS = frozenset(
    {"skip", "skipif", "skipIf", "skipUnless", "skipTest", "SkipTest"}
    | {"xfail", "expectedFailure", "importorskip", "flaky"}
)
RAISES = re.compile(r"raises|warns|deprecated_call|assertRaises(Regex)?|assertWarns(Regex)?|assert(No)?Logs")
ASSERTING = re.compile(r"_*(assert|expect|should|verify|ensure|check)", re.IGNORECASE)
_STRING = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_LITERALS = re.compile(rf"{_STRING}|\b\d[\w.]*|\b(?:True|False|None)\b")
_NAMES = re.compile(rf"({_STRING})|[^\W\d]\w*")

CAUGHT = frozenset({"AssertionError", "Exception", "BaseException"})  # what a failed assertion is
_COMPARED = {
    **dict.fromkeys(("assertEqual", "assertEquals", "assertListEqual", "assertDictEqual"), ast.Eq),
    **dict.fromkeys(("assertTupleEqual", "assertSetEqual", "assertMultiLineEqual"), ast.Eq),
    "assertNotEqual": ast.NotEq, "assertIs": ast.Is, "assertIsNot": ast.IsNot, "assertIn": ast.In,
    "assertNotIn": ast.NotIn, "assertLess": ast.Lt, "assertLessEqual": ast.LtE,
    "assertGreater": ast.Gt, "assertGreaterEqual": ast.GtE,
}  # fmt: skip


@dataclass(frozen=True)
class At:
    """Where a statement stands: what names stand for, why nothing there can fail ("" where it can), the conditions
    it is `under`, the outermost helper it is in (`via`), and all it is inside of."""

    env: Env
    void: str = ""
    under: tuple[ast.expr, ...] = ()
    via: str = ""
    inside: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Check:
    """One of them as text. `raw` is the assertion as written, `about` what it examines, `node` all of it,
    `only_if` the conditions it stands under, `via` the helper it is in."""

    text: str
    raw: str
    about: frozenset[str]
    node: ast.AST
    only_if: frozenset[str]
    via: str

    @cached_property
    def parts(self) -> frozenset[str]:
        """The texts of all that is in it."""
        inner = (each for each in ast.walk(self.node) if isinstance(each, ast.expr))
        return self.about.union(map(text, inner))

    @cached_property
    def shape(self) -> str:
        """The same for the same check with other literals."""
        return _LITERALS.sub("_", self.text)

    @cached_property
    def form(self) -> str:
        """The same for the same check of something that got another name."""
        return _NAMES.sub(lambda match: match[1] or "_", self.text)


@dataclass
class Checked:
    """What one test checks: `live` ones by their text, why others are `void`, what `skips` it, and what makes it
    `unclear`."""

    live: dict[str, Check] = field(default_factory=dict)
    void: dict[str, str] = field(default_factory=dict)
    skips: set[str] = field(default_factory=set)
    unclear: set[str] = field(default_factory=set)

    def condition(self, node: ast.expr, at: At, raw: str) -> None:
        """Take in a single condition, in its one form."""
        self._add(text(node), raw, _about(node), node, at, "always true" if always_true(node) else "")

    def exception(self, call: ast.Call, done: str, at: At, void: str = "") -> None:
        """Take in an exception, warning or log that has to come of what is `done`."""
        shown = f"{text(call)}: {done}"
        self._add(shown, shown, frozenset({done}), call, at, void)

    def failure(self, values: Values, at: At) -> None:
        """Take in a call of `fail()`: `if not x: fail()` is `assert x`."""
        for each in values.conditions(at.under[-1], False) if at.under else [ast.Constant(False)]:
            self._add(text(each), "fail", _about(each), each, at, "", at.under[:-1])

    def _add(
        self,
        shown: str,
        raw: str,
        about: frozenset[str],
        node: ast.AST,
        at: At,
        void: str,
        under: tuple[ast.expr, ...] | None = None,
    ) -> None:
        if void or at.void:
            self.void.setdefault(shown, at.void or void)
            return
        only_if = frozenset(map(text, at.under if under is None else under))
        known = self.live.get(shown)
        if known is None or len(only_if) < len(known.only_if):
            self.live[shown] = Check(shown, raw, about, node, only_if, at.via)


def asserted(call: ast.Call, values: Values) -> Iterator[ast.expr]:
    """The conditions of a call that asserts something (already `put`)."""
    name, args = name_of(call), call.args
    if name in _COMPARED and len(args) > 1:
        return values.conditions(ast.Compare(args[0], [_COMPARED[name]()], [args[1]]))
    if name in ("assertIsNone", "assertIsNotNone") and args:
        op = ast.IsNot() if "Not" in name else ast.Is()
        return values.conditions(ast.Compare(args[0], [op], [ast.Constant(None)]))
    if name in ("assertTrue", "assert_", "assertFalse") and args:
        return values.conditions(args[0], name != "assertFalse")
    if name == "assertIsInstance" and len(args) > 1:
        return iter([ast.Call(ast.Name("isinstance", ast.Load()), args[:2], [])])
    return iter([call])


def swallows(handler: ast.ExceptHandler, values: Values, constants: Env) -> bool:
    """Whether a failed assertion ends here, unseen."""
    if handler.type is not None and not names_in(values.put(handler.type, constants)) & CAUGHT:
        return False
    for each in (n for statement in handler.body for n in ast.walk(statement)):
        name = name_of(each) if isinstance(each, ast.Call) else ""
        if (
            isinstance(each, ast.Raise | ast.Assert)
            or name in SKIPS
            or name == "fail"
            or ASSERTING.match(name)
        ):
            return False
    return True


def _about(node: ast.expr) -> frozenset[str]:
    """What a condition examines: its sides that are no literals, those that do something if there are any."""
    match node:
        case ast.UnaryOp(operand=inner):
            return _about(inner)
        case ast.Compare(left=left, comparators=[right]):
            sides = [left, right]
        case ast.Call(func=func, args=args):
            sides = [*([func.value] if isinstance(func, ast.Attribute) else []), *args]
        case _:
            sides = [node]
    sides = [each for each in sides if not is_literal(each)] or [node]
    return frozenset(map(text, [each for each in sides if not isinstance(each, ast.Name)] or sides))
