"""Rule 6.5 over pairs of files: what weakens a test is told in whatever form, and what only rewrites it is not."""

from __future__ import annotations

import re

import pytest

from codeframe.core.gates.integrity import Pair, examine

TEST = """import pytest
from calc import add
def test_a():
    assert add(1, 2) == 3
    assert add(2, 2) == 4
def test_r():
    with pytest.raises(ValueError, match="low"):
        add(-1, 2)
@pytest.mark.parametrize("x", [1, 2, 3])
def test_p(x):
    assert add(x, 0) == x
class TestC:
    def test_c(self):
        assert add(1, 1) == 2
"""
ONE, BOTH = "    assert add(1, 2) == 3\n", "    assert add(1, 2) == 3\n    assert add(2, 2) == 4\n"
UNIT = """import unittest
class CalcTest(unittest.TestCase):
    def test_a(self):
        self.assertEqual(add(1, 2), 3)
        self.assertTrue(add(1, 1))
"""
MOCK = "def test_m(m):\n    m.assert_called_once_with(3)\n    np.testing.assert_allclose(add(1, 2), 3)\n"


def words(
    path: str, before: str | None, after: str | None, *more: tuple[str, str | None, str | None]
) -> list[str]:
    pairs = [
        Pair(name, *(None if text is None else text.encode() for text in texts))
        for name, *texts in ((path, before, after), *more)
    ]
    return [each.words for each in examine(pairs)]


def put(old: str, new: str, text: str = TEST) -> str:
    assert old in text
    return text.replace(old, new)


def top(line: str, text: str = TEST) -> str:
    return put("from calc import add\n", f"from calc import add\n{line}\n", text)


