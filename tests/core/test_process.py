"""The process floor, on real processes that behave badly in every way an engine might."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from codeframe.core.lines import EDGE_BYTES, Line
from codeframe.core.process import MARKER, EndedBy, Limits, OpenStdin, ProcessOutcome, run_process
from codeframe.core.process_sweep import find_marked, is_alive, reap_adopted

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")

# Python that starts a process nobody waits for, double-forked into a session of its own.
DAEMON = """
import os, sys, time
def daemon(body):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        body()
        os._exit(0)
    os.wait()
"""


class Runner:
    """Runs small scripts through `run_process` under one marker and keeps their lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marker = f"{uuid.uuid4().hex}/1"
        self.lines: list[tuple[str, Line]] = []
        self.pid = 0

    def __call__(self, argv: list[str], **options: Any) -> ProcessOutcome:
        hook: Callable[[str], object] | None = options.pop("hook", None)

        def on_lines(name: str, lines: list[Line]) -> None:
            for line in lines:
                self.lines.append((name, line))
                if hook is not None:
                    hook(line.text)

        def on_start(pid: int) -> None:
            self.pid = pid

        options = {"on_lines": on_lines, "on_start": on_start, "env": dict(os.environ), **options}
        return run_process(argv, cwd=self.folder, marker=self.marker, **options)

    def sh(self, script: str, **options: Any) -> ProcessOutcome:
        return self(["sh", "-c", script], **options)

    def python(self, code: str, **options: Any) -> ProcessOutcome:
        script = self.folder / "script.py"
        script.write_text(code)
        return self([sys.executable, "-S", str(script)], **options)

    def texts(self, name: str = "stdout") -> list[str]:
        return [line.text for stream, line in self.lines if stream == name]


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def assert_ended(pid: int) -> None:
    assert not psutil.pid_exists(pid) or not is_alive(psutil.Process(pid))


# How it ends by itself


def test_exit_status_and_both_outputs_apart(run: Runner) -> None:
    outcome = run.sh("echo out; echo err >&2; printf 'no end' >&2; exit 7")
    assert outcome.ended_by is EndedBy.EXIT
    assert outcome.exit_code == 7
    assert run.texts() == ["out"]
    assert run.texts("stderr") == ["err", "no end"]
    assert outcome.stderr_tail == "err\nno end"
    assert outcome.survivors == ()
    assert outcome.error is None


def test_death_by_signal_is_a_negative_exit_code(run: Runner) -> None:
    outcome = run.sh("kill -KILL $$")
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.EXIT, -signal.SIGKILL)


def test_environment_is_what_was_given_plus_the_marker_in_a_session_of_its_own(run: Runner) -> None:
    code = "import os; print(sorted(os.environ.items()), os.getsid(0) == os.getpgrp() == os.getpid())"
    run.python(code, env={"ONLY": "this", "LC_ALL": "C.UTF-8"})
    variables = [(MARKER, run.marker), ("LC_ALL", "C.UTF-8"), ("ONLY", "this")]
    assert run.texts() == [f"{variables} True"]


def test_only_the_tail_of_a_long_stderr_is_kept(run: Runner) -> None:
    outcome = run.python("import sys; sys.stderr.write('start' + 'x' * 100_000 + 'end')")
    assert len(outcome.stderr_tail) == 16 * 1024
    assert outcome.stderr_tail.endswith("xend")
    [line] = run.texts("stderr")
    assert len(line) == 100_008


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        (["no-such-program"], ".", "no-such-program"),
        (["sh"], "no-such-folder", "no-such-folder"),
        (["sh", "-c", "a\0b"], ".", "null byte"),
        (["sh", "-c", "x" * 10_000_000], ".", "too long"),
    ],
)
def test_what_cannot_start_is_an_outcome(tmp_path: Path, argv: list[str], cwd: str, words: str) -> None:
    outcome = Runner(tmp_path / cwd)(argv)
    assert outcome.ended_by is EndedBy.SPAWN_FAILED
    assert outcome.exit_code is None
    assert words in (outcome.error or "")


# Standard input


