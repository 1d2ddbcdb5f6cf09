"""What `cf` says about itself: help pages, docs/cli.md, and every command named in a hint or a document."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from codeframe.cli.app import app
from tests.cli.conftest import Cf

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "codeframe").rglob("*.py"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CLI_REFERENCE = ROOT / "docs" / "cli.md"
LATER = ("docs/SPEC.md", "docs/adr/")  # they speak of what is not built yet, too


def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from walk(command.get_command(None, name), (*path, name))


COMMANDS = dict(walk(typer.main.get_command(app), ("cf",)))


# -- help -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_is_plain_and_fits(cf: Cf, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = cf(*path[1:], "--help").stdout
    assert said.isascii()
    assert max(map(len, said.splitlines())) <= 80
    assert said.startswith(f"Usage: {' '.join(path)} ")
    assert "..." not in said.replace("COMMAND [ARGS]...", "")  # nothing is cut off
    for rest in ("-completion", "[required]", "{", "[default", "<="):
        assert rest not in said


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_and_argument_says_what_it_is_for(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help
    for param in command.params:
        assert param.help, f"{' '.join(path)} {param.name}"
        assert param.metavar or param.is_flag, f"{' '.join(path)} {param.name}"


def test_help_on_a_narrow_screen(cf: Cf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    assert "--max-corrections N" in cf("work", "start", "--help").stdout


def test_reading_commands_take_json() -> None:
    reading = [
        "status", "tasks list", "tasks show", "prd show", "work status", "work show", "work why", "work diff",
        "work logs", "work start", "blocker list", "blocker show", "engines list", "engines check", "gates list",
        "gates run", "config show",
    ]  # fmt: skip
    for words in reading:
        options = [option for param in COMMANDS["cf", *words.split()].params for option in param.opts]
        assert "--json" in options, words


def test_the_grammar_scripts_rely_on() -> None:
    options = {path[1:]: {o for p in command.params for o in p.opts} for path, command in COMMANDS.items()}
    assert {"--description", "--depends-on", "--priority", "--engine", "--backlog"} <= options["tasks", "add"]
    assert {"--all", "--from"} <= options["tasks", "set"]
    assert {
        "--execute", "--engine", "--model", "-m", "--timeout", "--stall-timeout", "--max-corrections", "--strict",
        "--require-gates", "--no-gates", "--dry-run", "--force", "--keep",
    } <= options["work", "start"]  # fmt: skip
    assert {"--detect", "--git-init"} <= options["init",]
    assert "-C" in options[()]


def test_the_reference_is_up_to_date() -> None:
    script = ROOT / "scripts" / "cli-reference"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# -- commands named in hints and documents ----------------------------------------------------------

_MENTION = re.compile(r"(?<![\w./-])cf (?=[a-z-])([^\n`;|#()“”→]*)")


def mentions(text: str) -> list[str]:
    """What follows `cf` wherever a command of it is written in `text`, up to the end of the command."""
    return [re.split(r", |: |\. |\.$|    |…| or cf ", found)[0].strip() for found in _MENTION.findall(text)]


def complaint(words: str) -> str | None:
    """What is wrong with a command line, if anything: a command or an option that does not exist."""
    try:
        tokens = shlex.split(words)
    except ValueError:
        tokens = words.split()
    path: tuple[str, ...] = ("cf",)
    while tokens and tokens[0] in ("-C", "--debug"):
        tokens = tokens[2 if tokens[0] == "-C" else 1 :]
    while tokens and (*path, tokens[0]) in COMMANDS:
        path = (*path, tokens.pop(0))
    command = COMMANDS[path]
    options = {o for p in command.params for o in p.opts} | {"-h", "--help"}
    if hasattr(command, "list_commands") and tokens and not tokens[0].startswith(("-", "X")):
        return f"cf {words}: {' '.join(path)} has no command {tokens[0]}"
    for token in tokens:
        if re.fullmatch(r"--?[a-zA-Z][\w-]*", token) and token not in options:
            return f"cf {words}: {' '.join(path)} has no option {token}"
    return None


def texts_of(path: Path) -> Iterator[str]:
    """Every string of a Python file; what is filled in at run time is X."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)


def code_of(path: Path) -> Iterator[str]:
    """Inline code, fenced and indented blocks of a Markdown file."""
    text = path.read_text(encoding="utf-8")
    yield from re.findall(r"`([^`\n]+)`", text)
    yield from re.findall(r"^```[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    yield from re.findall(r"^    .*", text, re.MULTILINE)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_named_in_the_program_exist(path: Path) -> None:
    assert list(filter(None, map(complaint, (m for text in texts_of(path) for m in mentions(text))))) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_named_in_documents_exist(path: Path) -> None:
    if path == CLI_REFERENCE or str(path.relative_to(ROOT)).startswith(LATER):
        pytest.skip("made from the commands, or about later ones")
    assert list(filter(None, map(complaint, (m for text in code_of(path) for m in mentions(text))))) == []


def test_the_check_of_commands_can_fail() -> None:
    text = "Type: cf blockers list; or cf work start X --exec, then `cf tasks set X status READY` or cf -C D status"
    said = list(map(complaint, mentions(text)))
    assert said == [
        "cf blockers list: cf has no command blockers",
        "cf work start X --exec: cf work start has no option --exec",
        None,
        None,
    ]


# -- errors -----------------------------------------------------------------------------------------

ERRORS = ("CodeFrameError", "UsageError", "RequirementsError", "GitError")


def hintless(tree: ast.AST) -> list[str]:
    """Errors for people that are raised without a word on what to type."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
            hint = node.args[1] if len(node.args) > 1 else None
            if hint is None or (isinstance(hint, ast.Constant) and not hint.value):
                found.append(ast.unparse(node)[:160])
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_error_says_what_to_type(path: Path) -> None:
    assert hintless(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_the_check_of_errors_can_fail() -> None:
    assert hintless(ast.parse("raise UsageError('Wrong.')")) == ["UsageError('Wrong.')"]
