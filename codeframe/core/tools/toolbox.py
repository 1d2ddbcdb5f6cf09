"""All tools of one engine call: their descriptions, and `call`, which answers whatever the model sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codeframe.core.gates.text import clean, clip
from codeframe.core.redaction import Redactor
from codeframe.core.tools.files import MAX_SHOWN_BYTES, file_tools
from codeframe.core.tools.model import Surroundings, Tool, ToolError, ToolResult, wrong_input
from codeframe.core.tools.search import search_tools
from codeframe.core.tools.shell import shell_tools

MAX_RESULT_BYTES = 32 * 1024
# What shows a file may show more of it, with room for the line that says how to go on.
_MAX_BYTES = {"read_file": MAX_SHOWN_BYTES + 1024}


class Toolbox:
    """The tools for `surroundings`. What they show is free of secrets (rule 9.2), escapes and control
    characters, and is at most MAX_RESULT_BYTES long, head and tail kept (a file: MAX_SHOWN_BYTES)."""

    def __init__(self, surroundings: Surroundings, redactor: Redactor) -> None:
        tools = (*file_tools(surroundings), *search_tools(surroundings), *shell_tools(surroundings))
        self._tools: dict[str, Tool] = {tool.name: tool for tool in tools}
        self._redactor = redactor

    @property
    def specs(self) -> list[dict[str, Any]]:
        """The tools as the model is told of them, always in the same order."""
        return [tool.spec for tool in self._tools.values()]

    def about(self, name: str, given: Mapping[str, Any]) -> str:
        """A call in a line, for people."""
        tool = self._tools.get(name)
        told = given.get(tool.telling) if tool else None
        return f"{name} {told}" if isinstance(told, str) else name

    def call(self, name: str, given: Mapping[str, Any]) -> ToolResult:
        """Do it. Never raises: what is unknown, wrong or fails is a result that says so."""
        tool = self._tools.get(name)
        if tool is None:
            return ToolResult(f"There is no tool {name!r}. Tools: {', '.join(self._tools)}.", is_error=True)
        try:
            if problem := wrong_input(tool.spec["input_schema"], given):
                raise ToolError(problem)
            result = tool.run(given)
        except ToolError as error:
            result = ToolResult(str(error), is_error=True)
        except Exception as error:
            # A case nobody foresaw must not cost the run: the model can go another way.
            result = ToolResult(f"{name} failed: {type(error).__name__}: {error}", is_error=True)
        # Cut last: half a secret is not found.
        text = clip(self._redactor.redact(clean(result.text)), _MAX_BYTES.get(name, MAX_RESULT_BYTES))
        return ToolResult(text, result.is_error, result.change)
