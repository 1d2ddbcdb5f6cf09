"""The one exception family that reaches a person: what is wrong, what to type, which exit status."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def not_written(path: Path, error: OSError) -> CodeFrameError:
    """That a file (or folder) cannot be written, and why; on a full disk what to type is where to make room."""
    return CodeFrameError(f"{path} cannot be written: {error.strerror}.", how_to_write(path, error))


def how_to_write(path: Path, error: OSError) -> str:
    """What to type where `path` cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"Make room there, then try again: df -h '{path.parent}'"
    if error.errno == errno.EROFS:
        disk = f"$(df -P '{path.parent}' | awk 'END {{print $NF}}')"
        return f'Its disk is mounted read-only; type: sudo mount -o remount,rw "{disk}"'
    return f"Look at it: ls -la '{path.parent}'"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """An OSError inside becomes `not_written`: what the system says of a full disk names no file."""
    try:
        yield
    except OSError as error:
        raise not_written(path, error) from error
