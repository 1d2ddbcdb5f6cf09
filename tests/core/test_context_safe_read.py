"""Files of a repository are read without leaving it, without blocking, without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codeframe.core.safe_read import Refusal, Unreadable, read_text_inside
from tests.kit.repos import write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "repo"
    write(
        root,
        {
            "a.txt": b"\xef\xbb\xbfone\r\ntwo\rthree\xff\n",
            "sub/b.txt": "inside\n",
            "binary": b"\0",
            ".git/config": "token\n",
            "ten": "0123456789",
        },
    )
    write(root.parent, {"repository/near.txt": "outside\n", "outside/c.txt": "outside\n"})
    (root / "inside").symlink_to("sub/b.txt")
    (root / "out").symlink_to(root.parent / "outside/c.txt")
    (root / "near").symlink_to("../repository/near.txt")
    (root / "folder-out").symlink_to(root.parent / "outside")
    (root / "config").symlink_to(".git/config")
    (root / "gone").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "fifo")
    (root / "to-fifo").symlink_to("fifo")
    (root / "device").symlink_to("/dev/zero")
    return root


@pytest.mark.parametrize(
    ("path", "text"), [("a.txt", "one\ntwo\nthree\ufffd\n"), ("inside", "inside\n"), ("ten", "0123456789")]
)
def test_text_is_read(root: Path, path: str, text: str) -> None:
    assert read_text_inside(root, root / path, 100) == text


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("nothing", Refusal.MISSING),
        ("gone", Refusal.MISSING),
        ("loop", Refusal.MISSING),
        ("nul\0byte", Refusal.MISSING),
        ("out", Refusal.OUTSIDE),
        ("near", Refusal.OUTSIDE),
        ("folder-out/c.txt", Refusal.OUTSIDE),
        ("../outside/c.txt", Refusal.OUTSIDE),
        ("config", Refusal.OUTSIDE),
        ("device", Refusal.OUTSIDE),
        ("fifo", Refusal.IRREGULAR),
        ("to-fifo", Refusal.IRREGULAR),
        ("sub", Refusal.IRREGULAR),
        ("binary", Refusal.BINARY),
    ],
)
def test_what_is_refused_and_why(root: Path, path: str, refusal: Refusal) -> None:
    with pytest.raises(Unreadable) as refused:
        read_text_inside(root, f"{root}/{path}", 100)
    assert refused.value.refusal is refusal


def test_a_file_is_read_up_to_its_limit(root: Path) -> None:
    assert read_text_inside(root, root / "ten", 10) == "0123456789"
    with pytest.raises(Unreadable, match="too long"):
        read_text_inside(root, root / "ten", 9)
