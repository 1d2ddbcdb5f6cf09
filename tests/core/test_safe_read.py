"""Only regular files of a bounded size are read, and nothing blocks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codeframe.core.safe_read import open_regular, read_regular


def test_a_regular_file_is_read_whole_through_a_link_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"12345"


def test_one_byte_too_many_is_an_error_that_says_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"123456")
    with pytest.raises(OSError, match="larger than 5 bytes"):
        read_regular(tmp_path / "file", 5)


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "missing"])
def test_anything_else_is_an_error_at_once(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "device":
        place.symlink_to("/dev/zero")
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(OSError):
        read_regular(place, 100)
    assert len(os.listdir("/dev/fd")) == before
