"""Whole and half conversations of Codex 0.171.0's app server, for the fake engine: answers, items, ends.

engine.calls(call(opened(), turn(patched("a.py", "x = 1\n"), spent(), verdict("made a.py")), stdin="ignore"))

Messages hold the members the adapter reads; whole ones are in `tests/fixtures/codex`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.kit.scenario import FakeEngine, Step, Steps, answer, call, hear, out, write

__all__ = ["answer", "hear"]  # what conversations are put together with, beside what is below

VERSION = "codex-cli 0.171.0"
AGENT = "codeframe/0.171.0 (Debian 12.0.0; x86_64) unknown (codeframe; 0)"
THREAD = "01a22c5a-ae42-7130-a0d8-0d8ea7ae8e0f"
TURN = "01a22c5a-ae83-7403-8b55-521fe71011d8"
MODEL = "gpt-5.5"
ACCOUNT: Mapping[str, Any] = {"account": {"type": "apiKey"}, "requiresOpenaiAuth": True}


def fake_codex(folder: Any) -> FakeEngine:
    """A fake `codex` in a bin folder of its own."""
    return FakeEngine(folder, "codex", VERSION)


def conversation(*steps: Steps) -> dict[str, Any]:
    """One invocation that talks."""
    return call(*steps, argv=["app-server"], stdin="ignore")


def greeted(account: Mapping[str, Any] = ACCOUNT) -> Steps:
    """The handshake, and what it says of the login."""
    return [
        hear("initialize"),
        answer("initialize", {"userAgent": AGENT, "platformOs": "linux"}),
        hear("initialized"),
        out({"method": "remoteControl/status/changed", "params": {"status": "disabled"}}),
        hear("account/read"),
        answer("account/read", account),
    ]


def opened(method: str = "thread/start", thread: str = THREAD) -> Steps:
    """Handshake and thread."""
    return [
        greeted(),
        hear(method),
        answer(method, {"thread": {"id": thread, "status": {"type": "idle"}}, "model": MODEL}),
    ]


def turn(*steps: Steps) -> Steps:
    """A turn; the last of the steps is its end."""
    started = {"threadId": THREAD, "turn": {"id": TURN, "status": "inProgress"}}
    return [
        hear("turn/start"),
        answer("turn/start", {"turn": {"id": TURN, "status": "inProgress"}}),
        out({"method": "turn/started", "params": started}),
        *steps,
    ]


def told(method: str, thread: str = THREAD, **params: Any) -> Step:
    """A notification about the turn."""
    return out({"method": method, "params": {"threadId": thread, "turnId": TURN, **params}})


def item(kind: str, event: str = "completed", thread: str = THREAD, **members: Any) -> Step:
    """An item that began ("started") or is over ("completed")."""
    return told(f"item/{event}", thread, item={"type": kind, "id": "item-1", **members})


def asked(method: str, number: int, **params: Any) -> Steps:
    """A request of the server's, which waits for its answer."""
    whole = {"threadId": THREAD, "turnId": TURN, "itemId": "item-1", **params}
    return [out({"id": number, "method": method, "params": whole}), hear(number)]


def said(text: str) -> Step:
    """The model speaks."""
    return item("agentMessage", text=text, phase=None)


def running(command: str) -> Step:
    """A command that began."""
    return item("commandExecution", "started", command=f"/bin/bash -lc '{command}'", status="inProgress")


def ran(command: str, exit_code: int = 0) -> Steps:
    """A command, from its beginning to its end."""
    status = "completed" if exit_code == 0 else "failed"
    whole = f"/bin/bash -lc '{command}'"
    return [
        running(command),
        item("commandExecution", command=whole, status=status, exitCode=exit_code, aggregatedOutput=""),
    ]


def patched(path: str, content: str) -> Steps:
    """A file that is added by a patch (path relative to the working directory)."""
    change = {"path": f"{{cwd}}/{path}", "kind": {"type": "add"}, "diff": content}
    return [write(path, content), item("fileChange", changes=[change], status="completed")]


def tokens(given: int, cached: int, produced: int) -> dict[str, int]:
    """A TokenUsageBreakdown."""
    return {
        "totalTokens": given + produced,
        "inputTokens": given,
        "cachedInputTokens": cached,
        "cacheWriteInputTokens": 0,
        "outputTokens": produced,
        "reasoningOutputTokens": 0,
    }


def spent(
    total: dict[str, int] | None = None,
    last: dict[str, int] | None = None,
    thread: str = THREAD,
    turn_id: str = TURN,
) -> Step:
    """The tokens so far: of the whole thread, and of its last request."""
    total = total or tokens(1000, 400, 50)
    usage = {"total": total, "last": last or total, "modelContextWindow": 258_400}
    method = "thread/tokenUsage/updated"
    return out({"method": method, "params": {"threadId": thread, "turnId": turn_id, "tokenUsage": usage}})


def ended(status: str = "completed", error: Mapping[str, Any] | None = None, thread: str = THREAD) -> Steps:
    """The end of the turn; then the server waits for the end of its stdin."""
    done = {"id": TURN, "items": [], "status": status, "error": error}
    return [told("turn/completed", thread, turn=done), hear("the end of stdin")]


def verdict(summary: str, status: str = "completed", question: str = "", already: bool = False) -> Steps:
    """The report as the last words, and the end."""
    report = {"status": status, "summary": summary, "question": question, "already_satisfied": already}
    return [said(json.dumps(report)), ended()]


def failed(info: Any, message: str) -> Steps:
    """A turn that failed."""
    error = {"message": message, "codexErrorInfo": info, "additionalDetails": None}
    return [told("error", error=error, willRetry=False), ended("failed", error)]


def interruptible() -> Steps:
    """It waits to be interrupted, says that it was, clears away what runs, and ends with its stdin."""
    clean = "thread/backgroundTerminals/clean"
    return [
        hear("turn/interrupt"),
        answer("turn/interrupt"),
        told("turn/completed", turn={"id": TURN, "items": [], "status": "interrupted", "error": None}),
        hear(clean),
        answer(clean),
        hear("the end of stdin"),
    ]
