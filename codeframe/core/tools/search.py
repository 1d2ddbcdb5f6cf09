"""search_codebase and list_files: what git tracks or would track, ignored files left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from codeframe.core.git import command, environment
from codeframe.core.lines import Line
from codeframe.core.process import EndedBy, Limits, ProcessOutcome, run_process
from codeframe.core.secret_files import looks_secret
from codeframe.core.tools.confined import Confined
from codeframe.core.tools.model import Surroundings, Tool, ToolError, ToolResult

MAX_MATCHES = 200
MAX_FILES = 1000
MAX_LINE_CHARS = 300
TIMEOUT_S = 60
_NO_REPOSITORY = "not a git repository"
_WHERE = {
    "path": {"type": "string", "description": "A folder or file to stay in. Default: everywhere."},
    "glob": {"type": "string", "description": "Only files like this, for example **/*.py or src/*.ts."},
}


def search_tools(surroundings: Surroundings) -> tuple[Tool, ...]:
    """The two tools for one workspace."""
    search = _Search(surroundings)
    return (
        Tool(
            "search_codebase",
            "Finds lines by an extended regular expression (as grep -E) in the project's text files, ignored "
            f"ones left out. Shows path:line:text, at most {MAX_MATCHES}.",
            {
                "pattern": {"type": "string"},
                **_WHERE,
                "literal": {"type": "boolean", "description": "pattern is plain text. Default: false."},
                "ignore_case": {"type": "boolean", "description": "Default: false."},
            },
            ("pattern",),
            search.search,
            telling="pattern",
        ),
        Tool(
            "list_files",
            f"Lists the project's files, ignored ones left out; at most {MAX_FILES}.",
            _WHERE,
            (),
            search.list_files,
            telling="path",
        ),
    )


class _Search:
    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings
        self._confined = Confined(surroundings.workspace)

    def search(self, given: Mapping[str, Any]) -> ToolResult:
        pattern = given["pattern"]
        if not pattern or "\n" in pattern or "\0" in pattern:
            raise ToolError("pattern must be one line of text.")
        options = ["-n", "-I", "--null", "-F" if given.get("literal") else "-E"]
        options += ["-i"] if given.get("ignore_case") else []
        where = self._where(given)
        found: list[str] = []
        more = False

        def on_match(line: Line) -> None:
            nonlocal more
            path, _, rest = line.text.partition("\0")
            number, _, text = rest.partition("\0")
            if looks_secret(path):
                return
            if len(found) < MAX_MATCHES:
                found.append(f"{path}:{number}:{_short(text)}")
            else:
                more = True

        done = self._git(["grep", "--untracked", *options, "-e", pattern, "--", *where], on_match)
        if _NO_REPOSITORY in done.stderr_tail:
            unmanaged = ["grep", "--no-index", "--exclude-standard", *options, "-e", pattern, "--", *where]
            done = self._git(unmanaged, on_match)
        if done.exit_code not in (0, 1):
            raise ToolError(f"The search failed: {_complaint(done)}.")
        if not found:
            return ToolResult("Nothing matches.")
        note = f"\n[more than {MAX_MATCHES} lines match; narrow it down with path or glob]" if more else ""
        return ToolResult("\n".join(found) + note)

    def list_files(self, given: Mapping[str, Any]) -> ToolResult:
        where = self._where(given)
        found: dict[str, None] = {}
        count = 0

        def on_path(line: Line) -> None:
            nonlocal count
            if line.text not in found:
                count += 1
                if len(found) < MAX_FILES:
                    found[line.text] = None

        done = self._git(["ls-files", "-co", "--exclude-standard", "--deduplicate", "--", *where], on_path)
        if _NO_REPOSITORY in done.stderr_tail:
            for path in self._walk(self._confined.resolve(given.get("path") or ".")):
                on_path(Line(path))
        elif done.exit_code != 0:
            raise ToolError(f"The files cannot be listed: {_complaint(done)}.")
        # The index still has what was deleted. (A name git puts in quotes is shown as it is.)
        there = sorted(path for path in found if path.startswith('"') or self._is_there(path))
        if not there:
            return ToolResult("There are no files here.")
        note = f"\n[{count - MAX_FILES} more; narrow it down with path or glob]" if count > MAX_FILES else ""
        return ToolResult("\n".join(there) + note)

    def _is_there(self, path: str) -> bool:
        return os.path.lexists(self._around.workspace / path)

    def _where(self, given: Mapping[str, Any]) -> list[str]:
        """Path and glob as one pathspec of git."""
        path, pattern = given.get("path"), given.get("glob")
        if any("\0" in word for word in (path or "", pattern or "")):
            raise ToolError("A path or glob holds a NUL.")
        inside = self._confined.resolve(path) if path else "."
        if not pattern:
            return [f":(literal){inside}"] if inside != "." else []
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise ToolError("glob is relative and stays in the workspace.")
        if inside == ".":
            return [f":(glob){pattern}"]
        return [f":(glob){_without_magic(inside)}/{pattern}"]

    def _walk(self, start: str) -> Iterator[str]:
        """Files where there is no repository, links not followed."""
        root = self._around.workspace
        for folder, folders, names in os.walk(root / start):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                yield os.path.relpath(os.path.join(folder, name), root)
            if self._around.cancel.is_set():
                return

    def _git(self, args: list[str], on_line: Callable[[Line], None]) -> ProcessOutcome:
        def on_lines(stream: str, lines: list[Line]) -> None:
            if stream == "stdout":
                for line in lines:
                    on_line(line)

        done = run_process(
            command(*args),
            cwd=self._around.workspace,
            env=environment(),
            marker=self._around.next_marker(),
            on_lines=on_lines,
            limits=Limits(timeout_s=min(TIMEOUT_S, max(self._around.left_s(), 0.05)), polite_s=0.5),
            cancel=self._around.cancel,
        )
        if done.ended_by is not EndedBy.EXIT:
            raise ToolError(f"It was ended ({done.ended_by}); narrow it down with path or glob.")
        return done


def _short(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]} [...]"


def _without_magic(path: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in path)


def _complaint(done: ProcessOutcome) -> str:
    lines = done.stderr_tail.strip().splitlines()
    return lines[-1].removeprefix("fatal: ").rstrip(".") if lines else f"exit status {done.exit_code}"
