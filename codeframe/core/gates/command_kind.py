"""Any other declared command: it passes when it exits with 0."""

from __future__ import annotations

import hashlib
from pathlib import Path

from codeframe.core.gates.counts import fingerprint
from codeframe.core.gates.kind import Missing, Reading, Tool
from codeframe.core.gates.model import Failure, Gate, GateOutcome
from codeframe.core.gates.project import Project
from codeframe.core.gates.tree import tail_of

_COMPARED_BYTES = 4 * 1024 * 1024


class CommandKind:
    """Nothing is known of the output but that the same failure prints the same words."""

    name = "command"
    reruns = True

    def find(self, root: Path) -> Gate | None:
        """Never found, only declared."""
        return None

    def hint(self, root: Path) -> str:
        """Nothing to say."""
        return ""

    def recognises(self, argv: tuple[str, ...]) -> bool:
        """Everything: this kind is asked last."""
        return True

    def tool(self, gate: Gate, project: Project) -> Tool | Missing:
        """The program on the project's PATH."""
        program = project.which(gate.command[0])
        if program is None:
            return Missing(f"{gate.command[0]} is not there")
        return Tool((program, *gate.command[1:]), project.via)

    def shown(self, gate: Gate, project: Project) -> tuple[str, ...]:
        """As declared."""
        return gate.command

    def argv(self, tool: Tool, scratch: Path) -> tuple[str, ...]:
        """As declared."""
        return tool.argv

    def rerun_argv(
        self, tool: Tool, scratch: Path, failures: tuple[Failure, ...], root: Path
    ) -> tuple[str, ...] | None:
        """The whole command: there is no smaller one."""
        return tool.argv

    def read(self, exit_code: int, scratch: Path, output: Path, root: Path) -> Reading:
        """Its one failure is known by the lines it printed, in any order (two streams and parallel
        jobs mix them differently each time), and by how many problems they count."""
        if exit_code == 0:
            return Reading(GateOutcome.PASSED)
        how = f"was ended by signal {-exit_code}" if exit_code < 0 else f"exited with {exit_code}"
        words, counts = fingerprint(tail_of(output, _COMPARED_BYTES), root)
        print_of = hashlib.sha256(words.encode()).hexdigest()[:16]
        title = f"the command {how}"
        failure = Failure(f"exit {exit_code}: {print_of}", title, tail_of(output), counts=counts)
        return Reading(GateOutcome.FAILED, (failure,), comparable=exit_code >= 0)
