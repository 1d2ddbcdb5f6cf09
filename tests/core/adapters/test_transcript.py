"""The transcript: everything kept, secrets not, bounded, and readable after a kill (rule 5.6)."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from codeframe.core.adapters.transcript import TranscriptWriter, read_transcript
from codeframe.core.lines import Line
from codeframe.core.redaction import Redactor

NO_SECRETS = Redactor({})


def lines_of(path: Path) -> list[str]:
    return [record["line"] for record in read_transcript(path)]


def on_disk(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.iterdir())


def test_lines_come_back_with_stream_round_and_time(tmp_path: Path) -> None:
    path = tmp_path / "run" / "transcript.jsonl"
    writer = TranscriptWriter(path, NO_SECRETS, round_no=2)
    writer.write("out", Line('{"type": "é\u2028"}'))
    writer.write("err", Line("warning", 17))
    writer.close()
    first, second = read_transcript(path)
    assert (first["s"], first["n"], first["line"]) == ("out", 2, '{"type": "é\u2028"}')
    assert first["t"].endswith("+00:00")
    assert (second["s"], second["dropped"]) == ("err", 17)


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    TranscriptWriter(path, NO_SECRETS).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_rounds_follow_each_other_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    for number in range(3):
        writer = TranscriptWriter(path, NO_SECRETS, round_no=number)
        writer.write("out", Line(f"line {number}"))
        writer.close()
    assert [(r["n"], r["line"]) for r in read_transcript(path)] == [(n, f"line {n}") for n in range(3)]


def test_secrets_are_gone_before_they_reach_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    writer = TranscriptWriter(path, Redactor({"MY_API_KEY": "correct-horse-42"}))
    writer.write("out", Line("the key is correct-horse-42 and sk-ant-api03-AAAAAAAAAAAA1234567890"))
    writer.close()
    assert lines_of(path) == ["the key is [redacted] and [redacted]"]
    assert b"horse" not in path.read_bytes()


def test_a_private_key_that_comes_line_by_line_is_gone_too(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    writer = TranscriptWriter(path, NO_SECRETS)
    for line in (
        "-----BEGIN PRIVATE KEY-----",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
        "-----END PRIVATE KEY-----",
        "on",
    ):
        writer.write("out", Line(line))
        writer.write("err", Line("beside it"))
        writer.flush()
    writer.close()
    assert b"MIIE" not in path.read_bytes()
    assert lines_of(path).count("beside it") == 4
    assert lines_of(path)[-2] == "on"


def test_head_and_tail_are_kept_and_the_size_is_bounded(tmp_path: Path) -> None:
    path, limit = tmp_path / "transcript.jsonl", 40_000
    writer = TranscriptWriter(path, NO_SECRETS, max_bytes=limit)
    for number in range(5000):
        writer.write("out", Line(f"{number} " + "x" * 50))
        if number % 100 == 0:
            writer.flush()
    writer.close()
    kept = [int(line.split()[0]) for line in lines_of(path)]
    assert on_disk(path) <= limit
    assert kept[0] == 0
    assert kept[-1] == 4999
    assert kept == sorted(kept)
    # Head and tail are each without a hole: there is one gap only.
    assert sum(1 for one, next_one in pairwise(kept) if next_one != one + 1) == 1


def test_a_full_transcript_goes_on_in_its_tail_in_the_next_round(tmp_path: Path) -> None:
    path, limit = tmp_path / "transcript.jsonl", 8000
    for number in range(6):
        writer = TranscriptWriter(path, NO_SECRETS, round_no=number, max_bytes=limit)
        for count in range(40):
            writer.write("out", Line(f"{number}.{count}" + "x" * 40))
        writer.close()
    assert on_disk(path) <= limit
    assert lines_of(path)[-1].startswith("5.39")
    assert lines_of(path)[0].startswith("0.0")


def test_a_line_larger_than_the_room_is_named_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    writer = TranscriptWriter(path, NO_SECRETS, max_bytes=4000)
    writer.write("out", Line("x" * 100_000))
    writer.write("out", Line("after"))
    writer.close()
    assert on_disk(path) <= 4000
    assert "not kept" in lines_of(path)[0]
    assert lines_of(path)[-1] == "after"


def test_a_flood_in_the_tail_keeps_its_end_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeframe.core.adapters.transcript.PENDING_BYTES", 2000)
    path = tmp_path / "transcript.jsonl"
    writer = TranscriptWriter(path, NO_SECRETS, max_bytes=40_000)
    for number in range(20_000):
        writer.write("out", Line(f"{number} " + "x" * 20))
    writer.close()
    lines = lines_of(path)
    assert lines[0].startswith("0 ")
    assert lines[-1].startswith("19999 ")
    assert any("of a flood were not kept" in line for line in lines)
    assert on_disk(path) <= 40_000


def test_a_kill_loses_nothing_that_was_flushed_and_the_next_round_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from codeframe.core.adapters.transcript import TranscriptWriter\n"
        "from codeframe.core.lines import Line\n"
        "from codeframe.core.redaction import Redactor\n"
        f"w = TranscriptWriter(Path({str(path)!r}), Redactor({{}}))\n"
        "w.write('out', Line('before'))\n"
        # Nobody flushes: the writer has to do so by itself.
        f"while not os.path.getsize({str(path)!r}): time.sleep(0.01)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60)
    assert done.returncode == -signal.SIGKILL
    with path.open("ab") as file:
        file.write(b'{"t": "2026-01-01", "s": "out", "li')  # what a crash in mid-write leaves
    writer = TranscriptWriter(path, NO_SECRETS, round_no=1)
    writer.write("out", Line("after"))
    writer.close()
    assert lines_of(path) == ["before", "after"]


def test_a_full_disk_costs_the_transcript_only(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    path = tmp_path / "transcript.jsonl"
    path.symlink_to("/dev/full")
    writer = TranscriptWriter(path, NO_SECRETS)
    writer.write("out", Line("lost"))
    writer.close()
    writer.close()
    assert list(read_transcript(tmp_path / "none.jsonl")) == []
