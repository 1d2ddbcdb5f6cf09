"""What failed in the gates of a run, in lines for the person who looks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codeframe.core.models import Run


def failure_lines(run: Run) -> list[str]:
    """What failed new in the gates of a run, for the person who has to mend it."""
    lines = []
    for gate in (run.evidence.get("gates") or {}).get("gates", []):
        if gate["blocking"]:
            lines += [f"gate {gate['name']}:", *new_failures(gate)]
            if gate["output"]:
                lines.append(f"    whole output: {gate['output']}")
    return lines


def new_failures(gate: dict[str, Any]) -> Iterator[str]:
    """Lines for the new failures of one gate of the evidence, at most 20 of a kind."""
    for failure in gate["new"][:20]:
        yield f"    {failure['title']}" + (f" at {failure['location']}" if failure["location"] else "")
        if told := telling_line(failure["detail"]):
            yield f"      {told}"
    for test in gate["gone"][:20]:
        yield f"    gone or skipped: {test}"


def telling_line(detail: str) -> str:
    """The line of a failure's text that says most: pytest's first `E` line, else the last one; "" for none."""
    lines = [line for raw in detail.splitlines() if (line := " ".join(raw.split()))]
    errors = [line.removeprefix("E ") for line in lines if line.startswith("E ")]
    return short([*errors[:1], *lines[-1:]][0]) if lines else ""


def short(value: Any) -> str:
    """At most 300 characters of a text, or of anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 300 else text[:299] + "…"
