"""What a gate is, and what one run of it told: the words every other file here speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

DEFAULT_TIMEOUT_S = 900.0


class GateOutcome(StrEnum):
    """How a gate ended (rule 6.3). Only PASSED is verified."""

    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    NO_TESTS = "no_tests"
    TOOL_MISSING = "tool_missing"


@dataclass(frozen=True)
class Gate:
    """One check. `kind` names who reads its output ("pytest", "ruff", "command").

    `command` is what was declared; a found gate has only the tool's own words, its launcher is
    chosen when it runs. `timeout_s` is in seconds, `why` says in words where a found gate was found.
    """

    name: str
    command: tuple[str, ...]
    kind: str
    timeout_s: float = DEFAULT_TIMEOUT_S
    declared: bool = False
    why: str = field(default="", compare=False)


@dataclass(frozen=True)
class Failure:
    """One thing a gate found wrong.

    `key` is its fingerprint: equal for the same failure before and after an edit, no line numbers.
    `title` is a test id or "rule file", `detail` the assertion text or message (bounded, cleaned),
    `location` "file:line" or "". `counts` are the numbers of problems it speaks of where it stands for
    several: the same failure with a higher count is a new one (rule 6.4).
    """

    key: str
    title: str
    detail: str = ""
    location: str = ""
    counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class GateResult:
    """One run of one gate.

    `command` is the argv as really run. `passed` and `skipped` are ids of tests (empty for gates
    that have none). `comparable` is False where the tool broke before it could tell everything
    (its own error, a signal, a timeout): its failures are never "old", and what it does not
    mention is not taken as gone. `note` is one line for people, `plain_command` the argv without our
    own options: what a person or an engine would type.
    """

    gate: Gate
    command: tuple[str, ...]
    outcome: GateOutcome
    exit_code: int | None = None
    failures: tuple[Failure, ...] = ()
    passed: frozenset[str] = field(default_factory=frozenset)
    skipped: frozenset[str] = field(default_factory=frozenset)
    comparable: bool = True
    duration_ms: int = 0
    output_path: Path | None = None
    output_tail: str = ""
    note: str = ""
    plain_command: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready copy; `from_dict` gives an equal object back."""
        gate = self.gate
        return {
            "gate": {
                "name": gate.name,
                "command": list(gate.command),
                "kind": gate.kind,
                "timeout_s": gate.timeout_s,
                "declared": gate.declared,
            },
            "command": list(self.command),
            "outcome": self.outcome.value,
            "exit_code": self.exit_code,
            "failures": [[f.key, f.title, f.detail, f.location, list(f.counts)] for f in self.failures],
            "passed": sorted(self.passed),
            "skipped": sorted(self.skipped),
            "comparable": self.comparable,
            "duration_ms": self.duration_ms,
            "output_path": str(self.output_path) if self.output_path else None,
            "output_tail": self.output_tail,
            "note": self.note,
            "plain_command": list(self.plain_command),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GateResult:
        """The inverse of `to_dict`. Raises KeyError, TypeError or ValueError on anything else."""
        gate = dict(data["gate"])
        gate["command"] = tuple(gate["command"])
        return cls(
            gate=Gate(**gate),
            command=tuple(data["command"]),
            outcome=GateOutcome(data["outcome"]),
            exit_code=data["exit_code"],
            failures=tuple(
                Failure(key, title, detail, location, tuple(counts))
                for key, title, detail, location, counts in data["failures"]
            ),
            passed=frozenset(data["passed"]),
            skipped=frozenset(data["skipped"]),
            comparable=data["comparable"],
            duration_ms=data["duration_ms"],
            output_path=Path(data["output_path"]) if data["output_path"] else None,
            output_tail=data["output_tail"],
            note=data["note"],
            plain_command=tuple(data["plain_command"]),
        )