def test_a_prompt_of_a_megabyte_arrives_verbatim(run: Runner) -> None:
    prompt = os.urandom(1_000_000) + b"\r\n\0 @/etc/passwd\n"
    run.python(
        "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", stdin=prompt
    )
    assert run.texts() == [hashlib.sha256(prompt).hexdigest()]


def test_an_echo_larger_than_the_pipes_does_not_lock_up(run: Runner) -> None:
    prompt = b"".join(b"line %d\n" % number for number in range(100_000))
    outcome = run(["cat"], stdin=prompt)
    assert outcome.exit_code == 0
    assert "".join(f"{text}\n" for text in run.texts()).encode() == prompt


@pytest.mark.parametrize("stdin", [None, b""])
def test_who_waits_on_stdin_gets_its_end_at_once(run: Runner, stdin: bytes | None) -> None:
    outcome = run(["cat"], stdin=stdin, limits=Limits(timeout_s=60))
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.EXIT, 0)


def test_stdin_is_never_inherited(run: Runner) -> None:
    run.python("import os; print(os.path.samestat(os.fstat(0), os.stat('/dev/null')))")
    assert run.texts() == ["True"]


def test_a_child_that_closes_its_stdin_is_no_error(run: Runner) -> None:
    outcome = run.sh("exec 0<&-; sleep 0.2; exit 3", stdin=b"x" * 1_000_000)
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.EXIT, 3)


# Talking with it


def test_a_conversation_answers_what_it_hears_until_it_is_closed(run: Runner) -> None:
    stdin = OpenStdin()
    stdin.write(b"0\n")

    def answer(text: str) -> None:
        number = int(text) + 1
        stdin.write(b"%d\n" % number)
        if number == 50:
            stdin.close()
            stdin.write(b"after the close\n")

    outcome = run(["cat"], stdin=stdin, hook=answer, limits=Limits(timeout_s=60))
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.EXIT, 0)
    assert run.texts() == [str(number) for number in range(51)]


def test_an_open_stdin_keeps_a_reader_waiting_until_another_thread_closes_it(run: Runner) -> None:
    stdin = OpenStdin()
    said = threading.Event()

    def later() -> None:
        said.wait(20)
        stdin.write(b"from elsewhere\n")
        stdin.close()

    thread = threading.Thread(target=later)
    thread.start()
    outcome = run.sh("echo ready; cat", stdin=stdin, hook=lambda text: text == "ready" and said.set())
    thread.join()
    assert outcome.exit_code == 0
    assert run.texts() == ["ready", "from elsewhere"]


def test_more_than_the_pipes_hold_goes_both_ways_in_the_middle_of_a_conversation(run: Runner) -> None:
    stdin = OpenStdin()
    stdin.write(b"first\n")
    more = b"".join(b"line %d\n" % number for number in range(100_000))

    def answer(text: str) -> None:
        if text == "first":
            stdin.write(more)
            stdin.close()

    outcome = run(["cat"], stdin=stdin, hook=answer)
    assert outcome.exit_code == 0
    assert "".join(f"{text}\n" for text in run.texts()).encode() == b"first\n" + more


def test_who_stops_listening_is_no_error(run: Runner) -> None:
    stdin = OpenStdin()
    outcome = run.sh(
        "read line; exec 0<&-; echo heard; sleep 0.2; exit 3",
        stdin=stdin,
        on_start=lambda _: stdin.write(b"x\n"),
        hook=lambda _: stdin.write(b"y" * 1_000_000),
    )
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.EXIT, 3)


def test_nothing_is_kept_of_what_is_said_to_the_dead(run: Runner) -> None:
    stdin = OpenStdin()
    run(["true"], stdin=stdin)
    stdin.write(b"x")
    assert not stdin.pending
    assert stdin.all_written


def test_before_the_signal_comes_a_word(run: Runner) -> None:
    cancel, stdin = threading.Event(), OpenStdin()

    def say_stop() -> None:
        stdin.write(b"stop\n")
        stdin.close()

    code = "import sys; print('ready', flush=True); print(sys.stdin.read(), end=''); sys.exit(4)"
    outcome = run.python(
        code,
        stdin=stdin,
        cancel=cancel,
        hook=lambda text: text == "ready" and cancel.set(),
        on_stop=say_stop,
        limits=Limits(farewell_s=60),
    )
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.CANCELLED, 4)
    assert run.texts() == ["ready", "stop"]


