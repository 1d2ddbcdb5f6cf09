"""Rule 6.5: what was done to the checks, told from what files held before and after."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.core.gates.integrity import MAX_BYTES, Finding, Pair, examine, relevant


def found(path: str, before: str | None, after: str | None) -> list[str]:
    return [str(each) for each in told((path, before, after))]


def told(*files: tuple[str, str | None, str | None]) -> tuple[Finding, ...]:
    pairs = [
        Pair(path, *(None if text is None else text.encode() for text in texts)) for path, *texts in files
    ]
    assert all(relevant(pair.path) for pair in pairs)
    return examine(pairs)


def body(text: str, head: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in text.split("\n"))
    return f"import pytest\nfrom calc import add\n\n{head}def test_add():\n{lines}\n"


ASSERTS = "assert add(1, 2) == 3\nassert add(0, 0) == 0"
TWO = body(ASSERTS)
RAISES = body("with pytest.raises(TypeError):\n    add('a', 1)\nassert add(1, 1) == 2")
CASES = body("assert add(a, 1) == b", "@pytest.mark.parametrize('a, b', [(1, 2), (2, 3), (3, 4)])\n")
SMOKE = body("add(1, 2)")
UNITTEST = """
import unittest

class AddTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
        self.assertRaises(TypeError, add, 'a', 1)