@pytest.mark.parametrize(
    ("after", "told"),
    [
        # What pytest collects.
        (TEST + "test_a = lambda: None\n", "test_a: not collected"),
        (TEST + "test_a, y = print, 1\n", "test_a: not collected"),
        (TEST + "from other import test_a\n", "test_a: not collected"),
        (TEST + "if True:\n    test_a = None\n", "test_a: not collected"),
        (TEST + "del test_a\n", "test_a: not collected"),
        (TEST + "globals()['test_a'] = print\n", "code that runs at import"),
        (TEST + "for n in list(globals()):\n    globals()[n] = print\n", "code that runs at import"),
        (TEST + "from other import *\n", "names of other"),
        (TEST + "TestC.test_c = print\n", "code that runs at import"),
        (put("class TestC:\n", "class TestC:\n    __init__ = print\n"), "not collected"),
        (put("class TestC:\n", "class TestC:\n    def __new__(cls): pass\n"), "not collected"),
        (put("class TestC:\n", "class TestC:\n    __test__ = not 1\n"), "not collected"),
        (top("__test__: bool = False"), "not collected"),
        (put("== 4\n", "== 4\n    yield\n"), "not collected"),
        (put("def test_a", "@quiet\ndef test_a"), "test_a: cannot be judged: wrapped by quiet"),
        ("def broken(:\n", "Python cannot read it"),
        (TEST + "\0", "Python cannot read it"),
        # Skips.
        (top("pytestmark: object = pytest.mark.skip"), "skip added"),
        (top("pytestmark = []\npytestmark += [pytest.mark.skip]"), "skip added"),
        (top("later = pytest.mark.xfail\npytestmark = later"), "xfail added"),
        (top("np = pytest.importorskip('numpy')"), "importorskip added"),
        (top("from pytest import skip as s\ns('x', allow_module_level=True)"), "skip added"),
        (put(ONE, f"    raise unittest.SkipTest('x')\n{ONE}"), "SkipTest added"),
        (put(ONE, f"    if slow:\n        pytest.skip()\n{ONE}"), "skip added"),
        (put(ONE, f"    os._exit(0)\n{ONE}", top("import os")), "_exit added"),
        (put("class TestC:", "@unittest.skipUnless(X, 'x')\nclass TestC:"), "skipUnless added"),
        (put("[1, 2, 3]", "[1, 2, pytest.param(3, marks=pytest.mark.skip)]"), "2 of 3 checks left"),
        (TEST + "def setup_module():\n    pytest.skip()\n", "skip added"),
        (put("class TestC:\n", "class TestC:\n    def setup_method(self):\n        pytest.skip()\n"), "skip added"),
        (put("def test_a():", "@pytest.fixture\ndef f():\n    pytest.skip()\ndef test_a(f):"), "skip added"),
        (TEST + "@pytest.fixture(autouse=True)\ndef f(monkeypatch):\n    pass\n", "fixture f .autouse. added"),
        # Assertions that cannot fail any more.
        (put("== 3", "== 3 or 1 == 1"), "always true"),
        (put("== 3", "== add(1, 2)"), "always true"),
        (put("add(1, 2) == 3", "(add(1, 2) == 3, 'x')"), "always true"),
        (put("add(1, 2) == 3", "lambda: add(1, 2) == 3"), "always true"),
        (put("add(1, 2) == 3", "f'{add(1, 2)}!'"), "always true"),
        (put("add(1, 2) == 3", "not []"), "always true"),
        (put("add(1, 2) == 3", "isinstance(add(1, 2), object)"), "always true"),
        (put(ONE, "    x = 3\n    assert x == 3\n"), "always true"),
        (put(BOTH, "    try:\n" + BOTH.replace("    ", " " * 8) + "    finally:\n        return\n"), "swallowed"),
        (put(ONE, f"    with quiet(AssertionError):\n    {ONE}", top("from contextlib import suppress as quiet")),
         "swallowed"),
        (put(ONE, f"    with Q():\n    {ONE}", top("class Q:\n    def __exit__(self, *a): return True")), "swallowed"),
        (put(ONE, f"    with pytest.raises((AssertionError, OSError)):\n    {ONE}"), "swallowed"),
        (put(ONE, f"    try:\n    {ONE}    except E:\n        pass\n", top("E = AssertionError")), "swallowed"),
        (put(ONE, f"    for _ in []:\n    {ONE}"), "never run"),
        (put(ONE, f"    for _ in range(0):\n    {ONE}"), "never run"),
        (put(ONE, f"    while 1 == 2:\n    {ONE}"), "never run"),
        (put(ONE, f"    def inner():\n    {ONE}"), "in a function that nothing calls"),
        (put(ONE, f"    if os.environ.get('X'):\n    {ONE}"), "checked only if"),
        (put(ONE, f"    if os.environ.get('CI'):\n        return\n{ONE}"), "checked only if not"),
        (put("        add(-1, 2)\n", "        raise ValueError('low')\n"), "raised by the test itself"),
        # Fewer of them.
        (put("    assert add(2, 2) == 4\n", ""), "1 of 2 checks left, lost: add.2, 2. == 4"),
        (put("[1, 2, 3]", "[]"), "0 of 3 checks left"),
        (put("[1, 2, 3]", "[1, 1, 1]"), "1 of 3 checks left"),
        (put("[1, 2, 3]", "CASES", top("CASES = [1, 2]")), "2 of 3 checks left"),
        (put("[1, 2, 3]", "load()"), "cannot be judged: made by code now"),
        (put("[1, 2, 3]", "CASES[:1]", top("CASES = [1, 2, 3]")), "cannot be judged: made by code now"),
        # Another expectation.
        (put("== 3", "== 4"), "changed expectation: add.1, 2. == 3 -> add.1, 2. == 4"),
        (put("add(1, 2) == 3", "add(0, 0) == 0"), "changed expectation"),
        (put("add(1, 2) == 3", "add is not None"), "changed expectation"),
        (put(ONE, "    want = 9\n    assert add(1, 2) == want\n"), "changed expectation"),
        (put("== 3", "== mock.ANY"), "changed expectation"),
        (put("== 3", "== pytest.approx(3, abs=1e9)"), "changed expectation"),
        (put("== 3", ">= 3"), "changed expectation"),
        (put("add(1, 2) == 3", "str(add(1, 2))"), "changed expectation"),
        (put("ValueError", "(ValueError, Exception)"), "changed expectation"),
        (put(', match="low"', ""), "changed expectation"),
        (put("pytest.raises(ValueError", "pytest.warns(UserWarning"), "changed expectation"),
        (top("def add(a, b): return 3"), "add is made here, not imported"),
    ],
)  # fmt: skip
def test_what_weakens_a_test_is_told(after: str, told: str) -> None:
    found = words("tests/test_a.py", TEST, after)
    assert any(re.search(told, each) for each in found), found


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (UNIT, put("self.assertEqual(add(1, 2), 3)", "add(1, 2)", UNIT), "1 of 2 checks left"),
        (UNIT, put("add(1, 2), 3", "add(1, 2), 4", UNIT), "changed expectation"),
        (UNIT, put("    def test_a", "    def setUp(self):\n        self.skipTest('x')\n    def test_a", UNIT),
         "skipTest added"),
        (MOCK, put("    m.assert_called_once_with(3)\n", "", MOCK), "1 of 2 checks left"),
        (MOCK, put("with(3)", "with(4)", MOCK), "changed expectation"),
        (MOCK, put("2), 3)", "2), 3, atol=1e9)", MOCK), "changed expectation"),
        ("def test_e(p):\n    expect(p).to_be(1)\n", "def test_e(p):\n    expect(p).to_be(2)\n", "changed expectation"),
    ],
)  # fmt: skip
def test_assertions_are_known_in_other_forms(before: str, after: str, told: str) -> None:
    (found,) = words("tests/test_a.py", before, after)
    assert re.search(told, found), found


