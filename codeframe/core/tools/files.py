"""read_file, edit_file, create_file: text files, changed where asked and not one byte beside it."""

from __future__ import annotations

import codecs
import difflib
from collections.abc import Mapping
from typing import Any

from codeframe.core.tools.confined import Confined
from codeframe.core.tools.model import Surroundings, Tool, ToolError, ToolResult

MAX_SHOWN_BYTES = 256 * 1024  # of a file, in one call
DEFAULT_LINES = 1000
MAX_LINE_CHARS = 4000
_AROUND = 3  # lines shown around an edit
_COMPARED_LINES = 10_000  # looked at for the closest ones to a text that is not there
_COMPARED_CHARS = 200
_PATH = {"type": "string", "description": "Relative to the working directory."}


def file_tools(surroundings: Surroundings) -> tuple[Tool, ...]:
    """The three tools for one workspace."""
    files = _Files(Confined(surroundings.workspace))
    return (
        Tool(
            "read_file",
            "Shows a text file with its line numbers (the number and the tab are not part of the file).",
            {
                "path": _PATH,
                "start_line": {"type": "integer", "minimum": 1, "description": "Default: 1."},
                "line_count": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"Default: {DEFAULT_LINES}.",
                },
            },
            ("path",),
            files.read,
            telling="path",
        ),
        Tool(
            "edit_file",
            "Replaces one place in a text file. old_text must be exactly what stands there, white space "
            "included, and must occur once: take whole lines, and enough of them. Line ends are kept.",
            {
                "path": _PATH,
                "old_text": {"type": "string", "description": "What stands there now."},
                "new_text": {"type": "string", "description": "What is to stand there; may be empty."},
            },
            ("path", "old_text", "new_text"),
            files.edit,
            telling="path",
        ),
        Tool(
            "create_file",
            "Writes a new text file, making its folders. With overwrite it replaces a whole file; to change "
            "a part of one use edit_file.",
            {
                "path": _PATH,
                "content": {"type": "string", "description": "The whole text."},
                "overwrite": {"type": "boolean", "description": "Default: false."},
            },
            ("path", "content"),
            files.create,
            telling="path",
        ),
    )


class _Files:
    def __init__(self, confined: Confined) -> None:
        self._confined = confined

    def read(self, given: Mapping[str, Any]) -> ToolResult:
        path, first = given["path"], given.get("start_line", 1)
        text, exact = _decode(_text_of(self._confined.read(path), path))
        lines = _lines(text)
        if not lines:
            return ToolResult(f"{path} is empty.")
        if first > len(lines):
            raise ToolError(f"{path} has {len(lines)} lines; there is none at {first}.")
        shown = _numbered(lines, first, first + given.get("line_count", DEFAULT_LINES) - 1)
        last = first + len(shown) - 1
        notes = []
        if last < len(lines):
            notes.append(f"lines {first} to {last} of {len(lines)}; go on with start_line {last + 1}")
        if not exact:
            notes.append("not UTF-8: a � stands for bytes that cannot be shown")
        return ToolResult("\n".join(shown) + (f"\n[{'; '.join(notes)}]" if notes else ""))

    def edit(self, given: Mapping[str, Any]) -> ToolResult:
        path, old, new = given["path"], given["old_text"], given["new_text"]
        if not old:
            raise ToolError("old_text is empty; to write a whole file use create_file.")
        if old == new:
            raise ToolError("old_text and new_text are the same.")
        data = _text_of(self._confined.read(path), path)
        before, after = old.encode("utf-8", "replace"), new.encode("utf-8", "replace")
        crlf = _uses_crlf(data)
        if not data.count(before) and data.count(_with_crlf(before)):
            before, crlf = _with_crlf(before), True
        after = _with_crlf(after) if crlf else after
        found = data.count(before)
        if found != 1:
            raise ToolError(_not_once(path, old, before, data, found))
        at = data.index(before)
        changed = data[:at] + after + data[at + len(before) :]
        relative = self._confined.write(path, changed, replace=True)
        first = changed.count(b"\n", 0, at) + 1
        last = first + after.count(b"\n")
        shown = _numbered(_lines(_decode(changed)[0]), max(1, first - _AROUND), last + _AROUND)
        return ToolResult(
            f"{path} is changed; now it reads:\n" + "\n".join(shown), change=(relative, "modified")
        )

    def create(self, given: Mapping[str, Any]) -> ToolResult:
        path, data = given["path"], given["content"].encode("utf-8", "replace")
        there = self._confined.exists(path)
        if there and not given.get("overwrite", False):
            raise ToolError(
                f"{path} exists already. Change it with edit_file, or set overwrite to replace all of it."
            )
        if there:
            data = _in_the_manner_of(self._confined.read(path), data)
        relative = self._confined.write(path, data, replace=there)
        said = "replaced" if there else "created"
        return ToolResult(
            f"{path} is {said}: {len(_lines(_decode(data)[0]))} lines.",
            change=(relative, "modified" if there else "created"),
        )


