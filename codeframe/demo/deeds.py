"""What a scripted model does, said once for every engine: read, write, report.

Engines offer their models different tools for the same deed. Which words to use is read off the tools a
request offers, so a script names no engine.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

Block = dict[str, Any]

DEED = "deed"  # the type of a block that is still to be put into an engine's words


def read(path: str) -> Block:
    """Look at a file; `path` is relative to the project."""
    return {"type": DEED, "deed": "read", "path": path}


def write(path: str, content: str) -> Block:
    """Write a whole file, new or not."""
    return {"type": DEED, "deed": "write", "path": path, "content": content}


def report(summary: str, status: str = "completed", **more: Any) -> Block:
    """End with a verdict (rule 4.9): status completed, blocked or failed; `question` where blocked."""
    return {"type": DEED, "deed": "report", "verdict": {"status": status, "summary": summary, **more}}


class _Tools(NamedTuple):
    """How one family of engines names its file tools, and the parameters they take."""

    reads: str
    writes: str
    path: str  # the parameter that holds the path
    absolute: bool
    overwrites: Mapping[str, Any] = {}


_FAMILIES = (
    _Tools("read_file", "create_file", "path", False, {"overwrite": True}),
    _Tools("Read", "Write", "file_path", True),
    _Tools("read", "write", "filePath", True),
)
_SHELL, _COMMAND = "exec_command", "cmd"  # a tool that runs commands, where none is for files
_REPORTING = ("finish", "StructuredOutput")  # tools that take a verdict; else it is fenced


def in_words_of(offered: Iterable[Mapping[str, Any]], block: Block) -> Block:
    """A block as a model with the tools `offered` would send it; `{cwd}` is left for the caller to fill.

    Raises LookupError when none of the known tools is among them.
    """
    if block.get("type") != DEED:
        return block
    names = {tool.get("name") for tool in offered}
    if block["deed"] == "report":
        for name in _REPORTING:
            if name in names:
                return _call(name, block["verdict"])
        return {"type": "text", "text": f"```json\n{json.dumps(block['verdict'])}\n```"}
    for tools in _FAMILIES:
        if tools.writes in names:
            where = {tools.path: ("{cwd}/" if tools.absolute else "") + block["path"]}
            if block["deed"] == "read":
                return _call(tools.reads, where)
            return _call(tools.writes, {**where, "content": block["content"], **tools.overwrites})
    if _SHELL in names:
        return _call(_SHELL, {_COMMAND: _command(block)})
    raise LookupError(f"no tool to {block['deed']} a file among {sorted(map(str, names))}")


def _command(block: Block) -> str:
    """The deed as a shell command, run in the project."""
    path = shlex.quote(block["path"])
    if block["deed"] == "read":
        return f"cat -- {path}"
    folder = shlex.quote(str(PurePosixPath(block["path"]).parent))
    return f"mkdir -p -- {folder} && printf %s {shlex.quote(block['content'])} > {path}"


def _call(name: str, given: Mapping[str, Any]) -> Block:
    return {"type": "tool_use", "name": name, "input": dict(given)}
