"""The pytest gate on real projects: it tells everything, whatever the project's options are."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from codeframe.core.gates import Gate, GateOutcome, GateReport, GateVerdict, declared_gates
from codeframe.core.gates.compare import compare

pytestmark = pytest.mark.engine  # at length, with the real tools (make test-engines)

PASS = "def test_a(): assert True\n"
# The body of a test that fails until it has run once.
ONCE = """
def {}():
    import pathlib
    mark = pathlib.Path({!r})
    there = mark.exists()
    mark.touch()
    assert there
"""
BOTH = "def test_a(): assert True\ndef test_b(): assert [1] == [2]\n"


def only(report: GateReport) -> GateVerdict:
    (verdict,) = report.verdicts
    return verdict


def titles(verdict: GateVerdict) -> list[str]:
    return [failure.title for failure in verdict.new]


def test_passed(project):
    project.write({"test_it.py": PASS})
    report = project.check()
    assert report.status == "verified"
    assert only(report).result.passed == {"test_it.py::test_a"}


def test_an_old_collection_error_and_addopts_x_do_not_hide_a_new_failure(project):
    project.write(
        {
            "pytest.ini": "[pytest]\naddopts = -x -q --ff\n",
            "test_a_broken.py": "import nowhere_to_be_found\n",
            "test_b_red.py": "def test_old(): assert 0\ndef test_ok(): pass\n",
            "test_c.py": PASS,
        }
    )
    project.base()
    project.write(
        {"test_b_red.py": "# a line\n\ndef test_old(): assert 0\ndef test_ok(): assert {'a': 1} == {}\n"}
    )
    report = project.check()
    verdict = only(report)
    assert titles(verdict) == ["test_b_red.py::test_ok"]
    assert [f.title for f in verdict.old] == ["test_a_broken.py", "test_b_red.py::test_old"]
    assert verdict.new[0].location == "test_b_red.py:4"
    assert "assert {'a': 1} == {}" in report.feedback()
    assert "test_b_red.py::test_old" in report.feedback().split("leave them as they are")[1]


def test_addopts_n_runs_in_parallel_and_tells_the_same(project):
    project.write({"pytest.ini": "[pytest]\naddopts = -p xdist -n 1 --dist load -x\n", "test_it.py": BOTH})
    result = project.base()["pytest"]
    assert [f.title for f in result.failures] == ["test_it.py::test_b"]
    assert result.passed == {"test_it.py::test_a"}


def test_an_unknown_option_in_addopts_is_a_failure_and_never_old(project):
    project.write({"pytest.ini": "[pytest]\naddopts = --cov-of-nothing\n", "test_it.py": PASS})
    assert project.base()["pytest"].exit_code == 4
    verdict = only(project.check())
    assert verdict.blocking
    assert titles(verdict) == ["pytest ended with status 4 (usage error)"]
    assert "--cov-of-nothing" in verdict.new[0].detail


def test_an_internal_error_is_a_failure_with_its_text(project):
    project.write(
        {"conftest.py": "def pytest_runtest_logreport(): raise RuntimeError('inside')\n", "test_it.py": PASS}
    )
    verdict = only(project.check())
    assert titles(verdict) == ["pytest ended with status 3 (internal error)"]
    assert "inside" in verdict.new[0].detail


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_test_that_ends_pytest_does_not_pass(project, end):
    project.write({"test_it.py": f"import os\ndef test_a(): pass\ndef test_b(): {end}\n"})
    verdict = only(project.check())
    assert verdict.result.outcome is GateOutcome.FAILED
    assert verdict.blocking


def test_an_exit_status_forged_to_0_does_not_hide_failures(project):
    forged = "def pytest_sessionfinish(session): session.exitstatus = 0\n"
    project.write({"conftest.py": forged, "test_it.py": BOTH})
    result = project.base()["pytest"]
    assert (result.exit_code, result.outcome) == (0, GateOutcome.FAILED)


def test_a_threshold_that_no_test_failed_is_a_failure_that_can_be_old(project):
    project.write(
        {
            "conftest.py": "def pytest_sessionfinish(session):\n"
            "    print('coverage 81.5% is under 90%')\n    session.exitstatus = 1\n",
            "test_it.py": PASS,
        }
    )
    project.base()
    verdict = only(project.check())
    assert ([f.title for f in verdict.old], verdict.new) == (["pytest failed though no test did"], ())


def test_a_failure_that_does_not_come_back_is_flaky(project):
    project.write({"test_it.py": PASS})
    project.base()
    once = ONCE.format("test_b", str(project.work / "once"))
    project.write({"test_it.py": PASS + once + "def test_c(): assert 0\n"})
    verdict = only(project.check())
    assert [f.title for f in verdict.flaky] == ["test_it.py::test_b"]
    assert titles(verdict) == ["test_it.py::test_c"]


def test_deleted_and_skipped_tests_are_gone(project):
    project.write({"test_it.py": "def test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\n"})
    project.base()
    project.write(
        {"test_it.py": "import pytest\ndef test_a(): pass\n@pytest.mark.xfail\ndef test_b(): assert 0\n"}
    )
    report = project.check()
    assert only(report).gone == ("test_it.py::test_b", "test_it.py::test_c")
    assert (report.status, report.only_gone) == ("failed", True)


def test_a_test_file_that_no_longer_collects_is_one_failure(project):
    project.write({"test_it.py": "def test_a(): pass\ndef test_b(): pass\n", "test_other.py": PASS})
    project.base()
    project.write({"test_it.py": "def test_a(: pass\n"})
    verdict = only(project.check())
    assert (titles(verdict), verdict.gone) == (["test_it.py"], ())
    assert "SyntaxError" in verdict.new[0].detail


def test_no_tests_is_unverified(project):
    project.write({"test_it.py": "x = 1\n"})
    report = project.check()
    assert (only(report).result.outcome, report.status) == (GateOutcome.NO_TESTS, "unverified")


def test_all_skipped_is_no_tests(project):
    project.write({"test_it.py": "import pytest\n@pytest.mark.skip\ndef test_a(): pass\n"})
    verdict = only(project.check())
    assert verdict.result.outcome is GateOutcome.NO_TESTS
    assert "skipped" in verdict.note


def test_tests_hidden_by_configuration_are_a_new_failure(project):
    project.write({"test_it.py": PASS})
    project.base()
    project.write({"pytest.ini": "[pytest]\npython_files = nothing_*.py\n"})
    report = project.check()
    assert report.status == "failed"
    assert titles(only(report)) == ["no tests are collected any more"]


def test_a_gate_that_never_ends_is_a_timeout_and_never_old(project):
    project.gates = [Gate("pytest", ("pytest",), "pytest", timeout_s=1)]
    project.write({"test_it.py": "import time\ndef test_a(): time.sleep(600)\n"})
    verdict = only(project.check())
    assert verdict.result.outcome is GateOutcome.TIMEOUT
    again = compare(verdict.result, verdict.result, project.root)
    assert (again.blocking, titles(again)) == (True, ["did not end within 1 s"])


def test_a_daemon_left_by_a_test_is_ended(project):
    pid = project.work / "pid"
    project.write(
        {
            "test_it.py": "import subprocess\ndef test_a():\n"
            "    child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
            f"    open({str(pid)!r}, 'w').write(str(child.pid))\n"
        }
    )
    project.work.mkdir()
    verdict = only(project.check())
    assert verdict.result.outcome is GateOutcome.PASSED
    assert "1 process(es)" in verdict.note
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_stop_ends_the_gate_and_is_not_cached(project):
    project.write({"test_it.py": PASS})
    cancel = threading.Event()
    cancel.set()
    suite = project.suite()
    suite.recall("tree", "first")
    suite.baseline(project.work / "out", marker=project.marker, cancel=cancel)
    suite.keep_baseline(unchanged=True)
    assert project.recalled("tree") == {}


def test_the_tree_stays_as_it_was(project):
    project.write(
        {
            "pkg/__init__.py": "",
            "test_it.py": "import pkg\nfrom hypothesis import given, strategies as st\n"
            "@given(st.integers())\ndef test_a(n): assert n < 5\n",
        }
    )
    before = project.tree()
    assert project.base()["pytest"].outcome is GateOutcome.FAILED
    assert project.tree() == before


def test_bytes_that_are_no_text_do_no_harm(project):
    project.write(
        {
            "test_it.py": "import os\ndef test_a():\n    os.write(2, b'\\xff\\xfe\\x00' * 9)\n"
            "    assert '\\x1b[31m' == 'b'\n"
        }
    )
    (failure,) = project.base()["pytest"].failures
    assert failure.title == "test_it.py::test_a"
    assert "\x1b" not in failure.detail


def test_ids_below_a_rootdir_above_the_workspace_can_be_run_again(project, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    project.work.mkdir()
    project.write({"test_it.py": ONCE.format("test_a", str(project.work / "once"))})
    assert [f.title for f in only(project.check()).flaky] == ["project/test_it.py::test_a"]


@pytest.mark.parametrize(
    "command", ["pytest -x sub/test_it.py", ".venv/bin/python -m pytest -k test_ -- sub"]
)
def test_declared_pytest_gates_are_read_like_found_ones(project, command):
    project.work.mkdir()
    once = ONCE.format("test_c", str(project.work / "once"))
    project.write({"test_not.py": "def test_not(): assert 0\n", "sub/test_it.py": BOTH + once})
    project.gates = declared_gates([{"name": "tests", "command": command}])
    assert project.gates[0].kind == "pytest"
    verdict = only(project.check())
    assert titles(verdict) == ["sub/test_it.py::test_b"]
    assert [f.title for f in verdict.flaky] == ["sub/test_it.py::test_c"]


def test_no_pytest_in_the_project_s_environment_is_tool_missing(bare):
    bare.venv(options="-S -E")
    bare.write({"test_it.py": PASS})
    report = bare.check()
    assert (only(report).result.outcome, report.status) == (GateOutcome.TOOL_MISSING, "unverified")
    assert "has no pytest" in only(report).note


def test_a_package_imported_from_another_tree_does_not_count(project, tmp_path, monkeypatch):
    elsewhere: Path = tmp_path / "main" / "src" / "pkg"
    elsewhere.mkdir(parents=True)
    (elsewhere / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(elsewhere.parent))  # as an editable install of the main tree does
    project.write({"src/pkg/__init__.py": "", "tests/test_it.py": "import pkg\ndef test_a(): pass\n"})
    report = project.check()
    assert (only(report).result.outcome, report.status) == (GateOutcome.TOOL_MISSING, "unverified")
    assert f"pkg is imported from {elsewhere}" in only(report).note
    project.write({"pytest.ini": "[pytest]\npythonpath = src\n"})
    assert project.check().status == "verified"
