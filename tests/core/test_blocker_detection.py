"""What an engine's own words mean: narrow patterns, conservative questions (rules 4.5, 4.6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeframe.core.blocker_detection import classify_error_for_blocker, question_in_prose, what_to_type
from codeframe.core.models import ErrorClass


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Not logged in · Please run /login", ErrorClass.AUTH),
        ("Invalid API key · Fix external API key", ErrorClass.AUTH),
        ("unexpected status 401 Unauthorized: Missing bearer", ErrorClass.AUTH),
        ("OAuth token has expired. Please obtain a new token", ErrorClass.AUTH),
        ("Error: OPENAI API key is missing", ErrorClass.AUTH),
        ("Credit balance is too low", ErrorClass.BILLING),
        ("402 Payment Required", ErrorClass.BILLING),
        ("You've hit your session limit · resets 3:45pm", ErrorClass.QUOTA),
        ("You’ve reached your weekly limit", ErrorClass.QUOTA),
        ("Usage limit reached, resets at 5pm", ErrorClass.QUOTA),
        ("You exceeded your current quota, please check your plan", ErrorClass.QUOTA),
        (
            "API Error: Request rejected (429) · This request would exceed your account's rate limit.",
            ErrorClass.RATE_LIMITED,
        ),
        ("Too Many Requests", ErrorClass.RATE_LIMITED),
        ("API Error: Repeated 529 Overloaded errors", ErrorClass.OVERLOADED),
        ("Internal server error", ErrorClass.OVERLOADED),
        ("API Error: Unable to connect to API (ConnectionRefused)", ErrorClass.NETWORK),
        ("Request timed out", ErrorClass.NETWORK),
        ("prompt is too long: 210000 tokens > 200000 maximum", ErrorClass.CONTEXT_WINDOW),
        ("This model's maximum context length is 128000 tokens", ErrorClass.CONTEXT_WINDOW),
        (
            "There's an issue with the selected model (x). It may not exist or you may not have access",
            ErrorClass.MODEL,
        ),
        ("model: no-such-model-9 does not exist", ErrorClass.MODEL),
    ],
)
def test_what_providers_say(text: str, expected: ErrorClass | None) -> None:
    assert classify_error_for_blocker(text) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I could not finish the login page: the form has no submit button",
        "The billing module has a failing test",
        "Added a rate limiter that answers when there are more than ten requests",
        "AssertionError: expected 401, got 200",
        "The quota table was created",
        "network.py has no function connect",
        "The context manager is not closed",
        "Renamed the API key column",
        "the model layer was refactored",
    ],
)
def test_what_tasks_are_about_is_no_error(text: str) -> None:
    assert classify_error_for_blocker(text) is None


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("I looked around. Which database should I use?", "Which database should I use?"),
        ("Two options exist:\n- SQLite\n- Postgres\n\nWhich one do you prefer?", "Which one do you prefer?"),
        ("Could you clarify what the header should say?", "Could you clarify what the header should say?"),
        ("Please provide the address of the server.", "Please provide the address of the server."),
        ("I need to know the port before I can start.", "I need to know the port before I can start."),
        ("**Should the old files be deleted?**", "Should the old files be deleted?"),
    ],
)
def test_a_question_that_needs_an_answer(text: str, question: str) -> None:
    assert question_in_prose(text) == question


@pytest.mark.parametrize(
    "text",
    [
        "",
        "All done: created hello.txt.",
        "Done. Would you like me to also add tests?",
        "Done. Let me know if you need anything else!",
        "Is there anything else? All done.",
        'I added `print("What is your name?")` to the script.',
        "```python\ninput('Which one?')\n```\nThe prompt is in place.",
        "Should I continue?",
        "What was wrong? The index. " + "It is fixed now. " * 8,
    ],
)
def test_no_question_that_needs_an_answer(text: str) -> None:
    assert question_in_prose(text) is None


def test_what_to_type_names_the_engine_and_the_login() -> None:
    auth = what_to_type(ErrorClass.AUTH, "some-engine", "Run `some login`")
    assert "some-engine" in auth
    assert "Run `some login`" in auth
    assert "some-engine" in what_to_type(ErrorClass.AUTH, "some-engine")
    assert "credit" in what_to_type(ErrorClass.BILLING, "some-engine")
    assert what_to_type(ErrorClass.NETWORK, "some-engine") == ""


@given(st.text(max_size=400))
def test_no_text_breaks_it(text: str) -> None:
    classify_error_for_blocker(text)
    asked = question_in_prose(text)
    assert asked is None or asked in text
