"""Secrets are taken out; ordinary text is not (rules 5.6, 9.2)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeframe.core.redaction import REDACTED, Redactor, contains_secret, secret_values

TOKENS = [
    "sk-ant-api03-AbCdEf0123456789_abcdefghij",
    "sk-proj-0123456789abcdefghij",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "gho_0123456789abcdefghijABCDEFGHIJ012345",
    "ghs_0123456789abcdefghijABCDEFGHIJ012345",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
    "glpat-abcdefghijklmnop1234",
    "xoxb-123456789012-abcdefghijkl",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "AIza" + "B" * 35,
    "npm_" + "a1" * 18,
    "pypi-" + "AgEI" * 15,
    "hf_" + "aB3" * 12,
    "sk_live_0123456789abcdefghij",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
]
ORDINARY = [
    "a task-list with disk-usage-per-directory-and-host names",
    "sk-learn-is-a-library-for-machine-learning",
    "ghp_ and github_pat_ are prefixes, AKIA too",
    "class AIzawa: npm_config_registry = hf_hub_download",
    "-----BEGIN CERTIFICATE----- is public",
    "commit 0123456789abcdef0123456789abcdef01234567",
    '{"type":"assistant","id":"msg_4ee58a7fb7b147f6960a","request_id":"req_ab13122a95cc"}',
]
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n-----END OPENSSH PRIVATE KEY-----"


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_are_known_by_their_prefix(token: str) -> None:
    redact = Redactor({}).redact
    assert redact(token) == REDACTED
    assert redact(f'{{"header": "Bearer {token}", "n": 1}}') == f'{{"header": "Bearer {REDACTED}", "n": 1}}'
    assert contains_secret(f"export X={token}")


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Redactor({}).redact(text) is text
    assert not contains_secret(text)


def test_private_keys_go_whole_in_plain_and_in_json() -> None:
    redact = Redactor({}).redact
    assert redact(f"a\n{PRIVATE}\nb") == f"a\n{REDACTED}\nb"
    line = json.dumps({"content": PRIVATE, "after": 1})
    assert json.loads(redact(line)) == {"content": REDACTED, "after": 1}
    assert redact(PRIVATE[:60]) == REDACTED  # cut before its end
    assert contains_secret(PRIVATE)


def test_values_are_known_by_the_name_of_their_variable() -> None:
    env = {
        "DB_PASSWORD": "hunter2hunter2",
        "SERVICE_TOKEN": "t0ken-value",
        "HOME": "/home/someone",
        "EDITOR": "vim-nox1",
        "DATABASE_URL": "postgres://app:Sup3rS3cretPw@db.internal/app",
    }
    redactor = Redactor(env)
    assert redactor.redact("login hunter2hunter2 with t0ken-value from /home/someone in vim-nox1") == (
        f"login {REDACTED} with {REDACTED} from /home/someone in vim-nox1"
    )
    assert redactor.redact("password Sup3rS3cretPw") == f"password {REDACTED}"
    assert redactor.contains_secret("x t0ken-value")
    assert not contains_secret("x t0ken-value")


def test_a_value_is_found_in_the_form_it_has_inside_json() -> None:
    secret = 'mult"i\nline-ü-secret'
    redactor = Redactor({"APP_SECRET": secret})
    for ascii_only in (True, False):
        line = json.dumps({"out": f"<{secret}>"}, ensure_ascii=ascii_only)
        assert json.loads(redactor.redact(line)) == {"out": f"<{REDACTED}>"}


@pytest.mark.parametrize(
    "value",
    [
        "",
        "short",
        "password",
        "aaaaaaaaaaaa",
        "100000000",
        "/home/me/.ssh/id_ed25519",
        "~/.key-file",
        "https://host/token",
    ],
)
def test_what_would_spoil_the_text_is_no_secret(value: str) -> None:
    assert secret_values({"SOME_KEY": value}) == []


def test_a_longer_secret_is_taken_out_before_one_it_contains() -> None:
    redactor = Redactor({"A_KEY": "abcdef-1234", "B_KEY": "abcdef-1234-5678-tail"})
    assert redactor.redact("abcdef-1234-5678-tail") == REDACTED


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from(TOKENS))
def test_no_surroundings_hide_a_token_set_apart(before: str, after: str, token: str) -> None:
    assert token not in Redactor({}).redact(f"{before} {token} {after}")


@given(st.text(max_size=300))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    redact = Redactor({"A_TOKEN": "s3cr3t-value"}).redact
    assert redact(redact(text)) == redact(text)
