"""The one exception family that reaches a person: what is wrong, what to type, which exit status."""

from __future__ import annotations

# Exit statuses of the command line (rule 10.1).
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BLOCKED = 3
EXIT_TIMEOUT = 4
EXIT_REQUIREMENTS = 5
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class CodeFrameError(Exception):
    """An error meant for a person.

    `problem` is one sentence saying what is wrong, `hint` one saying what to type
    (may be empty), `exit_code` the status of the process (int, rule 10.1).
    """

    exit_code: int = EXIT_FAILED

    def __init__(self, problem: str, hint: str = "", exit_code: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(CodeFrameError):
    """The words typed make no sense here: unknown id, bad value, wrong folder."""

    exit_code = EXIT_USAGE


class RequirementsError(CodeFrameError):
    """Something that has to be installed, configured or trusted first is missing."""

    exit_code = EXIT_REQUIREMENTS
