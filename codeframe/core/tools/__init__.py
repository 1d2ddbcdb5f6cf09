"""The tools of CodeFrame's own agents: files inside the workspace, search, commands, the project's checks.

One idea per file: `model` what a tool is, `confined` paths that cannot lead out, `files`, `search`, `shell`,
`guard` which commands are refused, `toolbox` all of them together.
"""

from codeframe.core.tools.model import Surroundings, Tool, ToolError, ToolResult, wrong_input
from codeframe.core.tools.toolbox import Toolbox

__all__ = ["Surroundings", "Tool", "ToolError", "ToolResult", "Toolbox", "wrong_input"]
