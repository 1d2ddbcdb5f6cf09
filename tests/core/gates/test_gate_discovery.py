"""Rule 6.1: what is found and what is declared."""

from __future__ import annotations

import pytest

from codeframe.core.errors import UsageError
from codeframe.core.gates import Gate, declared_gates, find_gates
from codeframe.core.gates.commands import tool_index

PYTEST = frozenset({"pytest"})


@pytest.mark.parametrize(
    "files, names",
    [
        ({}, []),
        ({"README.md": ""}, []),
        ({"a.py": ""}, ["ruff"]),
        ({"test_a.py": ""}, ["ruff", "pytest"]),
        ({"pkg/deep/a_test.py": ""}, ["ruff", "pytest"]),
        ({"tests/helpers.py": ""}, ["ruff", "pytest"]),
        ({"tests/a.test.js": "", "package.json": "{}"}, []),
        ({".venv/lib/a.py": "", "node_modules/x/test_a.py": ""}, []),
        ({"pytest.ini": ""}, ["pytest"]),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, ["pytest"]),
        ({"pyproject.toml": '[tool.pytest]\ntestpaths = ["t"]\n'}, ["pytest"]),
        ({"pyproject.toml": "[tool.ruff]\n"}, []),
        ({"pyproject.toml": "not toml ["}, []),
        ({"tox.ini": "[tox]\n"}, []),
        ({"tox.ini": "[pytest]\n"}, ["pytest"]),
        ({"setup.cfg": "[tool:pytest]\n"}, ["pytest"]),
    ],
)
def test_what_a_project_shows(bare, files, names):
    bare.write(files)
    assert [gate.name for gate in find_gates(bare.root)] == names


@pytest.mark.parametrize(
    "command, kind",
    [
        ("pytest -x tests", "pytest"),
        (".venv/bin/pytest", "pytest"),
        ("python -m pytest", "pytest"),
        ("coverage run -m pytest tests", "pytest"),
        ("uv run pytest", "pytest"),
        ("uv run --group test pytest", "pytest"),
        ("poetry run pytest", "pytest"),
        ("env A=b pytest", "pytest"),
        ("ruff check src", "ruff"),
        ("python -m ruff check", "ruff"),
        ("uv run ruff check", "ruff"),
        ("ruff format --check", "command"),
        ("make pytest", "command"),
        ("echo ruff check", "command"),
        (["sh", "-c", "pytest | tee log"], "command"),
        ("mypy src", "command"),
    ],
)
def test_declared_commands_are_known_by_their_words(command, kind):
    (gate,) = declared_gates([{"name": "g", "command": command}])
    assert (gate.kind, gate.declared) == (kind, True)


@pytest.mark.parametrize(
    "timeout, seconds", [(5, 5), (0.5, 0.5), ("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200)]
)
def test_timeouts(timeout, seconds):
    (gate,) = declared_gates([{"name": "g", "command": "x 'a b'", "timeout": timeout}])
    assert gate == Gate("g", ("x", "a b"), "command", seconds, declared=True)


@pytest.mark.parametrize(
    "config, words",
    [
        ("pytest", "not a list"),
        ({"name": "a"}, "not a list"),
        (["pytest"], "Gate 1 is not a mapping"),
        ([{"command": "x"}], "Gate 1 has no name"),
        ([{"name": "a"}], "Gate 'a' has no command"),
        ([{"name": "a", "command": ""}], "Gate 'a' has no command"),
        ([{"name": "a", "command": [1]}], "Gate 'a' has no command"),
        ([{"name": "a", "command": "x 'y"}], "Gate 'a': the command cannot be split"),
        ([{"name": "a", "command": "x && y"}], "Gate 'a': the command needs a shell"),
        ([{"name": "a", "command": "A=b x"}], "Gate 'a': the command starts with a variable"),
        ([{"name": "a", "command": "x", "timeout": "soon"}], "Gate 'a': 'soon' is not a timeout"),
        ([{"name": "a", "command": "x", "timeout": 0}], "Gate 'a': 0 is not a timeout"),
        ([{"name": "a", "command": "x", "timeout": True}], "Gate 'a': True is not a timeout"),
        ([{"name": "a", "comand": "x"}], "Gate 'a' has an unknown key 'comand'"),
        ([{"name": "a", "command": "x"}, {"name": "a", "command": "y"}], "Two gates are named 'a'"),
    ],
)
def test_bad_entries_are_refused_by_name(config, words):
    with pytest.raises(UsageError) as error:
        declared_gates(config)
    assert words in error.value.problem
    assert error.value.hint


@pytest.mark.parametrize(
    "argv, at",
    [
        ("pytest a", 0),
        ("env A=b C=d pytest", 3),
        ("python -m pytest", 2),
        ("uv run -q pytest", 3),
        ("git add pytest", None),
    ],
)
def test_where_the_tool_is(argv, at):
    assert tool_index(argv.split(), PYTEST) == at
