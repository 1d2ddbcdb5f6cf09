"""A question to the program of an engine, outside of any run: what it prints."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from codeframe.core.lines import Line
from codeframe.core.process import Limits, run_process


def printed_by(
    argv: Sequence[str],
    env: Mapping[str, str],
    timeout_s: float = 20,
    cancel: threading.Event | None = None,
) -> str:
    """What a command of an engine prints on stdout, started in the home folder: a question that takes no time."""
    printed: list[str] = []

    def on_lines(stream: str, lines: list[Line]) -> None:
        if stream == "stdout":
            printed.extend(line.text for line in lines)

    run_process(
        argv, cwd=Path.home(), env=env, marker=f"requirements/{uuid.uuid4().hex}", on_lines=on_lines,
        limits=Limits(timeout_s=timeout_s), cancel=cancel,
    )  # fmt: skip
    return "\n".join(printed)
