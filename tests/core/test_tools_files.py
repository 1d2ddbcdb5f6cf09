"""read_file, edit_file, create_file: what they do to bytes, and that no path leads out (rule 9.3)."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeframe.core.redaction import Redactor
from codeframe.core.tools import Surroundings, Toolbox, ToolError, ToolResult
from codeframe.core.tools.confined import Confined
from codeframe.core.tools.files import MAX_SHOWN_BYTES

SECRET = "the content outside"


class Box:
    """A toolbox on a fresh workspace, with a file outside of it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.root.mkdir()
        self.outside = folder / "outside"
        self.outside.mkdir()
        (self.outside / "file.txt").write_text(SECRET)
        around = Surroundings(self.root, dict(os.environ), "t/0", threading.Event(), lambda: 60.0)
        self._tools = Toolbox(around, Redactor({"MY_TOKEN": "hush-hush-1234"}))

    def call(self, name: str, **given: Any) -> ToolResult:
        return self._tools.call(name, given)

    def good(self, name: str, **given: Any) -> str:
        result = self.call(name, **given)
        assert not result.is_error, result.text
        return result.text

    def bad(self, name: str, **given: Any) -> str:
        result = self.call(name, **given)
        assert result.is_error, result.text
        assert result.change is None
        return result.text

    def edit(self, path: str, old: str, new: str) -> ToolResult:
        return self.call("edit_file", path=path, old_text=old, new_text=new)

    def untouched(self) -> bool:
        names = sorted(p.name for p in self.outside.iterdir())
        return names == ["file.txt"] and (self.outside / "file.txt").read_text() == SECRET


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


# -- reading ----------------------------------------------------------------------------------------------


def test_a_file_is_shown_with_its_line_numbers_and_in_parts(box: Box) -> None:
    (box.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert box.good("read_file", path="a.txt").splitlines()[0] == "     1\tline 1"
    part = box.good("read_file", path="a.txt", start_line=4, line_count=2)
    assert part == "     4\tline 4\n     5\tline 5\n[lines 4 to 5 of 10; go on with start_line 6]"
    assert "there is none at 11" in box.bad("read_file", path="a.txt", start_line=11)
    assert box.good("read_file", path=str(box.root / "a.txt"), start_line=10) == "    10\tline 10"


def test_what_is_shown_is_bounded(box: Box) -> None:
    (box.root / "long.txt").write_text(("x" * 999 + "\n") * 2000)
    shown = box.good("read_file", path="long.txt", line_count=2000)
    assert len(shown.encode()) <= MAX_SHOWN_BYTES + 1024
    assert "go on with start_line" in shown.splitlines()[-1]
    (box.root / "one-line.txt").write_text("y" * 5_000_000)
    assert "characters left out" in box.good("read_file", path="one-line.txt")
    with (box.root / "huge.txt").open("wb") as file:
        file.truncate(100 << 20)
    assert "larger than" in box.bad("read_file", path="huge.txt")


def test_what_is_no_text_is_not_shown(box: Box) -> None:
    (box.root / "picture").write_bytes(b"\x89PNG\0\1\2")
    os.mkfifo(box.root / "pipe")
    (box.root / "folder").mkdir()
    (box.root / "empty").touch()
    assert "is binary" in box.bad("read_file", path="picture")
    assert "is binary" in box.edit("picture", "PNG", "JPG").text
    assert "is not a regular file" in box.bad("read_file", path="pipe")  # and does not wait for a writer
    assert "is a folder" in box.bad("read_file", path="folder")
    assert "is empty" in box.good("read_file", path="empty")
    assert "is not there" in box.bad("read_file", path="nowhere/a.txt")
    assert "no folder" in box.bad("read_file", path="empty/a.txt")
    for odd in ("", "a\0b", "."):
        box.bad("read_file", path=odd)


def test_secrets_are_neither_shown_nor_replaced(box: Box) -> None:
    (box.root / ".env").write_text("KEY=1\n")
    (box.root / "plain.py").write_text("t = 'hush-hush-1234'\n")
    (box.root / "link").symlink_to(".env")
    for path in (".env", "link"):
        assert "looks like a file that holds secrets" in box.bad("read_file", path=path)
        assert box.edit(path, "KEY", "K").is_error
        box.bad("create_file", path=path, content="x", overwrite=True)
    assert (box.root / ".env").read_text() == "KEY=1\n"
    assert box.good("read_file", path="plain.py") == "     1\tt = '[redacted]'"
    box.good("create_file", path="sub/.env", content="NEW=1\n")


# -- writing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\nb\nc\n", "b\nc", "B\nC\nD", b"a\nB\nC\nD\n"),
        (b"a\r\nb\r\nc\r\n", "b\nc", "B\nC", b"a\r\nB\r\nC\r\n"),
        (b"a\r\nb\r\nc\r\n", "b", "B\nb", b"a\r\nB\r\nb\r\nc\r\n"),
        (b"one\ntwo\nx\r\ny\r\n", "x\ny", "X\nY", b"one\ntwo\nX\r\nY\r\n"),
        (b"\xef\xbb\xbfa = 1\r\n", "a = 1", "a = 2", b"\xef\xbb\xbfa = 2\r\n"),
        (b"caf\xe9 = 1\nb\n", "b", "bb", b"caf\xe9 = 1\nbb\n"),
        (b"no end", "end", "end at all", b"no end at all"),
        ("é ü\n".encode(), "ü", "", "é \n".encode()),
    ],
    ids=["lf", "crlf", "crlf-one-line", "mixed", "bom", "latin-1", "no-line-end", "utf-8"],
)
def test_an_edit_changes_its_place_and_not_one_byte_beside_it(
    box: Box, before: bytes, old: str, new: str, after: bytes
) -> None:
    (box.root / "f").write_bytes(before)
    result = box.edit("f", old, new)
    assert (box.root / "f").read_bytes() == after
    assert result.change == ("f", "modified")


