"""kill -9 in the middle of `cf work undo`: no file is half-written, nothing is left lying about, and the next
one finishes (rule 4.2)."""

from __future__ import annotations

import os
import random
import shutil
import stat
import sys
from pathlib import Path

import pytest

from tests.hostile.stage import Stage
from tests.kit.claude_runs import session, verdict
from tests.kit.repos import git, write
from tests.kit.scenario import call, sh

# A git in front of the real one that kills its parent, `cf`, at the n-th of these moments: before any git
# process (g), before any blob (b), and when half of a blob has been given out (h).
DEADLY_GIT = """#!/bin/sh
printf g >> '{count}'
if [ $(wc -c < '{count}') = {number} ]; then kill -9 $PPID; exit 1; fi
case "$*" in *"cat-file --batch") exec '{python}' -IS '{batch}' "$@" ;; esac
exec '{git}' "$@"
"""
DEADLY_BATCH = """
import os, signal, subprocess, sys
def moment(kind):
    with open({count!r}, "ab") as file:
        file.write(kind)
        file.flush()
        number = file.tell()
    if number == {number}:
        os.kill(os.getppid(), signal.SIGKILL)
        sys.exit(1)
real = subprocess.Popen([{git!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
answers = sys.stdout.buffer
for request in sys.stdin.buffer:
    moment(b"b")
    real.stdin.write(request)
    real.stdin.flush()
    header = real.stdout.readline()
    answers.write(header)
    blob = real.stdout.read(int(header.split()[2]) + 1)
    answers.write(blob[: len(blob) // 2])
    answers.flush()
    moment(b"h")
    answers.write(blob[len(blob) // 2 :])
    answers.flush()
real.stdin.close()
sys.exit(real.wait())
"""

ENGINE = """
for f in big private d/deep/a; do echo engine > "$f.tmp"; mv "$f.tmp" "$f"; done
rm -r gone link hollow; echo engine > hollow; ln -s elsewhere link; mkdir -p made/by; echo engine > made/by/it
echo '*.log' > .gitignore; chmod 755 plain; git add -A
"""

State = dict[str, tuple[int, bytes]]


def state(where: Path) -> State:
    """Everything there is: path -> (type and permissions, content or target)."""
    found: State = {}
    for folder, folders, names in os.walk(where):
        if ".git" in folders:
            folders.remove(".git")
        for place in (Path(folder) / name for name in [*folders, *names]):
            mode = place.lstat().st_mode
            content = b""
            if place.is_symlink():
                content = os.fsencode(os.readlink(place))
            elif stat.S_ISREG(mode):
                content = place.read_bytes()
            found[str(place.relative_to(where))] = mode, content
    return found


def prepare(stage: Stage) -> tuple[str, State, State, str]:
    """A task whose engine changed a lot; (its id, the tree before, the tree after, what was staged before)."""
    write(stage.repo, {"big": b"0123456789abcdef" * 20_000, "private": "mine " * 3000, "plain": "mine"})
    write(stage.repo, {"gone/x": "mine " * 3000, "d/deep/a": "mine", "gone/y": "mine"})
    (stage.repo / "private").chmod(0o600)
    (stage.repo / "gone/x").chmod(0o400)
    (stage.repo / "gone").chmod(0o700)
    (stage.repo / "plain").chmod(0o640)
    (stage.repo / "hollow/folder").mkdir(parents=True)
    (stage.repo / "link").symlink_to("big")
    before, staged = state(stage.repo), git(stage.repo, "ls-files", "-s")
    stage.engine.calls(call(session(sh(ENGINE), verdict("done"))))
    task = stage.task()
    stage.start(task).expect(0, "COMPLETED", None, "DONE")
    return task.id, before, state(stage.repo), staged


def undo(stage: Stage, task: str, number: int) -> tuple[int, str]:
    """`cf work undo`, killed at the `number`-th moment; (exit status, the kinds of its moments)."""
    deadly = stage.engine.bin / "git"
    count, batch = stage.repo.parent / "count", stage.repo.parent / "batch.py"
    count.unlink(missing_ok=True)
    words = {"count": str(count), "number": number, "git": shutil.which("git"), "batch": batch}
    deadly.write_text(DEADLY_GIT.format(**words, python=sys.executable))
    batch.write_text(DEADLY_BATCH.format(**words))
    deadly.chmod(0o755)
    try:
        return stage.cf("work", "undo", task).exit_code, count.read_text()
    finally:
        deadly.unlink()


@pytest.mark.parametrize("seed", [1])
def test_kill_9_of_an_undo_leaves_no_half_file_and_no_litter(stage: Stage, seed: int) -> None:
    task, before, after, staged = prepare(stage)
    saved = stage.repo.with_name("saved")
    shutil.copytree(stage.repo, saved, symlinks=True)
    _, moments = undo(stage, task, 0)
    assert state(stage.repo) == before
    workshop = stage.workspace.state_dir / "index" / stage.workspace.tree_key / "undo"
    littered = 0
    halves = [number for number, kind in enumerate(moments, 1) if kind == "h"][-5:]  # of files
    chosen = random.Random(seed)
    for number in (chosen.choice(halves), *chosen.sample(range(1, len(moments) + 1), 3)):
        shutil.rmtree(stage.repo)
        shutil.copytree(saved, stage.repo, symlinks=True)
        assert undo(stage, task, number)[0] == -9, number
        now = state(stage.repo)
        for path in before.keys() | after.keys() | now.keys():
            was, is_now, engines = before.get(path), now.get(path), after.get(path)
            if is_now is None:  # gone before the run or by it, or about to be a folder again
                assert was is None or engines is None or stat.S_ISDIR(was[0]), (number, path)
            elif not stat.S_ISDIR(is_now[0]):
                assert is_now in (was, engines), (number, path)
        for left in workshop.iterdir() if workshop.exists() else ():
            littered += 1
            closed = stat.S_IMODE(left.stat().st_mode) & 0o077 == 0
            assert closed or left.stat().st_size < 100, number  # the target of a symlink, that is
        done = stage.cf("work", "undo", task)
        assert done.exit_code == 0, (number, done)
        assert state(stage.repo) == before, number
        assert git(stage.repo, "ls-files", "-s") == staged, number
        assert [*workshop.iterdir()] == [], number
    assert "is undone already" in stage.cf("work", "undo", task).stderr
    assert littered  # it was killed in the middle of files
