"""Which engines there are and which one runs (rules 2.2, 3.3, 3.4)."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.engine_registry import DEFAULT_ENGINE, EngineRegistry, resolve_engine
from codeframe.core.errors import UsageError


class Sample:
    """Inherits nothing and is an adapter all the same."""

    name = "sample"
    requires_api_key = {"SAMPLE_KEY": "to talk to the sample"}  # noqa: RUF012 - read only

    def __init__(self, **options: Any) -> None:
        self.options = options

    @classmethod
    def requirements(cls) -> dict[str, bool]:
        return {"sample on PATH": True}

    def execute(self) -> None: ...

    def stream_events(self) -> None: ...


@dataclass
class Folder:
    root: Path


@pytest.fixture(autouse=True)
def _fresh_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EngineRegistry, "_registered", {})
    monkeypatch.setattr(EngineRegistry, "_problems", {})
    monkeypatch.setattr(EngineRegistry, "_offered", None)
    monkeypatch.delenv("CODEFRAME_ENGINE", raising=False)


def offer(site: Path, package: str, *lines: str) -> None:
    """An installed distribution that offers engines."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[codeframe.engines]\n" + "\n".join(lines) + "\n")


# -- the registry -----------------------------------------------------------------------------------------


def test_our_own_engine_is_found_as_any_other() -> None:
    assert "claude-code" in EngineRegistry.available()
    assert EngineRegistry.get("claude-code").name == "claude-code"


def test_a_registered_engine_is_made_with_its_options() -> None:
    EngineRegistry.register("sample", Sample)
    made = EngineRegistry.get("sample", colour="blue")
    assert isinstance(made, Sample)
    assert made.options == {"colour": "blue"}
    assert EngineRegistry.get("sample") is not EngineRegistry.get("sample")
    EngineRegistry.unregister("sample")
    assert "sample" not in EngineRegistry.available()


def test_names_are_sorted() -> None:
    for name in ("zeta", "alpha"):
        EngineRegistry.register(name, Sample)
    names = EngineRegistry.available()
    assert names == sorted(names)
    assert {"alpha", "zeta"} <= set(names)


def test_what_is_no_adapter_is_refused_by_what_it_lacks() -> None:
    class Half:
        name = "half"

        def execute(self) -> None: ...

    with pytest.raises(TypeError, match="requires_api_key, stream_events"):
        EngineRegistry.register("half", Half)


def test_an_unknown_name_is_told_the_names_and_the_nearest() -> None:
    EngineRegistry.register("sample", Sample)
    with pytest.raises(ValueError, match=r"'sampel'.*claude-code.*sample.*Did you mean 'sample'") as caught:
        EngineRegistry.get("sampel")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError) as caught:
        EngineRegistry.get("something else entirely")
    assert "Did you mean" not in str(caught.value)


def test_requirements_are_keys_and_what_the_engine_says(monkeypatch: pytest.MonkeyPatch) -> None:
    EngineRegistry.register("sample", Sample)
    monkeypatch.delenv("SAMPLE_KEY", raising=False)
    assert EngineRegistry.check_requirements("sample") == {"SAMPLE_KEY": False, "sample on PATH": True}
    monkeypatch.setenv("SAMPLE_KEY", "x")
    assert EngineRegistry.check_requirements("sample")["SAMPLE_KEY"] is True
    with pytest.raises(ValueError):
        EngineRegistry.check_requirements("nobody")


def test_a_broken_package_is_explained_and_breaks_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cf_test_good.py").write_text(
        "class Good:\n    name = 'good'\n    requires_api_key = {}\n"
        "    def execute(self): ...\n    def stream_events(self): ...\n"
    )
    (tmp_path / "cf_test_bad.py").write_text("raise RuntimeError('no licence')\n")
    offer(
        tmp_path,
        "thirdparty",
        "good = cf_test_good:Good",
        "bad = cf_test_bad:Bad",
        "gone = cf_test_nowhere:X",
        "odd = cf_test_good:__name__",
    )
    offer(tmp_path, "rival", "claude-code = cf_test_good:Good")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = EngineRegistry.available()
    assert {"good", "claude-code"} <= set(names)
    assert not {"bad", "gone", "odd"} & set(names)
    problems = EngineRegistry.problems()
    assert "no licence" in problems["bad"]
    assert "cf_test_nowhere" in problems["gone"]
    assert "lacks" in problems["odd"]
    assert any(name.startswith("claude-code (") for name in problems)  # two packages, one name
    with pytest.raises(ValueError, match="no licence"):
        EngineRegistry.get("bad")
    assert EngineRegistry.get("good").name == "good"


def test_importing_the_registry_loads_no_engine_and_no_metadata() -> None:
    code = (
        "import sys, codeframe.core.engine_registry, codeframe.core.adapters\n"
        "heavy = {'importlib.metadata', 'yaml', 'psutil', 'codeframe.core.adapters.claude_code'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_adapters_are_re_exported() -> None:
    from codeframe.core import adapters

    assert adapters.ClaudeCodeAdapter.__name__ == "ClaudeCodeAdapter"
    with pytest.raises(AttributeError):
        _ = adapters.NoSuchAdapter


# -- which one runs ---------------------------------------------------------------------------------------


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_the_order_in_which_an_engine_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Folder(tmp_path)
    assert resolve_engine(here, None) == (DEFAULT_ENGINE, "the default")
    monkeypatch.setenv("CODEFRAME_ENGINE", "from-environment")
    assert resolve_engine(here, None) == ("from-environment", "CODEFRAME_ENGINE")
    write(tmp_path, "AGENTS.md", "---\ndefault_engine: from-agents\n---\n# Agents\n")
    assert resolve_engine(here, None) == ("from-agents", "front matter of AGENTS.md")
    write(tmp_path, "CODEFRAME.md", "---\nengine: from-codeframe\n---\n")
    assert resolve_engine(here, None) == ("from-codeframe", "front matter of CODEFRAME.md")
    write(tmp_path, ".codeframe/config.yaml", "engine: from-config\n")
    name, why = resolve_engine(here, None)
    assert name == "from-config"
    assert ".codeframe" in why
    assert resolve_engine(here, None, "from-task") == ("from-task", "the task's own engine")
    assert resolve_engine(here, "from-flag", "from-task") == ("from-flag", "--engine")


def test_what_names_no_engine_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEFRAME_ENGINE", "  ")
    write(tmp_path, "CODEFRAME.md", "---\nengine: [1]\ndefault_engine: ' '\n---\n")
    write(tmp_path, "AGENTS.md", "# engine: none\n")
    write(tmp_path, ".codeframe/config.yaml", "strict: true\n")
    assert resolve_engine(Folder(tmp_path), "", "") == (DEFAULT_ENGINE, "the default")


def test_an_unreadable_configuration_is_said_not_passed_over(tmp_path: Path) -> None:
    write(tmp_path, ".codeframe/config.yaml", "engine: [unclosed\n")
    with pytest.raises(UsageError):
        resolve_engine(Folder(tmp_path), None)
    assert resolve_engine(Folder(tmp_path), "from-flag") == ("from-flag", "--engine")
