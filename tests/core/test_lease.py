"""Rules 4.3 and 4.4: a lease lasts exactly as long as its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codeframe.core.errors import CodeFrameError
from codeframe.core.lease import Lease, is_held, read_info

HOLDER = """
import os, subprocess, sys
from pathlib import Path
from codeframe.core.lease import Lease
lease = Lease.acquire(Path(sys.argv[1]), {"pid": os.getpid(), "run": "abc"})
child = subprocess.Popen(["sleep", "60"], close_fds=False) if "child" in sys.argv else None
print("held" if lease else "refused", child.pid if child else "", flush=True)
sys.stdin.readline()
lease.release()
print("released", flush=True)
sys.stdin.readline()
"""

ASKER = """
import sys
from pathlib import Path
from codeframe.core.lease import is_held
print("asking", flush=True)
while True:
    is_held(Path(sys.argv[1]))
"""


@contextmanager
def holder(path: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lease; a line on its stdin makes it release."""
    argv = [sys.executable, "-c", HOLDER, str(path), *words]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "tree.lock"


def test_another_process_is_refused_and_sees_who_holds_it(path: Path) -> None:
    with holder(path) as process:
        assert first_line(process)[0] == "held"
        assert is_held(path)
        assert Lease.acquire(path, {"run": "mine"}) is None
        assert read_info(path) == {"pid": process.pid, "run": "abc"}


def test_release_empties_the_file_and_frees_it(path: Path) -> None:
    with holder(path) as process:
        first_line(process)
        process.stdin.write("\n")
        process.stdin.flush()
        assert first_line(process) == ["released"]
        assert not is_held(path)
        assert path.exists()
        assert read_info(path) == {}
        with Lease.acquire(path, {"run": "next"}):
            assert read_info(path) == {"run": "next"}


def test_kill_9_frees_it_at_once_and_leaves_the_dead_ones_info(path: Path) -> None:
    with holder(path) as process:
        first_line(process)
        process.kill()
        process.wait()
        assert not is_held(path)
        assert read_info(path)["run"] == "abc"
        lease = Lease.acquire(path, {"run": "n"})  # shorter than what was there
        assert lease is not None
        assert read_info(path) == {"run": "n"}
        lease.release()


def test_kill_9_frees_it_though_a_child_lives_on(path: Path) -> None:
    with holder(path, "child") as process:
        child = int(first_line(process)[1])
        try:
            process.kill()
            process.wait()
            os.kill(child, 0)  # it does live
            assert not is_held(path)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_suspended_holder_still_holds_it(path: Path) -> None:
    with holder(path) as process:
        first_line(process)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert is_held(path)
        assert Lease.acquire(path, {}) is None
        process.send_signal(signal.SIGCONT)


def test_the_same_process_is_refused_as_well(path: Path) -> None:
    lease = Lease.acquire(path, {"run": "first"})
    assert lease is not None
    assert Lease.acquire(path, {"run": "second"}) is None
    assert is_held(path)
    assert read_info(path) == {"run": "first"}
    lease.release()
    lease.release()
    assert not is_held(path)


def test_asking_does_not_disturb_a_start(path: Path) -> None:
    """A start in the very moment of a question is delayed, not refused."""
    path.parent.mkdir()
    path.touch()
    argv = [sys.executable, "-c", ASKER, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            first_line(process)
            for _ in range(50):
                lease = Lease.acquire(path, {}, wait_s=5)
                assert lease is not None
                lease.release()
        finally:
            process.kill()


def test_waiting_gets_it_when_it_is_freed(path: Path) -> None:
    with holder(path) as process:
        first_line(process)
        process.stdin.write("\n")
        process.stdin.flush()
        lease = Lease.acquire(path, {}, wait_s=30)
        assert lease is not None
        lease.release()


def test_no_file_is_not_held_and_none_is_made(path: Path) -> None:
    assert not is_held(path)
    assert read_info(path) == {}
    assert not path.exists()


@pytest.mark.parametrize("junk", [b"", b"\xff\xfe", b"[1]", b'{"pid": 1', b"null"])
def test_info_that_makes_no_sense_is_none(path: Path, junk: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(junk)
    assert read_info(path) == {}


def test_a_place_that_cannot_hold_a_lock_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CodeFrameError, match="cannot be used"):
        Lease.acquire(tmp_path / "file" / "x.lock", {})
    with pytest.raises(CodeFrameError, match="cannot be used"):
        Lease.acquire(tmp_path, {})
