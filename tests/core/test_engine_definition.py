"""What an entry of `engines:` may say, how it is refused, and how its placeholders are filled in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.engine_definition import EngineDefinition, filled, problem_in
from codeframe.core.engine_registry import PRESETS
from codeframe.core.environment_config import EnvironmentConfig

VALUES = {
    "prompt_file": "/a b/{model}",
    "workspace": "/w",
    "model": "m; rm -rf /",
    "session": None,
    "scratch": "/s",
}


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (("x", "{prompt_file}"), ("x", "/a b/{model}")),  # once: what a value holds is not looked into
        (("x", "--model={model}", "-C{workspace}"), ("x", "--model=m; rm -rf /", "-C/w")),
        (("x", ["--model", "{model}"], "y"), ("x", "--model", "m; rm -rf /", "y")),
        (("x", ["--resume", "{session}"], "--id={session}", "y"), ("x", "y")),
        (("x", "{other} {} {{model}}"), ("x", "{other} {} {m; rm -rf /}")),
    ],
)
def test_placeholders_are_filled_in_inside_of_one_argument(
    words: tuple[Any, ...], argv: tuple[str, ...]
) -> None:
    assert filled(words, VALUES) == argv


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "`engines` has to be a mapping like"),
        ({"My Agent": {"command": ["x"]}}, "a name of at most 40 small letters"),
        ({"x": {}}, "`x` a command, like"),
        ({"x": {"command": "x {prompt_file}"}}, "`x.command` as a list of words"),
        ({"x": {"command": ["x", []]}}, "`x.command` as a list of words"),
        ({"x": {"command": [["x"]]}}, "`x.command` as a list of words"),
        ({"x": {"command": ["x"], "comand": ["y"]}}, "there is no `comand` (did you mean `command`?)"),
        ({"x": {"command": ["x"], "output": "json"}}, "`x.output` as text or jsonl"),
        ({"x": {"command": ["x"], "env": {"CODEFRAME_RUN_ID": "me"}}}, "without names that begin with CODEFRAME_"),
        ({"x": {"command": ["x"], "env": {"A": 1}}}, "`x.env` as a mapping"),
        ({"x": {"command": ["x"], "stall_timeout": "soon"}}, "`x.stall_timeout` as a duration"),
        ({"x": {"command": ["x"], "errors": {"oops": "a"}}}, "`x.errors` as a mapping of classes"),
        ({"x": {"command": ["x"], "errors": {"auth": "("}}}, "`x.errors` as a mapping of classes"),
        ({"x": {"command": ["x"], "events": {"success": "done"}}}, "whose `success` is a mapping of paths to values"),
        ({"x": {"command": ["x"], "events": {"usage": {"tokens": "a"}}}}, "whose `usage` is a mapping"),
        ({"x": {"command": ["x"], "events": {"answer": {"a": "b"}}}}, "both of `request` and `answer`"),
        ({"x": {"command": ["x"], "resume_command": ["x"]}}, "with {session} in one of them"),
        ({"x": {"command": ["x"], "resume_command": ["x", "{session}"]}}, "`x.resume_command` a session"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(given: Any, said: str) -> None:
    (sentence,) = EnvironmentConfig.from_dict({"engines": given}).validate()
    assert said in sentence
    assert sentence.startswith("`engines` has to ")
    assert sentence.endswith(".")


def test_a_definition_is_shown_whole() -> None:
    data = {"command": ["x", ["-m", "{model}"]], "env": {"A": "; rm -rf /"}, "description": "é"}
    config = EnvironmentConfig.from_dict({"engines": {"x": data}})
    assert config.validate() == []
    definition = config.declared_engines()["x"]
    assert json.loads(definition.shown()) == data
    assert definition.command == ("x", ["-m", "{model}"])


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*")), ids=lambda path: path.name)
def test_a_preset_is_what_a_person_may_declare(path: Path) -> None:
    data = json.loads(path.read_text())
    assert problem_in(path.stem, data) == ""
    definition = EngineDefinition.of(path.stem, data)
    assert definition.description
    assert definition.install