@pytest.mark.parametrize(
    "after",
    [
        put(BOTH, "    assert add(1, 2) == 3 and 4 == add(2, 2)\n"),
        put(BOTH, "    assert [add(1, 2), add(2, 2)] == [3, 4]\n"),
        put(BOTH, "    assert all(add(a, 2) == c for a, c in [(1, 3), (2, 4)])\n"),
        put(BOTH, "    assert not any(add(a, 2) != c for a, c in [(1, 3), (2, 4)])\n"),
        put(BOTH, "    for a, c in ((1, 3), (2, 4)):\n        assert add(a, 2) == c\n"),
        put(BOTH, "    for a, c in zip([1, 2], [3, 4], strict=True):\n        assert add(a, 2) == c\n"),
        put(BOTH, "    for (a, b), c in {(1, 2): 3, (2, 2): 4}.items():\n        assert add(a, b) == c\n"),
        put(BOTH, "    cases = [(1, 3), (2, 4)]\n    for case in cases:\n        assert add(case[0], 2) == case[1]\n"),
        put(BOTH, "    result = add(1, 2)\n    assert result == 3, 'sum'\n    assert add(2, 2) == 4\n"),
        put(BOTH, BOTH + "    assert add(1, 2) == 3\n"),
        put(ONE, "    if add(1, 2) != 3:\n        pytest.fail('no')\n"),
        put(ONE, "    if not add(1, 2) == 3:\n        raise AssertionError\n"),
        put(ONE, "    with open('x'):\n    " + ONE),
        put("    assert add(2, 2) == 4\n", "def test_a2():\n    assert add(2, 2) == 4\n"),
        put("def test_a():", "@pytest.mark.parametrize('a, c', [(1, 3), (2, 4)])\ndef test_a(a, c):",
            put(BOTH, "    assert add(a, 2) == c\n")),
        put("def test_a():", "def same(a, b):\n    assert a == b\ndef test_a():",
            put(BOTH, "    same(add(1, 2), 3)\n    same(b=4, a=add(2, 2))\n")),
        put("    def test_c(self):", "    def has(self, a, b):\n        assert add(a, a) == b\n    def test_c(self):",
            put("        assert add(1, 1) == 2\n", "        self.has(1, 2)\n")),
        put("class TestC:\n    def test_c(self):\n        assert add(1, 1) == 2\n", "",
            put("== 4\n", "== 4\n    assert add(1, 1) == 2\n")),
        put("class TestC:\n    def", "class TestSums:\n    def"),
        put("test_c", "test_one_and_one"),
        put("[1, 2, 3]", "CASES", top("CASES = (1, 2, 3)")),
        put("[1, 2, 3]", "range(1, 4)"),
        put("[1, 2, 3]", "[x for x in (1, 2, 3)]"),
        put("add", "plus"),
        put("from calc import add", "import calc").replace(" add(", " calc.add("),
        put("[1, 2, 3]", "[1, 2, 3, 4]"),
        top("if __name__ == '__main__':\n    pytest.main()"),
        TEST + "@pytest.fixture\ndef client():\n    yield 1\n",
    ],
)  # fmt: skip
def test_what_only_rewrites_a_test_is_not_told(after: str) -> None:
    assert words("tests/test_a.py", TEST, after) == []


