"""Secrets do not get into records."""

from __future__ import annotations

import json

import pytest

from agenteval.redaction import Redactor, looks_secret

SECRETS = [
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "DB_PASSWORD",
    "MY_SECRET",
    "apikey",
    "NPM_TOKEN_X",
]
OTHERS = ["PATH", "HOME", "KEYBOARD", "MONKEY", "SSH_AUTH_SOCK", "TOKEN_LIMIT", "SSH_KEY_FILE", "COMPASS", "TOKENIZERS"]


@pytest.mark.parametrize("name", SECRETS)
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", OTHERS)
def test_names_of_other_things(name: str) -> None:
    assert not looks_secret(name)


def test_values_are_replaced_wherever_they_stand() -> None:
    redact = Redactor({"MY_KEY": "sk-12345678", "LONG_KEY": "sk-1234567890", "HOME": "/home/somebody"})
    assert (
        redact("a sk-12345678 b sk-1234567890c /home/somebody")
        == "a [redacted:MY_KEY] b [redacted:LONG_KEY]c /home/somebody"
    )


def test_values_inside_json_and_json_inside_json() -> None:
    value = 'a"b\\c\td/ü-longer'
    redact = Redactor({"A_PASSWORD": value})
    for text in (
        value,
        json.dumps(value, ensure_ascii=False),
        json.dumps(json.dumps(value, ensure_ascii=False), ensure_ascii=False),
    ):
        assert "longer" not in redact(text)
        assert "[redacted:A_PASSWORD]" in redact(text)


@pytest.mark.parametrize("environment", [{}, {"A_KEY": "short"}, {"A_KEY": ""}])
def test_nothing_to_hide(environment: dict[str, str]) -> None:
    assert Redactor(environment)("short text") == "short text"
