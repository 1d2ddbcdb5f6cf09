"""Python tests that check less than before, or something else: the conditions of each compared (rule 6.5).

What moved to another test, class or file, or has another name, is found again and compared as what it is.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from codeframe.core.gates.integrity.checks import SKIPS, Check, Checked
from codeframe.core.gates.integrity.finding import TEST, UNREAD, Finding, Pair, short
from codeframe.core.gates.integrity.module import Module, Test, says_nothing
from codeframe.core.gates.integrity.source import Function, is_about_tests, name_of, names_in, parse
from codeframe.core.gates.integrity.values import UNKNOWN, always_true
from codeframe.core.gates.integrity.walk import TOO_MUCH, Walk

# Decorators under which a function is still the test it was; marks are, too.
_PLAIN = frozenset({"fixture", "given", "settings", "example", "seed", "staticmethod", "classmethod"})
_MAX_WORK = 150_000  # nodes read for all tests of a change: seconds, not more
_MAX_PAIRED = 200  # checks of one test

looks_at = is_about_tests


def findings(pairs: Sequence[Pair]) -> list[Finding]:
    """What became weaker from `before` to `after` of these files, and what of it cannot be judged."""
    before, after = _State(), _State()
    found: list[Finding] = []
    for pair in pairs:
        moved_here = pair.before is None and pair.path.endswith(".py") and b"def test" in (pair.after or b"")
        if not (looks_at(pair.path) or moved_here):
            continue
        was, now = (parse(data) for data in (pair.before, pair.after))
        if now is None:
            found.append(Finding(UNREAD, pair.path, 0, "Python cannot read it: its tests cannot be judged"))
        if was is None or now is None:
            continue
        module, changed = Module(pair.path, was), Module(pair.path, now)
        before.add(module)
        after.add(changed)
        for name in sorted(module.imported & changed.made.keys() - module.made.keys()):
            found.append(Finding(TEST, pair.path, changed.made[name], f"{name} is made here, not imported"))
    matched = list(_matched(before.tests, after.tests))
    was_of = {new: old for old, new in matched if new is not None}
    new_checks: dict[bool, set[str]] = {True: set(), False: set()}  # of tests, of helpers
    for test in after.tests.values():
        checked = after.checks(test)
        if not checked.skips:
            known = before.checks(was_of[test]).live if test in was_of else {}
            new_checks[test.collected] |= checked.live.keys() - known.keys()
    weaker: set[str] = set()  # helpers: what they lose is told once, not of each test that calls them
    for old, new in sorted(matched, key=lambda each: each[0].collected):
        if old.collected:
            now_so = after.checks(new) if new is not None else Checked()
            found += _compared(old, new, before.checks(old), now_so, new_checks[True], weaker)
        elif new is not None and not new.collected and not old.last.startswith("test"):
            told = list(_compared(old, new, before.checks(old), after.checks(new), new_checks[False], set()))
            weaker |= {old.last} if told else set()
            found += told
    if before.full or after.full:
        found.append(Finding(UNREAD, matched[0][0].path, 0, "too many tests to follow: not all were judged"))
    return found


class _State:
    """All files at one time. Keys are (path, name within the file)."""

    def __init__(self) -> None:
        self.tests: dict[tuple[str, str], Test] = {}
        self._modules: dict[str, Module] = {}
        self._helpers: dict[str, list[Test]] = {}
        self._known: dict[tuple[str, str], Checked] = {}
        self._work = 0

    def add(self, module: Module) -> None:
        """Take in one file."""
        self._modules[module.path] = module
        for test in module.functions.values():
            self.tests[test.path, test.name] = test
            if not test.last.startswith("test"):
                self._helpers.setdefault(test.last, []).append(test)

    @property
    def full(self) -> bool:
        """Whether there is more than can be followed."""
        return self._work > _MAX_WORK

    def checks(self, test: Test) -> Checked:
        """What a test or helper checks."""
        key = test.path, test.name
        if key not in self._known:
            self._known[key] = self._of(test)
        return self._known[key]

    def _of(self, test: Test) -> Checked:
        module = self._modules[test.path]

        def find(name: str) -> Function | None:
            """The nearest helper of that name: in the same class, in the same file, in any other."""
            near = sorted(
                self._helpers.get(name, ()), key=lambda h: (h.path == test.path, h.around == test.around)
            )
            return near[-1].function if near else None

        begun = module.values.work
        if self.full:
            return Checked(unclear={TOO_MUCH})
        walk = Walk(module.values, module.constants, find, module.swallowing)
        try:
            checked = walk.of(test.function, module.cases(test), module.before(test))
        except RecursionError:
            checked = Checked(unclear={"nested too deeply"})
        self._work += module.values.work - begun
        for each in test.decorators:
            name = name_of(each)
            if name in SKIPS:
                checked.skips.add(name)
            elif name not in _PLAIN and "mark" not in names_in(each):
                checked.unclear.add(f"wrapped by {name or 'a decorator'}")
        return checked


def _compared(
    old: Test, new: Test | None, was: Checked, now: Checked, elsewhere: set[str], told: set[str]
) -> Iterator[Finding]:
    """`elsewhere` are checks that are new in any test; `told` are helpers whose losses were told."""
    kept = now.live.keys() | elsewhere
    lost = [each for each in was.live.values() if each.text not in kept and each.via not in told]
    moved = not lost and bool(was.live)
    if new is None:
        if not moved:
            yield Finding(TEST, old.path, 0, f"{old.name} deleted", old.id)
        return

    def finding(words: str, kind: str = TEST) -> Finding:
        renamed = f" (was {old.name})" if new.name != old.name else ""
        return Finding(kind, new.path, new.function.lineno, f"{new.name}{renamed}: {words}", old.id)

    if old.collected and not new.collected:
        yield finding("not collected any more")
        return
    unclear = sorted(now.unclear - was.unclear) or (
        [TOO_MUCH] if TOO_MUCH in now.unclear and old.shape != new.shape else []
    )
    yield from (finding(f"{mark} added") for mark in sorted(now.skips - was.skips))
    yield from (finding(f"cannot be judged: {why}", UNREAD) for why in unclear)
    if _does_nothing(new.function) and not _does_nothing(old.function):
        if not moved:
            yield finding("emptied")
        return
    fresh = [check for check in now.live.values() if check.text not in was.live]
    changed, computed, gone = _paired(lost, fresh)
    if gone:
        reasons = sorted(set(now.void.values()) - set(was.void.values()))
        because = f" ({', '.join(reasons)})" if reasons else ""
        left = f"{len(now.live)} of {len(was.live)} checks left{because}"
        yield finding(f"{left}, lost: {_listed(gone, lambda c: short(c.text))}")
    if changed:
        pairs = _listed(changed, lambda c: f"{_shown(c[0], c[1])} -> {_shown(c[1], c[0])}")
        yield finding(f"changed expectation: {pairs}")
    if computed:
        words = f"cannot be judged: made by code now: {_listed(computed, lambda c: short(c.text))}"
        yield finding(words, UNREAD)
    for key in sorted(was.live.keys() & now.live.keys()):
        if was.live[key].only_if < now.live[key].only_if:
            more = " and ".join(sorted(now.live[key].only_if - was.live[key].only_if))
            yield finding(f"{short(key)} is checked only if {short(more)}")
            return


def _paired(
    lost: Sequence[Check], fresh: Sequence[Check]
) -> tuple[list[tuple[Check, Check]], list[Check], list[Check]]:
    """What lost checks are now: (another check of the same thing or in the same place), (one in cases that code
    makes), (none). The same of something renamed, or of a test that is set up otherwise, is no loss."""
    changed, computed, rest = [], [], []
    fresh, all_fresh = fresh[:_MAX_PAIRED], fresh
    used: set[str] = set()
    for check in lost[:_MAX_PAIRED]:
        unused = [each for each in fresh if each.text not in used]
        about = [each for each in (*unused, *fresh) if each.parts & check.about]
        same = [each for each in unused if each.raw == check.raw or each.form == check.form]
        alike = [each for each in fresh if each.shape == check.shape]
        made = [each for each in alike if UNKNOWN.id in names_in(each.node) ^ names_in(check.node)]
        if about or not (made or same or alike):
            rest += [] if about else [check]
            changed += [(check, each) for each in about[:1]]
        elif made:
            computed.append(check)
        elif not same:
            changed.append((check, alike[0]))
        used |= {each.text for each in (about or made or same or alike)[:1]}
    rest += lost[_MAX_PAIRED:]
    others = [each for each in all_fresh if each.text not in used]
    return [*changed, *zip(rest, others, strict=False)], computed, rest[len(others) :]


def _shown(check: Check, other: Check) -> str:
    """As it was written where that tells the two apart."""
    return short(check.text if check.raw == other.raw else check.raw)


def _listed(items: Sequence[Any], shown: Callable[[Any], str]) -> str:
    return shown(items[0]) + (f" and {len(items) - 1} more" if len(items) > 1 else "")


def _does_nothing(function: Function) -> bool:
    """Whether nothing of the function can fail: empty, or returns, or asserts what is always so."""
    for statement in function.body:
        if isinstance(statement, ast.Return):
            return not any(isinstance(each, ast.Call) for each in ast.walk(statement))
        if not (
            says_nothing(statement) or (isinstance(statement, ast.Assert) and always_true(statement.test))
        ):
            return False
    return True


def _matched(
    before: Mapping[tuple[str, str], Test], after: Mapping[tuple[str, str], Test]
) -> Iterator[tuple[Test, Test | None]]:
    """Each function of `before`, and what it is now; None where it is nowhere."""
    lost = [test for key, test in before.items() if key not in after]
    found = dict.fromkeys(test for key, test in after.items() if key not in before)
    yield from ((test, after[key]) for key, test in before.items() if key in after)
    named: dict[str, list[Test]] = {}
    shaped: dict[str, list[Test]] = {}
    for test in found:
        named.setdefault(test.last, []).append(test)
        shaped.setdefault(test.shape, []).append(test)

    def take(wanted: Test, among: Iterable[Test]) -> Test | None:
        # The likest: the same body, then one that is run.
        left = (each for each in among if each in found)
        now = min(
            left,
            key=lambda t: (t.shape != wanted.shape, not t.collected, t.path != wanted.path),
            default=None,
        )
        if now is not None:
            del found[now]
        return now

    rest = []
    for test in lost:
        now = take(test, named.get(test.last, ()))
        if now is None and test.shape:
            now = take(test, shaped.get(test.shape, ()))
        if now is None:
            rest.append(test)
        else:
            yield test, now
    left = Counter(test.path for test in rest if test.collected)
    came = Counter(test.path for test in found if test.collected)
    for test in rest:
        alone = test.collected and left[test.path] == came[test.path] == 1
        here = [each for each in found if each.path == test.path and each.collected] if alone else []
        yield test, take(test, here)
