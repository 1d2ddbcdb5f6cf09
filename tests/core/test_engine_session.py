"""What is left in an engine's session is found, and nobody else is, whatever becomes of its number."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codeframe.core.engine_session import leftovers_of, session_note
from codeframe.core.heartbeat import ALIVE, beat
from codeframe.core.process_sweep import process_identity
from tests.kit.waiting import wait_until


class Engine:
    """Leads a session in which an `env -i` child sleeps; `end` ends the leader alone."""

    def __init__(self) -> None:
        script = "env -i sleep 300 >/dev/null 2>&1 & echo $!; read wait"
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(["sh", "-c", script], stdin=pipe, stdout=pipe, start_new_session=True)
        self.note = session_note(self.process.pid)
        assert self.process.stdout is not None
        self.child = int(self.process.stdout.readline())

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.communicate(b"go\n")


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    os.kill(engine.child, 9)
    engine.end()


@pytest.fixture
def find(engine: Engine, tmp_path: Path) -> Callable[..., set[int]]:
    def found(note: dict[str, Any] | None = None, **owner: Any) -> set[int]:
        left = leftovers_of(note or engine.note, {**process_identity(), **owner}, tmp_path)
        return {process.pid for process in left()}

    return found


def test_while_the_engine_lives_its_whole_session_is_found(
    engine: Engine, find: Callable[..., set[int]]
) -> None:
    assert find() == {engine.process.pid, engine.child}


def test_when_the_engine_is_gone_what_began_in_our_lifetime_is_found(
    engine: Engine, find: Callable[..., set[int]], tmp_path: Path
) -> None:
    beat(tmp_path)
    engine.end()
    assert find() == {engine.child}


def test_what_may_belong_to_a_later_owner_of_the_number_is_left_alone(
    engine: Engine, find: Callable[..., set[int]], tmp_path: Path
) -> None:
    engine.end()
    assert find() == set()  # nobody said that we lived when it began
    began = engine.note["started"]
    beat(tmp_path)
    os.utime(tmp_path / ALIVE, (began - 1, began - 1))
    assert find() == set()


def test_a_new_owner_of_the_number_is_left_alone(
    engine: Engine, find: Callable[..., set[int]], tmp_path: Path
) -> None:
    beat(tmp_path)
    assert find({**engine.note, "started": engine.note["started"] - 60}) == set()


@pytest.mark.parametrize("difference", [{"boot_id": "b"}, {"pid_ns": "n"}, {"host": "h"}])
def test_elsewhere_nothing_is_found(find: Callable[..., set[int]], difference: dict[str, str]) -> None:
    assert find(**difference) == set()


def test_what_is_seen_with_the_engine_stays_found_when_that_has_ended(engine: Engine, tmp_path: Path) -> None:
    left = leftovers_of(engine.note, process_identity(), tmp_path)
    assert len(left()) == 2
    engine.end()
    wait_until(lambda: [process.pid for process in left()] == [engine.child])


def test_a_sign_of_life_without_a_folder_is_no_error(tmp_path: Path) -> None:
    beat(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()
