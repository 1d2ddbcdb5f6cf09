"""The keyword ranking: what wins, what is found, what is never read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeframe.core import relevant_files
from codeframe.core.git import discover
from codeframe.core.redaction import contains_secret
from codeframe.core.relevant_files import Ranking, list_files, rank_files, words
from tests.kit.repos import Content, commit, git, git_home, make_repo, write

__all__ = ["git_home"]  # a fixture

TOKEN = "ghp_" + "a1B2" * 9


def rank(root: Path, title: str, description: str = "", **options: int) -> Ranking:
    top = discover(root).toplevel
    return rank_files(top, root, title, description, holds_secret=contains_secret, **options)


def paths(ranking: Ranking) -> list[str]:
    return [file.path for file in ranking.files]


@pytest.fixture
def shop(git_home: Path, tmp_path: Path) -> Path:
    return make_repo(
        tmp_path / "shop",
        {
            "README.md": "A shop.\n",
            "shop/cart.py": "class ShoppingCart:\n    def total(self):\n        return 0\n",
            "shop/user.py": "def log_in(user):\n    return user\n",
            "shop/mail.py": "def send(text):\n    return text\n",
            "tests/test_cart.py": "def test_empty():\n    pass\n",
            "tests/test_mail.py": "def test_send():\n    pass\n",
        },
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("userLogins", ["user", "login"]),
        ("user_login", ["user", "login"]),
        ("src/HTTPServer2.py", ["src", "http", "server"]),
        ("Please fix the classes", ["classe"]),
        ("ändert Größe", ["ändert", "größe"]),
        ("a b1 io", []),
    ],
)
def test_words_of_prose_and_code_are_the_same_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_a_path_named_in_the_task_wins(shop: Path) -> None:
    named = rank(shop, "Fix the shopping cart total", "It goes wrong in shop/mail.py:12.")
    assert paths(named)[0] == "shop/mail.py"
    without_folder = rank(shop, "Fix the shopping cart total", "It goes wrong in `mail.py`.")
    assert paths(without_folder)[0] == "shop/mail.py"


def test_a_symbol_is_found_where_it_is_defined_not_where_it_is_used(shop: Path) -> None:
    commit(
        shop, "uses", {f"shop/a{n}.py": "from b import ShoppingCart\n\nShoppingCart()\n" for n in range(3)}
    )
    assert paths(rank(shop, "Make ShoppingCart faster"))[0] == "shop/cart.py"


def test_a_rare_word_weighs_more_than_a_common_one(shop: Path) -> None:
    files: dict[str, Content] = {f"lib/part{n}.py": "handler = 1\n" * 5 for n in range(20)}
    commit(shop, "many", {**files, "lib/odd.py": "handler = 1\nquaternion = 2\n"})
    assert paths(rank(shop, "handler quaternion"))[0] == "lib/odd.py"


def test_the_tests_of_a_source_file_come_right_behind_it(shop: Path) -> None:
    write(shop, {"web/cart.js": "let cart", "web/cart.test.js": "", "web/unrelated.test.js": ""})
    found = paths(rank(shop, "Fix shop/cart.py"))
    assert found[0] == "shop/cart.py"
    assert set(found[1:3]) == {"tests/test_cart.py", "web/cart.test.js"}
    assert "web/unrelated.test.js" not in found


def test_untracked_files_count_ignored_and_deleted_ones_do_not(shop: Path) -> None:
    write(shop, {".gitignore": "build/\n", "build/cart.py": "cart", "new/cart.py": "cart"})
    (shop / "shop/cart.py").unlink()
    found = paths(rank(shop, "The cart"))
    assert "new/cart.py" in found
    assert not {"build/cart.py", "shop/cart.py"} & set(found)


def test_files_that_share_no_word_with_the_task_are_left_alone(shop: Path) -> None:
    assert paths(rank(shop, "Zzyzx")) == []
    assert paths(rank(shop, "", "")) == []


def test_a_workspace_sees_only_its_own_folder(shop: Path) -> None:
    assert paths(rank(shop / "tests", "cart mail")) == ["test_cart.py", "test_mail.py"]


def test_at_most_so_many_files(shop: Path) -> None:
    assert len(paths(rank(shop, "shop cart user mail", limit=3))) == 3


def test_secret_files_are_named_and_not_read(shop: Path) -> None:
    write(shop, {".env": "CART=1", "shop/cart_config.py": f"cart = '{TOKEN}'\n"})
    os.chmod(shop / ".env", 0)
    found = rank(shop, "The cart configuration")
    assert set(found.secret) == {".env", "shop/cart_config.py"}
    assert not set(found.secret) & set(paths(found))
    assert all(TOKEN not in (file.text or "") for file in found.files)


def test_binary_and_long_files_are_named_without_text(shop: Path) -> None:
    write(shop, {"cart.bin": b"\0cart", "cart.txt": "cart " * 60_000})
    texts = {file.path: file.text for file in rank(shop, "Look at cart.bin and cart.txt").files}
    assert texts["cart.bin"] is None
    assert texts["cart.txt"] is None


def test_links_and_fifos_are_left_out(shop: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, {"cart_secret.py": "cart", "sub/cart.py": "cart"})
    (shop / "cart_link.py").symlink_to(outside / "cart_secret.py")
    (shop / "cart_inside.py").symlink_to("shop/cart.py")
    os.mkfifo(shop / "cart_fifo.py")
    # Tracked as a file below a folder, which has since become a link that leads out.
    commit(shop, "folder", {"sub/cart.py": "cart"})
    git(shop, "rm", "-q", "--cached", "cart_link.py")
    (shop / "sub/cart.py").unlink()
    (shop / "sub").rmdir()
    (shop / "sub").symlink_to(outside / "sub")
    found = paths(rank(shop, "The cart", "cart_link.py cart_fifo.py sub/cart.py cart_inside.py"))
    assert not {"cart_link.py", "cart_inside.py", "cart_fifo.py", "sub/cart.py", "sub"} & set(found)
    assert "shop/cart.py" in found


def test_lock_files_and_names_that_cannot_be_told_are_no_candidates(shop: Path) -> None:
    write(
        shop, {"uv.lock": "cart", "package-lock.json": "cart", "app.min.js": "cart", "a\nb cart.py": "cart"}
    )
    os.close(os.open(os.fsencode(shop) + b"/\xff.py", os.O_CREAT | os.O_WRONLY))
    assert list_files(shop) == [
        "README.md",
        "shop/cart.py",
        "shop/mail.py",
        "shop/user.py",
        "tests/test_cart.py",
        "tests/test_mail.py",
    ]


def test_nothing_the_repository_configures_is_run(shop: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    git(shop, "config", "core.fsmonitor", str(trap))
    git(shop, "config", "core.hooksPath", str(tmp_path))
    assert paths(rank(shop, "The cart"))
    assert not (tmp_path / "sprung").exists()


def test_only_so_many_files_are_read_the_likeliest_by_name_first(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(shop, "many", {f"lib/part{n:03}.py": "basket\n" for n in range(50)})
    monkeypatch.setattr(relevant_files, "MAX_FILES_READ", 10)
    found = paths(rank(shop, "basket cart", limit=100))
    assert len([path for path in found if path.startswith("lib/")]) < 10
    assert "shop/cart.py" in found


@given(st.text(), st.text())
def test_words_never_raise_and_are_lower_case(a: str, b: str) -> None:
    assert all(word == word.lower() and len(word) >= 2 for word in words(f"{a} {b}"))
