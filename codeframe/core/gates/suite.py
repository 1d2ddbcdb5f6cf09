"""The gates of one project: run at base, run now, compared (rules 6.2 to 6.4)."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shlex
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from codeframe.core.gates.compare import GateVerdict, compare, split
from codeframe.core.gates.discovery import KINDS, find_gates, hints
from codeframe.core.gates.kind import Missing, Tool
from codeframe.core.gates.model import Failure, Gate, GateOutcome, GateResult
from codeframe.core.gates.project import Project
from codeframe.core.gates.report import GateReport
from codeframe.core.gates.runner import Command, not_run, out_of_time, run_gate
from codeframe.core.safe_read import read_regular

_MAX_CACHED_BYTES = 100_000_000
_CACHE_VERSION = 2  # counts up when a fingerprint or the format changes: old baselines are then run again


# Tests the engine writes are claims it is held to; a linter the project did not have is no rule of its.
_HELD_TO = frozenset({"pytest"})


class GateSuite:
    """Runs `gates` in the project at `root`; baselines are kept in `cache_dir`.

    Which gates there are is fixed here, before an engine starts (rule 1.3). `strict` blocks on
    failures that were there before, too. `growing`: gates that the project shows only later, because
    the engine wrote its first tests, are run too; what is there can only get stricter. One thread at
    a time.
    """

    def __init__(
        self,
        root: Path,
        gates: Sequence[Gate],
        cache_dir: Path,
        *,
        strict: bool = False,
        growing: bool = False,
    ) -> None:
        self._root = root.absolute()
        self._gates = tuple(gates)
        self._cache_dir = cache_dir
        self._strict = strict
        self._growing = growing
        self._tools: dict[str, tuple[Project, Tool]] = {}
        self._launches = itertools.count(1)

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The gates, in the order they run."""
        return self._gates

    @property
    def names(self) -> tuple[str, ...]:
        """The gates' names, in the order they run."""
        return tuple(gate.name for gate in self._gates)

    def describe(self) -> tuple[str, ...]:
        """One line per gate, as it is run (without our own options): "pytest: .venv/bin/python -m pytest".

        Runs nothing of the project (rule 9.1): what only its python could tell is known after a first run.
        """
        return tuple(f"{gate.name}: {self._described(gate)}" for gate in self._gates)

    def reasons(self) -> tuple[str, ...]:
        """What in the project made each gate one: "[tool.ruff] in pyproject.toml", "" for a declared one."""
        return tuple(gate.why for gate in self._gates)

    def hints(self) -> list[str]:
        """Where gates are found rather than declared: one line for each that could be turned on."""
        return hints(self._root) if self._growing else []

    def missing(self, *, look: bool = False) -> tuple[Gate, ...]:
        """Declared gates whose tool is not there. With `look` nothing of the project is run to find out: not
        all that is missing shows then."""
        if look:
            project = Project.at(self._root)
            return tuple(g for g in self._gates if g.declared and project.which(g.command[0]) is None)
        return tuple(
            gate
            for gate in self._gates
            if gate.declared and isinstance(tool := self._tool(gate)[1], Missing) and tool.tool
        )

    def baseline(
        self,
        tree_id: str,
        out_dir: Path,
        *,
        marker: str,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, GateResult]:
        """Runs every gate on the tree as it is now and keeps the results under `tree_id`; what is
        kept already is not run again. Gate name -> result."""
        clock = _Clock(timeout_s)
        results: dict[str, GateResult] = {}
        for gate in self._gates:
            if cached := self._load(tree_id, gate):
                results[gate.name] = cached
                continue
            result = self._run(gate, out_dir, f"{gate.name}.base", marker, cancel, clock)
            results[gate.name] = result
            # A timeout, a missing tool or a stop says nothing about the tree: ask again next time.
            if result.outcome not in (GateOutcome.TIMEOUT, GateOutcome.TOOL_MISSING) and not _stopped(cancel):
                self._save(tree_id, gate, result)
        return results

    def keep(self, tree_id: str, report: GateReport) -> None:
        """Keep what a verified check of the tree `tree_id` told as the baseline of what starts on that very tree.

        A gate with flaky failures is run again then: they must not pass for old ones.
        """
        for verdict in report.verdicts if report.status == "verified" else ():
            if verdict.result.comparable and not verdict.flaky:
                self._save(tree_id, verdict.result.gate, verdict.result)

    def cached_baseline(self, tree_id: str) -> dict[str, GateResult] | None:
        """What `baseline` kept for `tree_id`, gate name -> result; None when there is nothing."""
        kept = {gate.name: result for gate in self._gates if (result := self._load(tree_id, gate))}
        return kept or None

    def check(
        self,
        base: dict[str, GateResult] | None,
        out_dir: Path,
        *,
        marker: str,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> GateReport:
        """Runs every gate now and judges it by `base`; new failures are run once more. `timeout_s`
        (seconds) covers all of them. After `cancel` the report is not a verdict on the tree."""
        clock = _Clock(timeout_s)
        if self._growing:
            known = set(self.names)
            later = [gate for gate in find_gates(self._root) if gate.kind in _HELD_TO]
            self._gates += tuple(gate for gate in later if gate.name not in known)
        return GateReport(
            tuple(
                self._judge(gate, (base or {}).get(gate.name), out_dir, marker, cancel, clock)
                for gate in self._gates
            )
        )

    def _judge(
        self,
        gate: Gate,
        base: GateResult | None,
        out_dir: Path,
        marker: str,
        cancel: threading.Event | None,
        clock: _Clock,
    ) -> GateVerdict:
        now = self._run(gate, out_dir, gate.name, marker, cancel, clock)
        verdict = compare(now, base, self._root, strict=self._strict)
        kind = KINDS[gate.kind]
        tool = self._tool(gate)[1]
        if not (verdict.new and now.comparable and kind.reruns and isinstance(tool, Tool)):
            return verdict
        suspects = verdict.new

        def command(scratch: Path) -> tuple[str, ...]:
            return kind.rerun_argv(tool, scratch, suspects, self._root) or ()

        if not command(Path()):
            return verdict
        again = self._run(gate, out_dir, f"{gate.name}.again", marker, cancel, clock, command)
        known = base.failures if base is not None and base.comparable else ()
        chance = frozenset(f.key for f in suspects if _passed_now(f, again, known))
        return compare(now, base, self._root, strict=self._strict, flaky=chance) if chance else verdict

    def _run(
        self,
        gate: Gate,
        out_dir: Path,
        label: str,
        marker: str,
        cancel: threading.Event | None,
        clock: _Clock,
        command: Command | None = None,
    ) -> GateResult:
        project, tool = self._tool(gate)
        if isinstance(tool, Missing):
            return not_run(gate, tool)
        timeout_s = min(gate.timeout_s, clock.left())
        if timeout_s <= 0 or _stopped(cancel):
            return out_of_time(
                gate, tool, "stopped before it started" if _stopped(cancel) else "no time was left"
            )
        kind = KINDS[gate.kind]
        slug = _slug(label)
        return run_gate(
            gate,
            kind,
            project,
            tool,
            command or (lambda scratch: kind.argv(tool, scratch)),
            _unused(out_dir, slug),
            marker=f"{marker}/gate-{next(self._launches)}-{slug}",
            cancel=cancel,
            timeout_s=timeout_s,
        )

    def _tool(self, gate: Gate) -> tuple[Project, Tool | Missing]:
        """How `gate` is launched. Kept once found; looked for again while missing, as the engine may
        be making the environment."""
        if gate.name in self._tools:
            return self._tools[gate.name]
        project = Project.at(self._root)
        tool = KINDS[gate.kind].tool(gate, project)
        if isinstance(tool, Tool):
            self._tools[gate.name] = (project, tool)
        return project, tool

    def _described(self, gate: Gate) -> str:
        if gate.name in self._tools:
            return shlex.join(self._tools[gate.name][1].argv)
        project = Project.at(self._root)
        if not gate.declared:
            return shlex.join(KINDS[gate.kind].shown(gate, project))
        program = project.which(gate.command[0])
        if program is None:
            return f"cannot run: {gate.command[0]} is not there"
        return shlex.join((program, *gate.command[1:]))

    def _cache_file(self, tree_id: str, gate: Gate) -> Path | None:
        project, tool = self._tool(gate)
        if isinstance(tool, Missing):
            return None
        key = [_CACHE_VERSION, tree_id, gate.name, gate.kind, tool.argv, tool.identity, project.via]
        return self._cache_dir / (hashlib.sha256(json.dumps(key).encode()).hexdigest() + ".json")

    def _load(self, tree_id: str, gate: Gate) -> GateResult | None:
        path = self._cache_file(tree_id, gate)
        try:
            result = GateResult.from_dict(json.loads(read_regular(path, _MAX_CACHED_BYTES))) if path else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return replace(result, gate=gate) if result else None

    def _save(self, tree_id: str, gate: Gate, result: GateResult) -> None:
        if path := self._cache_file(tree_id, gate):
            self._cache_dir.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self._cache_dir, prefix=".new-")
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump(result.to_dict(), stream)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, path)


