"""A file is put in its place in one step, and what a kill leaves of that is swept (rule 4.2)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeframe.core.replacing import Replacing


@pytest.fixture(params=["here", "on another file system"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Where it works: below `tmp_path`, or elsewhere."""
    if request.param == "here":
        yield tmp_path / "git" / "undo"
        return
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system only")
    with tempfile.TemporaryDirectory(dir=memory) as made:
        yield Path(made) / "undo"


class Killed(BaseException):
    """Stands for a kill: what comes after it is not done."""


def test_a_file_is_replaced_and_nothing_is_left(folder: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "f").write_text("old")

    def make(new: Path) -> None:
        new.write_text("new")
        assert (tree / "f").read_text() == "old"

    Replacing(folder).put(tree / "f", make)
    assert (tree / "f").read_text() == "new"
    assert os.listdir(tree) == ["f"]
    assert os.listdir(folder) == []


def test_what_is_left_beside_a_file_is_found_by_its_note(folder: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    found: list[Path] = []
    left: dict[Path, bytes] = {}
    tree.mkdir()
    (tree / ".codeframe-undo-of-a-person").write_text("not ours")

    def make(new: Path) -> None:
        new.write_text("half")
        if new.parent == tree or folder.is_relative_to(tmp_path):
            found.append(new)
            left.update({each: each.read_bytes() for each in folder.iterdir()})
            raise Killed

    with pytest.raises(Killed):
        Replacing(folder).put(tree / "f", make)
    for each, content in left.items():  # as a kill leaves them
        each.write_bytes(content)
    found[0].write_text("half")
    Replacing(folder).sweep()
    assert not found[0].exists()
    assert os.listdir(folder) == []
    assert (tree / ".codeframe-undo-of-a-person").read_text() == "not ours"


def test_sweeping_twice_or_with_nothing_there(tmp_path: Path) -> None:
    replacing = Replacing(tmp_path / "undo")
    replacing.sweep()
    (tmp_path / "undo").mkdir()
    (tmp_path / "undo" / "x.beside").write_bytes(b"")  # killed while the note was written
    replacing.sweep()
    replacing.sweep()
    assert os.listdir(tmp_path / "undo") == []
