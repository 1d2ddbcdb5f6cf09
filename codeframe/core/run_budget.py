"""The budget that holds for one run: its own limits, and the configured ones of its task and of the workspace."""

from __future__ import annotations

from codeframe.core import config as configuration
from codeframe.core.budget import Budget
from codeframe.core.models import Run, TokenUsage
from codeframe.core.run_options import RunOptions
from codeframe.core.workspace import Workspace


def budget_of(workspace: Workspace, run: Run, options: RunOptions) -> Budget:
    """As configured now, less what other runs have used up. Raises UsageError where the configuration is wrong."""
    limits = dict(configuration.load_environment_config(workspace.root).budget or {})
    own = {"tokens": options.max_tokens, "cost": options.max_cost}
    limits["run"] = {what: most for what, most in own.items() if most is not None}
    runs = workspace.store.runs
    spent = {
        "task": runs.spent(run.task_id) if "task" in limits else TokenUsage(),
        "workspace": runs.spent() if "workspace" in limits else TokenUsage(),
    }
    return Budget.of(limits, spent)