def test_who_is_deaf_to_the_word_gets_the_signal(run: Runner) -> None:
    cancel, stopping = threading.Event(), threading.Event()
    outcome = run.sh(
        "echo ready; exec sleep 300",
        stdin=OpenStdin(),
        cancel=cancel,
        hook=lambda _: cancel.set(),
        on_stop=stopping.set,
        limits=Limits(farewell_s=0.1),
    )
    assert stopping.is_set()
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.CANCELLED, -signal.SIGTERM)


def test_no_word_is_said_after_a_callback_failed(run: Runner) -> None:
    stopping = threading.Event()
    with pytest.raises(ZeroDivisionError):
        run.sh("echo ready; exec sleep 300", hook=lambda _: 1 / 0, on_stop=stopping.set)
    assert not stopping.is_set()
    assert_ended(run.pid)


# How we end it


def test_cancel_from_a_callback(run: Runner) -> None:
    cancel = threading.Event()
    outcome = run.sh("echo ready; exec sleep 300", cancel=cancel, hook=lambda _: cancel.set())
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.CANCELLED, -signal.SIGTERM)
    assert_ended(run.pid)


def test_cancel_from_another_thread_in_the_middle_of_a_flood(run: Runner) -> None:
    cancel = threading.Event()
    timer = threading.Timer(0.2, cancel.set)
    timer.start()
    outcome = run(["yes"], cancel=cancel, on_lines=lambda name, lines: None)
    timer.join()
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.CANCELLED, -signal.SIGTERM)


def test_the_time_limit_is_for_the_whole_life(run: Runner) -> None:
    outcome = run.sh("while :; do echo alive; sleep 0.05; done", limits=Limits(timeout_s=0.3, stall_s=60))
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.TIMEOUT, -signal.SIGTERM)
    assert_ended(run.pid)


def test_what_ignores_sigterm_is_killed(run: Runner) -> None:
    cancel = threading.Event()
    outcome = run.sh(
        "trap '' TERM; echo ready; while :; do sleep 0.05; done",
        cancel=cancel,
        hook=lambda _: cancel.set(),
        limits=Limits(polite_s=0.2),
    )
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.CANCELLED, -signal.SIGKILL)
    assert_ended(run.pid)


def test_a_stopped_process_is_killed(run: Runner) -> None:
    cancel = threading.Event()

    def cancel_once_stopped(_: str) -> None:
        until(lambda: psutil.Process(run.pid).status() == psutil.STATUS_STOPPED)
        cancel.set()

    outcome = run.sh(
        "echo ready; kill -STOP $$", cancel=cancel, hook=cancel_once_stopped, limits=Limits(polite_s=0.1)
    )
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.CANCELLED, -signal.SIGKILL)


def test_last_words_after_the_polite_signal_are_heard(run: Runner) -> None:
    cancel = threading.Event()
    code = (
        "import signal, sys, time\n"
        "def bye(*_):\n    print('\\n'.join(['bye'] * 100_000)); sys.exit(5)\n"
        "signal.signal(signal.SIGINT, bye)\n"
        "print('ready', flush=True)\ntime.sleep(300)\n"
    )
    outcome = run.python(
        code,
        cancel=cancel,
        hook=lambda text: text == "ready" and cancel.set(),
        polite_signal=signal.SIGINT,
        limits=Limits(polite_s=60),
    )
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.CANCELLED, 5)
    assert run.texts() == ["ready"] + ["bye"] * 100_000


def test_silence_is_a_stall(run: Runner) -> None:
    outcome = run.sh("echo ready; exec sleep 300", limits=Limits(stall_s=0.2))
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.STALLED, -signal.SIGTERM)


