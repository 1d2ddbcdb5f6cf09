"""Rule 6.2: the project's own environment, never CodeFrame's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import codeframe
from codeframe.core.gates.project import Probe, Project
from codeframe.core.gates.pytest_project import foreign_package, own_packages, python_path


def fake(bare, name: str) -> Path:
    return bare.executable(bare.work / "bin" / name, "#!/bin/sh\nexit 0\n")


@pytest.mark.parametrize("name", [".venv", "venv"])
def test_the_environment_in_the_project_comes_first(bare, name):
    bare.venv(bare.root / name)
    bare.write({"uv.lock": ""})
    found = Project.at(bare.root)
    assert found.python == (f"{name}/bin/python",)
    assert found.env["VIRTUAL_ENV"] == str(bare.root / name)
    assert found.which("pytest") == f"{name}/bin/pytest"


def test_the_environment_of_the_repository_serves_a_workspace_below_it(bare):
    (bare.root / ".git").mkdir()
    python = bare.venv()
    below = bare.root / "packages" / "one"
    below.mkdir(parents=True)
    assert Project.at(below).python == (str(python),)


def test_an_environment_above_the_repository_does_not_count(bare):
    bare.venv(bare.root.parent / ".venv")
    (bare.root / ".git").mkdir()
    assert Project.at(bare.root).via == "PATH"


@pytest.mark.parametrize(
    "lock, tool, words", [("uv.lock", "uv", ("run", "--no-sync")), ("poetry.lock", "poetry", ("run",))]
)
def test_uv_and_poetry_where_their_lock_is(bare, monkeypatch, lock, tool, words):
    program = fake(bare, tool)
    monkeypatch.setenv("PATH", str(program.parent))
    bare.write({lock: ""})
    assert Project.at(bare.root).python == (str(program), *words, "python")


def test_a_lock_without_its_tool_falls_back_to_path(bare, monkeypatch):
    python = fake(bare, "python3")
    monkeypatch.setenv("PATH", str(python.parent))
    bare.write({"uv.lock": "", "poetry.lock": ""})
    assert Project.at(bare.root).python == (str(python),)


def test_no_python_anywhere(bare, monkeypatch):
    monkeypatch.setenv("PATH", str(bare.work))
    found = Project.at(bare.root)
    assert found.python == ()
    assert found.probe(found.python, ("pytest",)) is None


def test_a_broken_environment_does_not_count(bare, monkeypatch):
    (bare.root / ".venv" / "bin").mkdir(parents=True)
    (bare.root / ".venv" / "bin" / "python").symlink_to(bare.root / "nowhere")
    assert Project.at(bare.root).via == "PATH"


def test_what_an_outer_git_or_pytest_set_does_not_reach_a_gate(bare, monkeypatch):
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        monkeypatch.setenv(name, "x")
    env = Project.at(bare.root).env
    assert not {"GIT_DIR", "GIT_INDEX_FILE", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"} & env.keys()
    assert (env["CI"], env["NO_COLOR"], env["PYTHONDONTWRITEBYTECODE"]) == ("1", "1", "1")


def test_a_probe_tells_version_and_origin(project):
    project.write({"mine/__init__.py": ""})
    probe = Project.at(project.root).probe((".venv/bin/python",), ("mine", "pytest", "no_such_module"))
    assert probe is not None
    assert probe.version == ".".join(map(str, sys.version_info[:3]))
    assert probe.modules["mine"] == str(project.root / "mine" / "__init__.py")
    assert probe.modules["pytest"] == pytest.__file__
    assert probe.modules["no_such_module"] == ""


def test_codeframe_s_own_environment_is_never_the_project_s(bare):
    """CodeFrame runs in a venv that is active and first on PATH; the project gets the other python."""
    own = bare.work / "own"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own], check=True)
    other = fake(bare, "python3")
    libraries = [
        str(Path(codeframe.__file__).parents[1]),
        *(p for p in sys.path if p.endswith("site-packages")),
    ]
    script = (
        "import json, sys\nfrom pathlib import Path\nfrom codeframe.core.gates.project import Project\n"
        "found = Project.at(Path(sys.argv[1]))\nprint(json.dumps([found.python, found.env]))\n"
    )
    env = {
        "PATH": os.pathsep.join([str(own / "bin"), str(other.parent)]),
        "VIRTUAL_ENV": str(own),
        "PYTHONPATH": os.pathsep.join([str(own / "lib"), *libraries]),
    }
    done = subprocess.run(
        [own / "bin" / "python", "-c", script, bare.root], env=env, check=True, capture_output=True, text=True
    )
    python, gate_env = json.loads(done.stdout)
    assert python == [str(other)]
    assert gate_env["PATH"] == str(other.parent)
    assert "VIRTUAL_ENV" not in gate_env
    assert gate_env["PYTHONPATH"] == os.pathsep.join(libraries)


@pytest.mark.parametrize(
    "where, foreign",
    [
        ("src/pkg/__init__.py", False),
        (".venv/lib/python3/site-packages/pkg/__init__.py", True),  # a copy: edits here change nothing there
        ("../main/src/pkg/__init__.py", True),
        ("", False),  # cannot be imported: the tests will say so
    ],
)
def test_where_a_package_may_come_from(bare, where, foreign):
    probe = Probe("3.11.0", bare.root / ".venv", {"pkg": str(bare.root / where) if where else ""})
    assert bool(foreign_package(probe, ("pkg",), bare.root)) is foreign


def test_the_project_s_packages_are_those_of_the_flat_and_the_src_layout(bare):
    files = (
        "flat/__init__.py",
        "src/deep/__init__.py",
        "src/single.py",
        "tests/__init__.py",
        "no/a.py",
        "a.py",
    )
    bare.write(dict.fromkeys(files, ""))
    assert own_packages(bare.root) == ("deep", "flat", "single")


@pytest.mark.parametrize(
    "name, text, paths",
    [
        ("pytest.ini", "[pytest]\npythonpath = src lib\n", ("src", "lib")),
        ("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["src"]\n', ("src",)),
        ("setup.cfg", "[tool:pytest]\n", ()),
    ],
)
def test_pytest_s_own_search_path(bare, name, text, paths):
    bare.write({name: text})
    assert python_path(bare.root) == paths
