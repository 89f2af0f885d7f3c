"""Keeps secrets out of everything that is recorded: each is replaced by [redacted:NAME].

A Redactor has two nets. It knows the secrets of an environment: the values of variables with names such as API_KEY, and
the passwords in addresses, in every form in which a program may print them. And it finds what looks like a key or token
by its format, whoever's it is.
"""

import json
import re
import threading
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, unquote

from agenteval.streams.jsonl import encode, replace_texts
from agenteval.wire.records import Record

# Limits in characters of a piece of a secret at the end of a text that was cut.
SHORTEST_PIECE = 12
LONGEST_PIECE = 500
# The fields that agents and graders write; the prompt's own are the user's.
DERIVED = frozenset(
    ("output", "trajectory", "errors", "error", "metadata", "rawLines", "stderr", "retried")
    + ("score", "scores", "outcome", "reasoning", "graderError", "trials")
)


class Redactor:
    """Replaces the secrets of an environment, even if escaped or encoded, and everything that looks like a token.

    Without an environment (None) it replaces nothing. In a record it checks the fields that agents and graders write,
    or `everywhere`. Most texts have no secret, and a search for each form is much faster than a regular expression of
    all forms: that one is used only where a form was found.
    """

    def __init__(self, environment: Mapping[str, str] | None, *, everywhere: bool = False) -> None:
        self.works, self._everywhere = environment is not None, everywhere
        self.secrets: dict[str, str] = {}  # value, in each form → variable
        self._compiled: tuple[dict[str, str], re.Pattern[str]] = {}, re.compile("")
        self._learning = threading.Lock()
        for name, value in (environment or {}).items():
            self._add(secrets_in(name, value), name)
        self._prepare()

    def learn(self, text: str, name: str) -> None:
        """Adds the secrets in a file with an agent's login, of any format."""
        with self._learning:
            if self.works and (new := credentials_in(text) - self.secrets.keys()):
                self.secrets = dict(self.secrets)  # a copy, because another thread may be using the old one
                self._add(new, name)
                self._prepare()

    def _add(self, secrets: Iterable[str], name: str) -> None:
        for secret in secrets:
            for form in forms_of(secret):
                self.secrets.setdefault(form, name)

    def _prepare(self) -> None:
        signs = _without_superstrings(self.secrets)
        as_json = (encode(form.encode("utf-8", "replace").decode())[1:-1].decode() for form in signs)
        self._signs = [(_rarest(sign), sign) for sign in signs]
        self._signs_in_json = [(_rarest(sign).encode(), sign.encode()) for sign in _without_superstrings(as_json)]

    def __call__(self, text: str) -> str:
        """Returns the text without secrets."""
        if any(char in text and sign in text for char, sign in self._signs):
            text = self._pattern.sub(lambda found: f"[redacted:{self.secrets[found[0]]}]", text)
        if self.works and _looks_like_token(text):
            text = _token().sub(lambda found: f"[redacted:{found.lastgroup}]", text)
        return text

    def lines(self, lines: list[str]) -> list[str]:
        """Returns the lines without secrets, in the same number, also for a private key of several lines."""
        if not self.works or self(text := "\n".join(lines)) == text:
            return lines
        kept, in_key = [], False
        for line in lines:
            in_key = in_key and re.fullmatch(r"[\w+/=:,. -]{0,80}\r?", line) is not None
            kept.append("[redacted:PRIVATE_KEY]" if in_key else self(line))
            in_key = (in_key and "-----END" not in line) or line.startswith("-----BEGIN") and "[redacted" in kept[-1]
        return kept

    def cut(self, text: str) -> str:
        """Returns a part of a longer text without secrets, and without pieces of them at its ends."""
        text = self(text)
        for secret, name in self.secrets.items():
            if len(secret) > LONGEST_PIECE:
                continue  # its lines are listed as secrets, too
            for size in range(len(secret) - 1, SHORTEST_PIECE - 1, -1):
                if text.startswith(secret[-size:]):
                    text = f"[redacted:{name}]{text[size:]}"
                if text.endswith(secret[:size]):
                    text = f"{text[:-size]}[redacted:{name}]"
        return text

    def split_off_begun(self, text: str) -> tuple[str, str]:
        """Splits off the end of an unfinished text if a secret may begin there; only whole secrets are found."""
        begun = 0
        for secret in self.secrets:
            for size in range(min(len(secret) - 1, len(text)), begun, -1):
                if text.endswith(secret[:size]):
                    begun = size
                    break
        return text[: len(text) - begun], text[len(text) - begun :]

    def record(self, record: Record) -> Record:
        """Returns the record without secrets in derived fields, in which pieces of output may have been joined."""
        if self._everywhere or not self.works:
            return self.value(record)  # type: ignore[no-any-return]
        return {name: self.value(value) if name in DERIVED else value for name, value in record.items()}

    def line(self, record: Record) -> bytes:
        """Returns the record as JSON, without secrets in derived fields."""
        data = encode(record)
        return encode(self.record(record)) if self.found_in(data) else data

    def found_in(self, data: bytes) -> bool:
        """Returns whether there may be a secret in this JSON."""
        if any(char in data and sign in data for char, sign in self._signs_in_json):
            return True
        return self.works and _looks_like_token(data)

    def value(self, value: Any) -> Any:
        """Returns the JSON value without secrets."""
        return replace_texts(value, self) if self.works else value

    @property
    def _pattern(self) -> re.Pattern[str]:
        secrets, pattern = self._compiled
        if secrets is not self.secrets:
            secrets = self.secrets
            longest_first = sorted(secrets, key=len, reverse=True)  # one secret may start with another
            pattern = re.compile("|".join(map(re.escape, longest_first)))
            self._compiled = secrets, pattern
        return pattern


