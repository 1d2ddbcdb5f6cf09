"""run_command and run_tests: commands in the workspace, watched, ended in time, with nothing left running."""

from __future__ import annotations

import io
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from codeframe.core.process import EndedBy, Limits, ProcessOutcome, run_process
from codeframe.core.tools.guard import refusal
from codeframe.core.tools.model import Surroundings, Tool, ToolError, ToolResult

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
MAX_COMMAND_BYTES = 100 * 1024  # Linux takes 128 KiB in one word
KEPT_CHARS = 512 * 1024  # of the output's head, and as many of its tail, before secrets are looked for
# A model that waits for a command's family to end politely waits in vain: nobody has state to save.
_POLITE_S = 0.5
_TIMEOUT = {
    "type": "integer",
    "minimum": 1,
    "maximum": MAX_TIMEOUT_S,
    "description": f"Default: {DEFAULT_TIMEOUT_S}.",
}
_CANNOT = "cannot run: "  # how a line of `Surroundings.checks` begins its command where there is none


def shell_tools(surroundings: Surroundings) -> tuple[Tool, ...]:
    """The two tools for one workspace."""
    shell = _Shell(surroundings)
    return (
        Tool(
            "run_command",
            "Runs a shell command in the working directory, in a fresh shell without input, and shows its exit "
            "status and output. When it ends, all that it started is ended with it. Commands that destroy "
            "or publish are refused.",
            {"command": {"type": "string"}, "timeout_s": _TIMEOUT},
            ("command",),
            shell.run_command,
            telling="command",
        ),
        Tool(
            "run_tests",
            "Runs the project's own checks as they will be run on your work: all of them, or one, and that "
            "one on certain files or tests only.",
            {
                "check": {"type": "string", "description": "The name of one check. Default: all, in order."},
                "arguments": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "With check: words added to its command, for example tests/test_a.py::test_b.",
                },
                "timeout_s": {**_TIMEOUT, "description": f"For each check. Default: {MAX_TIMEOUT_S}."},
            },
            (),
            shell.run_tests,
            telling="check",
        ),
    )


class _Shell:
    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings

    def run_command(self, given: Mapping[str, Any]) -> ToolResult:
        command = given["command"]
        if "\0" in command or len(command.encode("utf-8", "replace")) > MAX_COMMAND_BYTES:
            raise ToolError("The command is too long or holds a NUL; put it into a file and run that.")
        if why := refusal(command, str(self._around.workspace), self._around.env.get("HOME")):
            raise ToolError(f"Refused: {why}")
        shell = shutil.which("bash", path=self._around.env.get("PATH")) or "/bin/sh"
        timeout_s = given.get("timeout_s", DEFAULT_TIMEOUT_S)
        return self._run([shell, "-c", command], self._around.env, timeout_s)

    def run_tests(self, given: Mapping[str, Any]) -> ToolResult:
        from codeframe.core.gates.project import Project  # only the engine that calls it pays

        checks = self._checks()
        name, arguments = given.get("check"), given.get("arguments", [])
        if arguments and name is None:
            raise ToolError("arguments need a check to be added to.")
        if name is not None and name not in checks:
            raise ToolError(
                f"There is no check {name!r}. There are: {', '.join(checks)}."
                if checks
                else "No checks are known here; use run_command."
            )
        if not checks:
            raise ToolError("No checks are known here; use run_command.")
        env = Project.at(self._around.workspace).env
        results = []
        for check, command in checks.items() if name is None else [(name, checks[name])]:
            if command.startswith(_CANNOT):
                results.append(ToolResult(f"{check} {command}", is_error=name is not None))
            elif not self._around.cancel.is_set():
                argv = [*shlex.split(command), *arguments]
                done = self._run(argv, env, given.get("timeout_s", MAX_TIMEOUT_S))
                results.append(ToolResult(f"{check}: {shlex.join(argv)}\n{done.text}", done.is_error))
        return ToolResult(
            "\n\n".join(result.text for result in results), any(result.is_error for result in results)
        )

    def _checks(self) -> dict[str, str]:
        """Name -> command of the gates that will run; of those the project shows where none will."""
        lines: Sequence[str] = self._around.checks
        if not lines:
            from codeframe.core.gates import GateSuite, find_gates

            root = self._around.workspace
            lines = GateSuite(root, find_gates(root)).describe()
        named = (line.partition(": ") for line in lines)
        return {name: command for name, _, command in named if command}

    def _run(self, argv: list[str], env: Mapping[str, str], timeout_s: float) -> ToolResult:
        from codeframe.core.gates.runner import Log

        kept = io.StringIO()
        log = Log(kept, head=KEPT_CHARS, tail=KEPT_CHARS)

        allowed = min(timeout_s, max(self._around.left_s(), 0.05))
        outcome = run_process(
            argv,
            cwd=self._around.workspace,
            env={**env, "PWD": str(self._around.workspace)},
            marker=self._around.next_marker(),
            on_lines=log.add,
            limits=Limits(timeout_s=allowed, polite_s=_POLITE_S),
            cancel=self._around.cancel,
        )
        log.finish()
        said = kept.getvalue().rstrip("\n")
        how, failed = _how_it_ended(outcome, allowed)
        self._around.survivors.extend(outcome.survivors)
        if outcome.survivors:
            how += f"; {len(outcome.survivors)} process(es) it left running were ended"
        return ToolResult(f"[{how}]\n{said or '(no output)'}", failed)


def _how_it_ended(outcome: ProcessOutcome, allowed: float) -> tuple[str, bool]:
    if outcome.ended_by is EndedBy.SPAWN_FAILED:
        return f"could not be started: {outcome.error}", True
    if outcome.ended_by is EndedBy.TIMEOUT:
        return f"ended after {allowed:.0f} s: too slow; give it a longer timeout_s or less to do", True
    if outcome.ended_by is EndedBy.CANCELLED:
        return "stopped", True
    code = outcome.exit_code
    if code is not None and code < 0:
        return f"ended by signal {-code}", True
    return f"exit status {code}", code != 0
