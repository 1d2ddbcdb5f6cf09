"""Claude Code: `claude -p` with its stream of JSON events. Facts observed on version 2.1.197.

**Autonomy.** "workspace": edits inside the working directory and Bash are allowed (Bash is not confined by
the CLI), the rest is denied. "full": `bypassPermissions`. The CLI refuses that to root unless IS_SANDBOX=1,
which is set for that case only: choosing "full" is choosing it. "--network off" removes the web tools.

**What is overlaid** on the person's own setup: `--strict-mcp-config` (a project's .mcp.json servers are
otherwise started unasked), 3 retries instead of 10 (10 take three minutes; CodeFrame backs off itself), no
self-update, no telemetry, no git status in the system prompt (it changes with every edit, which costs the
prompt cache on resume).
"""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from codeframe.core.adapters.asking import printed_by
from codeframe.core.adapters.claude_prompt import prompt_message
from codeframe.core.adapters.claude_results import (
    about,
    error_of,
    first_line,
    is_session_gone,
    spoken,
    usage_of,
)
from codeframe.core.adapters.engine_environment import engine_environment
from codeframe.core.adapters.heard import Terminal
from codeframe.core.adapters.json_values import dict_of, dicts_in, list_of, number_of, text_of
from codeframe.core.adapters.launch import Launch
from codeframe.core.adapters.subprocess_adapter import SubprocessAdapter
from codeframe.core.adapters.verdict_report import VERDICT_SCHEMA, instructions, parse_structured
from codeframe.core.agent_adapter import (
    AgentContext,
    AgentEvent,
    AgentResult,
    Capabilities,
    Unenforced,
    used_so_far,
)
from codeframe.core.models import ErrorClass, TokenUsage
from codeframe.core.process import ProcessOutcome

_WRITERS = dict.fromkeys(("Write", "Edit", "MultiEdit"), "file_path") | {"NotebookEdit": "notebook_path"}
# No command of its own: a sub-agent's silence is a model's silence.
_NOT_COMMANDS = frozenset({"Agent", "Task", "StructuredOutput"})
_SESSION_TAKEN = "is already in use"
_USAGE_STEP = 1000  # tokens between two events that tell what is used up, at least


