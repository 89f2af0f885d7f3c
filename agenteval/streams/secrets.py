"""Which values of the environment are secrets, and in which forms they may stand in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agenteval.streams.jsonl import encode

# All limits count characters.
SHORTEST = 8  # a shorter value occurs in too many texts by chance
LONGEST_WORD = 12  # up to here, a value of letters only is a word, not a secret
SHORTEST_LINE = 20  # of a secret with several lines: a key, or a file of settings with keys in it
SHORTEST_TOKEN = 16  # of an address that has a name and no password before its @

# What names of variables end in if the value is a secret; an S and a number may follow.
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
# These are compiled when they are used, which is seldom. The second one: a password that has a / in it, although that
# should be written as %2F.
_USERS = (r"://([^\s/?#]*)@", r"://(\S*)@")
_ASSIGNED = rf"(?i)(?:{'|'.join(_SETTINGS)})\s*=\s*([^\s;&\"']+)"
_PERCENT = "(?:%[0-9A-Fa-f]{2})+"
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


def looks_secret(name: str) -> bool:
    """Returns whether a variable of this name holds a secret, rather than its place or its size."""
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
            for secret in {found, _unquoted(found)}:
                if _is_secret(secret):
                    yield secret
                elif secret and len(name) + len(secret) >= SHORTEST:
                    yield f"{name}:{secret}"  # by itself it is too short to tell
    if "=" in value and _may_assign(value.upper()):
        yield from filter(_is_secret, re.findall(_ASSIGNED, value))


def _may_assign(text: str) -> bool:
    """Returns whether there may be a setting in the text: to compile the pattern takes as long as 100 variables."""
    return not text.isascii() or any(name in text for name in _SETTINGS)


def _unquoted(text: str) -> str:
    """Returns the text with %40 and the like as the characters that they stand for."""
    return re.sub(_PERCENT, lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), text)


# --- forms --------------------------------------------------------------------------------------


def forms_of(secret: str) -> Iterator[str]:
    """Yields the secret as it is, in JSON, in an address and in base64."""
    plain = secret.encode("utf-8", "replace").decode()
    yield secret
    yield from _in_json(plain)
    yield from _in_address(plain.encode())
    if "\n" not in secret:  # its lines would be broken elsewhere
        for form in _in_base64(plain.encode()):
            yield form
            yield form.replace("/", "\\/")


def _in_json(value: str) -> Iterator[str]:
    """Yields the forms of a value in JSON, as various programs write it, and in JSON within JSON."""
    plain = encode(value).decode()[1:-1]
    ascii_only = plain if plain.isascii() and plain.isprintable() else _in_ascii(value)
    yield plain
    yield encode(plain).decode()[1:-1]
    yield ascii_only
    yield encode(ascii_only).decode()[1:-1]
    yield ascii_only.replace("/", "\\/")
    for html in (plain, ascii_only):
        yield html.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _in_ascii(value: str) -> str:
    """Returns the value in JSON with all but ASCII escaped."""
    import json

    return json.dumps(value)[1:-1]


def _in_address(value: bytes) -> Iterator[str]:
    """Yields the forms in a URL: libraries differ in what they leave as it is, and in the case of digits."""
    for kept in (b"", b"/", b"!'()*", b"/!'()*:@&=+$,;"):
        for digits in ("%{:02X}", "%{:02x}"):
            form = "".join(chr(byte) if byte in _UNRESERVED or byte in kept else digits.format(byte) for byte in value)
            yield form
            yield form.replace("%20", "+")


def _in_base64(value: bytes) -> Iterator[str]:
    """Yields the value in base64, and what is the same of it wherever it stands in a longer text."""
    from binascii import b2a_base64

    forms = [b2a_base64(value, newline=False).decode()]
    for before, cut in ((0, 0), (1, 2), (2, 3)):  # bytes before it in a group of three, and digits that those change
        whole = (before + len(value)) * 8 // 6
        forms.append(b2a_base64(bytes(before) + value, newline=False).decode()[cut:whole])
    for form in forms:
        yield form
        yield form.replace("+", "-").replace("/", "_")
