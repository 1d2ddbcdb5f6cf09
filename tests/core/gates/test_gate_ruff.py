"""The ruff gate on real projects."""

from __future__ import annotations

import pytest

from codeframe.core.gates import Gate, GateOutcome, declared_gates

UNUSED = "import os\n"


@pytest.fixture
def linted(project):
    project.gates = [Gate("ruff", ("ruff", "check"), "ruff")]
    return project


def only(report):
    (verdict,) = report.verdicts
    return verdict


def test_a_finding_that_moved_is_old_and_a_second_one_is_new(linted):
    linted.write({"a.py": UNUSED})
    linted.base()
    linted.write({"a.py": "# one\n# two\n" + UNUSED, "b.py": UNUSED})
    verdict = only(linted.check())
    assert [f.location for f in verdict.old] == ["a.py:3"]
    assert [(f.title, f.location) for f in verdict.new] == [("F401 b.py", "b.py:1")]
    assert "`os` imported but unused" in linted.check().feedback()


def test_clean_is_passed_and_leaves_no_cache(linted):
    linted.write({"a.py": "x = 1\n"})
    before = linted.tree()
    assert only(linted.check()).result.outcome is GateOutcome.PASSED
    assert linted.tree() == before


def test_the_project_s_configuration_is_used(linted):
    linted.write({"a.py": UNUSED, "ruff.toml": 'lint.ignore = ["F401"]\n'})
    assert linted.check().status == "verified"


def test_a_broken_configuration_is_never_old(linted):
    linted.write({"a.py": UNUSED, "ruff.toml": "line-length = 'wide'\n"})
    linted.base()
    verdict = only(linted.check())
    assert (verdict.blocking, verdict.new[0].title) == (True, "ruff ended with status 2")
    assert "line-length" in verdict.new[0].detail


def test_a_syntax_error_is_a_finding(linted):
    linted.write({"a.py": "def (:\n"})
    assert only(linted.check()).new[0].title == "invalid-syntax a.py"


@pytest.mark.parametrize(
    "command",
    ["ruff check sub", "ruff check -n --output-format github --statistics sub", "ruff check -s -- sub"],
)
def test_declared_ruff_commands_are_read_like_found_ones(linted, command):
    linted.write({"a.py": UNUSED, "sub/b.py": UNUSED})
    linted.gates = declared_gates([{"name": "lint", "command": command}])
    assert linted.gates[0].kind == "ruff"
    assert [f.title for f in only(linted.check()).new] == ["F401 sub/b.py"]


def test_without_a_ruff_of_its_own_the_project_gets_the_one_of_codeframe(bare, monkeypatch):
    bare.executable(bare.work / "bin" / "python3", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", f"{bare.work}/bin")
    bare.write({"a.py": UNUSED})
    bare.gates = [Gate("ruff", ("ruff", "check"), "ruff")]
    assert [f.title for f in only(bare.check()).new] == ["F401 a.py"]
    assert bare.suite().missing() == ()
