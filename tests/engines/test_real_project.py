"""A public project of seventeen thousand lines, repaired through `cf` with its own tests in its own environment.

Opt-in (`make test-real`): the project comes from the package index. The engine is the real Claude Code CLI; what
the model says is scripted: a first try that repairs half of it and breaks something else, then the repair.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from codeframe.demo.model_script import Block, tool, verdict
from codeframe.demo.model_server import ScriptedModel
from tests.kit.engines import Completed, run_cf, scripted_env
from tests.kit.repos import commit, git, make_repo, write

pytestmark = pytest.mark.slow

PROJECT = "boltons==26.2.0"  # no dependencies; its sdist holds its 519 tests
MODULE, FUNCTION_AT = "boltons/iterutils.py", 400
SOUND, PLANTED, HALF = (
    "for _ in range(i):\n                    next(t)\n        except",
    "range(i + 1)",
    "range(min(i, 1))",
)
UNRELATED = ("if i + chunk_size >= input_stop:\n            return\n\n\ndef", ">=", ">")
FAILING = ["tests.test_iterutils::test_pairwise_filled", "tests.test_iterutils::test_windowed_filled"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project as a repository: its first commit is as published, its second has the bug; a .venv of its own."""
    folder = tmp_path / "download"
    run(sys.executable, "-m", "venv", folder / "venv", cwd=tmp_path)
    pip = (folder / "venv" / "bin" / "python", "-m", "pip")
    fetch = ("download", "-q", "--no-binary", ":all:", "--no-deps", "-d", folder, PROJECT)
    run(*pip, *fetch, cwd=tmp_path)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    name = archive.name.removesuffix(".tar.gz")
    shutil.move(folder / name, tmp_path / name)
    repo = make_repo(tmp_path / name)
    run(sys.executable, "-m", "venv", ".venv", cwd=repo)
    run(".venv/bin/python", "-m", "pip", "install", "-q", "-e", ".", "pytest", cwd=repo)
    commit(repo, "as published", {".gitignore": ".venv/\n__pycache__/\n.pytest_cache/\n"})
    source = (repo / MODULE).read_text()
    assert source.count(SOUND) == 1
    commit(repo, "a bug", {MODULE: source.replace(SOUND, SOUND.replace("range(i)", PLANTED))})
    return repo


def run(*argv: str | Path, cwd: Path) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def edit(old: str, new: str) -> Block:
    return tool("Edit", {"file_path": f"{{cwd}}/{MODULE}", "old_string": old, "new_string": new})


def test_a_bug_in_a_real_project_is_repaired_and_verified(
    project: Path, home: Path, claude: Path, record_property: Callable[[str, object], None]
) -> None:
    published, with_bug = git(project, "rev-parse", "HEAD~1", "HEAD").splitlines()
    # What a person has under way in the same tree.
    write(project, {"README.md": "# Edited\n", "notes.txt": "new\n", "staged.txt": "staged\n"})
    git(project, "add", "staged.txt")
    before = git(project, "status", "--porcelain")

    read = tool("Read", {"file_path": f"{{cwd}}/{MODULE}", "offset": FUNCTION_AT, "limit": 120})
    around, right, wrong = UNRELATED
    first_try = [
        read,
        [edit(PLANTED, HALF), edit(around, around.replace(right, wrong))],
        verdict("Pairs are right again."),
    ]
    repair = [
        [edit(HALF, "range(i)"), edit(around.replace(right, wrong), around)],
        verdict("All windows are right again."),
    ]
    with ScriptedModel({"repair": {"prompts": [first_try, repair]}}) as server:
        env = scripted_env(home, server.url("repair"))

        def cf(*args: str) -> Completed:
            return run_cf(*args, cwd=project, env=env, timeout=1200)

        cf("init", "--detect")
        # Its style is not ruff's, whose 513 old findings --strict would block on.
        cf("config", "set", "gates", json.dumps([{"name": "tests", "command": "pytest -q"}]))
        assert cf("gates", "list").stdout == "tests: .venv/bin/pytest -q\n"
        task = cf(
            "tasks", "add", "windowed() and pairwise() drop the first window",
            "--description", f"See the failing tests: {', '.join(FAILING)}. Repair boltons/iterutils.py.",
        ).stdout.strip()  # fmt: skip
        done = cf("work", "start", task, "--execute", "--engine", "claude-code", "--strict", "--json")
        assert done.exit_code == 0, done.stdout + done.stderr
        finished = done.json()
        rounds = cf("work", "why", task, "--json").json()["rounds"]
        prompts = server.requests("repair")[-1].prompts
        diff = cf("work", "diff", task)

    assert (finished["status"], finished["verification"], finished["rounds"]) == ("COMPLETED", "verified", 2)
    # The first try: one old failure was left, one new one was made, and the engine was told of both.
    (tests,) = rounds[0]["gates"]["gates"]
    assert tests["counts"]["passed"] == 517
    for name in ("test_windowed_filled", "test_chunk_ranges"):
        assert name in json.dumps(tests)
        assert name in prompts[1]
    assert "test_pairwise_filled" not in prompts[1]
    # What is left is the repair alone: the module is as it was published, and nothing else was touched.
    assert git(project, "diff", "--stat", published, "--", "boltons", "tests") == ""
    assert diff.stdout.count("diff --git") == diff.stdout.count("@@ -") == 1
    assert "-                for _ in range(i + 1):\n+                for _ in range(i):\n" in diff.stdout
    now = git(project, "status", "--porcelain")
    assert set(now.splitlines()) == {*before.splitlines(), f" M {MODULE}"}
    assert (project / "README.md").read_text() == "# Edited\n"
    assert git(project, "rev-parse", "HEAD") == with_bug
    said = run(".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    record_property("boltons: its own tests", said.strip().splitlines()[-1])
    record_property("boltons: engine and gates", f"{finished['rounds']} rounds, {finished['usage']}")
