"""All gates of one check: the status, what the engine is told, what people see, what is kept as evidence."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from codeframe.core.gates.compare import GateVerdict
from codeframe.core.gates.model import Failure, GateOutcome
from codeframe.core.gates.text import clip, one_line

FEEDBACK_BYTES = 64 * 1024
_MAX_OLD_LISTED = 50
_UNTOLD = (GateOutcome.NO_TESTS, GateOutcome.TOOL_MISSING)
_MAX_EVIDENCE = 200
_EVIDENCE_DETAIL_BYTES = 2048


@dataclass(frozen=True)
class GateReport:
    """The verdicts of one check, in the order the gates ran. `unstable` are paths that changed each time
    they ran, `undone` work that was gone once they had run: what was said is not about what is there now, or was
    to be checked (rule 6.6)."""

    verdicts: tuple[GateVerdict, ...] = ()
    unstable: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """ "failed" where anything blocks, "unverified" where a gate could not tell (rule 6.3), there is
        none, or they change what they check or take it away, else "verified"."""
        if any(v.blocking for v in self.verdicts):
            return "failed"
        doubtful = not self.verdicts or self.unstable or self.undone
        if doubtful or any(v.result.outcome in _UNTOLD for v in self.verdicts):
            return "unverified"
        return "verified"

    @property
    def only_gone(self) -> bool:
        """Whether all that blocks is tests deleted or skipped: a person decides, not another round."""
        blocking = [v for v in self.verdicts if v.blocking]
        return bool(blocking) and all(v.gone and not v.new for v in blocking)

    def signature(self) -> str:
        """A hash of all that blocks: equal for the same failures on the next round, whatever their order."""
        rows = sorted(
            f"{v.result.gate.name}\0{key}"
            for v in self.verdicts
            if v.blocking
            for key in (*(f.key for f in (*v.new, *v.old)), *(f"gone {test}" for test in v.gone))
        )
        return hashlib.sha256("\n".join(rows).encode()).hexdigest()

    def feedback(self, limit_bytes: int = FEEDBACK_BYTES) -> str:
        """What the engine is told, at most `limit_bytes` of UTF-8. Over that, head and tail are kept
        and the files with the whole output are named."""
        blocking = [v for v in self.verdicts if v.blocking]
        text = "\n".join(line for v in blocking for line in _told(v))
        if old := [line for v in self.verdicts for line in _left_alone(v)]:
            text += "\n\nThese failed before you started. They are not yours, leave them as they are:\n"
            text += "\n".join(old)
        logs = ", ".join(str(v.result.output_path) for v in blocking if v.result.output_path)
        return clip(text.strip() + "\n", limit_bytes, gap=f"; whole output: {logs}" if logs else "")

    def summary_lines(self) -> list[str]:
        """One plain line per gate, for people."""
        return [describe_gate(_evidence(v)) for v in self.verdicts]

    def to_evidence(self) -> dict[str, Any]:
        """JSON-ready: what the status was drawn from. Long lists are cut and their length is told."""
        paths = {"unstable": list(self.unstable[:_MAX_EVIDENCE]), "undone": list(self.undone[:_MAX_EVIDENCE])}
        return {"status": self.status, "gates": [_evidence(v) for v in self.verdicts], **paths}


def untold(evidence: Mapping[str, Any]) -> list[str]:
    """Why a check, as `to_evidence` gave it, verified nothing: a line each, for people (rules 6.3 and 6.6)."""
    rows = [row for row in evidence.get("gates", []) if row["outcome"] in _UNTOLD]
    lines = [describe_gate(row) for row in rows]
    if unstable := evidence.get("unstable"):
        lines.append("the gates change what they check each time they run: " + ", ".join(unstable[:10]))
    if undone := evidence.get("undone"):
        lines.append("running the gates took away the work itself: " + ", ".join(undone[:10]))
    return lines


def _told(verdict: GateVerdict) -> Iterator[str]:
    result = verdict.result
    code = "" if result.exit_code is None else f", exit status {result.exit_code}"
    yield f"## Gate {result.gate.name}: {result.outcome.value}{code}"
    yield f"Command: {shlex.join(result.plain_command or result.command)}"
    if verdict.note:
        yield f"Note: {verdict.note}"
    to_fix = (*verdict.new, *verdict.old) if verdict.strict else verdict.new
    if to_fix:
        yield f"\n{len(to_fix)} {'' if verdict.strict else 'new '}failure(s):"
        yield from (_line(f) for f in to_fix)
        for failure in to_fix:
            if "\n" in failure.detail or len(failure.detail) > 200:
                yield f"\n### {failure.title}{_at(failure)}\n{failure.detail}"
    skipped = [test for test in verdict.gone if test in result.skipped]
    deleted = [test for test in verdict.gone if test not in result.skipped]
    if deleted:
        yield f"\n{len(deleted)} test(s) passed before you started and no longer exist. Bring them back:"
        yield from (f"- {test}" for test in deleted)
    if skipped:
        yield f"\n{len(skipped)} test(s) passed before you started and are skipped now. Unskip them:"
        yield from (f"- {test}" for test in skipped)
    yield ""


def _line(failure: Failure) -> str:
    first = one_line(failure.detail) if failure.detail and "\n" not in failure.detail else ""
    return f"- {failure.title}{_at(failure)}{f': {first}' if first else ''}"


def _at(failure: Failure) -> str:
    return f" ({failure.location})" if failure.location else ""


def _left_alone(verdict: GateVerdict) -> Iterator[str]:
    if verdict.strict:
        return
    for failure in verdict.old[:_MAX_OLD_LISTED]:
        yield f"- {verdict.result.gate.name}: {failure.title}{_at(failure)}"
    if len(verdict.old) > _MAX_OLD_LISTED:
        yield f"- {verdict.result.gate.name}: and {len(verdict.old) - _MAX_OLD_LISTED} more"


def describe_gate(row: Mapping[str, Any]) -> str:
    """One plain line about a gate, for people, from its row in `to_evidence`."""
    counts = row["counts"]
    old = _count(counts["old"], "old failure")
    words = [row["outcome"].replace("_", " ")]
    if row["outcome"] == GateOutcome.FAILED and not row["blocking"]:
        left = [f"{old} left alone" if old else "", f"{counts['flaky']} flaky" if counts["flaky"] else ""]
        words = [
            f"nothing new failed ({', '.join(filter(None, left))})" if any(left) else "nothing new failed"
        ]
    else:
        new, gone = _count(counts["new"], "new failure"), _count(counts["gone"], "test")
        words += [new, f"{gone} gone or skipped" if gone else "", old]
        words += [f"{counts['flaky']} flaky" if counts["flaky"] else ""]
    words += [f"{counts['passed']} passed" if counts["passed"] else "", _took(row)]
    note = f" ({one_line(row['note'])})" if row["note"] else ""
    return f"{row['name']}: {', '.join(filter(None, words))}{note}"


def _took(row: Mapping[str, Any]) -> str:
    again = row.get("again_ms")  # rows of earlier versions have none
    more = f" and {again / 1000:.1f} s more, as new failures are run twice" if again is not None else ""
    return f"{row['duration_ms'] / 1000:.1f} s{more}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}" if number else ""


def _evidence(verdict: GateVerdict) -> dict[str, Any]:
    result = verdict.result
    lists = {"new": verdict.new, "old": verdict.old, "flaky": verdict.flaky}
    return {
        "name": result.gate.name,
        "command": list(result.command),
        "outcome": result.outcome.value,
        "exit_code": result.exit_code,
        "blocking": verdict.blocking,
        "duration_ms": result.duration_ms,
        "again_ms": verdict.again_ms,
        "output": str(result.output_path) if result.output_path else None,
        "note": verdict.note,
        "counts": {
            "passed": len(result.passed),
            "skipped": len(result.skipped),
            "gone": len(verdict.gone),
            **{name: len(failures) for name, failures in lists.items()},
        },
        "gone": list(verdict.gone[:_MAX_EVIDENCE]),
        **{name: [_row(f) for f in failures[:_MAX_EVIDENCE]] for name, failures in lists.items()},
    }


def _row(failure: Failure) -> dict[str, str]:
    detail = clip(failure.detail, _EVIDENCE_DETAIL_BYTES)
    return {"title": failure.title, "location": failure.location, "detail": detail}
