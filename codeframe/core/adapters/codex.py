"""Codex: one turn of a conversation with `codex app-server`. Facts observed on version 0.171.0.

A process is started for each engine call and talked with (JSON-RPC, `docs/engines/codex.md`): handshake,
`thread/start` or `thread/resume`, `turn/start`. Then its stdin is closed, on which it ends with its tools.

**The repository is never trusted for the person.** `thread/start` with a writable sandbox makes Codex write
the repository into the person's config.toml as trusted and load its `.codex/config.toml` at once, servers and
all. So a thread starts read-only, and each turn brings the sandbox it works in.

**The prompt** arrives byte for byte. To a turn's input Codex would add the text of every skill it finds named
there (`$name`), and it refuses one of more than 1,048,576 characters. What can be put into the thread beforehand,
as an item of its own, meets neither; but that counts as history, of which Codex sums up what does not fit the
window. So a prompt with a `$` goes that way if it is short enough to survive that whole, and of one that is too
long only what is too much.

**Autonomy.** "workspace": Codex's own sandbox, writable in the working directory and /tmp, `.git` read-only;
the network is on unless "--network off". "full": no sandbox. Nobody is asked either way (approval policy
"never"); should Codex ask all the same, "full" is a yes and "workspace" a no.

**What is overlaid** on the person's own setup: no plugins (each start would run `git ls-remote` on a GitHub
repository), and an end to waiting for a network that is down (CodeFrame backs off itself).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from codeframe.core.adapters import codex_calls, codex_items
from codeframe.core.adapters.engine_environment import engine_environment
from codeframe.core.adapters.heard import Terminal
from codeframe.core.adapters.json_rpc import JsonRpc, Notification, Request, Response
from codeframe.core.adapters.json_values import dict_of, text_of
from codeframe.core.adapters.launch import Launch
from codeframe.core.adapters.subprocess_adapter import SubprocessAdapter
from codeframe.core.adapters.verdict_report import Report, parse_fenced
from codeframe.core.agent_adapter import (
    AgentContext,
    AgentEvent,
    AgentResult,
    Capabilities,
    Unenforced,
    used_so_far,
)
from codeframe.core.models import ErrorClass
from codeframe.core.process import OpenStdin, ProcessOutcome

_MAX_INPUT_CHARS = 1_048_576
_KEPT_WHOLE_CHARS = 64 * 1024  # of the last messages Codex keeps 80,000 characters when it sums up
_SESSION_GONE = ("no rollout found", "thread not found", "invalid thread id")


class CodexAdapter(SubprocessAdapter):
    """Drives the real `codex` found on PATH, with the person's own login, provider and settings."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        description="Codex, by its app server `codex app-server`",
        resume=True,
        structured_verdict=True,
        stdin_prompt=True,
        terminal_signal="event",
    )
    commands: ClassVar[tuple[str, ...]] = ("codex",)
    tested: ClassVar[str] = "0.171.0"
    unenforced: ClassVar[tuple[Unenforced, ...]] = (
        Unenforced(
            {"autonomy": "full", "network": "off"},
            "the web search is removed; what shell commands reach is not enforced",
        ),
    )
    install_hint: ClassVar[str] = "Install it: npm install -g @openai/codex"
    login_hint: ClassVar[str] = "Run `codex login`, or set the key your model provider reads"
    # What it executes, or lets execute, of a project: servers, hooks and rules once the person trusted the project
    # in Codex itself, the scripts of skills and agents in any case.
    project_config: ClassVar[tuple[str, ...]] = (
        *(".codex/config.toml", ".codex/hooks.json", ".codex/rules", ".codex/agents", ".codex/skills"),
        ".agents/skills",
    )
    # What a Codex leaves in the environment of its own tools, should we be one of them.
    env_drop: ClassVar[frozenset[str]] = frozenset(
        {"CODEX_CI", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_SESSION_ID", "CODEX_THREAD_ID"}
    )

    @property
    def name(self) -> str:
        """The name people type after --engine."""
        return "codex"

    @classmethod
    def logged_in(cls) -> bool:
        """What Codex says of its account; it asks no server, so an expired login passes.

        Not by `codex login status`: that knows nothing of a provider that needs no login of Codex's.
        """
        account = codex_calls.ask_account(engine_environment({}, cls.env_drop))
        return account is not None and not codex_calls.login_missing(account)

    @classmethod
    def sandbox_trouble(cls) -> tuple[str, str] | None:
        """What is wrong with the sandbox of autonomy "workspace", and what to type. Without it each command fails
        and the turn ends as completed all the same. Facts are of Linux only, so elsewhere nothing is asked."""
        if not sys.platform.startswith("linux"):
            return None
        return codex_calls.sandbox_trouble(engine_environment({}, cls.env_drop))

    def begin(self, workspace: Path) -> None:
        """Forget the last launch."""
        super().begin(workspace)
        self._stdin = OpenStdin()
        self._rpc = JsonRpc(self._stdin, version=False)
        self._tokens = codex_items.TokenCount()
        self._thread = self._turn = ""
        self._model: str | None = None
        self._limits: dict[str, Any] = {}
        self._question = self._input = ""
        self._stopping = False

    def build(self, prompt: str, workspace: Path, context: AgentContext) -> Launch:
        """The process, and what will be said to it; `parse` goes on from the first answer."""
        self._prompt, self._context, self._model = prompt, context, context.model
        self._open = codex_calls.thread(workspace, context)
        self._rpc.call("initialize", codex_calls.INITIALIZE)
        session = codex_calls.resumed(context)
        return Launch(codex_calls.ARGV, self._stdin, session_id=session, farewell=self._interrupt)

    def parse(self, obj: dict[str, Any]) -> Iterable[AgentEvent]:
        """One message. Any field may have any type: what is not as expected is passed over."""
        match self._rpc.hear(obj):
            case Response(method, _, str(error)):
                self._refused(method, error)
            case Response(method, result):
                return list(self._answered(method, result))
            case Request() as request:
                return self._asked(request)
            case Notification(method, params):
                return list(self._told(method, params))
        return []

    def finish(self, outcome: ProcessOutcome) -> AgentResult:
        """The common verdict, with what was spent; a question that was asked on the way blocks."""
        self.heard.usage = self._tokens.usage(self._model)
        self.heard.report = parse_fenced(self.heard.text)
        if self._question:
            summary = self.heard.report.summary if self.heard.report else ""
            self.heard.report = Report("blocked", summary, self._question)
        result = super().finish(outcome)
        if result.error_class is ErrorClass.QUOTA:
            return replace(result, retry_after_s=codex_items.resets_in(self._limits))
        return result

    # -- the conversation ---------------------------------------------------------------------------

    def _answered(self, method: str, result: dict[str, Any]) -> Iterable[AgentEvent]:
        """The answer to one call brings the next."""
        if method == "initialize":
            agent = text_of(result.get("userAgent"))  # "codeframe/0.171.0 (Debian …"
            self.heard.evidence["engine_version"] = agent.partition("/")[2].partition(" ")[0]
            self._rpc.notify("initialized")
            self._rpc.call("account/read", {})
        elif method == "account/read":
            if codex_calls.login_missing(result):
                self._end(Terminal("Codex is not logged in", ErrorClass.AUTH))
            else:
                self._rpc.call(*self._open)
        elif method in ("thread/start", "thread/resume"):
            self._thread = self.heard.session_id = text_of(dict_of(result.get("thread")).get("id"))
            self._model = self.heard.evidence["model"] = text_of(result.get("model")) or self._model
            about = {"session_id": self._thread, "model": self._model}
            yield AgentEvent("progress", f"{self.name} asks {self._model}", metadata=about)
            self._put_prompt()
        elif method == "thread/inject_items":
            self._start_turn()
        elif method == "turn/start":
            self._turn = text_of(dict_of(result.get("turn")).get("id"))
        elif method == "thread/backgroundTerminals/clean":
            self._stdin.close()

    def _asked(self, request: Request) -> list[AgentEvent]:
        """What it asks is answered at once: it waits for ever."""
        if (question := codex_calls.question_of(request)) is not None:
            self._question = question or "(a question without words)"
            self._rpc.answer(request, codex_calls.no_answer(request))
            return []
        allow = codex_calls.is_full(self._context)
        if (decision := codex_calls.decision(request, allow=allow)) is None:
            self._rpc.refuse(request, f"{request.method} is not supported")
            return []
        self._rpc.answer(request, decision)
        what = (
            text_of(request.params.get("command")) or text_of(request.params.get("reason")) or request.method
        )
        if not allow:
            self.heard.evidence.setdefault("permission_denials", []).append(what)
        return [AgentEvent("progress", f"{'allowed' if allow else 'not allowed'}: {what}")]

    def _refused(self, method: str, error: str) -> None:
        if self._stopping:
            self._stdin.close()
        elif method == "thread/resume" and any(words in error for words in _SESSION_GONE):
            self.heard.evidence["session_lost"] = True
            self._end(Terminal(error, ErrorClass.PROTOCOL))
        else:
            self._end(codex_items.error_of({"message": f"{method} was refused: {error}"}))

    def _put_prompt(self) -> None:
        """See the top of this file. The input of the turn is what was not put into the thread."""
        prompt = self._prompt
        early = len(prompt) if "$" in prompt and len(prompt) <= _KEPT_WHOLE_CHARS else 0
        early = max(early, len(prompt) - _MAX_INPUT_CHARS)
        self._input = prompt[early:]
        if early:
            self._rpc.call("thread/inject_items", codex_calls.prompt(self._thread, prompt[:early]))
        else:
            self._start_turn()

    def _start_turn(self) -> None:
        self._rpc.call("turn/start", codex_calls.turn(self._thread, self._input, self._context))

    def _told(self, method: str, params: dict[str, Any]) -> Iterable[AgentEvent]:
        thread = text_of(params.get("threadId"))
        elsewhere = thread != self._thread
        if method == "item/started":
            yield from codex_items.started(dict_of(params.get("item")), self.heard)
        elif method == "item/completed":
            item = dict_of(params.get("item"))
            yield from codex_items.completed(item, self.heard, in_subagent=elsewhere)
        elif method == "thread/tokenUsage/updated":
            earlier = not elsewhere and text_of(params.get("turnId")) != self._turn
            self._tokens.told(thread, dict_of(params.get("tokenUsage")), earlier=earlier)
            if not earlier and (used := self._tokens.usage(self._model)) is not None:
                yield used_so_far(used)
        elif method == "account/rateLimits/updated":
            self._limits = dict_of(params.get("rateLimits"))
        elif method == "error" and params.get("willRetry") is True:
            error = dict_of(params.get("error"))
            said = (text_of(error.get(key)) for key in ("message", "additionalDetails"))
            yield AgentEvent("progress", ": ".join(filter(None, said)))
        elif method == "warning":
            yield AgentEvent("progress", text_of(params.get("message")))
        elif method == "turn/completed" and not elsewhere:
            self._completed(dict_of(params.get("turn")))

    def _completed(self, turn: dict[str, Any]) -> None:
        """The turn is over, and with it this call."""
        self.heard.open_tools.clear()
        status = text_of(turn.get("status"))
        if self._stopping:
            self._clean()
        elif status == "completed":
            self._end(Terminal())
        elif status == "failed":
            self._end(codex_items.error_of(dict_of(turn.get("error"))))
        else:
            self._end(Terminal(f"the turn ended as {status or 'nothing known'}", ErrorClass.CRASHED))

    def _end(self, terminal: Terminal) -> None:
        self.heard.terminal = terminal
        self._stdin.close()

    # -- how it is stopped --------------------------------------------------------------------------

    def _interrupt(self) -> None:
        """End the turn, then what it left running, then the server; any of it may go unanswered."""
        self._stopping = True
        if self._turn and self.heard.terminal is None:
            self._rpc.call("turn/interrupt", {"threadId": self._thread, "turnId": self._turn})
        else:
            self._stdin.close()

    def _clean(self) -> None:
        self._rpc.call("thread/backgroundTerminals/clean", {"threadId": self._thread})
