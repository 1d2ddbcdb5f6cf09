"""Finds the processes a run left behind and ends them, verified by (pid, start time) (rule 5.2).

Four things tell that a process belongs to a run: the marker in the environment it was started with, its
session, its descent from the engine, and (Linux) that it came to this process as an orphan while the
engine was watched: whoever else starts something here, git, stays in our own session. Once CodeFrame
itself was killed only the first three are left (for the session see engine_session.py), and so a process
that dropped the marker, left the session and lost its parent is not found; nor is it on macOS, which
knows no subreaper.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil

MARKER = "CODEFRAME_RUN_ID"

_LINUX = sys.platform.startswith("linux")
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_CLOCKS_S = 1.5  # when the system was booted is told in whole seconds, and moves with the wall clock
_KILL_S = 5.0  # how long the kill rounds go on before giving up on what cannot be killed
_reaping = threading.Lock()
_subreaper = False  # whether this process became one
_adopting = threading.Lock()
_launches = 0  # how many children are watched now
_before: set[int] | None = None  # the children there were when the first of them began; None: not known


@functools.cache
def become_subreaper() -> None:
    """Let orphans below this process become its children (Linux; elsewhere nothing happens)."""
    if not _LINUX:
        return
    import ctypes

    global _subreaper
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    _subreaper = prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


@contextmanager
def adopting() -> Iterator[None]:
    """Hold it around the life of one child that is watched and may leave orphans; see `adopted`."""
    global _launches, _before
    become_subreaper()
    with _adopting:
        if _launches == 0:
            _before = _children()
        _launches += 1
    try:
        yield
    finally:
        with _adopting:
            _launches -= 1


def adopted(leader: int) -> set[int] | None:
    """Pids of the orphans, zombies included, that the watched child `leader` left to this process.

    None when that cannot be told: this process is no subreaper or adopts every orphan of its container
    (pid 1), or other children are watched too, and then the last of them to end tells for all. Nobody
    else may start a session of its own meanwhile.
    """
    global _before
    with _adopting:  # nobody is started while we look
        if not _subreaper or os.getpid() == 1 or _launches != 1 or _before is None:
            return None
        children = _children()
        if children is None:
            return None
        _before &= children  # the number of one that ended may come again
        own_session = os.getsid(0)
        came = children - _before - {leader}
        return {pid for pid in came if _state_and_session(pid)[1] not in (own_session, 0)}


def adopted_processes(leader: int) -> list[psutil.Process]:
    """The same, as live processes; none where it cannot be told."""
    processes = [p for pid in adopted(leader) or () if (p := _process(pid)) is not None]
    # Still our child, now that its start time is known: then the pid has not changed hands.
    return [p for p in processes if _parent(p) == os.getpid() and is_alive(p)]


def find_marked(marker: str, *, prefix: bool = False) -> list[psutil.Process]:
    """Live processes started with exactly this marker, or with one that begins with it.

    Never the calling process. Raises ValueError for an empty marker, which would match every run.
    """
    if not marker:
        raise ValueError("an empty marker would match every run")
    needle = b"\0" + os.fsencode(f"{MARKER}={marker}") + (b"" if prefix else b"\0")
    return _matching(lambda pid: needle in _environment(pid))


def marked() -> Iterator[tuple[psutil.Process, str]]:
    """Every live process that was started with a marker, whosever it is, and that. Never the calling process."""
    needle = b"\0" + os.fsencode(f"{MARKER}=")
    for process in _matching(lambda pid: needle in _environment(pid)):
        marker = _environment(process.pid).partition(needle)[2].partition(b"\0")[0]
        yield process, os.fsdecode(marker)


def session_members(session_id: int) -> list[psutil.Process]:
    """Live processes of a session. Never the calling process."""

    def matches(pid: int) -> bool:
        try:
            return os.getsid(pid) == session_id
        except OSError:
            return False

    return _matching(matches)


def descendants(pid: int) -> list[psutil.Process]:
    """Children of `pid`, their children and so on, as of now; none when it is gone."""
    process = _process(pid)
    if process is None:
        return []
    import psutil

    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def end_marked(marker: str, *, prefix: bool = False, grace_s: float = 1.0) -> list[str]:
    """End what `find_marked` finds: SIGTERM, `grace_s` seconds, SIGKILL. Returns descriptions."""
    return list(end_processes(lambda: find_marked(marker, prefix=prefix), grace_s=grace_s).values())


def end_processes(
    find: Callable[[], Iterable[psutil.Process]], *, grace_s: float, clean: int = 2
) -> dict[psutil.Process, str]:
    """End what `find` finds and all below it, until it finds nothing twice; each -> its description.

    Below it, so that what dropped the marker goes with its parents. Twice (`clean`), because a process
    that forks and exits can slip through one scan. Never the calling process. Bounded: gives up
    `_KILL_S` seconds after the grace on what cannot be killed; the description says so then.
    """
    seen: dict[psutil.Process, str] = {}
    untouchable: set[psutil.Process] = set()
    polite_until = time.monotonic() + grace_s
    give_up = polite_until + _KILL_S
    clean_scans = 0
    while clean_scans < clean and time.monotonic() < give_up:
        for root in find():
            if root in seen or not is_alive(root):
                continue
            for process in (root, *descendants(root.pid)):
                if process.pid != os.getpid() and is_alive(process):
                    seen.setdefault(process, describe_process(process))
        found = [process for process in seen if is_alive(process) and process not in untouchable]
        if not found:
            clean_scans += 1
            continue
        clean_scans = 0
        polite = time.monotonic() < polite_until
        for process in found:
            if not _send(process, signal.SIGTERM if polite else signal.SIGKILL):
                untouchable.add(process)
        _wait_gone(set(found) - untouchable, polite_until if polite else give_up)
    return {p: f"{text} (could not be ended)" if is_alive(p) else text for p, text in seen.items()}


def is_alive(process: psutil.Process) -> bool:
    """Whether it is the same process still and has not ended (a zombie has)."""
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def describe_process(process: psutil.Process) -> str:
    """A process for people: pid and command line, at most about 100 characters."""
    import psutil

    try:
        command = " ".join(process.cmdline()) or process.name()
    except psutil.Error:
        command = "?"
    return f"{process.pid} {command if len(command) <= 90 else command[:87] + '...'}"


def process_identity(pid: int | None = None) -> dict[str, Any]:
    """What tells a process (default: this one) from any other, ever.

    {"pid": int, "started_at": seconds since the epoch, "boot_id": str, "pid_ns": str | None,
    "host": str}. Raises ProcessLookupError when there is no such process.
    """
    pid = os.getpid() if pid is None else pid
    host = os.uname().nodename
    if _LINUX:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        pid_ns = os.readlink("/proc/self/ns/pid")
        lines = Path("/proc/stat").read_text().splitlines()
        booted = int(next(line for line in lines if line.startswith("btime")).split()[1])
        started_at = booted + started(pid)  # as psutil tells it, without the time to import that
        return {"pid": pid, "started_at": started_at, "boot_id": boot_id, "pid_ns": pid_ns, "host": host}
    import psutil

    started_at = started(pid)
    boot_id = str(int(psutil.boot_time()))
    return {"pid": pid, "started_at": started_at, "boot_id": boot_id, "pid_ns": None, "host": host}


def may_live(identity: Mapping[str, Any]) -> bool:
    """Whether the process of this `process_identity` lives, as far as can be told from here."""
    here = process_identity()
    if any(identity.get(key) != here[key] for key in ("host", "pid_ns")):
        return True
    if identity.get("boot_id") != here["boot_id"]:
        return False
    try:
        now = process_identity(int(identity["pid"]))
    except ProcessLookupError:
        return False
    return abs(float(now["started_at"]) - float(identity["started_at"])) < _CLOCKS_S


def started(pid: int) -> float:
    """When a process started: seconds since the boot (Linux; no change of the wall clock moves them) or the epoch.

    Raises ProcessLookupError when there is no such process.
    """
    if _LINUX:
        fields = _stat(pid)
        if not fields:
            raise ProcessLookupError(f"no process {pid}")
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    import psutil

    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        raise ProcessLookupError(f"no process {pid}") from None


def reap(pids: Iterable[int]) -> None:
    """Collect the exit statuses of ended processes, where they are children of this one."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass


