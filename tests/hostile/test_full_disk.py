"""A disk that fills up: said in a sentence that names the file, and the run goes on when there is room again."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from codeframe.core.conversation import Conversation
from codeframe.core.errors import CodeFrameError, writing
from codeframe.core.redaction import Redactor
from tests.hostile.stage import Stage
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.engines import CF, clean_env
from tests.kit.scenario import call, sh

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")


def own_disk_allowed() -> bool:
    """Whether this system lets us mount a small disk that only our own processes see."""
    try:
        return subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).returncode == 0
    except FileNotFoundError:
        return False


@needs_full
def test_what_cannot_be_written_is_named_with_where_to_make_room() -> None:
    with pytest.raises(CodeFrameError) as caught, writing(FULL):
        FULL.write_text("x")
    assert caught.value.problem == "/dev/full cannot be written: No space left on device."
    assert caught.value.hint.endswith("df -h '/dev'")


@needs_full
def test_a_session_that_cannot_be_kept_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    conversation = Conversation("s", Redactor({}), os.open(FULL, os.O_WRONLY), path)
    with pytest.raises(OSError) as caught:
        conversation.say("hello")
    conversation.close()
    assert caught.value.filename == str(path)


@pytest.mark.skipif(not own_disk_allowed(), reason="needs a private mount")
def test_a_disk_that_fills_up_in_a_run_loses_nothing(tmp_path: Path) -> None:
    stage = Stage.build(tmp_path)
    disk = tmp_path / "disk"
    disk.mkdir()
    full = f"dd if=/dev/zero of={disk}/fill bs=4k 2>/dev/null; true"
    stage.engine.calls(
        call(session(wrote("work.py", "x = 1\n"), sh(full), verdict("done"))),
        call(session(wrote("more.py", "x = 1\n"), verdict("done"))),
    )
    task = stage.task()
    cf = shlex.join(CF)
    script = f"""
mount -t tmpfs -o size=4m tmpfs '{disk}' && cp -a '{stage.repo}' '{disk}/project' && cd '{disk}/project' || exit 9
dd if=/dev/zero of=../fill bs=4k 2>/dev/null
{cf} init --nested; echo "init $?"
{cf} tasks add Another; echo "add $?"
rm ../fill
{cf} {shlex.join(stage.start_args(task))}; echo "start $?"
rm ../fill
{cf} work status; echo "status $?"
{cf} work resume {task.id}; echo "resume $?"
git status --short
"""
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        env=clean_env() | stage.env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    told = done.stdout + done.stderr
    for words in ("init 1", "add 1", "start 1", "status 0", "resume 0"):
        assert words in done.stdout.splitlines(), told
    assert f"{disk}/project/.git/codeframe/locks/register.lock cannot be written: No space left" in told
    assert told.count("No space left on device") == 2
    assert told.count("df -h") == 3
    assert "Traceback" not in told
    assert f"had crashed: kept its work. Go on with: cf work resume {task.id[:8]}" in told
    assert {"?? work.py", "?? more.py", "?? untracked.txt", "M  staged.txt"} <= set(done.stdout.splitlines())
