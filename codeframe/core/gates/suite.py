"""The gates of one project: run at base, run now, compared (rules 6.2 to 6.4)."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shlex
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from codeframe.core.gates.compare import GateVerdict, compare, passed_now, still_old
from codeframe.core.gates.discovery import KINDS, find_gates, hints
from codeframe.core.gates.kind import Missing, Tool
from codeframe.core.gates.model import Gate, GateOutcome, GateResult
from codeframe.core.gates.project import Project
from codeframe.core.gates.report import GateReport
from codeframe.core.gates.runner import Command, not_run, out_of_time, run_gate

NOT_MEASURED = "its baseline was not measured now but before, on the same files; what git ignores may differ"
_VERSION = 2  # counts up when a fingerprint or the format changes: old baselines are then run again


# Tests the engine writes are claims it is held to; a linter the project did not have is no rule of its.
_HELD_TO = frozenset({"pytest"})


class Kept(Protocol):
    """Where baselines are kept, text by key; a dict is one."""

    def get(self, key: str, /) -> str | None: ...

    def __setitem__(self, key: str, text: str, /) -> None: ...


class GateSuite:
    """Runs `gates` in the project at `root`; baselines are kept in `kept`.

    Which gates there are is fixed here, before an engine starts (rule 1.3). `strict` blocks on
    failures that were there before, too. `growing`: gates that the project shows only later, because
    the engine wrote its first tests, are run too; what is there can only get stricter. One thread at
    a time.
    """

    def __init__(
        self,
        root: Path,
        gates: Sequence[Gate],
        kept: Kept | None = None,
        *,
        strict: bool = False,
        growing: bool = False,
    ) -> None:
        self._root = root.absolute()
        self._gates = tuple(gates)
        self._kept: Kept = {} if kept is None else kept
        self._of: tuple[str, str] | None = None
        self.base: dict[str, GateResult] = {}  # what `check` judges by, gate name -> result
        self._measured: set[str] = set()  # names of the gates whose baseline is of now
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

    def recall(self, tree_id: str, run_id: str) -> None:
        """Judge by what is known of the tree `tree_id`, the base of run `run_id`.

        What was green on that tree counts, whoever asked. What was red counts for the run that found it so:
        the cause may be a service or an ignored file, which another run need not find the same (rule 6.4).
        """
        self._of = tree_id, run_id
        found = {gate.name: self._load(gate) for gate in self._gates}
        self.base = {name: result for name, result in found.items() if result is not None}

    def to_run(self, *, here: bool = True) -> tuple[str, ...]:
        """Names of the gates that `baseline` runs. `here`: the tree still is the one that was recalled. Then
        it is those nothing green is known of; else, with work on it, those that were red may have changed."""
        known = {name: bool(result.failures) for name, result in self.base.items()}
        return tuple(name for name in self.names if known.get(name, here))

    def baseline(
        self,
        out_dir: Path,
        *,
        marker: str,
        here: bool = True,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Run the gates that `to_run` names and take into `base` what they tell. `keep_baseline` is next."""
        clock = _Clock(timeout_s)
        names = self.to_run(here=here)
        for gate in self._gates:
            if gate.name in names:
                now = self._run(gate, out_dir, f"{gate.name}.base", marker, cancel, clock)
                self._measured.add(gate.name)
                self.base[gate.name] = now if here else still_old(self.base[gate.name], now)

    def keep_baseline(self, *, unchanged: bool) -> None:
        """Keep `base` for the runs that go on with this one; where the tree is `unchanged` since it was recalled,
        what is green for all that start on it. Not after a stop: what that ended says nothing."""
        for gate in self._gates:
            # Neither a timeout nor a missing tool says anything about the tree: ask again next time.
            result = self.base.get(gate.name)
            if result and result.outcome not in (GateOutcome.TIMEOUT, GateOutcome.TOOL_MISSING):
                self._save(gate, result, shared=unchanged)

    def keep(self, tree_id: str, report: GateReport) -> None:
        """Keep what a verified check of the tree `tree_id` told as the baseline of what starts on that very tree.

        A gate with failures is run again then, flaky ones included: they must not pass for old ones.
        """
        for verdict in report.verdicts if report.status == "verified" else ():
            if verdict.result.comparable and not verdict.result.failures:
                self._put(verdict.result.gate, tree_id, verdict.result)

    def check(
        self,
        out_dir: Path,
        *,
        marker: str,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> GateReport:
        """Runs every gate now and judges it by `base`; new failures are run once more. `timeout_s`
        (seconds) covers all of them. After `cancel` the report is not a verdict on the tree.

        What was red at base and passes now is no old failure any more."""
        clock = _Clock(timeout_s)
        if self._growing:
            known = set(self.names)
            later = [gate for gate in find_gates(self._root) if gate.kind in _HELD_TO]
            self._gates += tuple(gate for gate in later if gate.name not in known)
        report = GateReport(
            tuple(
                self._noted(self._judge(gate, self.base.get(gate.name), out_dir, marker, cancel, clock))
                for gate in self._gates
            )
        )
        for verdict in report.verdicts:
            self._learn(verdict.result)
        return report

    def _noted(self, verdict: GateVerdict) -> GateVerdict:
        """Says where what is new is so by a baseline that may not hold any more."""
        name = verdict.result.gate.name
        if not (verdict.new and name in self.base) or name in self._measured:
            return verdict
        return replace(verdict, note="; ".join(filter(None, (verdict.note, NOT_MEASURED))))

    def _learn(self, now: GateResult) -> None:
        base = self.base.get(now.gate.name)
        if base is not None and (still := still_old(base, now)) != base:
            self.base[now.gate.name] = still
            self._save(now.gate, still, shared=False)

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
        chance = frozenset(f.key for f in suspects if passed_now(f, again, known))
        if chance:
            verdict = compare(now, base, self._root, strict=self._strict, flaky=chance)
        return replace(verdict, again_ms=again.duration_ms)

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

    def _load(self, gate: Gate) -> GateResult | None:
        if self._of is None:
            return None
        tree_id, run_id = self._of
        return self._get(gate, tree_id) or self._get(gate, f"{tree_id} of {run_id}")

    def _save(self, gate: Gate, result: GateResult, *, shared: bool) -> None:
        if self._of is not None:
            tree_id, run_id = self._of
            self._put(gate, tree_id if shared and not result.failures else f"{tree_id} of {run_id}", result)

    def _get(self, gate: Gate, of: str) -> GateResult | None:
        key = self._key(gate, of)
        text = self._kept.get(key) if key else None
        try:
            return replace(GateResult.from_dict(json.loads(text)), gate=gate) if text else None
        except (ValueError, KeyError, TypeError):
            return None

    def _put(self, gate: Gate, of: str, result: GateResult) -> None:
        if key := self._key(gate, of):
            self._kept[key] = json.dumps(result.to_dict())

    def _key(self, gate: Gate, of: str) -> str | None:
        project, tool = self._tool(gate)
        if isinstance(tool, Missing):
            return None
        key = [_VERSION, of, gate.name, gate.kind, tool.argv, tool.identity, project.via]
        return hashlib.sha256(json.dumps(key).encode()).hexdigest()


class _Clock:
    """What is left of a limit in seconds that several gates share; None is no limit."""

    def __init__(self, timeout_s: float | None) -> None:
        self._end = float("inf") if timeout_s is None else time.monotonic() + timeout_s

    def left(self) -> float:
        return self._end - time.monotonic()


def _stopped(cancel: threading.Event | None) -> bool:
    return cancel is not None and cancel.is_set()


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)[:80].strip(".") or "gate"


def _unused(folder: Path, stem: str) -> Path:
    """A log file that does not exist yet: evidence of an earlier round is never overwritten."""
    names = itertools.chain([f"{stem}.log"], (f"{stem}.{n}.log" for n in itertools.count(2)))
    return next(path for name in names if not (path := folder / name).exists())