def _without_superstrings(forms: Iterable[str]) -> list[str]:
    """Returns the forms that contain no other form; a text with any of the others has one of these, too."""
    kept: list[str] = []
    for form in sorted(forms, key=len):
        if not any(other in form for other in kept):
            kept.append(form)
    return kept


_RARE = "ZQXJKqVzYWGUHjBxFLONPMDI"  # in agents' output, the rarest first


def _rarest(text: str) -> str:
    """Returns the rarest character of the text: searching for it first takes a fifth of the time."""
    return min(text, key=lambda char: _RARE.find(char) % 99)


# --- the secrets of an environment --------------------------------------------------------------

# All limits are in characters.
SHORTEST = 8  # a shorter value occurs in too many texts by chance
LONGEST_WORD = 12  # up to here, a value of letters only is a word, not a secret
SHORTEST_LINE = 20  # of a secret with several lines: a key, or a file of settings with keys in it
SHORTEST_TOKEN = 16  # of the user name in an address without a password

# The endings of names of variables that hold a secret; an S and a number may follow.
_KINDS = (
    *("PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "CREDENTIAL", "COOKIE"),
    *("APIKEY", "API_KEY", "ACCESSKEY", "ACCESS_KEY", "SECRETKEY", "SECRET_KEY", "PRIVATEKEY", "PRIVATE_KEY"),
)
_ENDINGS = tuple(f"{kind}{plural}" for kind in _KINDS for plural in ("", "S"))
_WORDS = frozenset(("KEY", "KEYS", "PASS", "PAT", "JWT", *_ENDINGS))  # anywhere between two underscores
_WHOLE_ENDINGS = ("_PWD", "_AUTH", "SSHPASS")
_PLACES = ("_PATH", "_FILE", "_DIR", "_SOCK", "_NAME", "_DOMAIN", "_LIMIT", "_COUNT")
_DIGITS = "0123456789"
_SETTINGS = (*_KINDS, "PWD", "ACCOUNTKEY", "ACCOUNT_KEY", "SIGNATURE")
# The second one finds a password with a /, although that should be written as %2F.
_USERS = (r"://([^\s/?#]*)@", r"://(\S*)@")
_ASSIGNED = rf"(?i)(?:{'|'.join(_SETTINGS)})\s*=\s*([^\s;&\"']+)"


# In a file with an agent's login, of any format: the values of names, and long words that are not paths.
_SET = r"""([\w-]+)["']?\s*[:=]\s*["']?([^\s"',}]{8,})"""
_LONG_WORD = r"(?<![\w.~+/@:-])(?=[\w.~+-]*\d)[\w.~+-]{32,}={0,2}(?![\w/])"
_ALONE = r"\s*([\w.~+/=-]{16,})\s*"
_LOGINS = frozenset(("access", "refresh"))  # further names of tokens


def credentials_in(text: str) -> set[str]:
    """Returns the secrets in a file with an agent's login; names of models and addresses are not secrets."""
    named = {value for name, value in re.findall(_SET, text) if looks_secret(name) or name.lower() in _LOGINS}
    alone = re.fullmatch(_ALONE, text)
    return {*filter(_is_secret, named), *re.findall(_LONG_WORD, text), *([alone[1]] if alone else ())}


def looks_secret(name: str) -> bool:
    """Returns whether a variable of this name holds a secret, not a path or a size."""
    name = name.upper()
    words = (word.rstrip(_DIGITS) for word in name.split("_"))
    ends = name.endswith(_WHOLE_ENDINGS) or name.rstrip(_DIGITS).endswith(_ENDINGS)
    return (ends or not _WORDS.isdisjoint(words)) and not name.endswith(_PLACES)


def secrets_in(name: str, value: str) -> Iterator[str]:
    """Yields the secrets in a variable: its value and each long part of it, or the passwords within it."""
    if not looks_secret(name):
        yield from _passwords_in(value)
        return
    value = value.strip()
    if not _is_secret(value):
        return
    yield value
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line for line in map(str.strip, lines) if len(line) >= SHORTEST_LINE and line[:5] != "-----")
    if "cookie" in name.lower():
        pairs = (pair.partition("=") for pair in value.split(";"))
        yield from (found for _, _, text in pairs if _is_secret(found := text.strip()))


