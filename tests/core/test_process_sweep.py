"""Finding and ending what carries a marker, on real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from codeframe.core.process_sweep import (
    MARKER,
    become_subreaper,
    descendants,
    end_marked,
    find_marked,
    is_alive,
    process_identity,
    reap_adopted,
    session_members,
)

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
READY_SLEEP = "echo ready; exec sleep 300"


@pytest.fixture
def run_id() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `sh -c script` with a marker, waits for its first line; everything is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def begin(script: str, marker: str | None, **variables: str) -> subprocess.Popen[str]:
        env = {"PATH": os.environ["PATH"], **variables}
        if marker is not None:
            env[MARKER] = marker
        child = subprocess.Popen(["sh", "-c", script], env=env, stdout=subprocess.PIPE, text=True)
        started.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield begin
    for child in started:
        for process in descendants(child.pid):
            process.kill()
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def pids(processes: list[psutil.Process]) -> set[int]:
    return {process.pid for process in processes}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_a_marker_is_matched_whole_or_by_its_beginning(run_id, start) -> None:
    first = start(READY_SLEEP, f"{run_id}/1")
    tenth = start(READY_SLEEP, f"{run_id}/10")
    start(READY_SLEEP, f"x{run_id}/1")
    start(READY_SLEEP, None, **{"X" + MARKER: f"{run_id}/1", "NOTE": f"{MARKER}={run_id}/1"})
    assert pids(find_marked(f"{run_id}/1")) == {first.pid}
    assert pids(find_marked(f"{run_id}/", prefix=True)) == {first.pid, tenth.pid}
    assert find_marked(run_id) == []


def test_the_first_and_the_only_variable_of_an_environment_is_found(run_id) -> None:
    child = subprocess.Popen(["/bin/sleep", "300"], env={MARKER: run_id})
    try:
        assert pids(find_marked(run_id)) == {child.pid}
    finally:
        child.kill()
        child.wait()
    assert find_marked(run_id) == []


def test_an_empty_marker_is_refused() -> None:
    with pytest.raises(ValueError, match="every run"):
        find_marked("", prefix=True)


def test_the_caller_is_never_found_or_ended(run_id) -> None:
    code = (
        "import sys; from codeframe.core.process_sweep import end_marked, find_marked\n"
        "print(find_marked(sys.argv[1]), end_marked(sys.argv[1]))"
    )
    env = {**os.environ, MARKER: run_id, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, run_id], env=env, capture_output=True, text=True)
    assert done.stdout == "[] []\n", done.stderr


def test_ending_is_polite_first_and_leaves_other_runs_alone(run_id, start) -> None:
    polite = start("trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done", f"{run_id}/1")
    other = start(READY_SLEEP, f"{run_id}/2")
    descriptions = end_marked(f"{run_id}/1", grace_s=20)
    assert any(text.startswith(f"{polite.pid} sh -c trap") for text in descriptions)
    assert polite.wait() == 42  # and so its status was not taken from its Popen
    assert other.poll() is None


def test_what_ignores_sigterm_or_is_stopped_is_killed(run_id, start) -> None:
    stubborn = start("trap '' TERM; echo ready; while :; do sleep 0.05; done", run_id)
    stopped = start(READY_SLEEP, run_id)
    stopped.send_signal(signal.SIGSTOP)
    until(lambda: psutil.Process(stopped.pid).status() == psutil.STATUS_STOPPED)
    descriptions = end_marked(run_id, grace_s=0.1)
    assert {stubborn.pid, stopped.pid} <= {int(text.split()[0]) for text in descriptions}
    assert stubborn.wait() == -signal.SIGKILL
    assert stopped.wait() == -signal.SIGKILL


def test_a_process_that_keeps_starting_daemons_is_ended_with_all_of_them(run_id, start) -> None:
    code = (
        "import subprocess, time\nprint('ready', flush=True)\n"
        "for _ in range(200):\n"
        "    subprocess.Popen(['sleep', '300'], start_new_session=True, stdout=subprocess.DEVNULL)\n"
    )
    start(f'exec "{sys.executable}" -S -c "{code}"', run_id)
    until(lambda: len(find_marked(run_id)) > 5)
    end_marked(run_id, prefix=True, grace_s=0)
    assert find_marked(run_id) == []


def test_what_dropped_the_marker_is_ended_with_its_parent(run_id, start) -> None:
    parent = start("env -i sleep 300 & echo ready; wait", run_id)
    [child] = descendants(parent.pid)
    until(lambda: child.name() == "sleep")
    assert pids(find_marked(run_id)) == {parent.pid}
    assert len(end_marked(run_id)) == 2
    assert not is_alive(child)


def test_a_zombie_is_not_alive_and_not_found(run_id) -> None:
    child = subprocess.Popen(["sleep", "300"], env={**os.environ, MARKER: run_id})
    process = psutil.Process(child.pid)
    assert is_alive(process)
    child.kill()
    until(lambda: process.status() == psutil.STATUS_ZOMBIE)
    assert not is_alive(process)
    assert find_marked(run_id) == []
    child.wait()


def test_descendants_and_session_are_found_without_a_marker(start) -> None:
    parent = start("sleep 300 & echo ready; wait", None)
    assert [p.name() for p in descendants(parent.pid)] == ["sleep"]
    leader = subprocess.Popen(["sh", "-c", "sleep 300 & wait"], start_new_session=True)
    try:
        until(lambda: len(session_members(leader.pid)) == 2)
        assert pids(session_members(leader.pid)) == {leader.pid} | pids(descendants(leader.pid))
    finally:
        os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()
    assert descendants(leader.pid) == []


def test_an_identity_names_one_process(start) -> None:
    child = start(READY_SLEEP, None)
    identity = process_identity(child.pid)
    assert identity["pid"] == child.pid
    assert identity["started_at"] == psutil.Process(child.pid).create_time()
    assert identity["boot_id"]
    assert identity["host"] == os.uname().nodename
    assert process_identity()["pid"] == os.getpid()
    child.kill()
    child.wait()
    with pytest.raises(ProcessLookupError):
        process_identity(child.pid)


@linux
def test_orphans_come_to_the_subreaper_and_their_zombies_go(tmp_path: Path) -> None:
    """In a process of its own: being a subreaper cannot be taken back."""
    code = (
        "import subprocess, sys, time, psutil\n"
        "from codeframe.core.process_sweep import become_subreaper, reap_adopted\n"
        "become_subreaper()\n"
        "mine = subprocess.Popen(['sh', '-c', 'exit 7'])\n"
        "leads = subprocess.Popen(['sh', '-c', 'exit 8'], start_new_session=True)\n"
        "shell = subprocess.Popen(['sh', '-c', 'sleep 0.1 & echo $!'], start_new_session=True,\n"
        "                         stdout=subprocess.PIPE)\n"
        "orphan = psutil.Process(int(shell.stdout.read()))\n"
        "shell.wait()\n"
        "while orphan.is_running() and orphan.status() != psutil.STATUS_ZOMBIE: time.sleep(0.01)\n"
        "print(orphan.ppid() == psutil.Process().pid)\n"
        "reap_adopted()\n"
        "print(psutil.pid_exists(orphan.pid), mine.wait(), leads.wait())\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "True\nFalse 7 8\n", done.stderr


@linux
@pytest.mark.parametrize(
    ("script", "orphans"),
    [
        ("true", []),
        ("sleep 0 & wait", []),
        ("sleep 300 >/dev/null &", ["sleep"]),
        ("env -i setsid sleep 300 >/dev/null &", ["sleep"]),
    ],
)
def test_orphans_of_what_is_watched_are_told_from_children_of_our_own(
    script: str, orphans: list[str]
) -> None:
    code = f"""
import os, subprocess
from codeframe.core.process_sweep import adopted, adopted_processes, adopting, descendants
ours = subprocess.Popen(["sleep", "300"])
leads = subprocess.Popen(["sleep", "300"], start_new_session=True)
with adopting():
    ours_too = subprocess.Popen(["sleep", "300"])
    engine = subprocess.Popen(["sh", "-c", {script!r}], start_new_session=True)
    os.waitid(os.P_PID, engine.pid, os.WEXITED | os.WNOWAIT)
    left = adopted_processes(engine.pid)
    while any(process.name() in ("sh", "env", "setsid") for process in left):
        pass
    print([process.name() for process in left], len(adopted(engine.pid)))
    with adopting():
        print(adopted(engine.pid), adopted_processes(engine.pid))
for process in descendants(os.getpid()):
    process.kill()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [f"{orphans} {len(orphans)}", "None []"], done.stderr


def test_reaping_and_subreaping_are_harmless_anywhere() -> None:
    child = subprocess.Popen(["sh", "-c", "exit 9"])
    become_subreaper()
    until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    reap_adopted()
    assert child.wait() == 9
