"""What looks like a key or token is replaced, and nothing else."""

from __future__ import annotations

import json

import pytest

from agenteval.streams.redaction import PATTERNS, Redactor

redact_tokens = Redactor({}, everywhere=True)
line_without_tokens = redact_tokens.line
LETTERS = "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7jKl0n"
KEY = f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{LETTERS}\n-----END RSA PRIVATE KEY-----"
SECRETS = {
    "PRIVATE_KEY": [KEY, KEY[:60], json.dumps(KEY)[1:-1], KEY.replace("RSA ", "")],
    "JWT": [f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{LETTERS}"],
    "API_KEY": [f"sk-{LETTERS}", f"sk-ant-api03-{LETTERS}", f"sk-proj-{LETTERS[:20]}"],
    "GITHUB_TOKEN": [f"ghp_{LETTERS[:36]}", f"gho_{LETTERS[:36]}", f"github_pat_11AB_{LETTERS}"],
    "GITLAB_TOKEN": [f"glpat-{LETTERS[:20]}"],
    "SLACK_TOKEN": ["xox" + "b-123456789012-abcdefABCDEF"],
    "AWS_ACCESS_KEY": ["AKIA" + "IOSFODNN7EXAMPLE"],
    "GOOGLE_API_KEY": [f"AIza{LETTERS[:35]}"],
    "HUGGINGFACE_TOKEN": [f"hf_{LETTERS[:34]}"],
    "NPM_TOKEN": [f"npm_{LETTERS[:36]}"],
    "PYPI_TOKEN": [f"pypi-{LETTERS}"],
}
# The shortest that count: a quick look at the whole text must not miss them.
SHORTEST = {
    "PRIVATE_KEY": "-----BEGIN PRIVATE KEY-----",
    "JWT": "eyJabcdefgh.eyJabcdefgh.",
    "API_KEY": f"sk-{LETTERS[:16]}",
    "GITHUB_TOKEN": f"ghr_{LETTERS[:20]}",
    "GITLAB_TOKEN": f"glpat-{LETTERS[:16]}",
    "SLACK_TOKEN": f"xoxp-{LETTERS[:10]}",
    "AWS_ACCESS_KEY": "ASIA" + "ABCDEFGHIJKLMNOP",
    "GOOGLE_API_KEY": f"AIza{LETTERS[:30]}",
    "HUGGINGFACE_TOKEN": f"hf_{LETTERS[:20]}",
    "NPM_TOKEN": f"npm_{LETTERS[:30]}",
    "PYPI_TOKEN": f"pypi-{LETTERS[:30]}",
    "AWS_SECRET_KEY": f"aws_secret_access_key:{LETTERS}",
    "BEARER_TOKEN": f"bearer {LETTERS[:16]}",
    "PASSWORD": "a://:abc@",
}
AROUND = {
    "AWS_SECRET_KEY": [f"AWS_SECRET_ACCESS_KEY={LETTERS}", f'"SecretAccessKey": "{LETTERS}"'],
    "BEARER_TOKEN": [f"Authorization: Bearer {LETTERS}", f"authorization: bearer {LETTERS}", f"BEARER {LETTERS}"],
    "PASSWORD": ["postgres://me:geheim42@db/x"],
}


def test_every_pattern_has_a_case() -> None:
    assert {*SECRETS, *AROUND} == set(SHORTEST) == set(PATTERNS)


@pytest.mark.parametrize("kind, secret", SHORTEST.items())
def test_the_shortest_secret_is_found_in_a_text_and_in_json(kind: str, secret: str) -> None:
    assert f"[redacted:{kind}]" in redact_tokens(f"({secret})")
    assert f"[redacted:{kind}]".encode() in line_without_tokens({"output": f'"({secret})\n', "id": "ü"})


@pytest.mark.parametrize("kind, secret", [(kind, one) for kind, many in SECRETS.items() for one in many])
def test_a_secret_is_replaced_and_what_is_around_it_stays(kind: str, secret: str) -> None:
    assert redact_tokens(f"key={secret}") == f"key=[redacted:{kind}]"
    assert redact_tokens(secret) == f"[redacted:{kind}]"
    record = {"id": "a", "input": [secret], "trajectory": [{"input": {"command": [f"echo '{secret}"]}}]}
    assert f"[redacted:{kind}]".encode() in line_without_tokens(record) and LETTERS[
        :20
    ].encode() not in line_without_tokens(record)


@pytest.mark.parametrize("kind, text", [(kind, one) for kind, many in AROUND.items() for one in many])
def test_a_secret_that_is_known_by_what_stands_before_it(kind: str, text: str) -> None:
    assert f"[redacted:{kind}]" in redact_tokens(text)
    assert LETTERS not in redact_tokens(text) and "geheim42" not in redact_tokens(text)


@pytest.mark.parametrize(
    "text",
    [
        "task-management-for-everybody and risk-averse-strategies-are-fine",
        "sk-short",
        "https://example.org/a:b@c https://user@example.org/",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "AKIA is a prefix; the bearer of bad news; ghp_ too; eyJ",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert redact_tokens(text) == text
    assert json.loads(line_without_tokens({"id": text})) == {"id": text}
