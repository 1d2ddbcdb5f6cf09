"""What `cf demo` is made of; the whole of it is in `tests/engines/test_demo.py`."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codeframe.cli.demo_command import called
from codeframe.demo.deeds import in_words_of, read, report, write
from codeframe.demo.dialects import MESSAGES
from codeframe.demo.model_script import due_turn, text
from codeframe.demo.story import ANSWER, TASKS, scenario
from tests.kit.engines import run_cf

OURS = [{"name": name} for name in ("read_file", "create_file", "finish")]
THEIRS = [{"name": name} for name in ("Read", "Write", "Bash", "StructuredOutput")]


def test_an_engine_that_is_not_there_is_said_before_anything_is_made(tmp_path: Path) -> None:
    said = run_cf("demo", "--engine", "claud-code", cwd=tmp_path, env={"TMPDIR": str(tmp_path)})
    assert said.exit_code == 2
    assert "claude-code" in said.stderr
    missing = run_cf("demo", "--engine", "claude-code", cwd=tmp_path, env={"TMPDIR": str(tmp_path)})
    assert (missing.exit_code, "claude" in missing.stderr) == (5, True)
    assert list(tmp_path.iterdir()) == []


def test_the_plot_is_the_same_in_the_words_of_every_engine() -> None:
    assert in_words_of(OURS, write("a.py", "x"))["input"] == {
        "path": "a.py",
        "content": "x",
        "overwrite": True,
    }
    assert in_words_of(THEIRS, write("a.py", "x"))["input"] == {"file_path": "{cwd}/a.py", "content": "x"}
    assert [in_words_of(tools, read("a.py"))["name"] for tools in (OURS, THEIRS)] == ["read_file", "Read"]
    names = [in_words_of(tools, report("did it"))["name"] for tools in (OURS, THEIRS)]
    assert names == ["finish", "StructuredOutput"]
    assert in_words_of(THEIRS[:3], report("did it"))["text"].startswith("```json\n{")
    assert in_words_of([{"name": "write"}], write("a.py", "x"))["input"]["filePath"] == "{cwd}/a.py"
    with pytest.raises(LookupError, match="no tool to write a file"):
        in_words_of([{"name": "shell"}], write("a.py", "x"))


@pytest.mark.parametrize("content", ["x = 'one'\n\n", "no end \\n %s $HOME"])
def test_where_there_is_only_a_shell_the_plot_is_commands(tmp_path: Path, content: str) -> None:
    shell = [{"name": "exec_command"}]
    for deed in (write("a folder/a.py", content), read("a folder/a.py")):
        command = in_words_of(shell, deed)["input"]["cmd"]
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (tmp_path / "a folder" / "a.py").read_text() == done.stdout == content


def test_each_task_has_its_own_plot_and_the_answer_leads_on() -> None:
    told = {}
    for task in TASKS:
        prompts = [f"Task: {task.title}. Depends on: {', '.join(task.depends_on)}", ANSWER]
        for count in (1, 2):
            messages = [{"role": "user", "content": [text(words)]} for words in prompts[:count]]
            turn = due_turn(scenario(), MESSAGES.read({"messages": messages, "tools": OURS}))
            told[task.key, count] = turn["blocks"][0]["name"]
    assert told["discount", 1] == "read_file"
    assert told["discount", 2] == "create_file"


def test_every_answer_is_a_program() -> None:
    for turns in (prompts for branch in scenario()["match"] for prompts in branch["prompts"]):
        for turn in turns:
            for block in turn if isinstance(turn, list) else [turn]:
                if block.get("deed") == "write":
                    ast.parse(block["content"])


def test_what_the_demo_ends_with_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cf = tmp_path / "a b" / "cf"
    cf.parent.mkdir()
    cf.write_text("#!/bin/sh\necho it is $1\n")
    cf.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(cf)])
    script = f"shopt -s expand_aliases\nalias cf={called()}\ncf demo"
    assert (
        subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
        == "it is demo\n"
    )
    monkeypatch.setenv("PATH", f"{cf.parent}:{os.environ['PATH']}")
    assert called() == ""
