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

_KINDS = "PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIAL|COOKIE|API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY"
_SECRET = re.compile(
    rf"(?:^|_)(?:KEYS?|PASS|PAT|JWT|(?:{_KINDS})S?)\d*(?:_|$)|(?:{_KINDS})S?\d*$|_(?:PWD|AUTH)$|SSHPASS$",
    re.IGNORECASE,
)
_PLACE = re.compile(r"_(?:PATH|FILE|DIR|SOCK|NAME|DOMAIN|LIMIT|COUNT)$", re.IGNORECASE)
# These are compiled when they are used, which is seldom. The second one: a password that has a / in it, although that
# should be written as %2F.
_USERS = (r"://([^\s/?#]*)@", r"://(\S*)@")
_ASSIGNED = rf"(?i)(?:{_KINDS}|PWD|ACCOUNT_?KEY|SIGNATURE)\s*=\s*([^\s;&\"']+)"
_PERCENT = "(?:%[0-9A-Fa-f]{2})+"
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


def looks_secret(name: str) -> bool:
    """Returns whether a variable of this name holds a secret, rather than its place or its size."""
    return _SECRET.search(name) is not None and _PLACE.search(name) is None


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
    if "=" in value:
        yield from filter(_is_secret, re.findall(_ASSIGNED, value))


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
    import json  # only where there is a secret

    plain = encode(value).decode()[1:-1]
    ascii_only = json.dumps(value)[1:-1]
    yield plain
    yield encode(plain).decode()[1:-1]
    yield ascii_only
    yield json.dumps(ascii_only)[1:-1]
    yield ascii_only.replace("/", "\\/")
    for html in (plain, ascii_only):
        yield html.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


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
