"""Walks through a Python test as it would run: branches, loops, handlers and the helpers of the same change."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from codeframe.core.gates.integrity.checks import (
    ASSERTING,
    CAUGHT,
    RAISES,
    SKIPS,
    At,
    Checked,
    asserted,
    swallows,
)
from codeframe.core.gates.integrity.source import Function, bound, name_of, names_in
from codeframe.core.gates.integrity.values import (
    UNKNOWN,
    Env,
    Values,
    always_false,
    always_true,
    bindings,
    fits,
    text,
)

_EXITS = frozenset({"exit", "_exit", "quit", "abort"})
TOO_MUCH = "too much to follow"
_MAX_WORK = 50_000  # nodes read for one test, loops and helpers written out
_MAX_DEPTH = 3  # helpers in helpers


class Walk:
    """For the functions of one file. `find` gives the helper of a name, or None; `swallowing` are the file's
    context managers that let no failure out."""

    def __init__(
        self,
        values: Values,
        constants: Env,
        find: Callable[[str], Function | None],
        swallowing: frozenset[str],
    ) -> None:
        self._values = values
        self._constants = constants
        self._find = find
        self._swallowing = swallowing
        self._inner: dict[str, Function] = {}  # functions within the one that is walked
        self._uncalled: set[str] = set()
        self._free: set[str] = set()  # names that an inner function binds
        self._end = 0
        self._to = Checked()

    def of(self, function: Function, cases: Iterable[Env], before: Sequence[Function]) -> Checked:
        """What `function` checks in its `cases` (names -> values), after the functions that run `before` it."""
        self._end = self._values.work + _MAX_WORK
        for case in cases:
            for each in before:
                self._function(each, At(dict(self._constants), via=each.name))
            self._function(function, At(self._constants | case), set(case))
        if self._values.work > self._end:
            self._to.unclear.add(TOO_MUCH)
        return self._to

    def _function(self, function: Function, at: At, given: Iterable[str] = ()) -> None:
        kept = self._inner, self._uncalled, self._free
        nodes = [each for each in ast.walk(function) if each is not function]
        self._values.work += len(nodes)
        loaded = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        inner = {each.name: each for each in nodes if isinstance(each, Function)}
        self._uncalled = {n for n, each in inner.items() if n not in loaded and not each.decorator_list}
        self._inner = self._inner | inner
        self._free = {n for each in nodes if isinstance(each, ast.Nonlocal | ast.Global) for n in each.names}
        for name in self._free | (
            {n.arg for n in ast.walk(function.args) if isinstance(n, ast.arg)} - set(given)
        ):
            at.env.pop(name, None)
        self._walk(function.body, at)
        self._inner, self._uncalled, self._free = kept

    def _walk(self, body: Iterable[ast.stmt], at: At) -> str:
        """Returns how the statements end early: "return" and so on, "" where they do not."""
        ended = ""
        for statement in body:
            self._values.work += 1
            if self._values.work > self._end:
                return ended
            ends = self._statement(statement, at)
            if isinstance(ends, ast.expr):
                at = replace(at, under=(*at.under, ends))
            elif ends:
                ended = ended or ends
                at = replace(at, void=at.void or f"after {ends}")
        return ended

    def _branch(self, body: Iterable[ast.stmt], at: At, void: str = "", under: ast.expr | None = None) -> str:
        """The same where it is not certain to be gone through: what it binds is not known behind it."""
        more = (under,) if under is not None else ()
        body = list(body)
        ends = self._walk(body, replace(at, env=dict(at.env), void=at.void or void, under=(*at.under, *more)))
        self._forget(body, at)
        return ends

    def _forget(self, nodes: Iterable[ast.AST], at: At) -> None:
        for each in (inner for node in nodes for inner in ast.walk(node)):
            if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
                at.env.pop(each.id, None)

    def _statement(self, node: ast.stmt, at: At) -> str | ast.expr:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                # One that is called by its name is walked there; one that is handed on is walked here.
                self._branch(
                    node.body, at, "in a function that nothing calls" if node.name in self._uncalled else ""
                )
            case ast.ClassDef():
                self._branch(node.body, at)
            case ast.Assert():
                self._calls(node.test, at)
                for each in self._values.conditions(self._values.put(node.test, at.env)):
                    self._to.condition(each, at, text(node.test))
            case ast.Raise():
                name = name_of(node.exc)
                if name == "AssertionError":
                    self._to.failure(self._values, at)
                elif name in SKIPS:
                    self._to.skips.add(name)
                    return ""
                self._calls(node, at)
                return "raise"
            case ast.Return() | ast.Continue() | ast.Break():
                self._calls(node, at)
                return type(node).__name__.lower()
            case ast.With() | ast.AsyncWith():
                return self._with(node, at)
            case ast.Try() | ast.TryStar():
                return self._try(node, at)
            case ast.If() | ast.While():
                return self._if(node, at)
            case ast.For() | ast.AsyncFor():
                self._calls(node.iter, at)
                items = self._values.items(self._values.put(node.iter, at.env), at.env)
                self._forget([node], at)
                for item in [None] if items is None or items == [] else items:
                    if self._values.work > self._end:
                        break
                    inner = replace(at, env=at.env | bindings(node.target, item))
                    self._branch(node.body, inner, "never run" if items == [] else "")
                self._branch(node.orelse, at)
            case ast.Match():
                self._calls(node.subject, at)
                for one in node.cases:
                    self._branch(one.body, at, under=UNKNOWN)
            case _:
                self._calls(node, at)
                if (
                    isinstance(node, ast.Expr) and at.env
                ):  # a list that is handed on may be another one after that
                    for name in names_in(node):
                        if isinstance(at.env.get(name), ast.List | ast.Dict | ast.Set):
                            del at.env[name]
                for name, value in bound(node):
                    whole = value if not isinstance(node, ast.AugAssign) and name not in self._free else None
                    made = self._values.put(whole, at.env)
                    at.env.pop(name, None)
                    if made is not None and fits(made):
                        at.env[name] = made
        return ""

    def _if(self, node: ast.If | ast.While, at: At) -> str | ast.expr:
        self._calls(node.test, at)
        if isinstance(node, ast.While):
            self._forget([node], at)
        test = self._values.put(node.test, at.env)
        true, false = always_true(test), always_false(test)
        contrary = ast.UnaryOp(ast.Not(), test)
        loop = isinstance(node, ast.While) or true
        ends = self._branch(node.body, at, "never run" if false else "", None if loop else test)
        other = self._branch(
            node.orelse, at, "never run" if true else "", None if loop or false else contrary
        )
        if isinstance(node, ast.While):
            return ""
        if true or false or (ends and other):
            return other if false else ends
        return contrary if ends not in ("", "raise") else test if other not in ("", "raise") else ""

    def _try(self, node: ast.Try | ast.TryStar, at: At) -> str:
        left = any(isinstance(each, ast.Return | ast.Break | ast.Continue) for each in node.finalbody)
        lost = "swallowed" if left else ""
        caught = any(swallows(each, self._values, self._constants) for each in node.handlers)
        ends = self._walk(node.body, replace(at, void=at.void or ("swallowed" if caught else lost)))
        self._walk(node.orelse, replace(at, void=at.void or lost))
        for handler in node.handlers:
            self._branch(handler.body, at, lost, handler.type or UNKNOWN)
        return self._walk(node.finalbody, at) or ("" if node.handlers else ends)

    def _with(self, node: ast.With | ast.AsyncWith, at: At) -> str:
        void = at.void
        for item in node.items:
            call = self._values.put(item.context_expr, at.env)
            name = name_of(call)
            raises = RAISES.fullmatch(name)
            if name in self._swallowing or (names_in(call) & CAUGHT and (name == "suppress" or raises)):
                void = void or "swallowed"
            if raises and isinstance(call, ast.Call):
                done = [text(self._values.put(n, at.env)) for n in node.body if not isinstance(n, ast.Assert)]
                itself = any(isinstance(each, ast.Raise) for each in node.body)
                if done:
                    why = "raised by the test itself" if itself else ""
                    self._to.exception(call, "; ".join(done), at, why)
            else:
                self._calls(item.context_expr, at)
            if item.optional_vars is not None:
                self._forget([item.optional_vars], at)
        return self._walk(node.body, replace(at, void=void))

    def _calls(self, node: ast.AST, at: At) -> None:
        """The checks, helpers and skips among the calls in a statement."""
        plain = self._values.put(node, {})
        for call in ast.walk(plain):
            if isinstance(call, ast.Call):
                self._call(call, plain.value if isinstance(plain, ast.Expr) else call, at)

    def _call(self, call: ast.Call, whole: ast.expr, at: At) -> None:
        name = name_of(call)
        own = isinstance(call.func, ast.Attribute) and name_of(call.func.value) in ("self", "cls")
        plain = own or isinstance(call.func, ast.Name)
        helper = (self._inner.get(name) or self._find(name)) if plain else None
        if name in SKIPS or (plain and name in _EXITS):
            self._to.skips |= {name} if not at.void else set()
        elif helper is not None:
            if name not in at.inside and len(at.inside) < _MAX_DEPTH:
                self._helper(helper, call, own, at)
        elif name == "fail":
            self._to.failure(self._values, at)
        elif RAISES.fullmatch(name):
            if call.args[1:]:
                done = self._values.put(ast.Call(call.args[1], call.args[2:], []), at.env)
                kind = self._values.put(ast.Call(call.func, call.args[:1], []), at.env)
                self._to.exception(kind, text(done), at)
        elif ASSERTING.match(name):
            if call is not whole and _begins(whole, call):  # of expect(x).to_be(1), all counts
                self._to.condition(self._values.put(whole, at.env), at, text(whole))
            else:
                for each in asserted(self._values.put(call, at.env), self._values):
                    self._to.condition(each, at, text(call))

    def _helper(self, function: Function, call: ast.Call, own: bool, at: At) -> None:
        arguments = function.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][own:]
        given = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
        given |= dict(zip(names, call.args, strict=False))
        given |= {each.arg: each.value for each in call.keywords if each.arg}
        env = dict(at.env if function.name in self._inner else self._constants)
        put = {name: self._values.put(value, at.env) for name, value in given.items()}
        if any(isinstance(each, ast.Starred) for each in call.args):
            put = {}
        known = {name: value for name, value in put.items() if fits(value)}
        inside = (*at.inside, function.name)
        at = replace(at, env=env | known, via=at.via or function.name, inside=inside)
        self._function(function, at, known)


def _begins(chain: ast.AST, call: ast.Call) -> bool:
    while chain is not call and isinstance(chain, ast.Call | ast.Attribute | ast.Await):
        chain = chain.func if isinstance(chain, ast.Call) else chain.value
    return chain is call
