"""A `.git` that cannot be written: said in a sentence, nothing is lost, and it goes on when it can be again."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.hostile.stage import STAGED, UNSTAGED, UNTRACKED, Stage
from tests.hostile.test_full_disk import own_disk_allowed
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.engines import CF, clean_env
from tests.kit.scenario import call, sh


@pytest.mark.skipif(not own_disk_allowed(), reason="needs a private mount")
def test_a_git_folder_that_becomes_read_only_loses_nothing(tmp_path: Path) -> None:
    stage = Stage.build(tmp_path)
    place = f"'{stage.repo}/.git'"
    lock = f"mount --bind {place} {place} && mount -o remount,bind,ro {place}"  # over what is open already
    unlock = f"umount -l {place}; cd '{stage.repo}'"
    stage.engine.calls(
        call(session(wrote("work.py", "x = 1\n"), sh(lock), verdict("done"))),
        call(session(wrote("more.py", "x = 1\n"), verdict("done"))),
    )
    task = stage.task()
    stage.workspace.store.close()
    cf, start = shlex.join(CF), shlex.join(stage.start_args(task))
    script = f"""
{lock} || exit 9
for words in 'tasks add Another' 'status' 'doctor' '{start}' 'work undo {task.id}' 'deinit --force'; do
    {cf} $words; echo "$words: $?"
done
{unlock}
{cf} {start}; echo "engine: $?"
{cf} doctor
{unlock}
{cf} work status; echo "recovered: $?"
cat work.py
{cf} doctor; echo "mended: $?"
{cf} work resume {task.id}; echo "resume: $?"
"""
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], cwd=stage.repo,
        env=clean_env() | stage.env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    told = done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "Traceback" not in told, told
    assert "Internal error" not in told, told
    for words in ("tasks add Another: 1", f"{start}: 1", "deinit --force: 1", "engine: 1"):
        assert words in lines, told
    assert told.count("sudo mount -o remount,rw") == 8, told
    for words in ("recovered: 0", "x = 1", "mended: 0", "resume: 0"):
        assert words in lines, told
    assert stage.status(task) == "DONE"
    assert (stage.read("staged.txt"), stage.read("unstaged.txt")) == (STAGED, UNSTAGED)
    assert stage.read("untracked.txt") == UNTRACKED
    stage.check_persons_work()