class ClaudeCodeAdapter(SubprocessAdapter):
    """Drives the real `claude` found on PATH, with the person's own login and settings."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        description="Claude Code, by its command line `claude`",
        resume=True,
        preassigned_session=True,
        structured_verdict=True,
        stdin_prompt=True,
        cost=True,
        terminal_signal="event",
    )
    commands: ClassVar[tuple[str, ...]] = ("claude",)
    tested: ClassVar[str] = "2.1.197"
    unenforced: ClassVar[tuple[Unenforced, ...]] = (
        Unenforced({"autonomy": "workspace"}, "what shell commands change is not confined to the workspace"),
        Unenforced({"network": "off"}, "its web tools are gone; what shell commands reach is not enforced"),
    )
    install_hint: ClassVar[str] = "Install it: npm install -g @anthropic-ai/claude-code"
    login_hint: ClassVar[str] = "Run `claude` and type /login, or set ANTHROPIC_API_KEY"
    # What it executes of a project (hooks; agents, commands and skills can bring hooks and shell lines of their
    # own). The servers of .mcp.json it is told not to start.
    project_config: ClassVar[tuple[str, ...]] = (
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".mcp.json",
        ".claude/hooks",
        ".claude/agents",
        ".claude/commands",
        ".claude/skills",
    )
    # SIGINT is the only signal on which it ends its Bash children, which have sessions of their own.
    polite_signal: ClassVar[signal.Signals] = signal.SIGINT
    env_add: ClassVar[dict[str, str]] = {
        "CLAUDE_CODE_MAX_RETRIES": "3",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    env_drop: ClassVar[frozenset[str]] = frozenset({"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"})

    @property
    def name(self) -> str:
        """The name people type after --engine."""
        return "claude-code"

    @classmethod
    def logged_in(cls) -> bool:
        """What `claude auth status` says; it asks no server, so an expired login passes."""
        said = printed_by(["claude", "auth", "status"], engine_environment(cls.env_add, cls.env_drop))
        try:
            status = json.loads(said)
        except (ValueError, RecursionError):
            return False
        return isinstance(status, dict) and status.get("loggedIn") is True

    def begin(self, workspace: Path) -> None:
        """Forget the last launch."""
        super().begin(workspace)
        self._calls: dict[str, tuple[str, str]] = {}  # tool_use id -> (tool, the path it writes or "")
        self._succeeded = 0
        self._call: object = None  # the id of the message that is being told
        self._fresh, self._cached, self._output = 0.0, 0.0, 0.0  # tokens as in TokenUsage
        self._tell_at: float = _USAGE_STEP
        self._quota_resets_at: float | None = None
        self._assistant_error = ""
        self._model: str | None = None

    def build(self, prompt: str, workspace: Path, context: AgentContext) -> Launch:
        """The verified invocation; the session's id is chosen here, so that it is known whatever happens."""
        self._model = context.model
        argv = [
            "claude",
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
        ]
        env: dict[str, str] = {}
        if context.options.get("autonomy") == "full":
            argv += ["--permission-mode", "bypassPermissions"]
            if os.geteuid() == 0:
                env["IS_SANDBOX"] = "1"
        else:
            argv += ["--permission-mode", "acceptEdits", "--allowedTools=Bash"]
        if context.options.get("network") in ("off", False):
            argv += ["--disallowedTools=WebFetch,WebSearch"]
        argv += ["--strict-mcp-config"]
        if context.model:
            argv += ["--model", context.model]
        session = context.session_id or str(uuid.uuid4())
        argv += ["--resume" if context.resume_session and context.session_id else "--session-id", session]
        argv += ["--json-schema", json.dumps(VERDICT_SCHEMA)]
        argv += ["--append-system-prompt", instructions(structured=True)]
        return Launch(tuple(argv), prompt_message(prompt), env_add=env, session_id=session)

    def parse(self, obj: dict[str, Any]) -> Iterable[AgentEvent]:
        """One event of the stream. Any field may have any type: what is not as expected is passed over."""
        heard = self.heard
        heard.session_id = text_of(obj.get("session_id")) or heard.session_id
        kind = text_of(obj.get("type"))
        if kind == "assistant":
            return self._assistant(obj)
        if kind == "user":
            return list(self._tool_results(obj))
        if kind == "system":
            return list(self._system(obj))
        if kind == "rate_limit_event":
            self._rate_limit(dict_of(obj.get("rate_limit_info")))
        elif kind == "result":
            self._result(obj)
        return []

    def finish(self, outcome: ProcessOutcome) -> AgentResult:
        """The common verdict; a session that cannot be had is no crash (evidence `session_lost`)."""
        result = super().finish(outcome)
        if result.error_class is ErrorClass.CRASHED and _SESSION_TAKEN in outcome.stderr_tail:
            evidence = {**result.evidence, "session_lost": True}
            return replace(result, error_class=ErrorClass.PROTOCOL, evidence=evidence)
        return result

    def _system(self, obj: dict[str, Any]) -> Iterator[AgentEvent]:
        subtype = text_of(obj.get("subtype"))
        if subtype == "init":
            self.heard.terminal = None  # a background command that ended wakes another turn
            self._model = text_of(obj.get("model")) or self._model
            # With its window, as in "…[1m]": a resumed session that is not given this very name
            # gets another system prompt, and so loses its prompt cache (observed).
            if self._model and "model" not in self.heard.evidence:
                self.heard.evidence["model"] = self._model
                yield AgentEvent(
                    "progress", f"{self.name} asks {self._model}", metadata={"model": self._model}
                )
            self.heard.evidence["engine_version"] = text_of(obj.get("claude_code_version"))
        elif subtype == "api_retry":
            attempt, most = number_of(obj.get("attempt")), number_of(obj.get("max_retries"))
            wait = number_of(obj.get("retry_delay_ms")) / 1000
            what = text_of(obj.get("error")) or "the API did not answer"
            yield AgentEvent("progress", f"{what}: retry {attempt:.0f} of {most:.0f} in {wait:.0f} s")
        elif subtype == "model_fallback":
            yield AgentEvent("progress", "fell back to another model")

    def _assistant(self, obj: dict[str, Any]) -> list[AgentEvent]:
        events: list[AgentEvent] = []  # nearly every line of a flood comes here
        in_subagent = obj.get("parent_tool_use_id") is not None
        if not in_subagent:
            self.heard.terminal = None
            self._assistant_error = text_of(obj.get("error"))
        message = dict_of(obj.get("message"))
        if (call := message.get("id")) != self._call:  # each block of a message repeats its usage
            self._call = call
            if used := self._used_so_far(dict_of(message.get("usage"))):
                events.append(used)
        for block in dicts_in(message.get("content")):
            kind = block.get("type")
            if kind == "text" and not obj.get("error") and (text := spoken(block.get("text"))):
                if not in_subagent:
                    self.heard.text = text  # its last words, should no good end follow
                events.append(AgentEvent("output", text, metadata={"sub_agent": True} if in_subagent else {}))
            elif kind == "tool_use":
                events += self._tool_call(block)
        return events

    def _tool_call(self, block: dict[str, Any]) -> Iterator[AgentEvent]:
        call, tool, given = text_of(block.get("id")), text_of(block.get("name")), dict_of(block.get("input"))
        path = text_of(given.get(_WRITERS.get(tool, "")))
        self._calls[call] = (tool, path)
        if tool not in _NOT_COMMANDS:
            self.heard.open_tools.add(call)
        if tool == "Bash":
            yield AgentEvent("command_run", text_of(given.get("command")), metadata={"tool_use_id": call})
        elif tool != "StructuredOutput":
            yield AgentEvent("progress", f"{tool} {path or about(given)}".strip())

    def _used_so_far(self, usage: dict[str, Any]) -> AgentEvent | None:
        """What is known before the end: of the output only what its first block tells, which is nearly nothing."""
        told = usage.get
        self._fresh += number_of(told("input_tokens")) + number_of(told("cache_creation_input_tokens"))
        self._cached += number_of(told("cache_read_input_tokens"))
        self._output += number_of(told("output_tokens"))
        if self._fresh < self._tell_at:  # not each time: a flood of messages would be slowed by it
            return None
        self._tell_at = self._fresh + max(_USAGE_STEP, self._fresh // 50)
        return used_so_far(TokenUsage(int(self._fresh), int(self._cached), int(self._output)))

    def _tool_results(self, obj: dict[str, Any]) -> Iterator[AgentEvent]:
        for block in dicts_in(dict_of(obj.get("message")).get("content")):
            call = text_of(block.get("tool_use_id"))
            if block.get("type") != "tool_result" or call not in self._calls:
                continue
            tool, path = self._calls.pop(call)
            self.heard.open_tools.discard(call)
            if block.get("is_error") is True:
                said = first_line(block.get("content"))
                yield AgentEvent("progress", f"{tool} failed: {said}" if said else f"{tool} failed")
                continue
            self._succeeded += tool != "StructuredOutput"
            if path:
                # Sub-agents' events lack `tool_use_result`; the words are the tool's own, not the model's.
                created = dict_of(obj.get("tool_use_result")).get("type") == "create" or text_of(
                    block.get("content")
                ).startswith("File created")
                yield self.heard.file(path, "created" if created else "modified")

    def _rate_limit(self, info: dict[str, Any]) -> None:
        """A subscription's allowance is used up; `resetsAt` is in seconds since 1970."""
        if info.get("status") == "rejected":
            self._quota_resets_at = number_of(info.get("resetsAt"))
            self.heard.evidence["rate_limit_type"] = text_of(info.get("rateLimitType"))

    def _result(self, obj: dict[str, Any]) -> None:
        """The end of a turn. Of several the last counts; its `modelUsage` includes the earlier ones'."""
        heard = self.heard
        heard.open_tools.clear()
        heard.usage = usage_of(obj, self._model)
        said = spoken(obj.get("result")) or "\n".join(filter(None, map(spoken, list_of(obj.get("errors")))))
        heard.report = parse_structured(obj.get("structured_output")) or heard.report
        if denied := [text_of(d.get("tool_name")) for d in dicts_in(obj.get("permission_denials"))]:
            # Even a run that was denied everything says success.
            heard.evidence |= {"permission_denials": denied, "fully_denied": self._succeeded == 0}
        subtype = text_of(obj.get("subtype"))
        if obj.get("is_error") not in (False, None) or subtype.startswith("error"):
            text = said or subtype or "an error without a text"
            heard.terminal = error_of(obj, text, self._assistant_error, self._quota_resets_at)
            if is_session_gone(obj, text):
                heard.evidence["session_lost"] = True
        elif obj.get("num_turns") == 0 and heard.report is None:
            # What a slash command does: success, and the model was never asked.
            heard.terminal = Terminal(f"the model was not asked: {said}", ErrorClass.PROTOCOL)
        else:
            heard.terminal = Terminal()
            heard.text = said