def _is_secret(value: str) -> bool:
    return len(value) >= SHORTEST and not (len(value) <= LONGEST_WORD and value.isalpha())


def _passwords_in(value: str) -> Iterator[str]:
    """Yields the passwords in an address (of a database, a proxy) or in a list of settings (`Password=…;`)."""
    for users in _USERS if "://" in value else ():
        for user in re.findall(users, value):
            name, colon, password = user.partition(":")
            found = password if colon else name if len(name) >= SHORTEST_TOKEN else ""
            for secret in {found, unquote(found)}:
                if _is_secret(secret):
                    yield secret
                elif secret and len(name) + len(secret) >= SHORTEST:
                    yield f"{name}:{secret}"  # alone it is too short to tell from other text
    if "=" in value:
        yield from filter(_is_secret, re.findall(_ASSIGNED, value))


def forms_of(secret: str) -> Iterator[str]:
    """Yields the secret as it is, in JSON, in an address and in base64."""
    plain = secret.encode("utf-8", "replace").decode()
    yield secret
    yield from _in_json(plain)
    yield from _in_address(plain.encode())
    if "\n" not in secret:  # base64 of several lines has its own line breaks
        for form in _in_base64(plain.encode()):
            yield form
            yield form.replace("/", "\\/")


def _in_json(value: str) -> Iterator[str]:
    """Yields the forms of a value in JSON, as various programs write it, and in JSON within JSON."""
    plain = encode(value).decode()[1:-1]
    ascii_only = json.dumps(value)[1:-1]
    yield plain
    yield encode(plain).decode()[1:-1]
    yield ascii_only
    yield encode(ascii_only).decode()[1:-1]
    yield ascii_only.replace("/", "\\/")
    for html in (plain, ascii_only):
        yield html.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _in_address(value: bytes) -> Iterator[str]:
    """Yields the forms in a URL: libraries differ in which characters they escape, and in the case of digits."""
    for kept in ("", "/", "!'()*", "/!'()*:@&=+$,;"):
        escaped = quote(value, safe=kept)
        for form in (escaped, re.sub("%..", lambda found: found[0].lower(), escaped)):
            yield form
            yield form.replace("%20", "+")


