"""Now against the baseline: which failures are new, which are old, which tests are gone (rule 6.4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from codeframe.core.gates.counts import worse
from codeframe.core.gates.model import Failure, GateOutcome, GateResult
from codeframe.core.safe_read import open_regular

NO_BASELINE = "no baseline: every failure counts as new"
_MAX_SOURCE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class GateVerdict:
    """One gate, judged. `gone` are ids of tests that passed at base and now do not exist or are
    skipped. `strict` says that old failures block, too. `note` is one line for people, "" when there is
    nothing to add. `again_ms` is what it took to run new failures once more, None where that was not done."""

    result: GateResult
    new: tuple[Failure, ...] = ()
    old: tuple[Failure, ...] = ()
    flaky: tuple[Failure, ...] = ()
    gone: tuple[str, ...] = ()
    blocking: bool = False
    strict: bool = False
    note: str = ""
    again_ms: int | None = None


def compare(
    now: GateResult,
    base: GateResult | None,
    root: Path,
    *,
    strict: bool = False,
    flaky: frozenset[str] = frozenset(),
) -> GateVerdict:
    """Judges `now` by `base` (None: everything is new). `flaky` holds keys of failures that passed
    when run once more; `strict` blocks on old failures too."""
    notes = [now.note]
    new: list[Failure] = list(now.failures)
    old: list[Failure] = []
    gone: tuple[str, ...] = ()
    if base is not None and base.outcome is GateOutcome.TOOL_MISSING:
        base = None
    if now.outcome is GateOutcome.TOOL_MISSING:
        if base is not None:
            new = [Failure("tool missing", "it ran before the change and cannot run now", now.note)]
    elif base is None:
        notes.append(NO_BASELINE if new else "")
    elif now.comparable:
        moved = renames(base, now)
        if base.comparable:
            new, old = split(now.failures, base.failures, moved)
        else:
            notes.append("its baseline broke, so every failure counts as new")
        gone = _gone(base, now, moved)
        hidden = [t for t in gone if t not in now.skipped and _still_written(t, root)]
        if now.outcome is GateOutcome.NO_TESTS and hidden:
            detail = f"{len(hidden)} tests that passed before are still in their files, such as {hidden[0]}"
            new.append(Failure("nothing collected", "no tests are collected any more", detail))
    chance = tuple(f for f in new if f.key in flaky)
    new = [f for f in new if f.key not in flaky]
    return GateVerdict(
        result=now,
        new=tuple(new),
        old=tuple(old),
        flaky=chance,
        gone=gone,
        blocking=bool(new or gone or (strict and old)),
        strict=strict,
        note="; ".join(filter(None, notes)),
    )


def split(
    now: Iterable[Failure], base: Iterable[Failure], moved: dict[str, str] | None = None
) -> tuple[list[Failure], list[Failure]]:
    """(new, old) failures of `now`. Keys are counted: a second one of the same key is new where the
    base had one, and so is one that speaks of more problems than it did. `moved` maps keys of the base
    to what they are now."""
    known: dict[str, list[Failure]] = defaultdict(list)
    for failure in base:
        known[(moved or {}).get(failure.key, failure.key)].append(failure)
    new: list[Failure] = []
    old: list[Failure] = []
    for failure in now:
        same = known[failure.key]
        match = next((before for before in same if not worse(failure.counts, before.counts)), None)
        if match is not None:
            same.remove(match)
            old.append(failure)
        elif same and failure.counts:
            new.append(_more(failure, same.pop()))
        else:
            new.append(failure)
    return new, old


def passed_now(failure: Failure, again: GateResult, base: Iterable[Failure] = ()) -> bool:
    """Whether `failure` did not come back in a later run: its test (or a test of the file that could not
    be collected) passed, or, where there are no tests, all passed; or it counts no more problems than at
    `base` this time."""
    came_back = [f for f in again.failures if f.key == failure.key]
    if came_back:
        return bool(failure.counts) and not split(came_back, base)[0]
    if again.passed:
        return any(t == failure.title or t.startswith(f"{failure.title}::") for t in again.passed)
    return again.outcome is GateOutcome.PASSED


def still_old(base: GateResult, now: GateResult) -> GateResult:
    """`base` as far as it holds after `now`: what passed meanwhile, or counted fewer problems, was not red for
    good, and is new when it comes back. Nothing becomes old by it."""
    left = []
    for failure in base.failures:
        if passed_now(failure, now):
            continue
        same = [f for f in now.failures if f.key == failure.key]
        fewer = tuple(map(min, failure.counts, same[0].counts)) if len(same) == 1 else failure.counts
        left.append(replace(failure, counts=fewer))
    titles = {failure.title for failure in base.failures}
    return replace(base, failures=tuple(left), passed=base.passed | (now.passed & titles))


def _more(now: Failure, before: Failure) -> Failure:
    """The same failure, telling that only its numbers are worse."""
    then, since = (", ".join(map(str, each.counts)) for each in (before, now))
    return replace(now, title=f"{now.title} and counts more problems than before ({then}; now {since})")


def renames(base: GateResult, now: GateResult) -> dict[str, str]:
    """Test ids of the base -> what they are called now, for tests that were moved or renamed.

    Two rules, no guessing: a test that vanished is the one that appeared with the same function
    name and parameters in another file or class, when there is one; or, where exactly one function
    vanished from a file and exactly one appeared in it, that one (parameters equal).
    """
    before, after = _tests(base), _tests(now)
    lost, found = before - after, after - before
    if not lost or not found:
        return {}
    moved: dict[str, str] = {}
    by_name: dict[str, list[str]] = defaultdict(list)
    for test in sorted(found, reverse=True):
        by_name[_parts(test)[2]].append(test)
    for test in sorted(lost):
        if candidates := by_name[_parts(test)[2]]:
            moved[test] = candidates.pop()
    lost, found = lost - moved.keys(), found - set(moved.values())
    for file in {_parts(test)[0] for test in lost}:
        gone = {t for t in lost if _parts(t)[0] == file}
        came = {t for t in found if _parts(t)[0] == file}
        if len({_parts(t)[1] for t in gone}) == len({_parts(t)[1] for t in came}) == 1:
            by_parameters = {_parts(t)[3]: t for t in came}
            moved.update({t: by_parameters[_parts(t)[3]] for t in gone if _parts(t)[3] in by_parameters})
    return moved


def _gone(base: GateResult, now: GateResult, moved: dict[str, str]) -> tuple[str, ...]:
    """Tests that passed at base and neither passed nor failed now, under any name. Those of a file
    that could not be collected are not listed: the collection error stands for them."""
    alive = now.passed | {f.title for f in now.failures}
    places = tuple(f"{f.title}{sign}" for f in now.failures if f.key != f.title for sign in ("::", "/"))
    gone = (t for t in base.passed if moved.get(t, t) not in alive and not t.startswith(places))
    return tuple(sorted(gone))


def _tests(result: GateResult) -> set[str]:
    return {t for t in result.passed | result.skipped | {f.title for f in result.failures} if "::" in t}


def _parts(test: str) -> tuple[str, str, str, str]:
    """(file, file::class::function, function[parameters], parameters) of a test id."""
    path, bracket, rest = test.partition("[")
    parameters = bracket + rest
    return path.partition("::")[0], path, path.rpartition("::")[2] + parameters, parameters


def _still_written(test: str, root: Path) -> bool:
    """Whether a test's function is still in its file: it was not deleted, it is no longer looked for."""
    file, _, _, _ = _parts(test)
    function = _parts(test)[1].rpartition("::")[2]
    try:
        with open_regular(root / file) as stream:
            return function.encode() in stream.read(_MAX_SOURCE_BYTES)
    except OSError:
        return False