class _Clock:
    """What is left of a limit in seconds that several gates share; None is no limit."""

    def __init__(self, timeout_s: float | None) -> None:
        self._end = float("inf") if timeout_s is None else time.monotonic() + timeout_s

    def left(self) -> float:
        return self._end - time.monotonic()


def _passed_now(failure: Failure, again: GateResult, base: Iterable[Failure]) -> bool:
    """Whether `failure` did not come back in the second run: its test (or a test of the file that
    could not be collected) passed, or, where there are no tests, all passed; or it counts no more
    problems than at `base` this time."""
    came_back = [f for f in again.failures if f.key == failure.key]
    if came_back:
        return bool(failure.counts) and not split(came_back, base)[0]
    if again.passed:
        return any(t == failure.title or t.startswith(f"{failure.title}::") for t in again.passed)
    return again.outcome is GateOutcome.PASSED


def _stopped(cancel: threading.Event | None) -> bool:
    return cancel is not None and cancel.is_set()


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)[:80].strip(".") or "gate"


def _unused(folder: Path, stem: str) -> Path:
    """A log file that does not exist yet: evidence of an earlier round is never overwritten."""
    names = itertools.chain([f"{stem}.log"], (f"{stem}.{n}.log" for n in itertools.count(2)))
    return next(path for name in names if not (path := folder / name).exists())