def reap_adopted() -> None:
    """Collect the zombies among the orphans a subreaper adopted; without it they fill the pid table.

    Never one that a Popen waits for: a child started here is in the session of this process or
    leads its own. An adopted one that leads its own session cannot be told from those, and stays
    until this process ends, unless a sweep ended it. Linux only.
    """
    if not _LINUX:
        return
    own_session = os.getsid(0)
    with _reaping:  # two could meet on a pid that has changed hands between them
        for pid in _children() or ():
            state, session = _state_and_session(pid)
            if state == "Z" and session not in (own_session, pid):
                reap([pid])


def _matching(matches: Callable[[int], bool]) -> list[psutil.Process]:
    """Live processes, without this one, for whose pid `matches` holds."""
    found = []
    for pid in _pids():
        if pid in (0, os.getpid()) or not matches(pid):
            continue
        if _LINUX and _state_and_session(pid)[0] in ("Z", ""):
            continue  # ended; seen before psutil is imported, which most runs need not do
        process = _process(pid)
        # Asked again now that the start time is known: the pid may have changed hands in between.
        if process is not None and matches(pid) and is_alive(process):
            found.append(process)
    return found


def _process(pid: int) -> psutil.Process | None:
    import psutil

    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _pids() -> list[int]:
    if _LINUX:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    import psutil

    return psutil.pids()


def _environment(pid: int) -> bytes:
    """The environment block of a process, NUL before and after each variable; empty when unreadable."""
    if _LINUX:
        try:
            with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
                return b"\0" + file.readall()
        except OSError:
            return b""
    import psutil

    try:
        variables = psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return b""
    return b"\0" + b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in variables.items())


def _send(process: psutil.Process, number: signal.Signals) -> bool:
    """Signal it unless its pid has changed hands (psutil checks); False when we may not."""
    import psutil

    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied:
        return False
    return True


def _wait_gone(processes: Iterable[psutil.Process], until: float) -> None:
    """Wait for the end of all, at most until a monotonic time. Collects no exit status."""
    left = list(processes)
    while (left := [p for p in left if is_alive(p)]) and time.monotonic() < until:
        time.sleep(0.01)


def _children() -> set[int] | None:
    """Pids of the children of this process, zombies included; None where the system does not tell.

    Linux with CONFIG_PROC_CHILDREN. Asked twice: when a child ends meanwhile, others may be missing (proc(5)).
    """
    found: set[int] = set()
    for _ in range(2):
        lists = list(Path("/proc/self/task").glob("*/children"))
        if not lists:
            return None
        for each in lists:
            with contextlib.suppress(OSError):  # that thread has ended, and its children moved to another one
                found.update(map(int, each.read_text().split()))
    return found


def _parent(process: psutil.Process) -> int | None:
    import psutil

    try:
        return process.ppid()
    except psutil.Error:
        return None


def _state_and_session(pid: int) -> tuple[str, int]:
    """The state letter and the session of a process; ("", 0) when it is gone."""
    fields = _stat(pid)
    return (fields[0], int(fields[3])) if fields else ("", 0)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the third one, the state, on (proc(5)); none when it is gone."""
    try:
        # The name, the second field, is in parentheses and may hold anything.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
