"""The verdict an engine ends with: strict where it counts, tolerant where it does not (rule 4.9)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeframe.core.adapters.verdict_report import (
    VERDICT_SCHEMA,
    Report,
    instructions,
    parse_fenced,
    parse_structured,
)

DONE = {"status": "completed", "summary": "did it"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


def test_all_fields() -> None:
    given_ = {
        "status": "blocked",
        "summary": " s ",
        "question": " Which? ",
        "already_satisfied": False,
        "extra": [1],
    }
    assert parse_structured(given_) == Report("blocked", "s", "Which?", False)
    assert parse_structured(DONE | {"question": "", "already_satisfied": None}) == Report(
        "completed", "did it"
    )
    assert parse_structured(DONE | {"already_satisfied": True}) == Report("completed", "did it", None, True)


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        "completed",
        {},
        {"status": "completed"},
        {"summary": "x"},
        {"status": "done", "summary": "x"},
        {"status": ["completed"], "summary": "x"},
        {"status": "completed", "summary": 3},
        DONE | {"question": 5},
        DONE | {"already_satisfied": "yes"},
    ],
)
def test_wrong_types_are_no_report(broken: object) -> None:
    assert parse_structured(broken) is None


def test_the_schema_asks_for_what_the_reader_reads() -> None:
    assert set(VERDICT_SCHEMA["properties"]) == {"status", "summary", "question", "already_satisfied"}
    assert VERDICT_SCHEMA["required"] == ["status", "summary"]
    json.dumps(VERDICT_SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"status": "completed", "summary": "did it"}\n```',
        'I did it.\n\n```\n{"status": "completed", "summary": "did it"}\n```\n',
        'First:\n```json\n{"status": "failed", "summary": "no"}\n```\nthen\n'
        '```json\n{\n  "status": "completed",\n  "summary": "did it"\n}\n```',
        '~~~json\n{"status": "completed", "summary": "did it"}\n~~~',
        '{"status": "completed", "summary": "did it"}',
    ],
)
def test_the_last_fenced_block_is_the_verdict(text: str) -> None:
    assert parse_fenced(text) == Report("completed", "did it")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no block",
        '```json\n{"status": "completed", "summary": "did it"}\n',
        '```json\n{"status": "completed", "summary": "did it"}\n```\n```\nls -l\n```',
        "```json\n" + "[" * 100_000 + "\n```",
        "```\n" * 20_000,
    ],
)
def test_no_verdict_there(text: str) -> None:
    assert parse_fenced(text) is None


@given(JSON)
def test_no_json_value_breaks_the_readers(value: object) -> None:
    parse_structured(value)
    parse_structured({"status": value, "summary": value, "question": value, "already_satisfied": value})
    parse_fenced(f"```json\n{json.dumps(value)}\n```")


@given(st.text(alphabet="`~{}\n json", max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert parse_fenced(text) is None


def test_the_instructions_say_how_to_end() -> None:
    for structured in (True, False):
        text = instructions(structured)
        for word in ("blocked", "already_satisfied", "Do not commit", "unattended", "question"):
            assert word in text
    assert "```json" in instructions(structured=False)
    assert "```" not in instructions(structured=True)
