"""Replaces texts that look like keys and tokens: in what others recorded, where no environment says what is secret."""

from __future__ import annotations

import re

from agenteval.streams.jsonl import encode
from agenteval.streams.redaction import replace_texts
from agenteval.wire.records import Record

_WORD = r"(?<![A-Za-z0-9_-])"
PATTERNS = {
    "PRIVATE_KEY": r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
    "JWT": _WORD + r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    "API_KEY": _WORD + r"sk-[A-Za-z0-9_-]{16,}",
    "GITHUB_TOKEN": _WORD + r"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    "GITLAB_TOKEN": _WORD + r"glpat-[A-Za-z0-9_-]{16,}",
    "SLACK_TOKEN": _WORD + r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "AWS_ACCESS_KEY": _WORD + r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    "AWS_SECRET_KEY": r"(?i:(?<=aws_secret_access_key)|(?<=secretaccesskey))"
    r"[\"'\\]{0,4}\s*[=:]\s*[\"'\\]{0,4}[A-Za-z0-9/+]{40}",
    "GOOGLE_API_KEY": _WORD + r"AIza[A-Za-z0-9_-]{30,}",
    "HUGGINGFACE_TOKEN": _WORD + r"hf_[A-Za-z0-9]{20,}",
    "NPM_TOKEN": _WORD + r"npm_[A-Za-z0-9]{30,}",
    "PYPI_TOKEN": _WORD + r"pypi-[A-Za-z0-9_-]{30,}",
    "BEARER_TOKEN": r"(?i:(?<=bearer ))[A-Za-z0-9._~+/-]{16,}=*",
    "PASSWORD": r"(?<=://)[^\s/@:\"'\\]*:[^\s/@\"'\\]{3,}(?=@)",
}
# One of these is in every text that fits; to look for them is many times as fast as the patterns.
_SIGNS = (
    *("PRIVATE KEY-----", "eyJ", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox"),
    *("AKIA", "ASIA", "AIza", "hf_", "npm_", "pypi-", "earer ", "EARER ", "://"),
    *("ccess_key", "CCESS_KEY", "ccessKey", "ccesskey"),
)
_SIGNS_IN_JSON = [sign.encode() for sign in _SIGNS]
_PATTERN = re.compile("|".join(f"(?P<{name}>{text})" for name, text in PATTERNS.items()))


def redact(text: str) -> str:
    """Returns the text with what looks like a key or token replaced by [redacted:KIND]."""
    if not any(sign in text for sign in _SIGNS):
        return text
    return _PATTERN.sub(lambda found: f"[redacted:{found.lastgroup}]", text)


def redacted_line(record: Record) -> bytes:
    """Returns the record as JSON, with what looks like a key or token replaced in all its texts."""
    data = encode(record)
    if not any(sign in data for sign in _SIGNS_IN_JSON):
        return data
    return encode(replace_texts(record, redact))
