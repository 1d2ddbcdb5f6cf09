"""`cf completion`: what a shell offers at a Tab, asked of the shells themselves where they are there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Cf
from tests.kit.engines import CF, clean_env

SHELLS = ("bash", "zsh", "fish")


def offered(cf: Cf, *words: str, where: Path | None = None) -> list[str]:
    done = cf("completion", "bash", "--", *words, where=where)
    assert done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("wor",), ["work"]),
        (("work", "sta"), ["start", "status"]),
        (("work", "start", "--exe"), ["--execute"]),
        (("work", "start", "--engine", "cl"), ["claude-code"]),
        (("work", "start", "--engine=cl"), ["--engine=claude-code"]),
        (("work", "start", "--engine", "=", "cl"), ["claude-code"]),  # as bash takes it apart
        (("work", "start", "--stall-action", ""), ["blocker", "retry", "fail"]),
        (("engines", "check", "cl"), ["claude-code"]),
        (("config", "set", "stall_a"), ["stall_action"]),
        (("tasks", "set", "x", "status", "DO"), ["DONE"]),
        (("tasks", "list", "--status", "FA"), ["FAILED"]),
        (("prd", "add", ""), [":files"]),
        (("-C", ""), [":files"]),
        (("work", "undo", "x", "--", ""), [":files"]),
        (("tasks", "add", ""), []),
        (("work", "nonsense", ""), []),
        (("work", "show", "--", "-"), []),
        (("completion", ""), ["bash", "zsh", "fish"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_what_could_stand_there(cf: Cf, words: tuple[str, ...], found: list[str]) -> None:
    assert offered(cf, *words) == found


def test_tasks_and_blockers_are_offered_with_what_they_are(cf: Cf) -> None:
    task = cf.add("Write\tthe \x1b[31mmodule")
    cf("blocker", "create", task, "Which one?")
    blocker = cf("blocker", "list", "--json").json()[0]["id"]
    shown = cf("completion", "bash", "--", "work", "start", task[:2]).stdout
    assert shown == f"{task[:8]}\tBLOCKED Write the module\n"
    for words in (("work", "start"), ("tasks", "set"), ("tasks", "add", "x", "--depends-on")):
        assert offered(cf, *words, "") == [task[:8]]
    assert offered(cf, "blocker", "answer", "") == [blocker[:8]]
    assert offered(cf, "-C", str(cf.where), "work", "show", "", where=Path("/")) == [task[:8]]


def test_outside_of_a_workspace_nothing_is_offered_and_nothing_said(cf: Cf, outside: Path) -> None:
    assert offered(cf, "work", "show", "", where=outside) == []
    assert offered(cf, "-C", "/nowhere", "work", "show", "") == []
    assert list(outside.iterdir()) == []


def test_an_unknown_shell_is_refused(cf: Cf) -> None:
    assert "cf completion bash" in cf("completion", "tcsh", code=2).stderr


ASK = {
    "bash": '. <(cf completion bash); COMP_WORDS=({0}""); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=63; '
    '_cf "$COMP_WORDS"; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "zsh": "autoload -U compinit; compinit -u -D; . <(cf completion zsh); "
    "_describe() {{ print -l $found }}; words=({0}''); CURRENT=$#words; _cf",
    "fish": "cf completion fish | source; complete -C '{0}'",
}
SHOWN = {"bash": "{}  (READY {})", "zsh": "{}:READY {}", "fish": "{}\tREADY {}"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_itself_offers_them(cf: Cf, tmp_path: Path, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin/cf"
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(CF)} "$@"\n')
    launcher.chmod(0o755)
    env = clean_env() | {"PATH": f"{launcher.parent}:{os.environ['PATH']}", "HOME": os.environ["HOME"]}
    titles = ("First: one", "Second")
    tasks = {title: cf.add(title)[:8] for title in titles}

    def ask(typed: str) -> list[str]:
        argv = [
            program,
            "-c",
            ASK[shell].format(typed).replace("cf completion", f"{typed.split()[0]} completion"),
        ]
        done = subprocess.run(argv, cwd=cf.where, env=env, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    assert sorted(ask("cf work show ")) == sorted(
        SHOWN[shell].format(tasks[title], title) for title in titles
    )
    launcher.rename(
        launcher.with_name("codeframe")
    )  # the other name, where `cf` is something else or nothing
    assert any(line.startswith("retry") for line in ask("codeframe work "))