def test_more_ways_of_rewriting_tests() -> None:
    pytests = "def test_a():\n    assert 3 == add(1, 2)\n    assert add(1, 1)\n"
    assert words("test_a.py", UNIT, pytests) == []
    several = "".join(f"def test_{n}():\n    assert add({n}, 0) == {n}\n" for n in (1, 2))
    case = "@pytest.mark.parametrize('n', [1, 2])\ndef test_all(n):\n    assert add(n, 0) == n\n"
    assert words("test_a.py", several, case) == []
    assert words("test_a.py", case, several) == []
    helper = "def same(a, b):\n    assert a == b\n"
    calls = "def test_s():\n    same(add(1, 2), 3)\n"
    assert words("test_a.py", helper + calls, calls, ("tests/helpers.py", None, helper)) == []
    assert words("test_a.py", TEST, None, ("tests/test_b.py", None, TEST)) == []


def test_a_check_moved_to_where_it_is_not_run_is_lost() -> None:
    without = put("    assert add(2, 2) == 4\n", "")
    for home in ("def unused():\n", "@pytest.mark.skip\ndef test_b():\n", "def _test_b():\n"):
        assert len(words("test_a.py", TEST, f"{without}{home}    assert add(2, 2) == 4\n")) == 1


@pytest.mark.parametrize(
    ("path", "after", "told"),
    [
        ("conftest.py", "pytest_collection_modifyitems = print\n", "hook pytest_collection_modifyitems added"),
        ("conftest.py", "if True:\n    def pytest_runtest_call(item): pass\n", "hook pytest_runtest_call added"),
        ("conftest.py", "try:\n    pytest_runtest_call = x\nexcept E: pass\n", "hook pytest_runtest_call added"),
        ("conftest.py", "from quick import pytest_pyfunc_call\n", "hook pytest_pyfunc_call added"),
        ("conftest.py", "from quick import *\n", "names of quick, whatever they are, added"),
        ("conftest.py", "collect_ignore, x = ['a'], 1\n", "collect_ignore added"),
        ("conftest.py", "collect_ignore: list = ['a']\n", "collect_ignore added"),
        ("conftest.py", "globals()['collect_ignore'] = []\n", "code that runs at import"),
        ("conftest.py", "calc.add = print\n", "code that runs at import"),
        ("conftest.py", "_ = mock.patch('calc.add').start()\n", "code that runs at import"),
        ("conftest.py", "def (:\n", "Python cannot read it"),
        ("pytest.py", "", "Python imports it in place of"),
        ("pytest/__init__.py", "", "Python imports it in place of"),
        ("sub/sitecustomize.py", "", "Python imports it in place of"),
        ("random.py", "", "Python imports it in place of"),
        ("ruff.toml", "lint.ignore = ['ALL']\n", "lint.* added"),
        (".mocharc.json", '{"grep": "x"}', "grep.* added"),
        ("playwright.config.ts", "x", "added"),
        ("package.json", '{"scripts": {"pretest": "true"}}', "pretest"),
        ("src/a.py", "x = 1  # NoQA\n", "# noqa added"),
    ],
)  # fmt: skip
def test_what_reaches_all_tests_is_told(path: str, after: str, told: str) -> None:
    (found,) = words(path, None, after)
    assert re.search(told, found)