def test_silence_of_a_busy_engine_is_no_stall(run: Runner) -> None:
    outcome = run.sh("sleep 0.8; echo done", limits=Limits(stall_s=0.2), busy=lambda: True)
    assert outcome.ended_by is EndedBy.EXIT
    assert run.texts() == ["done"]


def test_output_on_either_stream_breaks_the_silence(run: Runner) -> None:
    script = "for i in 1 2 3 4 5; do sleep 0.5; echo $i >&$((i % 2 + 1)); done"
    assert run.sh(script, limits=Limits(stall_s=2)).ended_by is EndedBy.EXIT


def test_no_first_output_whatever_stderr_says(run: Runner) -> None:
    script = "while :; do echo warning >&2; sleep 0.05; done"
    assert run.sh(script, limits=Limits(first_output_s=0.4)).ended_by is EndedBy.NO_FIRST_OUTPUT


def test_first_output_is_asked_for_once(run: Runner) -> None:
    outcome = run.sh("echo ready; sleep 2.2", limits=Limits(first_output_s=2))
    assert outcome.ended_by is EndedBy.EXIT


def test_who_lingers_after_the_work_is_done_is_ended(run: Runner) -> None:
    finished = threading.Event()
    outcome = run.sh(
        "echo done; exec sleep 300",
        finished=finished,
        hook=lambda _: finished.set(),
        limits=Limits(linger_s=0.2),
    )
    assert outcome.ended_by is EndedBy.LINGERED
    assert_ended(run.pid)


def test_after_the_work_is_done_only_the_linger_limit_counts(run: Runner) -> None:
    finished = threading.Event()
    finished.set()
    limits = Limits(timeout_s=0.1, stall_s=0.1, first_output_s=0.1, linger_s=60)
    outcome = run.sh("sleep 0.5; exit 6", finished=finished, limits=limits)
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.EXIT, 6)


# What it leaves behind


def test_a_daemon_that_holds_the_pipe_does_not_hold_us(run: Runner) -> None:
    code = DAEMON + (
        "daemon(lambda: (os.write(1, b'from %d\\n' % os.getpid()), time.sleep(300)))\n"
        "os.write(1, b'last\\n')\n"
    )
    outcome = run.python(code, limits=Limits(drain_s=0.5))
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.EXIT, 0)
    daemon = next(int(text.split()[1]) for text in run.texts() if text.startswith("from"))
    assert "last" in run.texts()
    assert [int(text.split()[0]) for text in outcome.survivors] == [daemon]
    assert_ended(daemon)


def test_an_unfinished_line_is_heard_though_a_daemon_holds_the_pipe(run: Runner) -> None:
    run.sh("printf unfinished; sleep 300 & exit 0", limits=Limits(drain_s=0.1))
    assert run.texts() == ["unfinished"]


def test_a_daemon_that_floods_for_ever_does_not_hold_us(run: Runner) -> None:
    code = DAEMON + "while_true = lambda: [os.write(1, b'noise\\n' * 1000) for _ in iter(int, 1)]\n"
    outcome = run.python(
        code + "daemon(while_true)\n", limits=Limits(drain_s=0.1), on_lines=lambda name, lines: None
    )
    assert (outcome.ended_by, outcome.exit_code) == (EndedBy.EXIT, 0)
    assert len(outcome.survivors) == 1
    assert find_marked(run.marker) == []


def test_children_in_sessions_of_their_own_do_not_outlive_a_killed_engine(run: Runner) -> None:
    code = (
        "import os, signal, subprocess\n"
        "child = subprocess.Popen(['sleep', '300'], start_new_session=True, stdout=subprocess.DEVNULL,\n"
        "                         stderr=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    outcome = run.python(code)
    assert outcome.exit_code == -signal.SIGKILL
    [child] = run.texts()
    assert outcome.survivors == (f"{child} sleep 300",)
    assert_ended(int(child))


def test_who_dropped_the_marker_is_ended_with_the_session(run: Runner) -> None:
    code = (
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '300'], env={}, process_group=0, stdout=subprocess.DEVNULL,\n"
        "                         stderr=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
    )
    outcome = run.python(code)
    [child] = run.texts()
    assert outcome.survivors == (f"{child} sleep 300",)
    assert_ended(int(child))


