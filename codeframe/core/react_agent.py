"""The agent of our own: asks a model, does what it asks for, tells it what came of it, until it calls `finish`.

One `run` is one engine call. The conversation outlives it: a correction or an answer goes on in it. Not here:
compaction, plans, gates; what a conversation is made of is `conversation`, what tools do is `tools`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from codeframe.adapters.llm.base import (
    Block,
    LLMProvider,
    Model,
    ModelError,
    Patience,
    Reply,
    Request,
    Stopped,
)
from codeframe.core.agent_adapter import AgentEvent, used_so_far
from codeframe.core.conversation import Conversation
from codeframe.core.models import ErrorClass, TokenUsage
from codeframe.core.tools import Toolbox, ToolResult, wrong_input

FINISH = "finish"
MAX_STEPS = 200  # answers of the model in one run: far more than any task should take
MAX_TOKENS = 16_000  # of one answer
MAX_NUDGES = 3  # in a row, for answers that neither act nor end
MAX_EVENT_CHARS = 2000

_CUT_OFF = "Your answer was cut off at its maximum length. Go on from there, in smaller steps."
_WORDLESS = f"Your answer was empty. Go on with the task, or call {FINISH} if you are done."
_BROKEN = (
    "The input of this call was cut off or is no JSON object; nothing was done. Repeat it whole, and where it "
    "is long, in parts: create a shorter file, then add to it with edit_file."
)
_NOT_WITH_ERRORS = "Not finished: a call beside this one failed. Look at its result first."

Emit = Callable[[AgentEvent], None]
Record = Callable[[Mapping[str, Any]], None]


class Ending(NamedTuple):
    """How a run ended by itself.

    `verdict` is the input of the `finish` call, None where the model just stopped with `text`;
    `exhausted` says that MAX_STEPS were not enough.
    """

    text: str = ""
    verdict: Mapping[str, Any] | None = None
    exhausted: bool = False


class ReactAgent:
    """One engine call: `run` once. `usage` and `steps` are what it took, whatever came of it.

    `finish_schema` is the JSON schema of what `finish` takes; `emit` gets events for people (output,
    command_run, file_changed, progress), from several threads; `record` gets everything, JSON-ready.
    """

    def __init__(
        self,
        provider: LLMProvider,
        toolbox: Toolbox,
        conversation: Conversation,
        *,
        system: str,
        finish_schema: Mapping[str, Any],
        patience: Patience,
        emit: Emit,
        record: Record,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self._provider = provider
        self._toolbox = toolbox
        self._conversation = conversation
        self._system = system
        self._finish_schema = finish_schema
        self._patience = patience
        self._emit = emit
        self._record = record
        self._max_steps = max_steps
        self.usage: TokenUsage | None = None
        self.steps = 0

    def run(self, model: Model) -> Ending:
        """From where the conversation stands to an end. Raises ModelError, Stopped; OSError when the
        conversation cannot be written."""
        nudges = 0
        while self.steps < self._max_steps:
            reply = self._ask(model)
            self.steps += 1
            self._conversation.add("assistant", reply.content)
            if reply.calls:
                nudges = 0
                if (verdict := self._do(reply)) is not None:
                    return Ending(reply.text, verdict)
                continue
            if reply.stop_reason == "pause_turn":
                continue
            if reply.text and reply.stop_reason != "max_tokens":
                return Ending(reply.text)
            nudges += 1
            if nudges > MAX_NUDGES:
                what = "is cut off again and again" if reply.text else "is empty"
                raise ModelError(ErrorClass.PROTOCOL, f"the model's answer {what} ({reply.stop_reason})")
            self._conversation.say(_CUT_OFF if reply.text else _WORDLESS)
        return Ending(exhausted=True)

    def _ask(self, model: Model) -> Reply:
        request = Request(
            model=model.id,
            max_tokens=min(MAX_TOKENS, model.max_tokens or MAX_TOKENS),
            system=self._system,
            tools=[*self._toolbox.specs, self._finish_spec()],
            messages=self._conversation.messages,
        )
        lines = _Lines(self._emit)
        try:
            reply = self._provider.answer(request, self._patience, lines.add)
        except (ModelError, Stopped) as error:
            self._count(error.usage)
            raise
        finally:
            lines.flush()
        self._count(reply.usage)
        self._record({"type": "assistant", "stop_reason": reply.stop_reason, "content": reply.content})
        if reply.stop_reason == "refusal":
            # Not kept: the API wants a refused answer taken out before the conversation goes on.
            raise ModelError(ErrorClass.MODEL, f"the model declines to go on. {reply.text}".strip())
        if reply.stop_reason == "model_context_window_exceeded":
            raise ModelError(ErrorClass.CONTEXT_WINDOW, "the conversation fills the model's context window")
        return reply

    def _do(self, reply: Reply) -> Mapping[str, Any] | None:
        """Do all calls of an answer in order, `finish` last, and answer each; the verdict, if that is one."""
        failed = False
        verdict: Mapping[str, Any] | None = None
        for call in sorted(reply.calls, key=lambda call: bool(call["name"] == FINISH)):
            self._patience.check()
            if call["id"] in reply.broken:
                result = ToolResult(_BROKEN, is_error=True)
            elif call["name"] == FINISH:
                result = self._finish(call["input"], failed)
                verdict = None if result.is_error else call["input"]
            else:
                result = self._use(call)
            failed = failed or result.is_error
            if result.is_error:
                first = result.text.strip().partition("\n")[0][:200]
                self._emit(AgentEvent("progress", f"{call['name']} failed: {first}"))
            self._conversation.answer(call, result.text, is_error=result.is_error)
            said = {
                "type": "tool_result",
                "tool": call["name"],
                "id": call["id"],
                "is_error": result.is_error,
            }
            self._record({**said, "text": result.text})
        return verdict

    def _use(self, call: Block) -> ToolResult:
        name, given = call["name"], call["input"]
        if name == "run_command" and isinstance(given.get("command"), str):
            self._emit(AgentEvent("command_run", given["command"], metadata={"tool_use_id": call["id"]}))
        else:
            self._emit(AgentEvent("progress", self._toolbox.about(name, given)))
        result = self._toolbox.call(name, given)
        if result.change is not None:
            path, change = result.change
            self._emit(AgentEvent("file_changed", path, metadata={"change": change}))
        return result

    def _finish(self, given: Mapping[str, Any], failed: bool) -> ToolResult:
        if problem := wrong_input(self._finish_schema, given):
            return ToolResult(problem, is_error=True)
        if failed:
            return ToolResult(_NOT_WITH_ERRORS, is_error=True)
        return ToolResult("Noted.")

    def _finish_spec(self) -> dict[str, Any]:
        description = (
            "Ends your work and reports it. Call it once, when nothing is left to do or can be done."
        )
        return {"name": FINISH, "description": description, "input_schema": dict(self._finish_schema)}

    def _count(self, usage: TokenUsage | None) -> None:
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
            self._emit(used_so_far(self.usage))


class _Lines:
    """What the model says, handed on line by line as it comes."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._open = ""

    def add(self, words: str) -> None:
        *lines, self._open = (self._open + words).split("\n")
        while len(self._open) > MAX_EVENT_CHARS:
            lines.append(self._open[:MAX_EVENT_CHARS])
            self._open = self._open[MAX_EVENT_CHARS:]
        for line in lines:
            self._say(line)

    def flush(self) -> None:
        self._say(self._open)
        self._open = ""

    def _say(self, line: str) -> None:
        if line.strip():
            self._emit(AgentEvent("output", line))
