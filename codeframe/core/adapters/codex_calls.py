"""What is said to Codex's app-server: the command, the parameters of each call, the answers to what it asks."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codeframe.core.adapters.json_rpc import JsonRpc, Request, Response
from codeframe.core.adapters.json_values import dict_of, dicts_in, object_in, text_of
from codeframe.core.adapters.verdict_report import VERDICT_SCHEMA, instructions
from codeframe.core.agent_adapter import AgentContext
from codeframe.core.lines import Line
from codeframe.core.process import Limits, OpenStdin, run_process
from codeframe.core.user_namespaces import allow_user_namespaces

ARGV = (
    *("codex", "app-server", "-c", "features.plugins=false"),
    *("-c", "features.unbounded_connection_retries=false"),
)
INITIALIZE = {
    "clientInfo": {"name": "codeframe", "title": "CodeFrame", "version": "0"},
    "capabilities": {
        "experimentalApi": True,  # dynamic tools, inject_items, backgroundTerminals/clean
        "requestAttestation": False,
        # Much, and all of it comes again when the item or the turn is over.
        "optOutNotificationMethods": ["turn/diff/updated", "item/commandExecution/outputDelta"],
    },
}
# The API takes a schema only where every member is required and no other allowed.
_SCHEMA = {**VERDICT_SCHEMA, "required": list(VERDICT_SCHEMA["properties"]), "additionalProperties": False}
_ASK_TOOL = {
    "type": "function",
    "name": "report_blocked",
    "description": "Report that you cannot go on before a person has answered one question. Then end your turn.",
    "inputSchema": {
        "type": "object",
        "properties": {"question": {"type": "string", "description": "The question."}},
        "required": ["question"],
        "additionalProperties": False,
    },
}
# Where nothing here forbids user namespaces it is the container's or the kernel's doing.
_NO_SANDBOX = "cf config set autonomy full"
_NOBODY_ANSWERS = 'Nobody can answer now; the question was noted. End your turn with status "blocked".'
# How an approval is given and refused, in the words of each kind of request.
_APPROVALS = {
    "item/commandExecution/requestApproval": ("accept", "decline"),
    "item/fileChange/requestApproval": ("accept", "decline"),
    "execCommandApproval": ("approved", "denied"),
    "applyPatchApproval": ("approved", "denied"),
}


def is_full(context: AgentContext) -> bool:
    """Whether the engine may do anything (`--autonomy full`)."""
    return context.options.get("autonomy") == "full"


def is_offline(context: AgentContext) -> bool:
    """Whether the network is to be off."""
    return context.options.get("network") in ("off", False)


def resumed(context: AgentContext) -> str | None:
    """The thread to go on in, None for a new one."""
    return context.session_id if context.resume_session else None


def thread(workspace: Path, context: AgentContext) -> tuple[str, dict[str, Any]]:
    """The call that opens the thread: read-only, see the top of `codex.py`."""
    params: dict[str, Any] = {
        "cwd": str(workspace),
        "approvalPolicy": "never",
        "sandbox": "read-only",
        "developerInstructions": instructions(structured=True),
    }
    if context.model:
        params["model"] = context.model
    if is_offline(context):
        params["config"] = {"web_search": "disabled"}
    if session := resumed(context):
        return "thread/resume", {**params, "threadId": session, "excludeTurns": True}
    return "thread/start", {**params, "dynamicTools": [_ASK_TOOL]}


def prompt(thread_id: str, text: str) -> dict[str, Any]:
    """Parameters of `thread/inject_items`: what the person says, as an item of the thread's history."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return {"threadId": thread_id, "items": [item]}


def turn(thread_id: str, text: str, context: AgentContext) -> dict[str, Any]:
    """Parameters of `turn/start`; `text` is empty where all of the prompt is in the history."""
    sandbox: dict[str, Any] = {"type": "dangerFullAccess"}
    if not is_full(context):
        sandbox = {
            "type": "workspaceWrite",
            "writableRoots": [],
            "networkAccess": not is_offline(context),
            "excludeTmpdirEnvVar": False,
            "excludeSlashTmp": False,
        }
    return {
        "threadId": thread_id,
        "input": [{"type": "text", "text": text, "text_elements": []}] if text else [],
        "outputSchema": _SCHEMA,
        "sandboxPolicy": sandbox,
        "approvalPolicy": "never",
    }


def question_of(request: Request) -> str | None:
    """The question that `request` asks a person, None where it asks none."""
    if request.method == "item/tool/requestUserInput":
        return "\n".join(text_of(one.get("question")) for one in dicts_in(request.params.get("questions")))
    if request.method == "item/tool/call" and request.params.get("tool") == _ASK_TOOL["name"]:
        return text_of(dict_of(request.params.get("arguments")).get("question"))
    return None


def no_answer(request: Request) -> dict[str, Any]:
    """The reply to a question."""
    if request.method == "item/tool/call":
        return {"contentItems": [{"type": "inputText", "text": _NOBODY_ANSWERS}], "success": True}
    ids = [text_of(one.get("id")) for one in dicts_in(request.params.get("questions"))]
    return {"answers": {name: {"answers": [_NOBODY_ANSWERS]} for name in ids}}


def decision(request: Request, *, allow: bool) -> dict[str, Any] | None:
    """The reply to a request for approval, None where it is no such request."""
    if request.method == "mcpServer/elicitation/request":
        return {"action": "decline"}  # it wants content, not leave
    words = _APPROVALS.get(request.method)
    return {"decision": words[0 if allow else 1]} if words else None


def login_missing(account: Mapping[str, Any]) -> bool:
    """What `account/read` says: there is no account, and the provider in force needs one of Codex's."""
    return account.get("account") is None and account.get("requiresOpenaiAuth") is True


def sandbox_trouble(env: Mapping[str, str]) -> tuple[str, str] | None:
    """What Codex's sandbox says where it cannot start a command, and what to type; None where it can."""
    outcome = run_process(
        ("codex", "sandbox", "--", "true"), cwd=Path.home(), env=env, marker=f"requirements/{uuid.uuid4().hex}",
        on_lines=lambda stream, lines: None, limits=Limits(20),
    )  # fmt: skip
    if outcome.exit_code == 0:
        return None
    said = (line for line in reversed(outcome.stderr_tail.splitlines()) if line.strip())
    why = next(said, outcome.error or f"status {outcome.exit_code}").strip()
    return f"it cannot start a command ({why})", allow_user_namespaces() or _NO_SANDBOX


def ask_account(env: Mapping[str, str]) -> dict[str, Any] | None:
    """What `account/read` says, of a server started for the question; None where it says nothing."""
    stdin, answers = OpenStdin(), list[Response]()
    rpc = JsonRpc(stdin, version=False)
    rpc.call("initialize", INITIALIZE)

    def on_lines(stream: str, lines: list[Line]) -> None:
        for line in lines if stream == "stdout" else []:
            heard = rpc.hear(object_in(line.text) or {})
            if isinstance(heard, Response) and heard.method == "initialize":
                rpc.notify("initialized")
                rpc.call("account/read", {})
            elif isinstance(heard, Response):
                answers.append(heard)
                stdin.close()

    marker = f"requirements/{uuid.uuid4().hex}"
    run_process(
        ARGV, cwd=Path.home(), env=env, marker=marker, on_lines=on_lines, stdin=stdin, limits=Limits(20)
    )
    return next((answer.result for answer in answers if answer.error is None), None)
