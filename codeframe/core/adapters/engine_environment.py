"""The environment every engine process gets (rule 5.5)."""

from __future__ import annotations

import os
from collections.abc import Mapping

# What every engine gets: nothing that waits for a person, colours a pipe or takes git's locks.
ENV_ADD: Mapping[str, str] = {
    "NO_COLOR": "1",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
# Dropped: what would force colours, and what ties git to one repository (`git rev-parse
# --local-env-vars`, set where we run inside a git hook). An activated virtual environment stays: the
# engine is to find what the person's own shell finds.
ENV_DROP = frozenset(
    {
        "FORCE_COLOR",
        "CLICOLOR_FORCE",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)


def engine_environment(add: Mapping[str, str], drop: frozenset[str]) -> dict[str, str]:
    """The person's own environment as an engine gets it: ours for all engines, then `drop`, then `add`."""
    kept = {key: value for key, value in os.environ.items() if key not in ENV_DROP and key not in drop}
    return {**kept, **ENV_ADD, **add}
