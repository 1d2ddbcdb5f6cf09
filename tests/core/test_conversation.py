"""A session's file: what a kill leaves can go on, and what goes in holds no secret."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.adapters.llm.base import Model
from codeframe.core.conversation import INTERRUPTED, Conversation, SessionLost
from codeframe.core.redaction import Redactor

NONE = Redactor({})


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def use(call: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "read_file", "input": given}


def result(call: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": text, **more}


def talk(folder: Path | None, redactor: Redactor = NONE) -> Conversation:
    """A session with a prompt, two tool calls answered, and a third open."""
    conversation = Conversation.begin(folder, "s1", redactor, "the task")
    conversation.settle(Model("some-model", 4096))
    conversation.add("assistant", [words("looking"), use("c1", path="a"), use("c2", path="b")])
    conversation.answer(use("c1"), "A")
    conversation.answer(use("c2"), "B", is_error=True)
    conversation.add("assistant", [use("c3", path="c")])
    return conversation


WHOLE = [
    {"role": "user", "content": [words("the task")]},
    {"role": "assistant", "content": [words("looking"), use("c1", path="a"), use("c2", path="b")]},
    {"role": "user", "content": [result("c1", "A"), result("c2", "B", is_error=True)]},
    {"role": "assistant", "content": [use("c3", path="c")]},
]


def test_a_session_goes_on_as_it_was_left(tmp_path: Path) -> None:
    talk(tmp_path).close()
    resumed = Conversation.resume(tmp_path, "s1", NONE)
    assert resumed.messages == WHOLE
    assert resumed.model == Model("some-model", 4096)
    resumed.say("go on")
    last = {"role": "user", "content": [result("c3", INTERRUPTED, is_error=True), words("go on")]}
    assert resumed.messages == [*WHOLE, last]
    resumed.close()
    assert Conversation.resume(tmp_path, "s1", NONE).messages == [*WHOLE, last]


def test_each_line_is_on_disk_before_the_next_thing_is_done(tmp_path: Path) -> None:
    conversation = talk(tmp_path)
    other = Conversation.resume(tmp_path, "s1", NONE)  # what another process would find after a kill now
    assert other.messages == conversation.messages
    file = tmp_path / "s1.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [sorted(json.loads(line)) for line in file.read_text().splitlines()[:3]] == [
        ["format", "session"], ["content", "role"], ["max_tokens", "model"]
    ]  # fmt: skip


def test_a_session_cut_anywhere_goes_on_from_its_last_whole_line(tmp_path: Path) -> None:
    talk(tmp_path).close()
    file = tmp_path / "s1.jsonl"
    whole = file.read_bytes()
    ends = [at for at, byte in enumerate(whole) if byte == ord("\n")]
    for cut in {*range(0, len(whole), 7), *ends, *(end + 1 for end in ends)}:
        file.write_bytes(whole[:cut])
        lines = whole[:cut].count(b"\n")
        if lines < 2:
            with pytest.raises(SessionLost, match="damaged"):
                Conversation.resume(tmp_path, "s1", NONE)
            continue
        resumed = Conversation.resume(tmp_path, "s1", NONE)
        resumed.say("go on")
        resumed.close()
        again = Conversation.resume(tmp_path, "s1", NONE)
        assert again.messages == resumed.messages
        assert again.messages[-1]["content"][-1] == words("go on")
        check_form(again.messages)
        again.close()


@settings(max_examples=40)
@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_in_a_file_make_it_stumble(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, headed: bool
) -> None:
    folder = tmp_path_factory.mktemp("junk")
    talk(folder).close()
    file = folder / "s1.jsonl"
    file.write_bytes((file.read_bytes() if headed else b"") + junk)
    try:
        resumed = Conversation.resume(folder, "s1", NONE)
    except SessionLost:
        assert not headed
    else:
        resumed.say("go on")
        check_form(resumed.messages)
        resumed.close()


@pytest.mark.parametrize(
    "line",
    [b"[]", b'{"role": "system", "content": [{}]}', b'{"role": "user", "content": "text"}', b"[" * 100_000,
     b'{"role": "user", "content": []}', b'{"role": "user", "content": [1]}', b"\xff\xfe"],
)  # fmt: skip
def test_a_line_that_is_none_of_ours_ends_what_counts(tmp_path: Path, line: bytes) -> None:
    talk(tmp_path).close()
    with (tmp_path / "s1.jsonl").open("ab") as file:
        file.write(line + b"\n")
    resumed = Conversation.resume(tmp_path, "s1", NONE)
    assert resumed.messages == WHOLE
    resumed.say("x")
    resumed.close()
    assert len(Conversation.resume(tmp_path, "s1", NONE).messages) == 5


def test_lost_taken_and_impossible_sessions(tmp_path: Path) -> None:
    with pytest.raises(SessionLost, match="there is no session"):
        Conversation.resume(tmp_path / "nowhere", "s1", NONE)
    talk(tmp_path).close()
    with pytest.raises(SessionLost, match="exists already"):
        Conversation.begin(tmp_path, "s1", NONE, "again")
    for name in ("", "../s1", "a/b", ".hidden", "x" * 101, "nul\0"):
        with pytest.raises(SessionLost, match="no id"):
            Conversation.begin(tmp_path, name, NONE, "x")
    assert os.listdir(tmp_path) == ["s1.jsonl"]


def test_secrets_are_taken_out_of_what_is_kept_and_sent(tmp_path: Path) -> None:
    redactor = Redactor({"API_KEY": "hush-hush-4711"})
    conversation = Conversation.begin(tmp_path, "s1", redactor, "use hush-hush-4711")
    key = "-----BEGIN PRIVATE KEY-----\nabc\n"  # never ended: only its own string may be eaten
    thought = {"type": "thinking", "thinking": "hush-hush-4711", "signature": "s"}
    kept = {"type": "thinking", "thinking": "fine", "signature": "s"}
    conversation.add(
        "assistant", [thought, kept, use("c1", list=["hush-hush-4711", key], n=1, t=True, z=None)]
    )
    conversation.answer(use("c1"), f"{key} and hush-hush-4711 \ud800")
    assert conversation.messages == [
        {"role": "user", "content": [words("use [redacted]")]},
        {"role": "assistant", "content": [
            kept, use("c1", list=["[redacted]", "[redacted]"], n=1, t=True, z=None)]},
        {"role": "user", "content": [result("c1", "[redacted]")]},
    ]  # fmt: skip
    assert "hush" not in (tmp_path / "s1.jsonl").read_text()
    assert Conversation.resume(tmp_path, "s1", redactor).messages == conversation.messages


def test_without_a_folder_nothing_is_written() -> None:
    conversation = talk(None)
    assert conversation.messages == WHOLE
    conversation.close()
    conversation.say("go on")
    assert conversation.open_calls() == []


def check_form(messages: list[dict[str, Any]]) -> None:
    """What the API demands: roles alternate, the person begins and is last, every call has its result at once."""
    assert [m["role"] for m in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"]
    for said, answer in zip(messages[1::2], messages[2::2], strict=True):
        calls = [b["id"] for b in said["content"] if b["type"] == "tool_use"]
        results = [b.get("tool_use_id") for b in answer["content"]]
        assert results[: len(calls)] == calls
