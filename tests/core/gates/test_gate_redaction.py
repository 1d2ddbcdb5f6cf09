"""Rule 9.2 for gates: what they print is kept without secrets, and still compared by the same names."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from codeframe.core.gates import declared_gates
from codeframe.core.gates.runner import Log
from codeframe.core.lines import Line
from codeframe.core.redaction import REDACTED, Redactor, StreamRedactor

TOKEN = "sk-" + "ant-api03-Abc123def456Ghi789"
VALUE = "tr0ub4dor&3-correct-horse"


def everything(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def leaky(project, monkeypatch):
    """A test that shows a token and a value of the environment in each way pytest has."""
    monkeypatch.setenv("SERVICE_PASSWORD", VALUE)
    project.write({
        "test_it.py": "import os, pytest\n"
        "@pytest.mark.parametrize('way', ['one', 'two'])\n"
        "def test_a(way):\n"
        f"    print({TOKEN!r})\n"
        f"    assert os.environ['SERVICE_PASSWORD'] == {TOKEN!r}, way\n",
    })  # fmt: skip
    return project


def test_logs_and_cached_baselines_hold_no_secret(leaky):
    leaky.base()
    report = leaky.check()
    kept = everything(leaky.work) + json.dumps(leaky.kept)
    assert kept.count(REDACTED) > 4
    assert TOKEN not in kept + report.feedback()
    assert VALUE not in kept + report.feedback()


def test_a_failure_with_a_secret_in_it_is_known_again(leaky):
    leaky.base()
    (verdict,) = leaky.check().verdicts
    assert [f.title for f in verdict.old] == ["test_it.py::test_a[one]", "test_it.py::test_a[two]"]
    assert verdict.new == ()


def test_a_test_named_like_a_secret_keeps_its_name(project, monkeypatch):
    monkeypatch.setenv("API_TOKEN", "test_of_a_token_1")
    project.write({"test_it.py": "def test_of_a_token_1(): assert 0\n"})
    (verdict,) = project.check().verdicts
    assert [f.title for f in verdict.new] == ["test_it.py::test_of_a_token_1"]


def test_a_collection_error_with_a_secret_in_it_is_known_again(project):
    project.write({"test_it.py": f"raise RuntimeError({TOKEN!r})\n"})
    project.base()
    (verdict,) = project.check().verdicts
    assert (len(verdict.old), verdict.new) == (1, ())
    assert TOKEN not in everything(project.work)


def test_a_command_with_a_secret_in_its_output_is_known_again(bare, monkeypatch):
    monkeypatch.setenv("SERVICE_PASSWORD", VALUE)
    bare.gates = declared_gates([{"name": "leak", "command": ["sh", "-c", "echo $SERVICE_PASSWORD; exit 1"]}])
    bare.base()
    (verdict,) = bare.check().verdicts
    assert (len(verdict.old), verdict.new) == (1, ())
    assert VALUE not in everything(bare.work)


# -- a flood ----------------------------------------------------------------------------------------

KEY_LINES = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + f"{n:032x}" for n in range(400)]
KEY = ["-----BEGIN RSA PRIVATE KEY-----", *KEY_LINES, "-----END RSA PRIVATE KEY-----"]


def logged(lines, **room) -> str:
    stream = io.StringIO()
    log = Log(stream, redactor=Redactor({}), **room)
    for line in lines:
        log.add("stdout", [Line(line)])
    log.finish()
    return stream.getvalue()


@pytest.mark.parametrize("before", [0, 1, 300, 500, 700, 1000])
def test_a_private_key_that_straddles_what_is_written_at_once_is_taken_out(before):
    said = logged([*["x" * 63] * before, *KEY, "after"])
    assert not any(line in said for line in KEY_LINES)
    assert said.count("x" * 63) == before
    assert said.endswith("after\n")


@pytest.mark.parametrize("room", range(0, 40_000, 4_001))
def test_a_private_key_whose_beginning_was_left_out_of_a_flood_is_taken_out(room):
    said = logged(["x" * 63, *["y" * 63] * 700, *KEY, "after"], head=10, tail=room)
    assert not any(line in said for line in KEY_LINES)
    assert said.endswith("after\n")


def test_a_private_key_without_an_end_does_not_hide_the_rest():
    said = logged([KEY[0], *["a test that failed, and why"] * 10_000])
    assert said.startswith(REDACTED)
    assert said.count("a test that failed, and why") > 8_000


def test_each_line_of_a_secret_of_several_lines_is_one():
    redactor = Redactor({"DEPLOY_KEY": "\n".join(KEY)})
    assert KEY_LINES[7] not in redactor.redact(f"line 7 is {KEY_LINES[7]}!")
    assert "BEGIN RSA" in Redactor({"DEPLOY_KEY": "\n".join(KEY)}).redact("about -----BEGIN RSA")


def test_pieces_give_what_the_whole_gives():
    text = "".join(f"{line}\n" for line in ["a", TOKEN, *KEY, "b", *KEY, TOKEN, "c"])
    lines = text.splitlines(keepends=True)
    stream = StreamRedactor(Redactor({}))
    assert "".join(map(stream.redact, lines)) == Redactor({}).redact(text)