def _text_of(data: bytes, path: str) -> bytes:
    if b"\0" in data:
        raise ToolError(f"{path} is binary ({len(data)} bytes); it cannot be shown or edited as text.")
    return data


def _decode(data: bytes) -> tuple[str, bool]:
    """The text without its byte order mark, and whether every byte could be shown."""
    try:
        return data.decode("utf-8-sig"), True
    except UnicodeDecodeError:
        return data.decode("utf-8-sig", "replace"), False


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _numbered(lines: list[str], first: int, last: int) -> list[str]:
    """Lines `first` to `last` (from 1) with their numbers, as many as fit into MAX_SHOWN_BYTES."""
    shown, size = [], 0
    for number, line in enumerate(lines[first - 1 : last], first):
        if len(line) > MAX_LINE_CHARS:
            line = f"{line[:MAX_LINE_CHARS]} [... {len(line) - MAX_LINE_CHARS} characters left out]"
        size += len(line.encode("utf-8", "replace")) + 8
        if size > MAX_SHOWN_BYTES:
            break
        shown.append(f"{number:>6}\t{line}")
    return shown


def _uses_crlf(data: bytes) -> bool:
    return data.count(b"\r\n") * 2 > data.count(b"\n")


def _with_crlf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _in_the_manner_of(old: bytes, new: bytes) -> bytes:
    """`new` with the line ends and the byte order mark of the file it replaces."""
    if _uses_crlf(old):
        new = _with_crlf(new)
    marked = old.startswith(codecs.BOM_UTF8) and not new.startswith(codecs.BOM_UTF8)
    return codecs.BOM_UTF8 + new if marked else new


def _not_once(path: str, old: str, wanted: bytes, data: bytes, found: int) -> str:
    if found:
        places: list[str] = []
        at = data.find(wanted)
        while at >= 0 and len(places) < 10:
            places.append(str(data.count(b"\n", 0, at) + 1))
            at = data.find(wanted, at + len(wanted))
        return (
            f"old_text occurs {found} times in {path} (lines {', '.join(places)}"
            f"{', ...' if found > len(places) else ''}). Take in lines around the place you mean."
        )
    lines = _lines(_decode(data)[0])
    telling = max(old.splitlines(), key=lambda line: len(line.strip()), default="")[:_COMPARED_CHARS]
    compared = [line[:_COMPARED_CHARS] for line in lines[:_COMPARED_LINES]]
    near = difflib.get_close_matches(telling, compared, n=3, cutoff=0.6) if telling.strip() else []
    said = f"old_text does not occur in {path}."
    if not near:
        return f"{said} Read the file again: it is not as you think."
    numbers = [compared.index(line) + 1 for line in dict.fromkeys(near)]
    shown = [row for number in numbers for row in _numbered(lines, number, number)]
    return f"{said} The closest lines:\n" + "\n".join(shown)
