"""OpenCode, and programs made from it: `opencode run --format json`. Facts observed on version 1.18.33.

**The prompt** goes to stdin, and so to the model, byte for byte: as an argument it would be put into quotes.

**What the stream leaves out** is told by a plugin of ours (`opencode_events.js`), named in the configuration
overlay: that a tool began (the stream knows its end only), the session's id before the model answers,
retries, what sub-agents spent. It also ends what would never end: a wait for a `retry-after` of an hour, and
the loop of an answer that stops without a reason. Without it (`OPENCODE_PURE`) the run goes on all the same.

**Autonomy.** `--auto`: nobody is there to ask. "workspace": file tools are held inside the working directory
by an `external_directory` rule; what shell commands write is not confined by the program. "full": without the
rule. "--network off" denies the web tools.

**Model.** Without one it would ask a model hosted by its makers, and so send them the code: such a run is
refused. It is always named with `-m`.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from codeframe.core.adapters.engine_environment import engine_environment
from codeframe.core.adapters.launch import Launch
from codeframe.core.adapters.opencode_setup import (
    Product,
    alone,
    configured_model,
    needs_warm_up,
    overlay,
    temporary_folder,
)
from codeframe.core.adapters.opencode_stream import OpenCodeStream
from codeframe.core.adapters.subprocess_adapter import SubprocessAdapter
from codeframe.core.agent_adapter import AgentContext, AgentEvent, AgentResult, Capabilities, Unenforced
from codeframe.core.errors import RequirementsError
from codeframe.core.models import ErrorClass
from codeframe.core.process import EndedBy, Limits, ProcessOutcome, run_process

if TYPE_CHECKING:
    from codeframe.core.lines import Line

_WARM_UP_S = 300.0  # it may fetch 64 MB
_MAX_TITLE_CHARS = 80
_NPM_RETRIES = "npm_config_fetch_retries"
_SESSION_GONE = "Session not found"
_RACE = "Failed query: CREATE TABLE"  # another program was making the database at the same time


class OpenCodeAdapter(SubprocessAdapter):
    """Drives the real program found on PATH, with the person's own providers, logins and sessions."""

    product: ClassVar[Product] = Product(
        title="OpenCode",
        commands=("opencode",),
        prefix="OPENCODE",
        folder="opencode",
        configs=("opencode",),
        project_folders=(".opencode",),
        agent="build",
        hosted="opencode",
    )
    capabilities: ClassVar[Capabilities] = Capabilities(
        description="OpenCode, by its command line `opencode run`",
        resume=True,
        stdin_prompt=True,
        cost=True,
        terminal_signal="event",
    )
    commands: ClassVar[tuple[str, ...]] = product.commands
    tested: ClassVar[str] = "1.18.33"
    unenforced: ClassVar[tuple[Unenforced, ...]] = (
        Unenforced({"autonomy": "workspace"}, "what shell commands change is not confined to the workspace"),
        Unenforced({"network": "off"}, "the web tools are denied; what shell commands reach is not enforced"),
    )
    install_hint: ClassVar[str] = "Install it: npm install -g opencode-ai"
    login_hint: ClassVar[str] = "Run `opencode auth login`, or set the API key of the model's provider"
    # Its configuration can start servers, formatters and plugins; plugins and tools are code.
    project_config: ClassVar[tuple[str, ...]] = ("opencode.json", "opencode.jsonc", ".opencode")
    # It says nothing before the model does, and a model may take its time with a long prompt.
    first_event_s: ClassVar[float | None] = 300.0
    env_add: ClassVar[Mapping[str, str]] = {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }
    # What a session of its own, around us, would hand down.
    env_drop: ClassVar[frozenset[str]] = frozenset({"OPENCODE", "OPENCODE_PID", "OPENCODE_CLIENT"})

    @property
    def name(self) -> str:
        """The name people type after --engine."""
        return "opencode"

    @classmethod
    def logged_in(cls) -> bool:
        """Whether there is a model to ask: the chosen one is listed, or one that is not the makers' own."""
        printed: list[str] = []

        def on_lines(stream: str, lines: list[Line]) -> None:
            if stream == "stdout":
                printed.extend(line.text.strip() for line in lines)

        run_process(
            [str(cls._binary()), "models"],
            cwd=Path.home(),
            env=engine_environment({**cls.env_add, "PWD": str(Path.home())}, cls.env_drop),
            marker=f"requirements/{uuid.uuid4().hex}",
            on_lines=on_lines,
            limits=Limits(timeout_s=60),
        )
        chosen = configured_model(cls.product, Path.home(), os.environ)
        if chosen is not None:
            return chosen in printed
        return any("/" in line and not line.startswith(f"{cls.product.hosted}/") for line in printed)

    @classmethod
    def refusal(cls, workspace: Path, model: str | None) -> RequirementsError | None:
        """Why a run with this model (None: the person's own) must not start; None where it may. Starts nothing."""
        if model or configured_model(cls.product, workspace, os.environ):
            return None
        product = cls.product
        return RequirementsError(
            f"No model is chosen for {product.title}, which would send the code to one its makers host.",
            f"Type: cf config set model {product.example}; or add --model PROVIDER/MODEL "
            f"(`{product.commands[0]} models` lists them).",
        )

    @classmethod
    def _binary(cls) -> Path | None:
        found = next(filter(None, map(shutil.which, cls.product.commands)), None)
        return Path(found) if found else None

    def begin(self, workspace: Path) -> None:
        """Forget the last launch."""
        super().begin(workspace)
        self._stream = OpenCodeStream(self.name, self.heard)

    def _execute(self, prompt: str, workspace: Path, context: AgentContext, timeout_ms: int) -> AgentResult:
        """A refusal in place of the start, else one call; where another program raced for the database, a second."""
        if refused := self.refusal(workspace, context.model):
            self.begin(workspace)
            text = f"{refused.problem} {refused.hint}"
            self._say(AgentEvent("error", text))
            return self.failed(ErrorClass.MODEL, text, ProcessOutcome(EndedBy.SPAWN_FAILED, error=text))
        with temporary_folder(workspace) as self._temporary:
            result = super()._execute(prompt, workspace, context, timeout_ms)
            if result.error_class is ErrorClass.CRASHED and _RACE in str(result.evidence.get("stderr")):
                result = super()._execute(prompt, workspace, context, timeout_ms)
        return result

    def build(self, prompt: str, workspace: Path, context: AgentContext) -> Launch:
        """The verified invocation; its database is brought up to date first."""
        product, full = self.product, context.options.get("autonomy") == "full"
        network = context.options.get("network") not in ("off", False)
        model = context.model or configured_model(product, workspace, os.environ)
        binary = self._binary() or Path(product.commands[0])
        env = {
            # With a plugin it first fetches its plugin package, once; offline, retries are a minute at each start.
            _NPM_RETRIES: os.environ.get(_NPM_RETRIES, "0"),
            "TMPDIR": self._temporary,
            f"{product.prefix}_CONFIG_CONTENT": overlay(product, os.environ, full=full, network=network),
        }
        self._warm_up(binary, workspace, env)
        argv = [str(binary), "run", "--auto", "--format", "json", "--dir", str(workspace), "-m", str(model)]
        session = context.session_id if context.resume_session else None
        if session:
            argv += ["--session", session]
        else:  # a session with a title is not sent to a model for one
            argv += [f"--title={' '.join(context.task_title.split())[:_MAX_TITLE_CHARS] or 'CodeFrame'}"]
        self._stream = OpenCodeStream(self.name, self.heard, session or "", model)
        return Launch(
            tuple(argv),
            prompt.encode("utf-8", "replace"),
            env_add=env,
            session_id=session,
        )

    def _warm_up(self, binary: Path, workspace: Path, env: Mapping[str, str]) -> None:
        """Let one process alone make or change the database: of four at once on a fresh home one dies."""
        with alone(self.product, os.environ, self._cancel) as held:
            if held and needs_warm_up(self.product, binary, os.environ):
                run_process(
                    [str(binary), "session", "list"],
                    cwd=workspace,
                    env=engine_environment({**self.env_add, **env, "PWD": str(workspace)}, self.env_drop),
                    marker=f"requirements/{uuid.uuid4().hex}",
                    on_lines=lambda stream, lines: None,
                    limits=Limits(timeout_s=_WARM_UP_S),
                    cancel=self._cancel,
                )

    def parse(self, obj: dict[str, Any]) -> Iterable[AgentEvent]:
        """One line of the stream, or of the plugin."""
        return self._stream.read(obj)

    def finish(self, outcome: ProcessOutcome) -> AgentResult:
        """The common verdict; a session that cannot be had is no crash (evidence `session_lost`)."""
        self._stream.close()
        result = super().finish(outcome)
        if result.error_class is ErrorClass.CRASHED and _SESSION_GONE in outcome.stderr_tail:
            evidence = {**result.evidence, "session_lost": True}
            return replace(result, error_class=ErrorClass.PROTOCOL, evidence=evidence)
        return result
