"""Rule 6.1: what is found and what is declared."""

from __future__ import annotations

import os

import pytest

from codeframe.core.errors import UsageError
from codeframe.core.gates import Gate, declared_gates, find_gates
from codeframe.core.gates.commands import tool_index
from codeframe.core.gates.discovery import hints

PYTEST = frozenset({"pytest"})


@pytest.mark.parametrize(
    "files, names",
    [
        ({}, []),
        ({"README.md": ""}, []),
        ({"a.py": ""}, []),
        ({"test_a.py": ""}, ["pytest"]),
        ({"pkg/deep/a_test.py": ""}, ["pytest"]),
        ({"tests/helpers.py": ""}, []),
        ({"tests/a.test.js": "", "package.json": "{}"}, []),
        ({".venv/lib/a.py": "", "node_modules/x/test_a.py": ""}, []),
        ({"pytest.ini": ""}, ["pytest"]),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, ["pytest"]),
        ({"pyproject.toml": '[tool.pytest]\ntestpaths = ["t"]\n'}, ["pytest"]),
        ({"pytest.toml": ""}, ["pytest"]),
        ({"pyproject.toml": "[tool.ruff]\n"}, []),
        ({"pyproject.toml": "not toml ["}, []),
        ({"tox.ini": "[tox]\n"}, []),
        ({"tox.ini": "[pytest]\n"}, ["pytest"]),
        ({"setup.cfg": "[tool:pytest]\n"}, ["pytest"]),
        ({"manage.py": "", "app/test_a.py": ""}, []),
        ({"manage.py": "", "app/test_a.py": "", "requirements.txt": "django\npytest-django\n"}, ["pytest"]),
    ],
)
def test_what_a_project_shows(bare, files, names):
    bare.write(files)
    assert [gate.name for gate in find_gates(bare.root)] == names


@pytest.mark.parametrize(
    "name, text, why",
    [
        ("ruff.toml", "", "ruff.toml"),
        (".ruff.toml", "", ".ruff.toml"),
        ("pyproject.toml", "[tool.ruff]\n", "[tool.ruff] in pyproject.toml"),
        (
            "pyproject.toml",
            '[dependency-groups]\ndev = ["ruff>=0.5", {include-group = "x"}]\n',
            "a dependency",
        ),
        ("pyproject.toml", '[project.optional-dependencies]\ndev = ["Ruff"]\n', "a dependency"),
        ("pyproject.toml", '[tool.poetry.group.dev.dependencies]\nruff = "^0.5"\n', "a dependency"),
        ("pyproject.toml", '[tool.uv]\ndev-dependencies = ["ruff"]\n', "a dependency"),
        ("pyproject.toml", '[tool.hatch.envs.lint]\ndependencies = ["ruff"]\n', "a dependency"),
        ("requirements-dev.txt", "pytest\nruff==0.5.0\n", "requirements-dev.txt"),
        ("requirements/dev.txt", "ruff\n", "requirements/dev.txt"),
        ("Pipfile", '[dev-packages]\nruff = "*"\n', "Pipfile"),
        ("setup.cfg", "[options.extras_require]\ndev =\n    ruff\n", "setup.cfg"),
        (".pre-commit-config.yaml", "repos:\n- hooks:\n  - id: ruff-check  # lint\n", ".pre-commit"),
    ],
)
def test_ruff_is_a_gate_where_the_project_asks_for_it(bare, name, text, why):
    bare.write({"a.py": "", name: text})
    (gate,) = find_gates(bare.root)
    assert gate.name == "ruff"
    assert gate.why.startswith(why)


@pytest.mark.parametrize(
    "name, text",
    [
        ("pyproject.toml", '[project]\nname = "ruff"\ndependencies = ["ruff-lsp"]\n'),
        ("pyproject.toml", '[tool.black]\nline-length = 100\n[tool.other]\nlist = ["ruff"]\n'),
        ("requirements.txt", "ruff-lsp\n# ruff\nruffian\n"),
        (".pre-commit-config.yaml", "repos:\n- hooks:\n  - id: ruff-format\n"),
        ("setup.cfg/x", "ruff"),
    ],
)
def test_a_linter_the_project_does_not_use_is_not_sprung_on_it(bare, name, text):
    """Found in every project with Python files, ruff made `--strict` unusable and unrelated lint block runs."""
    bare.write({"a.py": "import os\n", name: text})
    assert find_gates(bare.root) == []
    (hint,) = hints(bare.root)
    assert "[tool.ruff]" in hint


def test_ruff_installed_in_the_project_s_own_environment_is_a_sign(bare):
    bare.write({"a.py": ""})
    bare.executable(bare.root / ".venv" / "bin" / "ruff", "#!/bin/sh\n")
    (gate,) = find_gates(bare.root)
    assert gate.why == "installed in .venv"
    assert hints(bare.root) == []


def test_a_workspace_below_the_top_is_asked_for_by_the_repository_s_configuration(bare):
    bare.write({".git/x": "", "ruff.toml": "", "part/a.py": ""})
    (gate,) = find_gates(bare.root / "part")
    assert gate.why == "../ruff.toml"


@pytest.mark.parametrize("name", ["pyproject.toml", "pytest.ini", "requirements.txt"])
def test_a_pipe_in_place_of_a_configuration_file_hangs_nobody(bare, name):
    os.mkfifo(bare.root / name)
    bare.write({"a.py": ""})
    assert [gate.name for gate in find_gates(bare.root)] == []


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
