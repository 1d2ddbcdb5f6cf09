"""Entry points are found as `importlib.metadata` finds them, which is too slow to be imported for that."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from codeframe.core.entry_points import EntryPoint, entry_points


def both(group: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    theirs = sorted((point.name, point.value) for point in metadata.entry_points(group=group))
    return sorted((point.name, point.value) for point in entry_points(group)), theirs


def test_all_groups_of_this_environment() -> None:
    groups = metadata.entry_points().groups
    assert "codeframe.engines" in groups
    for group in groups:
        ours, theirs = both(group)
        assert ours == theirs, group


def test_a_file_as_people_may_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(tmp_path / "missing"), __file__])
    written = {
        "one-1.0.dist-info": "# c = d:e\n[sample]\n\na=x.y:z\n b  =  x:y.z [extra]\n#c = n:o\n[other]\nd = e:f\n",
        "two.egg-info": "[sample]\nodd name.with-signs = os.path\n",
        "bare-1.dist-info": "",
    }
    for folder, text in written.items():
        (tmp_path / folder).mkdir()
        for file in ("METADATA", "PKG-INFO"):
            name = folder.removesuffix(".egg-info").partition("-")[0]
            (tmp_path / folder / file).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        if text:
            (tmp_path / folder / "entry_points.txt").write_text(text)
    ours, theirs = both("sample")
    assert ours == theirs == [("a", "x.y:z"), ("b", "x:y.z [extra]"), ("odd name.with-signs", "os.path")]


def test_of_a_package_seen_twice_the_first_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("first", "second"):
        info = tmp_path / place / "Some.Package-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Some.Package\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[sample]\n{place} = a:b\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second"), *sys.path])
    ours, theirs = both("sample")
    assert ours == theirs == [("first", "a:b")]


def test_what_is_loaded() -> None:
    import os.path

    assert EntryPoint("n", "os.path").load() is os.path
    assert EntryPoint("n", "os.path:join").load() is os.path.join
    assert EntryPoint("n", " os : path.join [extra] ").load() is os.path.join
    with pytest.raises(ModuleNotFoundError):
        EntryPoint("n", "no_such_module_here:x").load()
    with pytest.raises(AttributeError):
        EntryPoint("n", "os:no_such_thing").load()
