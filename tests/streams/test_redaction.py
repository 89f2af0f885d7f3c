"""Secrets do not get into records."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from agenteval.streams.redaction import Redactor, looks_secret
from tests.support.tool import jsonl, python_script, run, script, write

SECRETS = [
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "DB_PASSWORD",
    "MY_SECRET",
    "apikey",
    "NPM_TOKEN_X",
    "PGPASSWORD",
    "MYSQL_PWD",
    "SSHPASS",
    "NPM_AUTH",
    "accessToken",
    "SECRETKEY",
    "GITHUB_TOKEN1",
    "API_KEY2",
    "JWT",
    "KEYS_OF_MINE",
    "X_API_KEYS2",
    "Key1_OLD",
]
OTHERS = ["PATH", "HOME", "KEYBOARD", "MONKEY", "SSH_AUTH_SOCK", "TOKEN_LIMIT", "SSH_KEY_FILE", "COMPASS", "TOKENIZERS"]
OTHERS += ["PWD", "OLDPWD", "GIT_AUTHOR_NAME", "XAUTHORITY", "PYTHONPATH", "TOKENIZERS_PARALLELISM", "PATIENCE"]
OTHERS += ["2KEY", "AUTH", "PASSES", "API_KEY_DIR", "my_token_count", ""]


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


@pytest.mark.parametrize("value", ['a"b\\c\td/ü-longer', 'a"b\\c\td/-longer', "a\x7fb/-longer"])
def test_values_inside_json_and_json_inside_json(value: str) -> None:
    redact = Redactor({"A_PASSWORD": value})
    for text in (
        value,
        json.dumps(value, ensure_ascii=False),
        json.dumps(json.dumps(value, ensure_ascii=False), ensure_ascii=False),
        json.dumps(value),
        json.dumps(json.dumps(value)),
        json.dumps(value).replace("/", "\\/"),
    ):
        assert "longer" not in redact(text)
        assert "[redacted:A_PASSWORD]" in redact(text)


KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nEFAASCBKcwggSjAgEAAoIBAQ\n-----END KEY-----\n"


def test_settings_in_a_variable() -> None:
    redact = Redactor({"DSN": "Server=db;pwd=correct-horse;Encrypt=yes", "LS_COLORS": "rs=0:di=01;34:*.token_x=00"})
    assert redact("correct-horse, Encrypt=yes, di=01;34") == "[redacted:DSN], Encrypt=yes, di=01;34"


def test_secrets_of_several_lines_and_in_addresses() -> None:
    redact = Redactor({"A_KEY": KEY, "DATABASE_URL": "postgres://me:correct-horse@db/x", "B_TOKEN": "line-secret\n"})
    assert redact(KEY) == "[redacted:A_KEY]\n"
    assert [redact(line) for line in KEY.splitlines()[1:3]] == ["[redacted:A_KEY]"] * 2
    assert redact(KEY.splitlines()[0]) == "-----BEGIN KEY-----"
    assert redact("postgres://me:correct-horse@db/x line-secret") == (
        "postgres://me:[redacted:DATABASE_URL]@db/x [redacted:B_TOKEN]"
    )
    assert redact(json.dumps({"k": KEY})) == '{"k": "[redacted:A_KEY]\\n"}'
    assert redact("x&y") == "x&y"
    assert "12345678" not in Redactor({"A_TOKEN": "x&y<z>/12345678"})('"x\\u0026y\\u003cz\\u003e/12345678"')


def test_pieces_at_the_ends_of_what_was_cut() -> None:
    redact = Redactor({"A_KEY": "sk-live-9876543210zyxwvu"})
    assert redact.cut("6543210zyxwvu, then sk-live-987654") == "[redacted:A_KEY], then [redacted:A_KEY]"
    assert redact.cut("zyxwvu sk-live") == "zyxwvu sk-live", "too short to tell"


def test_records_are_looked_through_but_for_what_the_user_wrote() -> None:
    redact = Redactor({"A_KEY": "sk-12345678"})
    found = redact.record(
        {
            "id": "sk-12345678",
            "input": "sk-12345678",
            "output": "sk-12345678",
            "trajectory": [{"input": {"k": "sk-12345678"}}],
        }
    )
    hidden = "[redacted:A_KEY]"
    assert found == {
        "id": "sk-12345678",
        "input": "sk-12345678",
        "output": hidden,
        "trajectory": [{"input": {"k": hidden}}],
    }


AGENT = """
import json, os, sys
key = os.environ["A_KEY"]
for at in range(0, len(key), 5):
    print(json.dumps({"type": "d", "text": key[at : at + 5]}))
