"""Rule 4.2: undo gives back permissions and folders, of which git knows next to nothing."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeframe.core.permissions import Look, expand
from codeframe.core.undo import undo
from tests.core.test_undo import clear, copy_of, files, snapshots, template
from tests.kit.repos import commit, git_home, repo, write

__all__ = ["git_home", "repo", "template"]

Bits = dict[str, int]


def bits(where: Path) -> Bits:
    """The permission bits of every file and folder, the top included; symlinks have none."""
    found = {}
    for folder, folders, names in os.walk(where):
        if ".git" in folders:
            folders.remove(".git")
        for place in [Path(folder), *(Path(folder) / name for name in names)]:
            if not place.is_symlink():
                found[str(place.relative_to(where))] = stat.S_IMODE(place.lstat().st_mode)
    return found


def run(where: Path, engine: str) -> tuple[Bits, list[str]]:
    """What the tree is like after an undo of the shell commands `engine`, and what was restored."""
    ours = snapshots(where)
    base = ours.take("t", "base")
    before, content = bits(where), files(where)
    assert os.system(f"cd '{where}' && {{ {engine}; }}") == 0
    result = undo(ours, "t", [(base, ours.take("t", "end"))])
    assert result.kept == ()
    assert files(where) == content
    assert bits(where) == before
    return before, list(result.restored)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o400, 0o664, 0o700, 0o500, 0o750])
@pytest.mark.parametrize(
    "engine", ["rm f", "echo 2 > g; mv -f g f", "rm f; mkdir f; echo 1 > f/x", "chmod 644 f", "chmod 777 f"]
)
def test_a_private_or_read_only_file_comes_back_as_it_was(repo: Path, mode: int, engine: str) -> None:
    write(repo, {"f": "1"})
    (repo / "f").chmod(mode)
    run(repo, engine)


def test_permissions_of_tracked_files_that_nobody_looked_at_for_long(repo: Path) -> None:
    """A second look takes what is unchanged from the first one."""
    commit(repo, "x", {"a": "1", "b": "1", "c": "1", "d/e": "1"})
    for path, mode in {"a": 0o600, "b": 0o640, "d": 0o700}.items():
        (repo / path).chmod(mode)
    past = 1_600_000_000
    for path in ("a", "b", "c", "d/e"):
        os.utime(repo / path, (past, past))
    snapshots(repo).take("t", "base")
    (repo / "c").chmod(0o444)
    _, restored = run(repo, "rm -f a b c; rm -r d; mkdir d; echo 2 > d/e")
    assert restored == ["a", "b", "c", "d/", "d/e"]


def test_a_chmod_alone_is_taken_back(repo: Path) -> None:
    write(repo, {"secret": "1", "run": "1", "d/x": "1"})
    (repo / "secret").chmod(0o600)
    (repo / "run").chmod(0o755)
    (repo / "d").chmod(0o700)
    _, restored = run(repo, "chmod 644 secret; chmod 600 run; chmod 755 d")
    assert restored == ["d/", "run", "secret"]
    _, restored = run(repo, "chmod -R go-rwx .")
    assert "README.md" in restored


def test_a_persons_later_chmod_stays(repo: Path) -> None:
    write(repo, {"a": "1", "b": "1", "d/x": "1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")
    for path in ("a", "d"):
        (repo / path).chmod(0o750)
    write(repo, {"b": "2"})
    (repo / "b").chmod(0o640)
    end = ours.take("t", "end")
    (repo / "a").chmod(0o700)
    (repo / "b").chmod(0o600)
    (repo / "d").chmod(0o711)
    undo(ours, "t", [(base, end)])
    assert {path: bits(repo)[path] for path in ("b", "d")} == {"b": 0o600, "d": 0o711}
    assert (repo / "b").read_text() == "1"


@pytest.mark.parametrize(
    "engine",
    [
        "rm -r empty",
        "rm -r emp*; mkdir empty; chmod 755 empty",
        "rm -r empty; echo 1 > empty",
        "echo 1 > empty/deep/er/new",
        "rmdir empty/deep/er; echo 1 > empty/deep/er",
        "rm -r closed; mkdir closed; echo 2 > closed/x",
        "chmod 755 closed; echo 2 > closed/x; echo 3 > closed/y; chmod 555 closed",
        "chmod 755 closed; rm closed/x",
        "rm half/tracked",
        "rm -r half",
    ],
)
def test_empty_and_closed_folders_are_there_again(repo: Path, engine: str) -> None:
    commit(repo, "x", {"closed/x": "1", "half/tracked": "1"})
    (repo / "empty/deep/er").mkdir(parents=True)
    (repo / "empty/deep").chmod(0o2770)
    (repo / "closed").chmod(0o500)
    try:
        run(repo, f"chmod u+w closed; {engine}")
    finally:
        (repo / "closed").chmod(0o700)


def test_a_folder_a_person_emptied_between_two_snapshots_is_not_pruned(repo: Path) -> None:
    write(repo, {"d/e/x": "1"})
    ours = snapshots(repo)
    ours.take("t", "base")
    (repo / "d/e/x").unlink()
    run(repo, "echo 1 > d/e/y")
    assert (repo / "d/e").is_dir()


def test_an_ignored_folder_is_not_looked_into(repo: Path) -> None:
    commit(repo, "x", {".gitignore": "node_modules\n"})
    write(repo, {"node_modules/a/b/c": "1"})
    facts = snapshots(repo).take("t", "base").permissions
    assert facts is not None
    assert facts["empty"] == []
    assert "node_modules" not in str(facts["other"])


def test_a_tree_of_one_mind_takes_one_line(tmp_path: Path) -> None:
    paths = {f"d{n % 50}/file{n}" for n in range(1000)}
    write(tmp_path / "t", dict.fromkeys(sorted(paths), "x"))
    for path in paths:
        (tmp_path / "t" / path).chmod(0o640)
    facts = Look(tmp_path / "t", tmp_path / "cache").facts(paths, paths)
    assert len(str(facts)) < 150
    assert set(expand(facts, dict.fromkeys(paths, "100644")).files.values()) == {0o640}
    # Another look, after most of them changed, is of one mind again.
    for path in paths:
        (tmp_path / "t" / path).chmod(0o600)
    facts = Look(tmp_path / "t", tmp_path / "cache").facts(paths, paths)
    assert set(expand(facts, dict.fromkeys(paths, "100644")).files.values()) == {0o600}


def test_snapshots_of_earlier_versions_are_undone_as_before(repo: Path) -> None:
    write(repo, {"a": "1"})
    ours = snapshots(repo)
    base = ours.take("t", "base")._replace(permissions=None)
    write(repo, {"a": "2", "new/b": "2"})
    end = ours.take("t", "end")._replace(permissions=None)
    assert undo(ours, "t", [(base, end)]).restored == ("a", "new/b")
    assert not (repo / "new").exists()


def test_a_file_that_became_a_folder_and_back(repo: Path) -> None:
    commit(repo, "x", {"a": "1", "d/x": "1"})
    (repo / "a").chmod(0o600)
    ours = snapshots(repo)
    base = ours.take("t", "base")
    (repo / "a").unlink()
    shutil.rmtree(repo / "d")
    write(repo, {"a/b/c": "2", "d": "2"})
    middle = ours.take("t", "end")
    again = ours.take("t", "start")
    shutil.rmtree(repo / "a")
    (repo / "d").unlink()
    write(repo, {"a": "3", "d/x": "3", "d/y": "3"})
    end = ours.take("t", "end")
    before = {"a": 0o600, "d/x": 0o644}
    assert undo(ours, "t", [(base, middle), (again, end)]).kept == ()
    assert {path: bits(repo)[path] for path in before} == before
    assert files(repo).keys() == {"README.md", "a", "d/x"}


def test_names_that_differ_in_case_only_as_symlinks_to_folders(repo: Path) -> None:
    commit(repo, "x", {"real/x": "1"})
    (repo / "Link").symlink_to("real")
    (repo / "a").mkdir()
    (repo / "a/Inner").symlink_to("../real")
    _, restored = run(repo, "mv Link link; mv a/Inner a/inner")
    assert restored == ["Link", "a/Inner", "a/inner", "link"]
    assert os.readlink(repo / "Link") == "real"
    assert (repo / "real/x").read_text() == "1"


MODES = st.sampled_from([0o600, 0o640, 0o644, 0o444, 0o755, 0o700, 0o2755])
CHANGES = st.lists(
    st.tuples(st.sampled_from(["a", "b.txt", "d", "d/x", "d/e", "d/e/y", "new/z"]),
              st.sampled_from(["chmod", "write", "delete", "mkdir"]), MODES),
    max_size=6,
)  # fmt: skip


def change(where: Path, changes: list[tuple[str, str, int]]) -> None:
    for path, kind, mode in changes:
        place = where / path
        if kind == "delete" or kind == "write":
            clear(where, path)
        if kind == "write":
            place.write_text(f"{mode}")
        elif kind == "mkdir" and not place.exists() and place.parent.is_dir():
            place.mkdir()
        if place.exists():
            place.chmod(mode | 0o700 if place.is_dir() else mode)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(person=CHANGES, engine=CHANGES)
def test_undo_gives_back_every_bit_and_every_folder(
    template: Path, git_home: Path, person: list[tuple[str, str, int]], engine: list[tuple[str, str, int]]
) -> None:
    with copy_of(template) as where:
        ours = snapshots(where)
        change(where, person)
        before, content = bits(where), files(where)
        base = ours.take("t", "base")
        change(where, engine)
        made = bits(where).keys()
        end = ours.take("t", "end")
        assert undo(ours, "t", [(base, end)]).kept == ()
        assert files(where) == content
        now = bits(where)
        # An empty folder that the engine made holds nothing, and may stay.
        assert {path: now[path] for path in before} == before
        assert now.keys() - before.keys() <= made