"""
HELPED = "def check(a, b):\n    assert a == b\n    assert b\n\ndef test_add():\n    check(add(1, 2), 3)\n"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (TWO, body("pass"), "emptied"),
        (TWO, body("..."), "emptied"),
        (TWO, body('"""Adds."""'), "emptied"),
        (TWO, body("return"), "emptied"),
        (TWO, body("assert True"), "emptied"),
        (TWO, body("assert (add(1, 2) == 4, 'never fails')"), "emptied"),
        (SMOKE, body("pass"), "emptied"),
        (TWO, body("add(1, 2)"), "0 of 2 checks left, lost: add.1, 2. == 3 and 1 more"),
        (TWO, body("assert add(1, 2) == 3"), "1 of 2 checks left, lost: add.0, 0. == 0$"),
        (TWO, body("assert add(1, 2) == 3\nassert add(0, 0) == 0 or True"), "1 of 2 checks left .always true"),
        (TWO, body("x = add(0, 0)\nassert x == x\nassert add(1, 2) == 3"), "1 of 2 checks left .always true"),
        (TWO, body("return\n" + ASSERTS), "emptied"),
        (TWO, body("add(1, 2)\nreturn\n" + ASSERTS), "0 of 2 checks left .after return"),
        (TWO, body("if False:\n    assert add(1, 2) == 3\nassert add(0, 0) == 0"), "1 .* .never run"),
        (TWO, body("try:\n    assert add(1, 2) == 3\nexcept Exception:\n    pass\nassert add(0, 0) == 0"), "swallowed"),
        (TWO, body("try:\n    assert add(1, 2) == 3\nexcept:\n    print()\nassert add(0, 0) == 0"), "swallowed"),
        (TWO, body("with suppress(AssertionError):\n    assert add(1, 2) == 3\nassert add(0, 0) == 0"), "swallowed"),
        (TWO, body(ASSERTS, "@pytest.mark.xfail\n"), "xfail added"),
        (TWO, body(ASSERTS, "@pytest.mark.skipif(True, reason='x')\n"), "skipif added"),
        (TWO, body("pytest.skip('later')\n" + ASSERTS), "skip added"),
        (TWO, body("pytest.xfail()\n" + ASSERTS), "xfail added"),
        (TWO, "import pytest\npytestmark = pytest.mark.xfail\n" + TWO, "xfail added"),
        (TWO, "import pytest\npytestmark = [pytest.mark.skip]\n" + TWO, "skip added"),
        (TWO, TWO + "\ndef test_add():\n    pass\n", "emptied"),
        (TWO, TWO.replace("def test_add", "def _test_add"), "not collected any more"),
        (TWO, "class Add:\n    def test_add(self):\n        assert add(1, 2) == 3\n", "not collected any more"),
        (TWO, "import pytest\n", "test_add deleted"),
        (RAISES, body("add(1, 1)\nassert add(1, 1) == 2"), "1 of 2 checks left, lost: raises.TypeError"),
        (RAISES, body("assert add('a', 1)\nassert add(1, 1) == 2"), "changed expectation: raises.TypeError.: add"),
        (RAISES, RAISES.replace("TypeError", "Exception"), "changed expectation: .*raises.Exception"),
        (CASES, CASES.replace("(2, 3), ", ""), "2 of 3 checks left, lost: add.2, 1. == 3"),
        (CASES, CASES.replace("(2, 3)", "pytest.param(2, 3, marks=pytest.mark.skip)"), "2 of 3 checks left"),
        (CASES, body("assert add(1, 1) == 2"), "1 of 3 checks left"),
        (UNITTEST, UNITTEST.replace("add(1, 2), 3", "3, 3"), "1 of 2 checks left .always true"),
        (UNITTEST, UNITTEST.replace("    def", "    @unittest.expectedFailure\n    def"), "expectedFailure added"),
        (UNITTEST, UNITTEST.replace("    def", "    __test__ = False\n    def"), "not collected"),
        (HELPED, HELPED.replace("    assert b\n", ""), "check: 1 of 2 checks left, lost: b"),
        (HELPED, HELPED.replace("    check(add(1, 2), 3)", "    print(add(1, 2))"), "test_add: 0 of 1 checks left"),
    ],
)  # fmt: skip
def test_a_weaker_test_is_one_finding_that_says_how(before: str, after: str, words: str) -> None:
    lines = found("tests/test_calc.py", before, after)
    assert len(lines) == 1, lines
    assert re.search(words, lines[0]), lines
    assert lines[0].startswith("tests/test_calc.py")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TWO, body(ASSERTS + "\nassert add(2, 2) == 4")),
        (TWO, body("for a, b in [(1, 2), (0, 0)]:\n    assert add(a, b) == a + b")),
        (TWO, body("assert add(a, b) == a + b", "@pytest.mark.parametrize('a,b', [(1, 2), (0, 0)])\n")),
        (TWO, "def both():\n    assert add(1, 2) == 3\n    assert add(0, 0) == 0\n\ndef test_add():\n    both()\n"),
        (TWO, "def check_both():\n    assert add(1, 2) == 3\n    assert add(0, 0) == 0\n" + body("check_both()")),
        (TWO, "class TestAdd:\n    def test_add(self):\n" + ASSERTS.replace("assert", "        assert") + "\n"),
        (TWO, body("try:\n    add('', 1)\nexcept TypeError:\n    pass\n" + ASSERTS)),
        (TWO, body("try:\n    assert add(1, 2) == 3\nexcept AssertionError:\n    raise\nassert add(0, 0) == 0")),
        (CASES, CASES.replace("(3, 4)", "(3, 4), (4, 5)")),
        (body(ASSERTS, "@pytest.mark.xfail\n"), TWO),
        (TWO, TWO.replace("def test_add", "def test_sums_of_small_numbers")),
        (None, body("pass")),
        (HELPED, HELPED.replace("def test", "def test_more():\n    check(1, 1)\n\ndef test")),
    ],
)  # fmt: skip
def test_a_test_that_checks_as_much_as_before_is_no_finding(before: str | None, after: str) -> None:
    assert found("tests/test_calc.py", before, after) == []


def test_a_test_moved_to_another_file_is_compared_there() -> None:
    assert told(("test_a.py", TWO, None), ("tests/test_b.py", None, TWO)) == ()
    moved = told(("test_a.py", TWO, None), ("tests/test_b.py", None, body("pass")))
    assert [(each.path, each.test, each.words) for each in moved] == [
        ("tests/test_b.py", "test_a.py::test_add", "test_add: emptied")
    ]


def test_a_test_file_renamed_so_that_nobody_collects_it() -> None:
    (each,) = told(("test_a.py", TWO, None), ("a_checks.py", None, TWO))
    assert each.words == "test_add: not collected any more"


def test_a_helper_of_the_same_name_in_another_file_is_another_one() -> None:
    plain = "def check(a, b):\n    print(a, b)\n\ndef test_print():\n    check(1, 2)\n"
    assert told(("tests/test_a.py", HELPED, HELPED + "\n"), ("tests/test_b.py", None, plain)) == ()


def test_a_helper_in_another_file_that_checks_less_is_one_finding() -> None:
    helper, test = HELPED.split("\n\n")
    hollow = "def check(a, b):\n    pass\n"
    lines = told(("tests/helpers.py", helper, hollow), ("tests/test_a.py", test, f"\n{test}"))
    assert [(each.path, each.words) for each in lines] == [("tests/helpers.py", "check: emptied")]


_BODIES = (
    "assert f(1) == 2",
    "with pytest.raises(ValueError):\n    f(0)",
    "for x in (1, 2):\n    assert f(x)\nassert not f(3)",
    "check(f(4))",
    "try:\n    f(5)\nfinally:\n    assert g()",
)


@settings(max_examples=60, deadline=None)
@given(
    kept=st.lists(st.integers(0, len(_BODIES) - 1), min_size=1, max_size=5, unique=True),
    order=st.randoms(use_true_random=False),
    into_class=st.booleans(),
    into_file=st.booleans(),
    renamed=st.booleans(),
    formatted=st.booleans(),
)
def test_moving_renaming_and_formatting_weakens_nothing(
    kept: list[int], order: object, into_class: bool, into_file: bool, renamed: bool, formatted: bool
) -> None:
    def module(names: dict[int, str], numbers: list[int], in_class: bool) -> str:
        pad = "    " if in_class else ""
        text = "class TestAll:\n" if in_class else ""
        for number in numbers:
            lines = _BODIES[number].split("\n")
            text += f"{pad}def {names[number]}({'self' if in_class else ''}):\n"
            text += "".join(f"{pad}    {line}\n" for line in lines)
        return text

    shuffled = kept.copy()
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    before = module({n: f"test_{n}" for n in kept}, kept, False)
    after = module({n: f"test_{'new_' if renamed else ''}{n}" for n in kept}, shuffled, into_class)
    if formatted:
        after = "# formatted\n" + ast.unparse(ast.parse(after)).replace("\n", "\n\n")
    files = (
        [("tests/test_a.py", before, None), ("tests/test_b.py", None, after)]
        if into_file
        else [("tests/test_a.py", before, after)]
    )
    assert told(*files) == ()


@pytest.mark.parametrize(
    ("path", "after", "name"),
    [
        ("a.py", "x = 1  # noqa", "# noqa"),
        ("a.py", "x = 1  #NOQA: E501".replace("NOQA", "noqa"), "# noqa"),
        ("a.py", "# ruff: noqa", "# ruff: noqa"),
        ("a.py", "x: int = ''  # type: ignore[assignment]", "# type: ignore"),
        ("a.py", "def f():  # pragma: no cover", "# pragma: no cover"),
        ("a.py", "import os  # pylint: disable=unused-import", "# pylint: disable"),
        ("a.py", "eval(x)  # nosec", "# nosec"),
        ("a.py", "# mypy: ignore-errors", "# mypy:"),
        ("a.ts", "// eslint-disable-next-line no-console", "eslint-disable"),
        ("a.js", "/* eslint-disable */", "eslint-disable"),
        ("a.ts", "// @ts-ignore", "@ts-ignore"),
        ("a.tsx", "// @ts-nocheck", "@ts-nocheck"),
        ("a.ts", "// @ts-expect-error", "@ts-expect-error"),
        ("a.rs", "#[allow(dead_code)]", "#[allow]"),
        ("a.go", "x() //nolint:errcheck", "//nolint"),
        ("A.java", '@SuppressWarnings("unchecked")', "@SuppressWarnings"),
        ("a.kt", '@Suppress("UNCHECKED_CAST")', "@Suppress"),
        ("a.rb", "x # rubocop:disable Style/For", "rubocop:disable"),
        ("a.cpp", "f(); // NOLINT", "NOLINT"),
        ("a.sh", "# shellcheck disable=SC2086", "shellcheck disable"),
    ],
)
def test_an_added_suppression_is_named_with_its_line(path: str, after: str, name: str) -> None:
    for before in (None, "\n"):
        (each,) = told((path, before, f"\n{after}\n"))
        assert (each.path, each.line) == (path, 2)
        assert each.words.startswith(f"{name} added: ")
    assert told((path, f"{after}\n", f"\n\n{after}\n")) == ()
    assert told((path, f"{after}\n", "\n")) == ()


def test_suppressions_are_counted_so_that_a_second_one_is_told_and_a_moved_one_is_not() -> None:
    one = "import os  # noqa: F401\n"
    assert told(("a.py", one, ""), ("b.py", "", one)) == ()
    assert [each.line for each in told(("a.py", one, f"{one}import re  # noqa: F401\n"))] == [2]
    assert told(("a.py", "x = 1  # noqa: E501\n", "x = 2  # noqa: E501\n")) == ()
    assert told(("a.py", "x = 1  # noqa\n", "x = 1  # noqa: E501\n")) == ()
    assert told(("a.py", "x = 1  # noqa: E501, F401\n", "x = 1  # noqa: E501\n")) == ()
    assert len(told(("a.py", "x = 1  # noqa: E501\n", "x = 1  # noqa\n"))) == 1


def test_a_suppression_in_a_text_is_none() -> None:
    assert told(("a.py", "", 'HELP = "write # noqa at the end"\n')) == ()


@pytest.mark.parametrize(
    ("path", "before", "after", "words"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-q'\n",
         "[tool.pytest.ini_options]\naddopts = '-q --ignore=tests/slow'\n",
         "tool.pytest.ini_options.addopts: -q -> -q --ignore=tests/slow"),
        ("pyproject.toml", "[tool.pytest.ini_options]\ntestpaths = ['tests', 'more']\n",
         "[tool.pytest.ini_options]\ntestpaths = ['tests']\n", "tool.pytest.ini_options.testpaths: removed more"),
        ("sub/pyproject.toml", "[tool.ruff.lint]\nselect = ['E', 'F']\n", "[tool.ruff.lint]\nselect = ['E']\n",
         "tool.ruff.lint.select: removed F"),
        ("pyproject.toml", "[tool.ruff.lint]\nselect = ['E']\n",
         "[tool.ruff.lint]\nselect = ['E']\n[tool.ruff.lint.per-file-ignores]\n'a' = ['E501']\n",
         "tool.ruff.lint.per-file-ignores.a: not set -> E501"),
        ("pyproject.toml", "[tool.mypy]\nstrict = true\n", "[tool.mypy]\nstrict = true\nignore_errors = true\n",
         "tool.mypy.ignore_errors: not set -> true"),
        ("pyproject.toml", "[tool.coverage.report]\nfail_under = 90\n", "[tool.coverage.report]\nfail_under = 80\n",
         "tool.coverage.report.fail_under: 90 -> 80"),
        ("pyproject.toml", "[tool.coverage.report]\nfail_under = 90\n", "[project]\nname = 'x'\n",
         "[tool.coverage] removed: report.fail_under = 90"),
        ("setup.cfg", "[flake8]\nignore = E1\n", "[flake8]\nignore = E1, E2\n", "flake8.ignore: E1 -> E1, E2"),
        ("tox.ini", "[pytest]\naddopts = -q\n", "[pytest]\naddopts = -q --deselect a\n",
         "pytest.addopts: -q -> -q --deselect a"),
        ("mypy.ini", "[mypy]\nstrict = True\n", "[mypy]\nstrict = False\n", "mypy.strict: True -> False"),
        (".coveragerc", "[report]\nfail_under = 90\n", "[report]\nfail_under = 9\n", "report.fail_under: 90 -> 9"),
        ("ruff.toml", "line-length = 80\n", "line-length = 320\n", "line-length: 80 -> 320"),
        ("tsconfig.json", '{"compilerOptions": {"strict": true}} // on', '{"compilerOptions": {"strict": false,},}',
         "compilerOptions.strict: true -> false"),
        (".eslintrc.json", '{"rules": {"no-var": "error"}}', '{"rules": {"no-var": "off"}}',
         "rules.no-var: error -> off"),
        ("eslint.config.js", "export default [a]\n", "export default []\n", "changed"),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "true"}}',
         "scripts.test: jest -> true"),
        ("CODEFRAME.md", "---\ngates: [{name: a, command: pytest}]\n---\n", "---\nengine: x\n---\n",
         '[gates] removed: gates = {"name": "a", "command": "pytest"}'),
        (".codeframe/config.yaml", "strict: true\n", "strict: false\n", "strict: true -> false"),
        ("tests/conftest.py", "", "def pytest_collection_modifyitems(items):\n    items.clear()\n",
         "hook pytest_collection_modifyitems added"),
        ("conftest.py", "", "collect_ignore = ['test_a.py']\n", "collect_ignore added"),
        ("ruff.toml", "x = [broken", "y = 1\n", "changed"),
    ],
)  # fmt: skip
def test_changed_configuration_is_told_as_key_before_and_after(
    path: str, before: str, after: str, words: str
) -> None:
    assert [(each.path, each.words) for each in told((path, before, after))] == [(path, words)]


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("pyproject.toml", "[tool.ruff]\nline-length = 80\n", "# wide\n[tool.ruff]\nline-length=80\n"),
        ("pyproject.toml", "[project]\nversion = '1'\n", "[project]\nversion = '2'\n[tool.hatch]\nx = 1\n"),
        ("pyproject.toml", "[tool.coverage.report]\nfail_under = 80\n", "[tool.coverage.report]\nfail_under = 90\n"),
        ("pyproject.toml", "[tool.ruff]\nignore = ['E', 'F']\n", "[tool.ruff]\nignore = ['E']\n"),
        ("pyproject.toml", "[tool.ruff]\nselect = ['E']\n", "[tool.ruff]\nselect = ['E', 'F']\n"),
        ("tox.ini", "[testenv]\ndeps = a\n", "[testenv]\ndeps = b\n"),
        ("package.json", '{"version": "1"}', '{"version": "2"}'),
        ("CODEFRAME.md", "---\nengine: a\n---\ntext\n", "---\nengine: b\n---\nmore\n"),
        ("conftest.py", "", "import pytest\n\n@pytest.fixture\ndef one():\n    return 1\n"),
        ("pytest.ini", "[pytest]\nmarkers = a\n", "[pytest]\nmarkers = b\n"),
    ],
)  # fmt: skip
def test_other_or_stricter_configuration_is_no_finding(path: str, before: str, after: str) -> None:
    assert found(path, before, after) == []


def test_a_new_section_is_one_line() -> None:
    (line,) = found(
        "pyproject.toml", None, "[tool.ruff]\nline-length = 1\n[tool.ruff.lint]\nselect = ['E']\n"
    )
    assert line == "pyproject.toml: [tool.ruff] added: line-length = 1, lint.select = E"


def test_what_is_too_large_is_said_to_be_unread_and_what_is_no_text_breaks_nothing() -> None:
    assert [str(e) for e in examine([Pair("test_a.py", b"", b"#" * (MAX_BYTES + 1))])] == [
        "test_a.py: too large to be examined"
    ]
    for data in (b"\0\xff", b"(" * 5000, b"x = " + b"-" * 20_000 + b"1", b"\xef\xbb\xbfdef test(): pass"):
        for path in ("test_a.py", "conftest.py", "a.py", "pyproject.toml", "tsconfig.json", "tox.ini"):
            examine([Pair(path, b"", data), Pair(f"old/{path}", data, None)])


def test_ordinary_files_are_not_even_looked_at() -> None:
    assert not any(
        map(relevant, ("README.md", "docs/a.txt", "data.csv", "image.png", "Makefile", ".github/ci.yml"))
    )
