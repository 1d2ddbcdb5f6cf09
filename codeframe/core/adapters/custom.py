"""Engines that are declared rather than written: a command, and what its words mean, as data (rule 1.1).

The keys are explained in docs/engines/custom.md. A placeholder is filled in inside of one argument, which no
shell ever sees. Of an engine nobody here knows little is believed: without events only its exit status counts,
and patterns for its errors look at stderr, an announced error, or what it said before its model was ever heard.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

from codeframe.core.adapters.engine_verdict import MAX_TEXT_CHARS
from codeframe.core.adapters.heard import Terminal
from codeframe.core.adapters.json_values import number_of, object_in, text_of
from codeframe.core.adapters.launch import Launch
from codeframe.core.adapters.subprocess_adapter import SubprocessAdapter
from codeframe.core.adapters.verdict_report import parse_line
from codeframe.core.agent_adapter import AgentContext, AgentEvent, AgentResult, Capabilities, Unenforced
from codeframe.core.blocker_detection import classify_error_for_blocker
from codeframe.core.durations import parse_duration
from codeframe.core.engine_definition import EngineDefinition, Word, filled, says
from codeframe.core.errors import writing
from codeframe.core.models import ErrorClass, TokenUsage
from codeframe.core.process import EndedBy, ProcessOutcome
from codeframe.core.whole_file import write_whole

_MAX_ERROR_CHARS = 2000


class _Tail:
    """The last lines of a stream, at most some 64 Ki characters."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque()
        self._size = 0

    def add(self, line: str) -> None:
        line = line[-MAX_TEXT_CHARS:]
        self._lines.append(line)
        self._size += len(line) + 1
        while self._size > MAX_TEXT_CHARS and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()) + 1

    def lines(self) -> list[str]:
        return list(self._lines)

    def text(self) -> str:
        return "\n".join(self._lines).strip()


class CustomAdapter(SubprocessAdapter):
    """One declared engine; `adapter_class` makes the class for a definition."""

    definition: ClassVar[EngineDefinition]
    origin: ClassVar[str] = ""  # where the definition comes from, in words
    root: ClassVar[Path | None] = None  # the workspace's folder, for commands that lie in it
    install_hint: ClassVar[str] = ""
    login_hint: ClassVar[str] = ""
    project_config: ClassVar[tuple[str, ...]] = ()
    run_defaults: ClassVar[Mapping[str, Any]] = {}

    @property
    def name(self) -> str:
        """The name people type after --engine."""
        return self.definition.name

    @classmethod
    def requirements(cls) -> dict[str, bool]:
        """Whether the command is there. It is not started."""
        program = str(cls.definition.command[0])
        found = os.path.join(cls.root or "", program) if os.sep in program else program
        where = "there" if os.sep in program else "on PATH"
        return {f"{program} {where}": shutil.which(found) is not None}

    def begin(self, workspace: Path) -> None:
        """Forget the last launch."""
        super().begin(workspace)
        self._said, self._errors = _Tail(), _Tail()
        self._unanswered = bool(self.definition.events.get("answer"))
        self._resuming = False
        self._borrowed: Path | None = None

    def build(self, prompt: str, workspace: Path, context: AgentContext) -> Launch:
        """The declared command, or the one that resumes, with its placeholders filled in."""
        definition = self.definition
        session = context.session_id
        self._resuming = bool(context.resume_session and session and definition.resume_command)
        if not self._resuming:
            session = (session or str(uuid.uuid4())) if definition.uses("session") else None
        words = definition.resume_command if self._resuming else definition.command
        scratch = self._scratch(context)
        values = {
            "workspace": str(workspace),
            "model": context.model or None,
            "session": session,
            "scratch": str(scratch),
            "prompt_file": str(scratch / "prompt.md"),
        }
        prompt = definition.prompt_prefix + prompt
        by_file = says(words, "prompt_file")
        if by_file:
            with writing(scratch / "prompt.md"):
                write_whole(scratch / "prompt.md", prompt.encode("utf-8", "replace").decode(), mode=0o600)
        env = {name: filled((value,), values) for name, value in definition.env.items()}
        return Launch(
            filled(words, values),
            None if by_file else prompt.encode("utf-8", "replace"),
            env_add={name: value[0] for name, value in env.items() if value},
            session_id=session,
            notices=() if self._resuming or context.round else self._notices(words, context),
        )

    def read(self, stream: str, text: str) -> Iterable[AgentEvent]:
        """One line. Events come on stdout, or on stderr beside words on stdout."""
        words = self.definition.output == "text"
        told = bool(self.definition.events) and stream == ("stderr" if words else "stdout")
        if told and (obj := object_in(text)) is not None:
            return self.parse(obj)
        if stream == "stderr":
            self._errors.add(text)
        elif words:
            self._said.add(text)
            if text.strip():
                return [AgentEvent("output", text)]
        return ()

    def parse(self, obj: dict[str, Any]) -> Iterable[AgentEvent]:
        """One event: whatever of it the definition has a path to."""
        events, heard = self.definition.events, self.heard
        heard.session_id = text_of(_at(obj, events.get("session"))) or heard.session_id
        if (usage := self._usage(obj, events.get("usage", {}))) is not None:
            heard.usage = usage if heard.usage is None else heard.usage + usage
        if _holds(obj, events.get("answer")):
            self._unanswered = False
        if _holds(obj, events.get("request")):  # the last word: it may except some answers
            self._unanswered = True
        if _holds(obj, events.get("failure")):
            error = text_of(_at(obj, events.get("error"))).strip() or "an error without a text"
            heard.terminal = Terminal(error, self._class_of([error]) or classify_error_for_blocker(error))
        elif _holds(obj, events.get("success")):
            heard.terminal = Terminal()
        if text := text_of(_at(obj, events.get("text"))).strip():
            self._said.add(text)
            return [AgentEvent("output", text)]
        return ()

    def finish(self, outcome: ProcessOutcome) -> AgentResult:
        """The common verdict, after what an exit status alone does not tell."""
        heard, code = self.heard, outcome.exit_code
        heard.text = self._said.text()
        if self.definition.report == "line":
            heard.report = parse_line(heard.text)
        ended = outcome.ended_by is EndedBy.EXIT and code is not None and code >= 0
        if ended and heard.terminal is None and (code or self._unanswered):
            heard.terminal = self._failure(code or 0)
            heard.text = "" if self._unanswered else heard.text  # nobody's answer to the task
        result = super().finish(outcome)
        if self._borrowed is not None:
            shutil.rmtree(self._borrowed, ignore_errors=True)
        if ended and code and self._resuming and not heard.text and result.error_class is ErrorClass.CRASHED:
            # It went on with nothing at all: most likely it does not know the session any more.
            return replace(result, evidence={**result.evidence, "session_lost": True})
        return result

    def _failure(self, code: int) -> Terminal | None:
        """An end without an announcement that is no success; None where the common verdict says it as well."""
        # Before its model has answered there is nobody whose words these could be but the engine's own.
        own = self._errors.lines() + (self._said.lines() if self._unanswered else [])
        telling = self._telling(own)
        if telling is not None:
            return Terminal(telling[0][:_MAX_ERROR_CHARS], telling[1])
        if code:
            return None
        said = "\n".join(own).strip()[-_MAX_ERROR_CHARS:]
        return Terminal(
            f"{self.name} ended without an answer of its model. {said}".strip(), ErrorClass.PROTOCOL
        )

    def _telling(self, lines: list[str]) -> tuple[str, ErrorClass] | None:
        """The last line with a declared error in it, and its class."""
        for line in reversed(lines):
            for name, pattern in self.definition.errors.items():
                if re.search(pattern, line):
                    return line.strip(), ErrorClass(name)
        return None

    def _class_of(self, lines: list[str]) -> ErrorClass | None:
        telling = self._telling(lines)
        return telling[1] if telling else None

    def _usage(self, obj: dict[str, Any], paths: Mapping[str, str]) -> TokenUsage | None:
        """What one event adds; None where it tells of none. A cost of nothing is taken for one not known."""
        if _at(obj, paths.get("input")) is None and _at(obj, paths.get("output")) is None:
            return None
        return TokenUsage(
            input_tokens=int(number_of(_at(obj, paths.get("input")))),
            output_tokens=int(number_of(_at(obj, paths.get("output")))),
            cost_usd=number_of(_at(obj, paths.get("cost"))) or None,
            model=text_of(_at(obj, paths.get("model"))) or None,
        )

    def _scratch(self, context: AgentContext) -> Path:
        """A folder of this launch's own, outside of the tree."""
        if context.run_dir is None:
            self._borrowed = Path(mkdtemp(prefix="codeframe-"))
            return self._borrowed
        folder = context.run_dir / f"engine-{context.round}-{uuid.uuid4().hex[:8]}"
        with writing(folder):
            folder.mkdir(mode=0o700, parents=True)
        return folder

    def _notices(self, words: tuple[Word, ...], context: AgentContext) -> tuple[str, ...]:
        if context.model and not says(words, "model"):
            return (f"{self.name} cannot be told which model to use; it takes its own",)
        return ()


