"""Which version a program is, asked once and kept until it is another file (rule 10.5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeframe.core.engine_versions import Versions, is_older, learn, program_of
from codeframe.core.user_namespaces import allow_user_namespaces
from tests.kit.scenario import FakeEngine, call, out


class Engine:
    """An adapter's class as far as it matters here."""

    commands = ("some-agent", "agent")


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine(tmp_path, "agent", "agent 1.2.3-beta.4 (of an agent)")
    monkeypatch.setenv("PATH", fake.path())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return fake


def asked(agent: FakeEngine) -> int:
    return len(agent.invocations(probes=True))


def test_it_is_asked_once_and_known_in_the_next_process(agent: FakeEngine) -> None:
    program = program_of(Engine)
    assert program == agent.executable
    assert Versions().of(program) is None
    assert Versions().ask([Engine]) == {program: "1.2.3-beta.4"}
    assert Versions().of(program) == "1.2.3-beta.4"
    assert asked(agent) == 1


def test_through_a_link_it_is_the_same_program(agent: FakeEngine, tmp_path: Path) -> None:
    Versions().ask([Engine])
    link = tmp_path / "link"
    link.symlink_to(agent.executable)
    assert Versions().of(link) == "1.2.3-beta.4"


def test_another_file_in_its_place_is_not_known(agent: FakeEngine) -> None:
    Versions().ask([Engine])
    agent.executable.write_text(agent.executable.read_text() + "# another\n")
    assert Versions().of(agent.executable) is None
    Versions().note(agent.executable, "2.0.0")
    assert Versions().of(agent.executable) == "2.0.0"


def test_one_that_does_not_say_is_remembered_too(agent: FakeEngine) -> None:
    agent.calls(call(out("what?"), argv=["--version"], stdin="ignore", probe=True))
    assert Versions().ask([Engine]) == {agent.executable: ""}
    assert Versions().of(agent.executable) == ""


@pytest.mark.parametrize("content", ["", "[]", '{"/a": 1}', '{"/a": {"mtime_ns": "x"}}', "\0\xff"])
def test_a_damaged_file_is_as_none_and_is_replaced(agent: FakeEngine, tmp_path: Path, content: str) -> None:
    file = tmp_path / "state" / "codeframe" / "engine-versions.json"
    file.parent.mkdir(parents=True)
    file.write_text(content, encoding="latin-1")
    assert Versions().of(agent.executable) is None
    Versions().ask([Engine])
    assert Versions().of(agent.executable) == "1.2.3-beta.4"


def test_where_nothing_can_be_kept_it_is_asked_all_the_same(
    agent: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert Versions().ask([Engine]) == {agent.executable: "1.2.3-beta.4"}
    assert Versions().of(agent.executable) is None


def test_a_run_teaches_only_what_was_not_known(agent: FakeEngine) -> None:
    for told in (None, "", 3):
        learn(Engine, told)
    assert Versions().of(agent.executable) is None
    learn(Engine, "1.0.0")
    learn(Engine, "9.9.9")
    assert Versions().of(agent.executable) == "1.0.0"
    assert asked(agent) == 0


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("2.0.9", "2.1.197", True),
        ("2.1.1", "2.1.197", False),
        ("2.10.0", "2.9.0", False),
        ("1.9", "2.0", True),
        ("3.0.0", "2.1.197", False),
    ],
)
def test_older_is_by_major_and_minor(version: str, than: str, older: bool) -> None:
    assert is_older(version, than) is older


@pytest.mark.parametrize(
    ("setting", "value", "command"),
    [
        ("kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("user/max_user_namespaces", "96364", ""),
    ],
)
def test_what_allows_user_namespaces(tmp_path: Path, setting: str, value: str, command: str) -> None:
    (tmp_path / setting).parent.mkdir(parents=True)
    (tmp_path / setting).write_text(f"{value}\n")
    assert allow_user_namespaces(tmp_path) == command
