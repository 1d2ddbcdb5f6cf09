"""The verdict every engine is asked to end with (rule 4.9): its schema, its readers, how to ask for it."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from codeframe.core.agent_adapter import AgentResult, AgentResultStatus

STATUSES = ("completed", "blocked", "failed")

VERDICT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {
            "type": "string",
            "enum": list(STATUSES),
            "description": "completed: it is done. blocked: a person must answer first. failed: gave up.",
        },
        "summary": {"type": "string", "description": "What was done, in one to three sentences."},
        "question": {"type": "string", "description": "With blocked: the one question a person must answer."},
        "already_satisfied": {
            "type": "boolean",
            "description": "true only if the task was already done before and nothing had to change.",
        },
    },
    "required": ["status", "summary"],
}

_FENCE = r"(?ms)^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)^[ \t]*\1[ \t]*$"
# Only the end of an answer can hold its verdict; an answer may be megabytes of hostile fences.
_TAIL_CHARS = 64 * 1024


class Report(NamedTuple):
    """What the engine says of its own work. `status` is one of `STATUSES`."""

    status: str
    summary: str
    question: str | None = None
    already_satisfied: bool = False


def parse_structured(obj: object) -> Report | None:
    """The report in `obj`, a decoded JSON value; None when it is not one.

    More keys than asked for do no harm; a known key of a wrong type makes it no report.
    An empty or null question is none.
    """
    if not isinstance(obj, dict):
        return None
    status, summary = obj.get("status"), obj.get("summary")
    question, already = obj.get("question"), obj.get("already_satisfied")
    if status not in STATUSES or not isinstance(summary, str):
        return None
    if not isinstance(question, str | None) or not isinstance(already, bool | None):
        return None
    question = question.strip() if question else ""
    return Report(str(status), summary.strip(), question or None, bool(already))


def parse_fenced(text: str) -> Report | None:
    """The report in the last fenced block of `text`, or in `text` itself where it is nothing but JSON."""
    tail = text[-_TAIL_CHARS:].strip()
    blocks = [tail] if tail.startswith("{") else [match[2] for match in re.finditer(_FENCE, tail)]
    if not blocks:
        return None
    try:
        return parse_structured(json.loads(blocks[-1]))
    except (ValueError, RecursionError):
        return None


def parse_line(text: str) -> Report | None:
    """The report in the last line of `text` that is one; the engine may have had something to say after it."""
    for line in reversed(text[-_TAIL_CHARS:].splitlines()):
        if line.lstrip().startswith("{"):
            try:
                report = parse_structured(json.loads(line))
            except (ValueError, RecursionError):
                continue
            if report is not None:
                return report
    return None


def instructions(structured: bool, *, line: bool = False) -> str:
    """How to work and how to report, to be read by the engine.

    `structured` says that the engine's own machinery asks for the verdict's fields; otherwise the text asks
    for them as the last fenced block of the answer, or (`line`) as a bare line of it.
    """
    end = (
        "End with the structured verdict you are asked for: status, summary, question, already_satisfied."
        if structured
        else _LINE_END
        if line
        else _FENCED_END
    )
    return f"{_RULES}\n{end}"


_RULES = """\
You run unattended: nobody reads along and nobody can answer while you work.
- Make the changes in the working directory. Do not commit, push, or switch branches; that is done for you.
- After you finish, the project's own checks run. What fails comes back to you.
- Decide what can be decided. If only a person can decide, do not ask in your text: end with status \
"blocked" and put the one question in "question".
- If the task was already done before you started and nothing has to change, end with status "completed" \
and "already_satisfied": true.
- If you cannot do it, end with status "failed" and say why in "summary"."""

_LINE_END = """\
End your answer with exactly one line of JSON, in no block and with no fence around it, and nothing after it:
{"status": "completed | blocked | failed", "summary": "one to three sentences", \
"question": "only with blocked", "already_satisfied": false}"""

_FENCED_END = """\
End your answer with exactly one fenced block, and nothing after it:
```json
{"status": "completed | blocked | failed", "summary": "one to three sentences", \
"question": "only with blocked", "already_satisfied": false}
```"""


def reported(report: Report, name: str) -> AgentResult:
    """The verdict that a report of engine `name` comes to; what it lacks is said for it."""
    if report.status == "failed":
        error = report.summary or f"{name} reports that it failed"
        return AgentResult(AgentResultStatus.FAILED, summary=report.summary, error=error)
    if report.status == "blocked":
        question = report.question or report.summary or f"{name} is blocked and does not say why"
        return AgentResult(AgentResultStatus.BLOCKED, summary=report.summary, blocker_question=question)
    return AgentResult(
        AgentResultStatus.COMPLETED, summary=report.summary, already_satisfied=report.already_satisfied
    )