def adapter_class(definition: EngineDefinition, root: Path | None, origin: str) -> type[CustomAdapter]:
    """The class that drives a declared engine; `root` is the folder of the workspace that declares it."""
    stall, first = definition.stall_timeout, definition.first_event_timeout
    name, shipped = definition.name, root is None
    about = {
        "definition": definition,
        "origin": origin,
        "root": root,
        "capabilities": Capabilities(
            description=definition.description or f"The command {definition.command[0]}",
            resume=bool(definition.resume_command),
            preassigned_session=bool(definition.resume_command) and definition.uses("session"),
            verdict_line=definition.report == "line",
            stdin_prompt=not definition.uses("prompt_file"),
            cost="cost" in definition.events.get("usage", {}),
            terminal_signal="event" if "success" in definition.events else "exit",
        ),
        # One that a repository declares is not started for a question.
        "commands": (str(definition.command[0]),) if shipped else (),
        "tested": definition.tested,
        "unenforced": (
            Unenforced({"network": "off"}, f"not enforced, {name} knows no such limit"),
            Unenforced(
                {"autonomy": "workspace"},
                f"not enforced, {name} itself decides what it does",
            ),
        ),
        "first_event_s": None if first is None else parse_duration(first),
        "install_hint": definition.install or f"Install {definition.command[0]} so that it is on PATH",
        "login_hint": definition.login,
        "project_config": definition.project_config,
        "run_defaults": {} if stall is None else {"stall_timeout_s": parse_duration(stall)},
    }
    return type(f"CustomAdapter[{definition.name}]", (CustomAdapter,), about)


def _at(value: Any, path: str | None) -> Any:
    """What is at `a.0.b` in a decoded JSON value; None where there is nothing."""
    for step in path.split(".") if path else ():
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step[:9]) < len(value):
            value = value[int(step)]
        else:
            return None
    return value if path else None


def _holds(obj: dict[str, Any], condition: Mapping[str, Any] | list[Mapping[str, Any]] | None) -> bool:
    """Whether each path of a condition, or of one in a list, has its value; False for no condition."""
    if isinstance(condition, list):
        return any(_holds(obj, one) for one in condition)
    found = ((_at(obj, path), wanted) for path, wanted in (condition or {}).items())
    return bool(condition) and all(type(value) is type(wanted) and value == wanted for value, wanted in found)
