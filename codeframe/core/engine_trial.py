"""A tiny real task for an engine, in a repository that is gone afterwards (`cf engines check --live`)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from codeframe.core.admission import gate_suite
from codeframe.core.config import load_environment_config
from codeframe.core.engine_arguments import arguments_for
from codeframe.core.engine_registry import EngineRegistry
from codeframe.core.environment_config import EnvironmentConfig
from codeframe.core.errors import CodeFrameError
from codeframe.core.git import IDENTITY, Git
from codeframe.core.recovery import recover
from codeframe.core.scratch import SCRATCH, in_use, scratch
from codeframe.core.state_home import state_home
from codeframe.core.trust import Item, Trust
from codeframe.core.whole_file import write_whole
from codeframe.core.workspace import Workspace, find_workspace, init_workspace
from codeframe.core.would_run import configured_items, gate_items

FILE, LINE = "hello.txt", "CodeFrame says hello"
TITLE = f"Write one line into {FILE}"
DESCRIPTION = f"Create the file {FILE} in the working directory. It holds one line and no more:\n\n{LINE}\n"
TIMEOUT_S = 300.0
_PROJECT = "project"
_GATE = {"name": "hello", "command": ["grep", "-qx", LINE, FILE], "timeout": 30}
# What a person configured for work here holds in the trial as well.
_TAKEN = ("model", "autonomy", "network")


def from_here(name: str, here: Workspace) -> list[Item]:
    """What a trial would run by the configuration of the workspace `here`: it has to be trusted there."""
    config = load_environment_config(here.root)
    known = EngineRegistry.at(here.root)
    arguments = arguments_for(config.engine_args, [name], known)
    return configured_items([name], known, arguments, full=config.autonomy == "full")


@contextmanager
def trial(name: str, here: Workspace | None) -> Iterator[Workspace]:
    """A workspace with one commit and one gate, in the person's state folder, configured as `here` is for this engine.

    At the end it is gone, and so is what was trusted for it; what a kill -9 left, its engine too, the next trial ends
    and removes. Raises CodeFrameError where it cannot be made.
    """
    home = state_home() / "trials"
    for left in home.glob(f"{SCRATCH}*"):
        if not in_use(left):
            _end(left / _PROJECT)
    with scratch(home, {"purpose": f"a trial of {name}"}) as own:
        folder = own.folder / _PROJECT
        folder.mkdir()
        workspace, _ = init_workspace(folder, git_init=True)
        write_whole(workspace.config_dir / "config.json", json.dumps(_settings(name, here)))
        write_whole(folder / "README.md", "# A trial\n\nCodeFrame made this folder, and removes it.\n")
        git = Git(folder)
        git.run("add", "README.md")
        git.run("commit", "--quiet", "-m", "A trial", env=IDENTITY)
        record = Trust(workspace)
        try:
            record.accept(_all(workspace, name))
            yield workspace
        finally:
            record.discard()


def _end(folder: Path) -> None:
    """Of a trial whose process was killed: end its engine, and forget what was trusted for it."""
    with suppress(CodeFrameError):
        workspace = find_workspace(folder)
        recover(workspace, workspace)
        Trust(workspace).discard()


def _settings(name: str, here: Workspace | None) -> dict[str, Any]:
    config = load_environment_config(here.root) if here else EnvironmentConfig()
    settings: dict[str, Any] = {"gates": [_GATE], "engine": name}
    settings |= {key: getattr(config, key) for key in _TAKEN}
    if declared := (config.engines or {}).get(name):
        settings["engines"] = {name: {**declared, **_absolute(declared, here)}}
    if arguments := (config.engine_args or {}).get(name):
        settings["engine_args"] = {name: arguments}
    return settings


def _absolute(declared: dict[str, Any], here: Workspace | None) -> dict[str, Any]:
    """Commands that lie in the workspace of the definition, found from elsewhere."""
    words = {key: declared[key] for key in ("command", "resume_command") if declared.get(key)}
    return {
        key: [os.path.join(here.root, word[0]), *word[1:]]
        for key, word in words.items()
        if here is not None and os.sep in word[0]
    }


def _all(workspace: Workspace, name: str) -> list[Item]:
    suite = gate_suite(workspace, load_environment_config(workspace.root))
    return gate_items(workspace, suite) + from_here(name, workspace)