def test_an_edit_that_is_not_clear_says_where_it_could_be_meant(box: Box) -> None:
    text = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\nx = 1\nx = 1\n"
    (box.root / "f.py").write_text(text)
    assert "occurs 2 times in f.py (lines 7, 8)" in box.edit("f.py", "x = 1", "x = 2").text
    near = box.edit("f.py", "def add(a,b):\n", "").text
    assert "does not occur" in near
    assert "     1\tdef add(a, b):" in near
    assert "Read the file again" in box.edit("f.py", "q" * 40, "").text
    assert "is empty" in box.edit("f.py", "", "x").text
    assert "the same" in box.edit("f.py", "x", "x").text
    assert (box.root / "f.py").read_text() == text


def test_an_edit_shows_what_became_of_it(box: Box) -> None:
    (box.root / "f").write_text("".join(f"{n}\n" for n in range(1, 10)))
    shown = box.good("edit_file", path="f", old_text="5\n", new_text="five\nfive and a half\n")
    assert shown.splitlines()[1:] == [
        "     2\t2", "     3\t3", "     4\t4", "     5\tfive", "     6\tfive and a half",
        "     7\t6", "     8\t7", "     9\t8", "    10\t9",
    ]  # fmt: skip


def test_files_are_created_and_replaced_in_the_manner_of_what_was_there(box: Box) -> None:
    assert box.call("create_file", path="a/b/new.py", content="x\n").change == ("a/b/new.py", "created")
    assert "exists already" in box.bad("create_file", path="a/b/new.py", content="y\n")
    assert (box.root / "a/b/new.py").read_text() == "x\n"
    script = box.root / "run.bat"
    script.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    script.chmod(0o755)
    result = box.call("create_file", path="run.bat", content="1\n2\n", overwrite=True)
    assert result.change == ("run.bat", "modified")
    assert script.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    assert sorted(p.name for p in box.root.iterdir()) == ["a", "run.bat"]  # nothing temporary is left


def test_a_link_inside_is_followed_and_stays_a_link(box: Box) -> None:
    (box.root / "real.md").write_text("old\n")
    (box.root / "AGENTS.md").symlink_to("real.md")
    assert box.edit("AGENTS.md", "old", "new").change == ("real.md", "modified")
    assert (box.root / "AGENTS.md").is_symlink()
    assert (box.root / "real.md").read_text() == "new\n"


# -- no way out -------------------------------------------------------------------------------------------


def attempts(box: Box, path: str) -> list[ToolResult]:
    return [
        box.call("read_file", path=path),
        box.edit(path, SECRET, "gone"),
        box.call("create_file", path=path, content="gone", overwrite=True),
        box.call("list_files", path=path),
        box.call("search_codebase", pattern="content", path=path),
    ]


def test_no_path_leads_out(box: Box) -> None:
    (box.root / "sub").mkdir()
    (box.root / "dir").symlink_to(box.outside)
    (box.root / "file").symlink_to(box.outside / "file.txt")
    (box.root / "up").symlink_to("..")
    (box.root / "root").symlink_to("/")
    (box.root / "new").symlink_to(box.outside / "new.txt")
    (box.root / "loop").symlink_to("loop")
    outside = str(box.outside / "file.txt")
    for path in (
        "../outside/file.txt", "sub/../../outside/file.txt", outside, "dir/file.txt", "file",
        "up/outside/file.txt", f"root{outside}", "dir/new.txt", "new",
        f"{box.root}/../outside/file.txt", f"{box.root}-other", "sub/../dir/../file",
    ):  # fmt: skip
        for result in attempts(box, path):
            assert result.is_error, (path, result.text)
            assert SECRET not in result.text
    for path in ("loop", "loop/file.txt"):
        assert all(result.is_error for result in attempts(box, path)[:3])
    assert box.untouched()


