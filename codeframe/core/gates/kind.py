"""What a kind of gate must know: whether a project shows it, how to launch it, how to read it.

To add a tool: one file with a class of this shape, one line in `discovery.KINDS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from codeframe.core.gates.model import Failure, Gate, GateOutcome
from codeframe.core.gates.project import Project


@dataclass(frozen=True)
class Tool:
    """A command ready to be launched in the project's environment.

    `argv` is the command without our own options, `identity` what of the environment decides the
    result (versions, paths relative to the project): part of the baseline's key.
    """

    argv: tuple[str, ...]
    identity: str


@dataclass(frozen=True)
class Missing:
    """Why a gate cannot run here, in one sentence. `tool` is False where the tool is there but its
    environment does not count (rule 6.2)."""

    why: str
    tool: bool = True


@dataclass(frozen=True)
class Reading:
    """What a kind made of a finished process. The fields are those of GateResult."""

    outcome: GateOutcome
    failures: tuple[Failure, ...] = ()
    passed: frozenset[str] = field(default_factory=frozenset)
    skipped: frozenset[str] = field(default_factory=frozenset)
    comparable: bool = True
    note: str = ""


class Kind(Protocol):
    """One kind of gate. Instances hold no state."""

    name: str
    reruns: bool  # whether a new failure may be chance, so that it is run once more (rule 6.4)

    def find(self, root: Path) -> Gate | None:
        """The gate a project at `root` shows without declaring it, or None."""
        ...

    def hint(self, root: Path) -> str:
        """Where `find` gave None: one line saying how a project at `root` turns the gate on, "" for nothing."""
        ...

    def recognises(self, argv: tuple[str, ...]) -> bool:
        """Whether a declared command is one of ours."""
        ...

    def tool(self, gate: Gate, project: Project) -> Tool | Missing:
        """How the gate is launched in `project`."""
        ...

    def shown(self, gate: Gate, project: Project) -> tuple[str, ...]:
        """The command of a gate that was found, in words: `tool` without asking, so nothing is run."""
        ...

    def argv(self, tool: Tool, scratch: Path) -> tuple[str, ...]:
        """The whole command line; what the tool writes for us goes into the folder `scratch`."""
        ...

    def rerun_argv(
        self, tool: Tool, scratch: Path, failures: tuple[Failure, ...], root: Path
    ) -> tuple[str, ...] | None:
        """The command that repeats only `failures`, None where they cannot be singled out."""
        ...

    def read(self, exit_code: int, scratch: Path, output: Path, root: Path) -> Reading:
        """What a process that ended by itself told. `output` is the log of all it printed."""
        ...