def _in_base64(value: bytes) -> Iterator[str]:
    """Yields the value in base64, and the part that is the same at any position in a longer text."""
    forms = [b2a_base64(value, newline=False).decode()]
    for before, cut in ((0, 0), (1, 2), (2, 3)):  # bytes before it in a group of three, and digits that those change
        whole = (before + len(value)) * 8 // 6
        forms.append(b2a_base64(bytes(before) + value, newline=False).decode()[cut:whole])
    for form in forms:
        yield form
        yield form.replace("+", "-").replace("/", "_")


# --- keys and tokens by their format ------------------------------------------------------------

_WORD = r"(?<![A-Za-z0-9_-])"
PATTERNS = {
    "PRIVATE_KEY": r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
    "JWT": _WORD + r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    "API_KEY": _WORD + r"sk-[A-Za-z0-9_-]{16,}",
    "GITHUB_TOKEN": _WORD + r"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    "GITLAB_TOKEN": _WORD + r"glpat-[A-Za-z0-9_-]{16,}",
    "SLACK_TOKEN": _WORD + r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "AWS_ACCESS_KEY": _WORD + r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    "AWS_SECRET_KEY": r"(?:(?<=aws_secret_access_key)|(?<=AWS_SECRET_ACCESS_KEY)|(?<=ecretAccessKey))"
    r"[\"'\\]{0,4}\s*[=:]\s*[\"'\\]{0,4}[A-Za-z0-9/+]{40}",
    "GOOGLE_API_KEY": _WORD + r"AIza[A-Za-z0-9_-]{30,}",
    "HUGGINGFACE_TOKEN": _WORD + r"hf_[A-Za-z0-9]{20,}",
    "NPM_TOKEN": _WORD + r"npm_[A-Za-z0-9]{30,}",
    "PYPI_TOKEN": _WORD + r"pypi-[A-Za-z0-9_-]{30,}",
    "BEARER_TOKEN": r"(?:(?<=bearer )|(?<=Bearer )|(?<=BEARER ))[A-Za-z0-9._~+/-]{16,}=*",
    "PASSWORD": r"(?<=://)(?!\[redacted:)[^\s/@:\"'\\]*:(?!\[redacted:)[^\s/@\"'\\]{3,}(?=@)",
}
# A text that matches a pattern has one of these characters and matches the expression beside it. Searching for a
# character takes a tenth of the time of an expression that begins with one, a hundredth of that of any other.
_SIGNS = {
    "-": r"-(?<=(?:EY|sk|at|x[abeoprs]|pi)-)(?:(?<=PRIVATE KEY-)----"  # first what most dashes do not have before them
    r"|(?=[A-Za-z0-9_-]{10})(?:(?<=sk-)|(?<=glpat-)|(?<=xox[abeoprs]-)|(?<=pypi-)))",
    "_": r"_(?:(?=[A-Za-z0-9_]{20})(?:(?<=gh[pousr]_)|(?<=github_pat_)|(?<=hf_)|(?<=npm_))|access_key|ACCESS_KEY)",
    "A": r"A(?:[KS]IA[A-Z0-9]{16}|Iza[A-Za-z0-9_-]{30}|ccessKey)",
    "J": r"J(?<=\.eyJ)",
    "B": "B(?:earer|EARER) ",
    "b": "bearer ",
    "@": r"://[^\s/@:\"'\\]*:[^\s/@\"'\\]{3,}@",
}


def _looks_like_token(text: str | bytes) -> bool:
    return any(char in text and sign.search(text) for char, sign in _signs(type(text)))


@cache
def _signs(kind: type) -> list[tuple[Any, re.Pattern[Any]]]:
    if kind is str:
        return [(char, re.compile(sign)) for char, sign in _SIGNS.items()]
    return [(char.encode(), re.compile(sign.encode())) for char, sign in _SIGNS.items()]


@cache
def _token() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{name}>{text})" for name, text in PATTERNS.items()))
