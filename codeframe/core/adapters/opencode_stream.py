"""What the lines of `opencode run --format json`, and of the plugin beside it, mean. Observed on version 1.18.33.

The stream has no last line: the reason of the last step is the end, unless an error follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from codeframe.core.adapters.heard import Heard, Terminal
from codeframe.core.adapters.json_values import dict_of, number_of, object_in, text_of
from codeframe.core.agent_adapter import AgentEvent
from codeframe.core.api_status import class_of_status
from codeframe.core.blocker_detection import classify_error_for_blocker
from codeframe.core.models import ErrorClass, TokenUsage

_WRITERS = frozenset({"write", "edit"})
_NOT_COMMANDS = frozenset({"task"})  # a sub-agent's silence is a model's silence
_TELLING = ("filePath", "path", "pattern", "url", "description")
# How a tool's error begins where a rule, or the absence of anybody to ask, refused the call.
_DENIED = ("The user rejected permission", "The user has specified a rule which prevents")
_VAGUE = "Unexpected server error"  # the plugin has the reason
_BROKE_OFF = "the model's answer broke off"
_NO_MODEL = r"Model not found: [^/\s]+/(\S+?)\.(?: Did you mean: (.*?)\?)?$"
_BY_NAME = {
    "ProviderAuthError": ErrorClass.AUTH,
    "ContextOverflowError": ErrorClass.CONTEXT_WINDOW,
    "MessageOutputLengthError": ErrorClass.PROTOCOL,
    "ContentFilterError": ErrorClass.MODEL,
}
# How the last step ended, where that is no good end.
_BY_REASON = {
    "length": ("the answer was cut: it reached the model's output limit", ErrorClass.PROTOCOL),
    "content-filter": ("the provider's content filter blocked the answer", ErrorClass.MODEL),
    "error": ("the model's answer ended with an error", ErrorClass.PROTOCOL),
    "other": (_BROKE_OFF, ErrorClass.NETWORK),
    "unknown": (_BROKE_OFF, ErrorClass.NETWORK),
}


class OpenCodeStream:
    """Fills in what one launch of the engine `name` has told.

    `session` is the session that goes on, "" for a new one; `model` is what was asked for with `-m`.
    """

    def __init__(self, name: str, heard: Heard, session: str = "", model: str | None = None) -> None:
        self._name = name
        self._heard = heard
        self._root = session  # sub-agents have sessions of their own
        self._model = model
        self._counted: set[str] = set()  # steps whose tokens are in the sum
        self._begun: set[str] = set()  # tools told of when they began
        self._denied: list[str] = []
        self._succeeded = 0
        self._reason = ""
        self._known: Terminal | None = None  # what the plugin knows of an error
        self._gave_up = False

    def read(self, obj: dict[str, Any]) -> Iterator[AgentEvent]:
        """The events of one line. Any field may have any type: what is not as expected is passed over."""
        kind, part = text_of(obj.get("type")), dict_of(obj.get("part"))
        if kind == "codeframe":
            yield from self._from_plugin(obj)
            return
        if session := text_of(obj.get("sessionID")):
            yield from self._session(session)
        if kind == "step_start":
            self._goes_on()
        elif kind == "text" and (text := text_of(part.get("text"))):
            self._heard.text = text
            yield AgentEvent("output", text)
        elif kind == "tool_use":
            yield from self._tool_ended(part)
        elif kind == "step_finish":
            self._count(part)
            self._step_ended(text_of(part.get("reason")))
        elif kind == "error":
            self._failed(self._error(obj.get("error")))

    def close(self) -> None:
        """Nothing more comes: settle what only the end tells."""
        if not self._denied:
            return
        self._heard.evidence |= {"permission_denials": self._denied, "fully_denied": self._succeeded == 0}
        if self._heard.terminal is None and self._reason == "tool-calls":
            # A refusal that nobody answered ends the run, with status 0 and without a word.
            self._failed(Terminal("it ended when it was denied a tool", ErrorClass.PERMISSION_DENIED))

    # -- the plugin's lines -----------------------------------------------------------------------

    def _from_plugin(self, obj: dict[str, Any]) -> Iterator[AgentEvent]:
        event, session = text_of(obj.get("event")), text_of(obj.get("sessionID"))
        if event == "session" and not text_of(obj.get("parentID")):
            yield from self._session(session)
        elif event == "tool":
            yield from self._tool_state(obj, in_subagent=session != self._root)
        elif event == "step":
            self._count(dict_of(obj.get("part")))
        elif event == "retry":
            seconds, attempt = number_of(obj.get("wait_ms")) / 1000, number_of(obj.get("attempt"))
            what = text_of(obj.get("message")) or "the model's API refused"
            yield AgentEvent("progress", f"{what}: retry {attempt:.0f} in {seconds:.0f} s")
        elif event == "permission":
            asked = {"permission": text_of(obj.get("permission"))}
            yield AgentEvent("progress", f"asked for permission: {asked['permission']}", metadata=asked)
        elif event == "error" and session == self._root:
            self._known = self._error(obj.get("error"))
        elif event == "gave_up":
            self._failed(self._given_up(obj))
            self._gave_up = True  # that it then says it was aborted is our doing

    def _given_up(self, obj: dict[str, Any]) -> Terminal:
        if text_of(obj.get("why")) == "steps":
            steps = number_of(obj.get("steps"))
            return Terminal(f"{_BROKE_OFF} {steps:.0f} times in a row", ErrorClass.PROTOCOL)
        said, seconds = text_of(obj.get("message")), number_of(obj.get("wait_ms")) / 1000
        # A retry is told of by its words alone. All that it retries passes, or is waited for in the same way.
        found = classify_error_for_blocker(said) or ErrorClass.RATE_LIMITED
        return Terminal(said or "the model's API refused", found, retry_after_s=seconds or None)

    def _tool_state(self, obj: dict[str, Any], *, in_subagent: bool) -> Iterator[AgentEvent]:
        call, tool = text_of(obj.get("callID")), text_of(obj.get("tool"))
        if text_of(obj.get("status")) != "running":
            self._heard.open_tools.discard(call)
            return
        if tool not in _NOT_COMMANDS:
            self._heard.open_tools.add(call)
        self._begun.add(call)
        yield self._tool_event(call, tool, dict_of(obj.get("input")), in_subagent=in_subagent)

    # -- the stream's own lines -------------------------------------------------------------------

    def _session(self, session: str) -> Iterator[AgentEvent]:
        if session and not self._root:
            self._root = self._heard.session_id = session
            told = {"session_id": session, **({"model": self._model} if self._model else {})}
            if self._model:
                self._heard.evidence["model"] = self._model
            yield AgentEvent("progress", f"{self._name} asks {self._model}", metadata=told)

    def _tool_ended(self, part: dict[str, Any]) -> Iterator[AgentEvent]:
        call, tool, state = text_of(part.get("callID")), text_of(part.get("tool")), dict_of(part.get("state"))
        given = dict_of(state.get("input"))
        self._heard.open_tools.discard(call)
        if call not in self._begun:
            yield self._tool_event(call, tool, given)
        if state.get("status") == "error":
            said = text_of(state.get("error"))
            if said.startswith(_DENIED):
                self._denied.append(tool)
            yield AgentEvent("progress", f"{tool} failed: {said.partition(chr(10))[0][:200]}")
            return
        self._succeeded += 1
        if tool in _WRITERS and (path := text_of(given.get("filePath"))):
            created = tool == "write" and dict_of(state.get("metadata")).get("exists") is False
            yield self._heard.file(path, "created" if created else "modified")

    def _tool_event(
        self, call: str, tool: str, given: dict[str, Any], *, in_subagent: bool = False
    ) -> AgentEvent:
        metadata = {"tool_use_id": call, **({"sub_agent": True} if in_subagent else {})}
        if command := text_of(given.get("command")):
            return AgentEvent("command_run", command, metadata=metadata)
        about = next((words for key in _TELLING if (words := text_of(given.get(key)))), "")
        return AgentEvent("progress", f"{tool} {about}".strip(), metadata=metadata)

    def _step_ended(self, reason: str) -> None:
        self._reason = reason
        if reason == "stop":
            self._heard.open_tools.clear()
            self._heard.terminal = self._heard.terminal or Terminal()
        elif reason in _BY_REASON:
            self._failed(Terminal(*_BY_REASON[reason]))

    def _goes_on(self) -> None:
        """Another step began: what came before was no end, unless we ended it."""
        if not self._gave_up:
            self._heard.terminal = None

    def _failed(self, terminal: Terminal) -> None:
        if self._gave_up:
            return
        before = self._heard.terminal
        # The first error that says something tells why; those after it are its consequences. One after a good end
        # is none the less one.
        if before is None or before.error is None or before.error.startswith((_VAGUE, _BROKE_OFF)):
            self._heard.terminal = terminal

    def _error(self, error: object) -> Terminal:
        """The class of an error by its own fields first, by its text only where they do not tell."""
        if isinstance(error, str):
            if "permission" in error and self._denied:
                return Terminal(error, ErrorClass.PERMISSION_DENIED)
            return Terminal(error, classify_error_for_blocker(error) or ErrorClass.PROTOCOL)
        name, data = text_of(dict_of(error).get("name")), dict_of(dict_of(error).get("data"))
        said = text_of(data.get("message")) or name or "an error without a text"
        if said.startswith(_VAGUE) and self._known is not None:
            return self._known
        if found := re.search(_NO_MODEL, said):
            # Known by this very name, and yet not to be had: its provider has no login.
            known = found[1] in (found[2] or "").split(", ")
            words = (
                f"{said.partition('. Did')[0].rstrip('.')}: its provider is not logged in" if known else said
            )
            return Terminal(words, ErrorClass.AUTH if known else ErrorClass.MODEL)
        return Terminal(said, _BY_NAME.get(name) or _class_of_api_error(said, data))

    def _count(self, part: dict[str, Any]) -> None:
        """Add a step's tokens, once: the plugin tells of each step, too, and of those of sub-agents alone."""
        step, tokens = text_of(part.get("id")), dict_of(part.get("tokens"))
        if not step or step in self._counted:
            return
        self._counted.add(step)
        cache = dict_of(tokens.get("cache"))
        cost = number_of(part.get("cost"))  # 0 where it knows no price
        spent = TokenUsage(
            input_tokens=int(number_of(tokens.get("input")) + number_of(cache.get("write"))),
            cached_input_tokens=int(number_of(cache.get("read"))),
            output_tokens=int(number_of(tokens.get("output")) + number_of(tokens.get("reasoning"))),
            cost_usd=cost or None,
            model=self._model,
        )
        self._heard.usage = spent if self._heard.usage is None else self._heard.usage + spent


def _class_of_api_error(said: str, data: dict[str, Any]) -> ErrorClass:
    """By the status; by what the API said where that is more than the status tells, or there is none."""
    body = dict_of((object_in(text_of(data.get("responseBody"))) or {}).get("error"))
    by_text = classify_error_for_blocker(f"{said}\n{text_of(body.get('type'))} {text_of(body.get('code'))}")
    found = class_of_status(int(number_of(data.get("statusCode"))))
    if found is ErrorClass.RATE_LIMITED and by_text in (ErrorClass.QUOTA, ErrorClass.BILLING):
        return by_text  # waiting seconds does not help
    if found is not None:
        return found
    # Retryable and without a status: it never got an answer.
    return by_text or (ErrorClass.NETWORK if data.get("isRetryable") is True else ErrorClass.PROTOCOL)