def test_git_s_own_files_are_out_of_bounds(box: Box) -> None:
    (box.root / ".git").mkdir()
    (box.root / ".git" / "config").write_text("[core]\n")
    (box.root / "g").symlink_to(".git")
    for path in (".git/config", "g/config", ".GIT/config", "x/../.git/config", ".git/hooks/pre-commit"):
        for result in attempts(box, path):
            assert "git's own" in result.text, path
    assert [p.name for p in (box.root / ".git").iterdir()] == ["config"]


NAMES = st.sampled_from(["a", "b", "c", "..", ".", ".git"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    links=st.lists(st.tuples(NAMES, st.lists(NAMES, min_size=1, max_size=4), st.booleans()), max_size=4),
    path=st.lists(NAMES, min_size=1, max_size=5),
    absolute=st.booleans(),
)
def test_whatever_is_linked_to_whatever_nothing_outside_is_read_or_changed(
    tmp_path_factory: pytest.TempPathFactory,
    links: list[tuple[str, list[str], bool]],
    path: list[str],
    absolute: bool,
) -> None:
    box = Box(tmp_path_factory.mktemp("links"))
    (box.outside / "a").mkdir()
    for name in ("a", "b"):
        (box.root / name).mkdir()
    for name, target, outward in links:
        where = box.root / "a" / name
        if not os.path.lexists(where):
            where.symlink_to(os.path.join(box.outside if outward else "..", *target))
    typed = os.path.join(*([str(box.root)] if absolute else []), *path, "file.txt")
    assert SECRET not in box.call("read_file", path=typed).text
    result = box.call("create_file", path=typed, content="made")
    if not result.is_error:
        assert result.change is not None
        real = (box.root / result.change[0]).resolve()
        assert real.is_relative_to(box.root)
        assert ".git" not in real.parts
    assert sorted(p.name for p in box.outside.iterdir()) == ["a", "file.txt"]
    assert list((box.outside / "a").iterdir()) == []


class Exchanging(Confined):
    """The worst moment there is: right after each look at a path, `exchange` happens."""

    def __init__(self, root: Path, exchange: Callable[[], object]) -> None:
        super().__init__(root)
        self._exchange = exchange

    def resolve(self, path: str) -> str:
        relative = super().resolve(path)
        self._exchange()
        return relative


@pytest.mark.parametrize("what", ["folder", "folder above", "file", "pipe"])
def test_what_turns_into_a_link_between_look_and_use_leads_nowhere(box: Box, what: str) -> None:
    for name in ("file.txt", "deeper/file.txt"):
        (box.root / "d" / name).parent.mkdir(exist_ok=True)
        (box.root / "d" / name).write_text("inside")
    (box.outside / "deeper").mkdir()
    path = "d/deeper/file.txt" if what == "folder above" else "d/file.txt"

    def exchange() -> None:
        gone = box.root / "d" if what.startswith("folder") else box.root / "d/file.txt"
        gone.rename(gone.with_name("gone"))
        if what == "pipe":
            os.mkfifo(gone)
        else:
            gone.symlink_to(box.outside if gone.name == "d" else box.outside / "file.txt")

    def restore() -> None:
        for gone in (box.root / "d", box.root / "d/file.txt"):
            if gone.with_name("gone").exists():
                gone.unlink()
                gone.with_name("gone").rename(gone)

    files = Exchanging(box.root, exchange)
    with pytest.raises(ToolError):
        files.read(path)
    restore()
    for replace in (True, False):
        with pytest.raises(ToolError):
            files.write(path, b"changed", replace=replace)
        restore()
    assert (box.root / path).read_text() == "inside"
    assert (box.outside / "file.txt").read_text() == SECRET
    assert sorted(p.name for p in box.outside.rglob("*")) == ["deeper", "file.txt"]


# -- what a model may send --------------------------------------------------------------------------------


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(
        ["read_file", "edit_file", "create_file", "list_files", "run_tests", "no_such_tool", "finish"]
    ),
    given_=st.dictionaries(
        st.sampled_from(["path", "start_line", "old_text", "content", "overwrite", "check", "extra"]),
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.none(), max_size=2)
        ),
        max_size=4,
    ),
)
def test_no_input_makes_a_tool_raise(box: Box, name: str, given_: dict[str, Any]) -> None:
    if name in ("list_files", "run_tests"):
        given_ = {**given_, "extra": 1}  # refused before a process is started
    result = box.call(name, **{key: value for key, value in given_.items() if key != "name"})
    assert isinstance(result.text, str)


def test_wrong_input_is_explained(box: Box) -> None:
    assert "'path' is missing" in box.bad("read_file")
    assert "must be of type string" in box.bad("read_file", path=7)
    assert "must be of type integer" in box.bad("read_file", path="a", start_line=True)
    assert "must be at least 1" in box.bad("read_file", path="a", start_line=0)
    assert "no parameter 'file'" in box.bad("read_file", path="a", file="b")
    assert "There is no tool 'browse'" in box.bad("browse")
    assert "between 1 and 600" in box.bad("run_command", command="true", timeout_s=601)
    assert "strings only" in box.bad("run_tests", check="x", arguments=[1])
