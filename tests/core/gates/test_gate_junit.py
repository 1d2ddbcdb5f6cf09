"""The JUnit report is read as pytest wrote it, and not believed when it could not have."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.core.gates.junit import ReportError, TestReport, node_id, read_report

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: "/".join(parts) + ".py")
PARAMETERS = st.text("ab[]:./ -", max_size=8).map(lambda p: f"[{p}]") | st.just("")


def read(tmp_path: Path, body: str | bytes) -> TestReport:
    path = tmp_path / "junit.xml"
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    return read_report(path, lambda _: False)


def suite(cases: str) -> str:
    return f'<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite>{cases}</testsuite></testsuites>'


def mangle(test: str) -> tuple[str, str]:
    """What pytest's junitxml does to an id (`mangle_test_address`)."""
    path, bracket, parameters = test.partition("[")
    names = path.split("::")
    names[0] = re.sub(r"\.py$", "", names[0].replace("/", "."))
    names[-1] += bracket + parameters
    return ".".join(names[:-1]), names[-1]


@settings(max_examples=30)
@given(PATHS, st.lists(NAMES, max_size=2), NAMES, PARAMETERS)
def test_the_id_comes_back_from_what_pytest_made_of_it(
    file: str, classes: list[str], name: str, case: str
) -> None:
    test = "::".join([file, *classes, name + case])
    classname, mangled = mangle(test)
    assert node_id(classname, mangled, file, lambda _: False) == test


def test_an_inherited_test_belongs_to_the_file_of_its_class() -> None:
    files = {"tests/test_a.py"}
    assert node_id("tests.test_a.TestIn", "test_x", "tests/base.py", files.__contains__) == (
        "tests/test_a.py::TestIn::test_x"
    )


def test_a_test_reported_twice_counts_by_the_worst(tmp_path: Path) -> None:
    case = '<testcase classname="t" name="a" file="t.py" line="0">'
    report = read(
        tmp_path, suite(f'{case}</testcase>{case}<error message="failed on teardown">x</error></testcase>')
    )
    assert (report.passed, [f.title for f in report.failures]) == (frozenset(), ["t.py::a"])


def test_a_red_test_keeps_its_key_however_it_fails(tmp_path: Path) -> None:
    def key(body: str) -> str:
        case = f'<testcase classname="t" name="a" file="t.py" line="0">{body}</testcase>'
        return read(tmp_path, suite(case)).failures[0].key

    assert key('<failure message="m">t.py:3: in a\nE assert 1</failure>') == key(
        '<error message="n">t.py:9: y</error>'
    )


@given(line=st.integers(1, 999), other=st.integers(1, 999))
def test_a_collection_error_is_known_by_its_reason_not_its_line(
    line: int, other: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("report")

    def key(at: int, reason: str) -> str:
        text = f"t.py:{at}: in &lt;module&gt;\n    import x\nE   {reason} (t.py, line {at})"
        case = (
            f'<testcase classname="" name="t" file="t.py"><error message="collection failure">{text}</error>'
        )
        return read(folder, suite(case + "</testcase>")).failures[0].key

    assert key(line, "SyntaxError: bad") == key(other, "SyntaxError: bad")
    assert key(line, "SyntaxError: bad") != key(line, "ImportError: x")


def test_the_place_is_the_last_line_of_the_project_s_own_code(tmp_path: Path) -> None:
    text = (
        "t.py:3: in a\n    f()\nsrc/m.py:7: in f\n    g()\n/usr/lib/python/json.py:300: in g\nE   ValueError"
    )
    case = f'<testcase classname="t" name="a" file="t.py" line="1"><failure message="m">{text}</failure>'
    assert read(tmp_path, suite(case + "</testcase>")).failures[0].location == "src/m.py:7"


def test_the_place_falls_back_to_the_test_itself(tmp_path: Path) -> None:
    case = (
        '<testcase classname="t" name="a" file="t.py" line="41"><failure message="m">odd</failure></testcase>'
    )
    assert read(tmp_path, suite(case)).failures[0].location == "t.py:42"


@pytest.mark.parametrize(
    "body",
    [
        '<!DOCTYPE a [<!ENTITY x "xx"><!ENTITY y "&x;&x;">]><testsuites>&y;</testsuites>',
        '<!DOCTYPE a SYSTEM "file:///etc/passwd"><testsuites/>',
        "<testsuites><testsuite>",
        "not xml",
        "",
    ],
)
def test_a_hostile_or_cut_report_is_refused(tmp_path: Path, body: str) -> None:
    with pytest.raises(ReportError):
        read(tmp_path, body)


def test_a_report_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError):
        read(tmp_path, b"<testsuites>\xff\xfe</testsuites>")


def test_a_missing_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError):
        read_report(tmp_path / "none.xml", lambda _: False)


def test_escapes_in_ids_and_texts_are_taken_out(tmp_path: Path) -> None:
    case = '<testcase classname="t" name="a[\u009b31m]" file="t.py" line="0">'
    (failure,) = read(
        tmp_path, suite(case + '<failure message="m">#x1B[31mred</failure></testcase>')
    ).failures
    assert (failure.title, failure.detail) == ("t.py::a[31m]", "red")


def test_a_huge_text_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    with path.open("w") as stream:
        stream.write('<testsuites><testsuite><testcase classname="t" name="a" file="t.py" line="0">')
        stream.write('<failure message="m">HEAD')
        for _ in range(400):
            stream.write("x" * 65536)
        stream.write("TAIL</failure><system-out>")
        for _ in range(400):
            stream.write("y" * 65536)
        stream.write("</system-out></testcase></testsuite></testsuites>")
    tracemalloc.start()
    (failure,) = read_report(path, lambda _: False).failures
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert failure.detail.startswith("HEAD")
    assert failure.detail.endswith("TAIL")
    assert len(failure.detail) <= 8 * 1024
    assert peak < 4 * 1024 * 1024


def test_a_huge_message_does_not_swallow_what_follows(tmp_path: Path) -> None:
    case = '<testcase classname="t" name="{}" file="t.py" line="0"><failure message="{}"/></testcase>'
    report = read(tmp_path, suite(case.format("a", "x" * 1_000_000) + case.format("b", "short")))
    assert [(f.title, f.detail[:5]) for f in report.failures] == [("t.py::a", "xxxxx"), ("t.py::b", "short")]
    assert len(report.failures[0].detail) <= 8 * 1024


def test_all_details_together_are_bounded(tmp_path: Path) -> None:
    case = (
        '<testcase classname="t" name="a{}" file="t.py" line="0"><failure message="m">{}</failure></testcase>'
    )
    report = read(tmp_path, suite("".join(case.format(n, "x" * 8000) for n in range(1500))))
    assert len(report.failures) == 1500
    assert sum(len(f.detail) for f in report.failures) < 10 * 1024 * 1024