sys.stderr.write("e" * 280 + " " + key + "\\n")
sys.exit(1)
"""


@pytest.mark.parametrize("tool", ["ae-capture", "ae-trials"])
def test_nothing_of_it_gets_anywhere(tool: str, tmp_path: Path) -> None:
    """Not into joined pieces, cut texts, a grader's errors, the journal or the trace."""
    secret = "sk-live-9876543210zyxwvu"
    event = {
        "match": {"path": "$.type", "value": "d"},
        "emitAs": "message",
        "extract": {"content": "$.text"},
        "delta": True,
    }
    schema = {"version": 1, "name": "x", "sessionMode": "stream", "prompt": {"flag": "-p"}, "outputEvents": [event]}
    schema["command"] = [str(python_script(tmp_path / "agent", AGENT)), f"--key={secret}"]
    write(tmp_path / "s.json", schema)
    script(tmp_path / "g", f"cp out.unfinished kept; echo {secret} >&2; exit 1")
    args = [
        "-s",
        "s.json",
        "-g",
        "./g",
        "--grade-failed",
        "-o",
        "out",
        "--debug",
        *(["-k", "2"] if tool == "ae-trials" else []),
    ]
    done = run(tool, *args, stdin=jsonl({"id": "a", "input": "x"}), cwd=tmp_path, env={"A_KEY": secret})
    written = (tmp_path / "out").read_text()
    assert "[redacted:A_KEY]" in written and "[redacted:A_KEY]" in done.stderr, done
    kept = (tmp_path / "kept").read_text() if (tmp_path / "kept").exists() else ""
    assert kept, "what is not graded yet is in the journal"
    for text in (written, done.stderr, kept):
        assert not any(secret[at : at + 12] in text for at in range(len(secret) - 11)), text


@pytest.mark.parametrize("value", ["", "short12", "disabled", " " * 9])
def test_values_that_are_no_secrets(value: str) -> None:
    text = f"the value is {value}, and more"
    assert Redactor({"A_KEY": value})(text) == text


def test_a_secret_has_at_least_8_characters() -> None:
    assert Redactor({"A_KEY": "abc-123"})("abc-123") == "abc-123"
    assert Redactor({"A_KEY": "abc-1234"})("abc-1234") == "[redacted:A_KEY]"
    url = "http://me:{}@host/"
    short = Redactor({"A_URL": url.format("abc-123")})
    assert short("abc-123") == "abc-123"
    assert short(url.format("abc-123")) == "http://[redacted:A_URL]@host/", "with its user it is long enough"
    assert Redactor({"A_URL": url.format("abc-1234")})(url.format("abc-1234")) == url.format("[redacted:A_URL]")


def test_a_word_of_up_to_12_letters_is_no_secret() -> None:
    assert Redactor({"A_KEY": "abcdefghijkl"})("abcdefghijkl") == "abcdefghijkl"
    assert Redactor({"A_KEY": "abcdefghijklm"})("abcdefghijklm") == "[redacted:A_KEY]"


# --- encoded, nested, joined ------------------------------------------------------------------------

VALUE = "sk-live/98+76:54~32 zyxwvu"
HIDDEN = "[redacted:A_KEY]"


@pytest.mark.parametrize(
    "text",
    [
        quote(VALUE),
        quote(VALUE, safe=""),
        quote_plus(VALUE),
        quote(VALUE, safe="").lower(),
        quote(VALUE, safe="!'()*"),
        *(base64.b64encode(b"x" * before + VALUE.encode() + b"yz").decode() for before in range(6)),
        *(base64.urlsafe_b64encode(b"user:"[before:] + VALUE.encode()).decode() for before in range(3)),
        base64.b64encode(VALUE.encode()).decode().replace("/", "\\/"),
    ],
)
def test_encoded_values(text: str) -> None:
    redacted = Redactor({"A_KEY": VALUE})(f"before {text} after")
    assert HIDDEN in redacted and redacted.startswith("before ") and redacted.endswith(" after")
    left = redacted.replace(HIDDEN, "").removeprefix("before ").removesuffix(" after")
    assert len(left) <= 12, "at most the digits of base64 that belong to what stands beside it, too"


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("postgres://me:correct-horse@db/x", "correct-horse", "[redacted:A_URL]"),
        ("postgres://postgres:postgres@db/x", "postgres is up", "postgres is up"),
        ("postgres://postgres:postgres@db/x", "as postgres:postgres@db", "as [redacted:A_URL]@db"),
        ("redis://:p@ss/w0rd-9@cache:6379/0", "p@ss/w0rd-9", "[redacted:A_URL]"),
        ("amqp://me:p%40ssw0rd-9@q", "p@ssw0rd-9", "[redacted:A_URL]"),
        ("https://ghp_0123456789abcdef@git.example/x", "ghp_0123456789abcdef", "[redacted:A_URL]"),
        ("Server=db;User=me;Password=s3cret-word;Pooling=1", "s3cret-word", "[redacted:A_URL]"),
        ("https://host/hook?token=abc-12345678&x=1", "abc-12345678", "[redacted:A_URL]"),
        ("https://example.org/path?q=1#top", "https://example.org/path?q=1#top", "https://example.org/path?q=1#top"),
    ],
)
def test_passwords_within_values(value: str, text: str, shown: str) -> None:
    assert Redactor({"A_URL": value})(text) == shown


