"""run_command, run_tests, search_codebase, list_files: real processes in a real repository."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.process_sweep import find_marked
from codeframe.core.redaction import Redactor
from codeframe.core.tools import Surroundings, Toolbox, ToolResult
from codeframe.core.tools.toolbox import MAX_RESULT_BYTES
from tests.kit.repos import make_repo
from tests.kit.waiting import wait_until

TOKEN = "tok-4711-abcdef"


class Box:
    def __init__(self, root: Path, checks: tuple[str, ...] = ()) -> None:
        self.root = root
        self.cancel = threading.Event()
        env = {**os.environ, "SERVICE_TOKEN": TOKEN}
        self.marker = f"run-{os.urandom(4).hex()}/0"
        around = Surroundings(root, env, self.marker, self.cancel, lambda: 60.0, checks)
        self._tools = Toolbox(around, Redactor(env))

    def call(self, name: str, **given: Any) -> ToolResult:
        return self._tools.call(name, given)

    def sh(self, command: str, **given: Any) -> ToolResult:
        return self.call("run_command", command=command, **given)

    def left(self) -> list[Any]:
        return find_marked(self.marker, prefix=True)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    files: dict[str, str | bytes] = {
        ".gitignore": "ignored/\n",
        "src/a.py": "def needle():\n    return 1\n",
        "src/b.txt": "a NEEDLE and a pin\n",
        "docs/[odd] name.md": "needle\n",
    }
    made = Box(make_repo(tmp_path / "repo", files))
    yield made
    assert made.left() == []


# -- commands ---------------------------------------------------------------------------------------------


def test_a_command_tells_its_status_and_both_outputs(box: Box) -> None:
    result = box.sh("pwd; echo oops >&2; echo [[x]]; cat; exit 3")
    assert result.is_error
    lines = result.text.splitlines()
    assert lines[0] == "[exit status 3]"
    assert sorted(lines[1:]) == sorted([str(box.root), "oops", "[[x]]"])
    assert box.sh("true") == ToolResult("[exit status 0]\n(no output)")
    assert box.sh("kill -TERM $$").text.startswith("[ended by signal 15]")


def test_output_is_bounded_and_keeps_head_and_tail(box: Box) -> None:
    wide = "y" * 500
    text = box.sh(f"echo first; yes {wide} | head -c 3000000; echo; echo last").text
    assert len(text.encode()) <= MAX_RESULT_BYTES
    assert text.startswith(f"[exit status 0]\nfirst\n{wide}\n")
    assert text.endswith("y\nlast")
    assert "left out" in text


def test_output_is_fit_to_be_shown(box: Box) -> None:
    text = box.sh(r"echo token=$SERVICE_TOKEN; printf 'a\033[31mred\033[0m \377\000b\n'").text
    assert TOKEN not in text
    assert "token=[redacted]" in text
    assert text.splitlines()[2] == "ared �b"


def test_a_secret_is_found_where_the_output_is_cut(box: Box) -> None:
    text = box.sh("yes $SERVICE_TOKEN | head -n 4000 | tr -d '\\n'").text
    assert "left out" in text
    assert not {"tok-", "4711", "cdef"} & {text[at : at + 4] for at in range(len(text))}


def test_a_slow_command_is_ended_with_its_children(box: Box) -> None:
    result = box.sh("echo begun; sleep 300 & sleep 301", timeout_s=1)
    assert result.is_error
    assert result.text.startswith("[ended after 1 s")
    assert "begun" in result.text


def test_what_a_command_leaves_running_is_ended(box: Box) -> None:
    result = box.sh("setsid sleep 300 >/dev/null 2>&1 & echo started")
    assert not result.is_error
    assert "were ended]" in result.text.splitlines()[0]


def test_a_stop_ends_a_command_at_once(box: Box) -> None:
    results: list[ToolResult] = []
    command = "trap '' TERM; touch begun; sleep 300; sleep 301"
    thread = threading.Thread(target=lambda: results.append(box.sh(command)))
    thread.start()
    wait_until((box.root / "begun").exists)
    box.cancel.set()
    thread.join(30)
    assert results[0].text.startswith("[stopped]")


def test_a_destructive_command_is_refused_with_the_reason(box: Box) -> None:
    result = box.sh("git reset --hard")
    assert result.is_error
    assert result.text.startswith("Refused: git reset --hard throws away")
    assert "too long" in box.sh("echo " + "x" * 200_000).text
    assert "NUL" in box.sh("echo \0").text


# -- checks -----------------------------------------------------------------------------------------------


def test_the_checks_are_those_of_the_gates(box: Box) -> None:
    lines = (
        "lint: sh -c 'echo linted'",
        "unit: sh -c 'echo unit \"$@\"; exit 1' sh",
        "gone: cannot run: no npm",
    )
    tests = Box(box.root, lines)
    every = tests.call("run_tests")
    assert every.is_error
    assert every.text.split("\n\n") == [
        "lint: sh -c 'echo linted'\n[exit status 0]\nlinted",
        "unit: sh -c 'echo unit \"$@\"; exit 1' sh\n[exit status 1]\nunit",
        "gone cannot run: no npm",
    ]
    assert not tests.call("run_tests", check="lint").is_error
    assert "unit a/b.py::t x y" in tests.call("run_tests", check="unit", arguments=["a/b.py::t", "x y"]).text
    assert "There are: lint, unit, gone." in tests.call("run_tests", check="nope").text
    assert "need a check" in tests.call("run_tests", arguments=["x"]).text
    assert tests.call("run_tests", check="gone").is_error


def test_without_gates_the_project_s_own_checks_are_found(box: Box) -> None:
    assert "No checks are known" in Box(box.root / "docs").call("run_tests").text
    (box.root / "test_it.py").write_text("def test_it():\n    assert 1 == 2\n")
    (box.root / ".venv").symlink_to(sys.prefix)
    result = box.call("run_tests", check="pytest", arguments=["-p", "no:cacheprovider"])
    assert result.is_error
    assert "assert 1 == 2" in result.text


# -- search -----------------------------------------------------------------------------------------------


def test_search_finds_tracked_and_new_files_but_not_ignored_or_secret_ones(box: Box) -> None:
    (box.root / "new.py").write_text("needle = 2\n")
    (box.root / ".env").write_text("needle=1\n")
    (box.root / "ignored").mkdir()
    (box.root / "ignored" / "c.py").write_text("needle\n")
    found = box.call("search_codebase", pattern="needle").text.splitlines()
    assert found == ["docs/[odd] name.md:1:needle", "new.py:1:needle = 2", "src/a.py:1:def needle():"]

    def paths(**given: Any) -> list[str]:
        lines = box.call("search_codebase", **given).text.splitlines()
        return [line.split(":")[0] for line in lines]

    assert paths(pattern="needle", path="src", ignore_case=True) == ["src/a.py", "src/b.txt"]
    assert paths(pattern="needle", glob="**/*.py") == ["new.py", "src/a.py"]
    assert paths(pattern="needle", path="docs/[odd] name.md") == ["docs/[odd] name.md"]
    assert paths(pattern="needle", path="src", glob="*.txt", ignore_case=True) == ["src/b.txt"]
    assert paths(pattern="needle\\(\\):$") == ["src/a.py"]
    assert paths(pattern="():", literal=True) == ["src/a.py"]


def test_search_is_bounded_and_explains_itself(box: Box) -> None:
    (box.root / "many.txt").write_text("".join(f"match {'x' * 400}\n" for _ in range(500)))
    text = box.call("search_codebase", pattern="match").text
    assert "more than 200 lines match" in text
    assert len(text.encode()) <= MAX_RESULT_BYTES * 3
    assert box.call("search_codebase", pattern="zzzz").text == "Nothing matches."
    assert "Unmatched" in box.call("search_codebase", pattern="(").text
    assert box.call("search_codebase", pattern="--help", literal=True).text == "Nothing matches."
    assert box.call("search_codebase", pattern="x", glob="../*").is_error
    assert box.call("search_codebase", pattern="").is_error


def test_files_are_listed_as_git_sees_them(box: Box) -> None:
    (box.root / "new.py").touch()
    (box.root / "src/b.txt").unlink()
    listed = box.call("list_files").text.splitlines()
    assert listed == [".gitignore", "docs/[odd] name.md", "new.py", "src/a.py"]
    assert box.call("list_files", path="src").text == "src/a.py"
    assert box.call("list_files", glob="**/*.md").text == "docs/[odd] name.md"
    assert box.call("list_files", path="nowhere").text == "There are no files here."


def test_search_and_list_work_without_a_repository(tmp_path: Path) -> None:
    (tmp_path / "plain" / "sub").mkdir(parents=True)
    (tmp_path / "plain" / "sub" / "a.txt").write_text("needle\n")
    box = Box(tmp_path / "plain")
    assert box.call("list_files").text == "sub/a.txt"
    assert box.call("search_codebase", pattern="needle").text == "sub/a.txt:1:needle"