def test_who_dropped_marker_and_session_is_ended_as_a_descendant(run: Runner) -> None:
    cancel = threading.Event()
    code = (
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '300'], env={}, start_new_session=True,\n"
        "                         stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\nchild.wait()\n"
    )
    outcome = run.python(code, cancel=cancel, hook=lambda _: cancel.set())
    [child] = run.texts()
    assert outcome.survivors == (f"{child} sleep 300",)
    assert_ended(int(child))


@linux
def test_who_dropped_marker_session_and_parent_does_not_survive(run: Runner) -> None:
    code = (
        DAEMON + "read_end, write_end = os.pipe()\n"
        "def body():\n"
        "    os.dup2(os.open(os.devnull, os.O_RDWR), 1)\n"
        "    os.write(write_end, str(os.getpid()).encode())\n"
        "    os.close(write_end)\n"
        "    os.execve('/bin/sleep', ['sleep', '300'], {})\n"
        "daemon(body)\nprint(os.read(read_end, 20).decode(), flush=True)\n"
    )
    outcome = run.python(code)
    [child] = run.texts()
    assert [text.split()[0] for text in outcome.survivors] == [child]
    assert not psutil.pid_exists(int(child))


@linux
def test_an_orphan_while_two_are_watched_is_ended_by_the_last(tmp_path: Path) -> None:
    first, second = Runner(tmp_path), Runner(tmp_path)
    left, go = tmp_path / "left", tmp_path / "go"
    code = (
        f"env -i setsid sh -c 'echo $$ > {left}.new; mv {left}.new {left}; exec sleep 300' >/dev/null 2>&1 &"
    )
    code += f" until test -e {left}; do sleep 0.01; done"  # it has a session of its own by now
    outcomes: list[ProcessOutcome] = []

    def other() -> None:
        outcomes.append(second.sh(f"while [ ! -e '{go}' ]; do sleep 0.05; done"))

    thread = threading.Thread(target=other)
    thread.start()
    until(lambda: second.pid != 0)
    first.sh(f"{code}")
    until(left.exists)
    orphan = int(left.read_text())
    assert is_alive(psutil.Process(orphan))  # whose it is cannot be told yet
    go.touch()
    thread.join()
    assert [text.split()[0] for text in outcomes[0].survivors] == [str(orphan)]
    assert_ended(orphan)


def test_another_run_is_not_touched(run: Runner, tmp_path: Path) -> None:
    env = {**os.environ, MARKER: run.marker + "0"}
    other = subprocess.Popen(["sleep", "300"], env=env)
    try:
        assert run.sh("sleep 300 >/dev/null 2>&1 & exit 0").survivors
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@linux
def test_no_zombie_stays_and_no_status_is_stolen(run: Runner) -> None:
    mine = subprocess.Popen(["sh", "-c", "exit 7"])
    before = psutil.Process().children()
    code = DAEMON + (
        "for _ in range(3):\n    daemon(lambda: None)\n    daemon(lambda: time.sleep(300))\n"
        "import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 300 & exit 0']).wait()\n"
        "subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
    )
    outcome = run.python(code, limits=Limits(drain_s=0.1))
    assert len(outcome.survivors) >= 5
    assert set(psutil.Process().children()) <= set(before)
    assert mine.wait() == 7


@linux
def test_what_forks_faster_than_a_scan_is_ended_with_its_group(run: Runner) -> None:
    code = "import os\nfor _ in range(20_000):\n    if os.fork(): os._exit(0)\n"
    assert run.python(code, limits=Limits(drain_s=0.1)).exit_code == 0

    def group_is_gone() -> bool:
        reap_adopted()  # zombies are members too
        try:
            os.killpg(run.pid, 0)
        except ProcessLookupError:
            return True
        return False

    until(group_is_gone)


