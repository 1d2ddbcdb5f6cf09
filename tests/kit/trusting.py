"""Trusting a test's own repository, in this process: what a person does once with `cf trust --yes` (rule 9.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from codeframe.core.admission import gate_suite
from codeframe.core.config import load_environment_config
from codeframe.core.errors import CodeFrameError
from codeframe.core.trust import Trust
from codeframe.core.workspace import find_workspace
from codeframe.core.would_run import all_that_would_run

_ASKING = (
    ("work", "start", "--execute"),
    ("work", "resume"),
    ("work", "retry"),
    ("work", "verify"),
    ("gates", "run"),
)


def runs_something(args: Sequence[str]) -> bool:
    """Whether `cf ARGS` is one of the commands that ask for trust."""
    words = {*args[:2]} | ({"--execute"} & {*args})
    return any({*asking} <= words for asking in _ASKING)


def trust(where: Path, environ: Mapping[str, str]) -> None:
    """Trust all that would run in the workspace of `where` now, for the person whose environment that is.

    A stage whose configuration makes no sense is left as it is: the command itself is to say so.
    """
    try:
        workspace = find_workspace(where)
        config = load_environment_config(workspace.root)
        suite = gate_suite(workspace, config)
        Trust(workspace, environ).accept(all_that_would_run(workspace, config, suite))
    except CodeFrameError:
        pass
