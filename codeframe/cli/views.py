"""How the domain's things are shown in every command: their JSON shapes with stable keys (rule 10.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codeframe.core.models import Blocker, Prd, Run, Task, TokenUsage

if TYPE_CHECKING:
    from codeframe.core.store import Event


def task_json(task: Task) -> dict[str, Any]:
    """Keys: id, title, description, status, priority, depends_on, engine, created_at, updated_at."""
    return {
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "status": task.status,
        "priority": task.priority,
        "depends_on": list(task.depends_on),
        "engine": task.engine,
        "created_at": task.created_at,
        "updated_at": task.updated_at,
    }


def usage_json(usage: TokenUsage) -> dict[str, Any]:
    """Keys: input_tokens, cached_input_tokens, output_tokens, cost_usd (null = unknown), model."""
    return {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
        "model": usage.model,
    }


def run_json(run: Run) -> dict[str, Any]:
    """A run with its evidence; `base` and `end` are commit ids of snapshots."""
    return {
        "id": run.id,
        "task_id": run.task_id,
        "status": run.status,
        "kind": run.kind,
        "attempt": run.attempt,
        "previous_run_id": run.previous_run_id,
        "engine": run.engine,
        "engine_why": run.engine_why,
        "model": run.model,
        "session_id": run.session_id,
        "rounds": run.rounds,
        "base": run.base,
        "end": run.end,
        "leftover": run.leftover,
        "verification": run.verification,
        "error_class": run.error_class,
        "error": run.error,
        "summary": run.summary,
        "usage": usage_json(run.usage),
        "duration_ms": run.duration_ms,
        "options": dict(run.options),
        "evidence": dict(run.evidence),
        "started_at": run.started_at,
        "ended_at": run.ended_at,
    }


def blocker_json(blocker: Blocker) -> dict[str, Any]:
    """Keys: id, task_id, run_id, kind, status, question, answer, created_at, answered_at."""
    return {
        "id": blocker.id,
        "task_id": blocker.task_id,
        "run_id": blocker.run_id,
        "kind": blocker.kind,
        "status": blocker.status,
        "question": blocker.question,
        "answer": blocker.answer,
        "created_at": blocker.created_at,
        "answered_at": blocker.answered_at,
    }


def prd_json(prd: Prd) -> dict[str, Any]:
    """Keys: id, title, content, created_at."""
    return {"id": prd.id, "title": prd.title, "content": prd.content, "created_at": prd.created_at}


def event_json(event: Event) -> dict[str, Any]:
    """Keys: seq, type, message, task_id, run_id, metadata, created_at (a string, UTC)."""
    return {
        "seq": event.seq,
        "type": event.type,
        "message": event.message,
        "task_id": event.task_id,
        "run_id": event.run_id,
        "metadata": dict(event.metadata),
        "created_at": event.created_at.isoformat().replace("+00:00", "Z"),
    }