@pytest.mark.parametrize("callback", ["on_lines", "on_start", "busy"])
def test_an_exception_from_a_callback_leaves_nothing_running(run: Runner, callback: str) -> None:
    def fail(*_: object) -> bool:
        raise LookupError("from the callback")

    code = DAEMON + "daemon(lambda: time.sleep(300))\nprint('ready', flush=True)\ntime.sleep(300)\n"
    with pytest.raises(LookupError, match="from the callback"):
        run.python(code, **{callback: fail})
    assert find_marked(run.marker) == []


def test_a_callback_that_failed_is_not_called_again(run: Runner) -> None:
    def fail(_: str) -> None:
        raise LookupError("from the callback")

    with pytest.raises(LookupError):
        run.sh("trap 'echo bye; exit' TERM; yes ready", hook=fail, limits=Limits(polite_s=0.2))
    assert run.texts() == ["ready"]


def test_ctrl_c_stops_politely_and_leaves_nothing_running(tmp_path: Path) -> None:
    marker = uuid.uuid4().hex
    trap = f"trap 'echo polite > {tmp_path}/said; exit 0' INT; sleep 300 & echo ready; wait"
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom codeframe.core.process import run_process\n"
        "marker, script = sys.argv[1:]\n"
        "try:\n"
        "    run_process(['sh', '-c', script], marker=marker, cwd=Path('.'), env=dict(os.environ),\n"
        "                on_lines=lambda name, lines: print(lines[0].text, flush=True),\n"
        "                polite_signal=signal.SIGINT)\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code, marker, trap], env=env, stdout=subprocess.PIPE, text=True
    ) as cf:
        assert cf.stdout is not None
        assert cf.stdout.readline() == "ready\n"
        cf.send_signal(signal.SIGINT)
        assert cf.stdout.read() == "interrupted\n"
    assert (tmp_path / "said").read_text() == "polite\n"
    assert find_marked(marker) == []


def test_several_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    runners = [Runner(tmp_path) for _ in range(4)]
    outcomes: dict[int, ProcessOutcome] = {}

    def work(number: int) -> None:
        script = f"sleep 300 >/dev/null 2>&1 & sleep 0.{number + 1}; exit {number}"
        outcomes[number] = runners[number].sh(script)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcomes[number].exit_code for number in range(4)] == [0, 1, 2, 3]
    assert [len(outcomes[number].survivors) for number in range(4)] == [1] * 4


# What it prints


def test_half_a_character_is_replaced_and_a_late_half_is_joined(run: Runner) -> None:
    run.sh(r"printf 'caf\303'; sleep 0.1; printf '\251\nhalf \342\202'")
    assert run.texts() == ["café", "half \ufffd"]


def peak_memory(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_line_of_50_mb_is_cut_in_bounded_memory(run: Runner) -> None:
    code = "import os\nfor _ in range(50): os.write(1, b'x' * 1_000_000)\nos.write(1, b'y\\nnext\\n')\n"
    peak = peak_memory(lambda: run.python(code))
    [(_, long), (_, following)] = run.lines
    assert following == Line("next")
    assert long.text == "x" * (2 * EDGE_BYTES - 1) + "y"
    assert long.dropped_bytes == 50_000_001 - 2 * EDGE_BYTES
    assert peak < 24_000_000


def test_a_flood_of_64_mb_is_read_to_the_end_in_bounded_memory(run: Runner) -> None:
    memory = psutil.Process().memory_info
    before = highest = memory().rss
    lines = characters = 0

    def count(name: str, read: list[Line]) -> None:
        nonlocal lines, characters, highest
        lines += len(read)
        characters += sum(len(line.text) for line in read)
        highest = max(highest, memory().rss)

    code = "import os\nblock = (b'x' * 127 + b'\\n') * 8192\nfor _ in range(64): os.write(1, block)\n"
    run.python(code, on_lines=count)
    assert lines == 64 * 8192
    assert characters == 64 * 8192 * 127
    assert highest - before < 24_000_000


def test_duration_runs_to_the_exit_not_to_the_end_of_the_drain(run: Runner) -> None:
    before = time.monotonic()
    outcome = run.sh("sleep 300 & exit 0", limits=Limits(drain_s=0.3))
    whole = (time.monotonic() - before) * 1000
    assert outcome.duration_ms <= whole - 300