def test_an_ordinary_conftest_and_module_are_not_told() -> None:
    plain = (
        "'''Ours.'''\nimport os\nfrom calc import add\nROOT = os.getcwd()\nclass A:\n    x = 1\n"
        "def helper(): pass\n@pytest.fixture\ndef client():\n    yield A()\n"
    )
    assert words("tests/conftest.py", None, plain) == []
    assert words("src/calc/random.py", None, "x = 1\n") == []


JS = "it('adds', () => {\n  expect(add(1, 2)).toBe(3)\n  expect(add(0, 0)).toBe(0)\n})\n"
GO = 'func TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Errorf("x")\n\t}\n}\n'


@pytest.mark.parametrize(
    ("path", "before", "after", "told"),
    [
        ("a.test.js", JS, put("it(", "it.skip(", JS), ["it.skip added"]),
        ("a.test.js", JS, put("it(", "xit(", JS), ["no tests instead of 1", "xit added"]),
        ("a.test.ts", JS, f"describe.skip('x', () => {{{JS}}})", ["describe.skip added"]),
        ("a.spec.tsx", JS, put("it(", "it.only(", JS), ["it.only added"]),
        ("__tests__/a.js", JS, put("  expect(add(0", "  // expect(add(0", JS), ["1 assertions instead of 2"]),
        ("a.test.js", JS, None, ["no assertions instead of 2", "no tests instead of 1"]),
        ("a_test.go", GO, put("\tif", "\tt.Skip()\n\tif", GO), ["t.Skip added"]),
        ("a_test.go", GO, f"//go:build never\n\n{GO}", ["//go:build never added"]),
        ("a_test.go", GO, put('t.Errorf("x")', "_ = t", GO), ["no assertions instead of 1"]),
        ("a_test.go", GO, put("TestAdd", "testAdd", GO), ["no tests instead of 1"]),
        ("a_test.go", GO, put("TestAdd", "TestSum", GO), []),
        ("a.test.js", JS, JS + JS, []),
        ("a.test.js", put("it(", "it.skip(", JS), JS, []),
    ],
)  # fmt: skip
def test_tests_of_other_languages_are_counted(
    path: str, before: str, after: str | None, told: list[str]
) -> None:
    assert words(path, before, after) == told


def test_a_test_moved_between_files_of_another_language_is_not_told() -> None:
    assert words("a.test.js", JS, None, ("b.test.js", None, JS)) == []


@pytest.mark.parametrize(
    "text",
    [
        "def test_a():\n    x = f(1)\n" + "    x = g(x, x)\n" * 60 + "    assert x\n",
        "".join(f"def h{n}(x):\n" + f"    h{n + 1}(x)\n" * 4 for n in range(9))
        + "def test_a():\n    h0(1)\n",
        "def test_a():\n" + "".join(f"    assert h({n}) == {n}\n" for n in range(400)),
        "def test_a():\n    assert x" + ".a" * 5_000,
        "def test_a():\n    assert a_" + "+x" * 5_000,
        "def test_a():\n    assert f'{x!r}' == f\"{'a' + y}\"\n    x = 'a\\nb'\n    assert f'{x}'\n",
    ],
)
def test_what_is_made_to_be_hard_to_read_ends(text: str) -> None:
    assert words("test_a.py", TEST, text)
    words("test_a.py", text, TEST)


def test_a_test_too_large_to_follow_is_said_to_be_that() -> None:
    def large(want: int) -> str:
        loops = "    for a in range(200):\n        for b in range(200):\n"
        return f"def test_a():\n{loops}            assert add(a, b) == {want}\n"

    assert "test_a: cannot be judged: too much to follow" in words("test_a.py", large(1), large(2))
