"""Python tests that check less than before: emptied, loosened, marked, no longer collected, deleted (rule 6.5).

What moved to another file or class or has another name is found again and compared as what it is.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from codeframe.core.gates.integrity.assertions import (
    SKIPS,
    Function,
    Measure,
    Strength,
    cases,
    does_nothing,
    name_of,
    without_docstring,
)
from codeframe.core.gates.integrity.finding import TEST, Finding, Pair, text_of

_TEST_FILE = re.compile(r"test_.*\.py|.*_test\.py|tests?\.py")
_TEST_FOLDERS = frozenset({"test", "tests", "testing"})


def is_test_file(path: str) -> bool:
    """Whether pytest or Django would look for tests in it, as long as nobody configured it otherwise."""
    return _TEST_FILE.fullmatch(PurePosixPath(path).name) is not None


def looks_at(path: str) -> bool:
    """Whether the file may hold tests, or what they are made of."""
    if not path.endswith(".py"):
        return False
    return is_test_file(path) or bool(_TEST_FOLDERS & set(PurePosixPath(path).parts)) or _conftest(path)


def findings(pairs: Sequence[Pair]) -> list[Finding]:
    """What became weaker from `before` to `after` of these files. Files that are no Python are passed over."""
    before, after = _State(), _State()
    for pair in pairs:
        moved_here = pair.before is None and pair.path.endswith(".py") and b"def test" in (pair.after or b"")
        if not (looks_at(pair.path) or moved_here):
            continue
        was, now = (_parse(pair.path, data) for data in (pair.before, pair.after))
        if was is not None and now is not None:
            before.add(was)
            after.add(now)
    found: list[Finding] = []
    # A helper that checks less is one finding, not one for each test that calls it.
    for key, helper in after.helpers.items():
        if key in before.helpers and after.strength(key).checks < (was_so := before.strength(key)).checks:
            left = _assertions(after.strength(key).checks)
            words = f"{helper.last}(), which tests call, has {left} instead of {was_so.checks}"
            found.append(Finding(TEST, helper.path, helper.function.lineno, words))
            after.known[key] = was_so
    for old, new in _matched(before.tests, after.tests):
        if old.collected:
            found += _compared(old, new, before.measure(old), after.measure(new) if new else None)
    return found


class _Test(NamedTuple):
    """One function of a test file. `collected`: pytest would run it. `decorators` are also those of its classes
    and the module; `shape` is the same for the same body under any name."""

    path: str
    name: str
    function: Function
    collected: bool
    decorators: tuple[ast.expr, ...]
    shape: str

    @property
    def last(self) -> str:
        return self.function.name

    @property
    def id(self) -> str:
        """As pytest writes it, without parameters."""
        return f"{self.path}::{self.name}"


@dataclass
class _File:
    path: str
    functions: dict[str, _Test]
    constants: dict[str, ast.expr]


class _State:
    """All files at one time. Keys are (path, name within the file)."""

    def __init__(self) -> None:
        self.tests: dict[tuple[str, str], _Test] = {}
        self.helpers: dict[tuple[str, str], _Test] = {}
        self.known: dict[tuple[str, str], Strength] = {}
        self._named: dict[str, list[tuple[str, str]]] = {}
        self._constants: dict[str, dict[str, ast.expr]] = {}

    def add(self, file: _File) -> None:
        """Take in one file."""
        self._constants[file.path] = file.constants
        for test in file.functions.values():
            key = file.path, test.name
            self.tests[key] = test
            if not test.last.startswith("test"):
                self.helpers[key] = test
                self._named.setdefault(test.last, []).append(key)

    def strength(self, key: tuple[str, str]) -> Strength:
        """What a helper checks."""
        if key not in self.known:
            self.known[key] = Strength()  # one that calls itself counts once
            self.known[key] = self._of(self.helpers[key])
        return self.known[key]

    def measure(self, test: _Test) -> tuple[Strength, int | None]:
        """What a test checks each time, and how often it runs (None: not known)."""
        strength = self._of(test)
        strength.skips.update(name for each in test.decorators if (name := name_of(each)) in SKIPS)
        return strength, cases(test.decorators, self._constants[test.path])

    def _of(self, test: _Test) -> Strength:
        def helper(name: str) -> Strength | None:
            keys = self._named.get(name, [])
            here = [key for key in keys if key[0] == test.path]
            # Whose it is cannot be told without running: the one that checks most.
            return max(map(self.strength, here or keys), key=lambda each: each.checks, default=None)

        return Measure(helper, self._constants[test.path]).of(test.function)


def _compared(
    old: _Test,
    new: _Test | None,
    was: tuple[Strength, int | None],
    now: tuple[Strength, int | None] | None,
) -> Iterator[Finding]:
    if new is None or now is None:
        yield Finding(TEST, old.path, 0, f"{old.name} deleted", old.id)
        return

    def finding(words: str) -> Finding:
        renamed = f" (was {old.name})" if new.name != old.name else ""
        return Finding(TEST, new.path, new.function.lineno, f"{new.name}{renamed}: {words}", old.id)

    if not new.collected:
        yield finding("not collected any more")
        return
    (before, cases_before), (after, cases_after) = was, now
    for mark in sorted(after.skips - before.skips):
        yield finding(f"{mark} added")
    if does_nothing(new.function) and not does_nothing(old.function):
        yield finding("emptied")
        return
    known = cases_before is not None and cases_after is not None
    ran, runs = (cases_before or 0, cases_after or 0) if known else (1, 1)
    if after.checks * runs < before.checks * ran or (runs < ran and after.checks <= before.checks):
        if after.checks < before.checks:
            why = sorted(after.lost - before.lost)
            because = f" ({', '.join(why)})" if why else ""
            yield finding(f"{_assertions(after.checks)} instead of {before.checks}{because}")
        if runs < ran:
            yield finding(f"{runs} parametrized case{'s' if runs != 1 else ''} instead of {ran}")
    elif after.raises < before.raises:
        yield finding("an expected exception or warning dropped, or any one is taken now")


def _assertions(number: int) -> str:
    return f"{number or 'no'} assertion{'s' if number != 1 else ''} that can fail"


def _matched(
    before: Mapping[tuple[str, str], _Test], after: Mapping[tuple[str, str], _Test]
) -> Iterator[tuple[_Test, _Test | None]]:
    """Each test of `before` that pytest would run, and what it is now; None where it is nowhere."""
    lost = [test for key, test in before.items() if key not in after and test.collected]
    found = [test for key, test in after.items() if key not in before]
    yield from ((test, after[key]) for key, test in before.items() if key in after)

    def take(wanted: _Test, among: Iterable[_Test]) -> _Test | None:
        # The likest first: the same body, then one that is run.
        likest = sorted(
            among, key=lambda t: (t.shape != wanted.shape, not t.collected, t.path != wanted.path)
        )
        if likest:
            found.remove(likest[0])
        return likest[0] if likest else None

    rest = []
    for test in lost:
        now = take(test, [f for f in found if f.last == test.last])
        if now is None and test.shape:
            now = take(test, [f for f in found if f.shape == test.shape])
        if now is None:
            rest.append(test)
        else:
            yield test, now
    left = Counter(test.path for test in rest)
    came = Counter(test.path for test in found if test.collected)
    for test in rest:
        alone = left[test.path] == came[test.path] == 1
        yield test, take(test, [f for f in found if f.path == test.path and f.collected]) if alone else None


def _parse(path: str, data: bytes | None) -> _File | None:
    """The functions of a file; None when it is no Python: other gates say so."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text_of(data))
        file = _File(path, {}, {})
        _collect(tree.body, file, "", is_test_file(path), ())
        return file
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _collect(
    body: Iterable[ast.stmt], file: _File, prefix: str, collected: bool, around: tuple[ast.expr, ...]
) -> None:
    statements = list(_flat(body))
    for node in statements:
        value = getattr(node, "value", None)
        targets = {name_of(t) for t in (node.targets if isinstance(node, ast.Assign) else [])}
        if "pytestmark" in targets and value is not None:
            around = (*around, *(value.elts if isinstance(value, ast.List | ast.Tuple) else [value]))
        elif "__test__" in targets and isinstance(value, ast.Constant) and not value.value:
            collected = False
        elif not prefix and value is not None:
            file.constants.update(dict.fromkeys(targets - {""}, value))
        elif not prefix and isinstance(node, ast.Expr) and name_of(value) in SKIPS and value is not None:
            around = (*around, value)
    if not prefix:
        calls = [n.value for n in statements if isinstance(n, ast.Expr) and name_of(n.value) in SKIPS]
        around = (*around, *(call for call in calls if call not in around))
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = prefix + node.name
            runs = collected and node.name.startswith("test")
            shape = "\n".join(ast.dump(statement) for statement in without_docstring(node.body))
            decorators = (*around, *node.decorator_list)
            file.functions[name] = _Test(file.path, name, node, runs, decorators, shape)
        elif isinstance(node, ast.ClassDef):
            name = f"{prefix}{node.name}::"
            for earlier in [key for key in file.functions if key.startswith(name)]:
                del file.functions[earlier]  # a second class of that name hides the first
            made = any(isinstance(n, ast.FunctionDef) and n.name == "__init__" for n in node.body)
            runs = collected and not made and (node.name.startswith("Test") or bool(node.bases))
            _collect(node.body, file, name, runs, (*around, *node.decorator_list))


def _flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, with those inside `if` and `try`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _flat(node.body)
            yield from _flat(node.orelse)
            for handler in getattr(node, "handlers", ()):
                yield from _flat(handler.body)


def _conftest(path: str) -> bool:
    return PurePosixPath(path).name == "conftest.py"