def test_cookies() -> None:
    redact = Redactor({"SESSION_COOKIE": "sid=abcdef-123456; theme=dark"})
    assert redact("Cookie: sid=abcdef-123456; theme=dark") == "Cookie: [redacted:SESSION_COOKIE]"
    assert redact("the dark side of abcdef-123456") == "the dark side of [redacted:SESSION_COOKIE]"


@pytest.mark.parametrize("levels", [480, 900])
def test_values_nested_deeper_than_calls_may_be(levels: int) -> None:
    value: Any = {"key": "sk-12345678"}
    for level in range(levels):
        value = [value] if level % 2 else {"a": value, "sk-12345678": 1}
    text = json.dumps(Redactor({"A_KEY": "sk-12345678"}).value(value))
    assert "sk-1234" not in text and text.count(HIDDEN) == 1 + levels // 2


def test_a_nested_prompt_costs_only_itself(tmp_path: Path) -> None:
    nested = "[" * 700 + "1" + "]" * 700
    deep = jsonl({"id": "deep", "input": "x", "hint": "x", "metadata": {"m": 0}}).replace("0", nested)
    prompts = deep + jsonl({"id": "b", "input": "x", "hint": "x"})
    done = run("ae-capture", "--simple", "echo {}", "-g", "ae-grader-hint", stdin=prompts, env={"A_KEY": "sk-12345678"})
    assert done.expect(0).ids == ["deep", "b"], done


DELTAS = {
    "version": 1,
    "name": "x",
    "command": ["true"],
    "sessionMode": "stream",
    "prompt": {"flag": "-p"},
    "outputEvents": [
        {"match": {"path": "$.t", "value": "d"}, "emitAs": "message", "extract": {"content": "$.x"}, "delta": True}
    ],
}


def test_every_tool_redacts_unless_asked_not_to(tmp_path: Path) -> None:
    """A key that is whole only after its pieces are joined, and one that a grader prints."""
    secret, env = "sk-live-9876543210zyxwvu", {"A_KEY": "sk-live-9876543210zyxwvu"}
    write(tmp_path / "s.json", DELTAS)
    lines = [json.dumps({"t": "d", "x": piece}) for piece in (secret[:9], secret[9:])]
    raw = jsonl({"id": "a", "input": "x", "reference": "x", "rawLines": lines, "timing": {"start": 1, "end": 2}})
    script(tmp_path / "g", 'cat >/dev/null; echo "{\\"pass\\":true,\\"score\\":1,\\"reasoning\\":\\"$A_KEY\\"}"')
    script(tmp_path / "e", "cat >/dev/null; echo $A_KEY >&2; exit 3")
    for more in ([], ["--no-redact"]):
        extract = run("ae-extract", "-s", "s.json", *more, stdin=raw, cwd=tmp_path, env=env).expect(0)
        graded = run("ae-grade", "-g", "./g", *more, stdin=extract.out, cwd=tmp_path, env=env).expect(0)
        erred = run("ae-grade", "-g", "./e", *more, stdin=extract.out, cwd=tmp_path, env=env).expect(1)
        refs = run("ae-validate-refs", "-g", "./g", *more, stdin=raw, cwd=tmp_path, env=env).expect(0)
        again = run("ae-calibrate", "--all", "-g", "./g", *more, stdin=graded.out, cwd=tmp_path, env=env).expect(0)
        explained = run("ae-extract", "-s", "s.json", "--explain", *more, stdin=raw, cwd=tmp_path, env=env).expect(0)
        for done in (extract, graded, erred, refs, again):
            assert (secret in done.stdout + done.stderr) == bool(more), done
            assert ("[redacted:A_KEY]" in done.stdout) == (not more), done
        assert (secret in explained.stdout) == bool(more), explained
    assert extract.records[0]["output"] == secret
