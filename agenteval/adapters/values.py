"""What the values that agents print stand for: texts, errors, statuses, reasons to stop, counts, times, odd JSON."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from agenteval.streams.jsonl import integer_of, replace_texts
from agenteval.streams.text import whole_number
from agenteval.wire.records import LARGEST

UNCHANGED = "unchanged"  # as status: the event adds to what is known of the call, and leaves its status
STATUS_WORDS = {
    "pending": "pending queued scheduled created requested waiting proposed",
    "in_progress": "in_progress inprogress running started executing working active streaming updated",
    "completed": "completed complete success succeeded successful ok okay done finished passed true",
    "failed": "failed failure fail error errored cancelled canceled aborted rejected denied declined refused "
    "timeout timed_out timedout interrupted killed crashed false",
}
STOP_WORDS = {
    "length": "length max_tokens max_output_tokens token_limit context_window_exceeded model_context_window_exceeded "
    "incomplete",
    "refusal": "refusal refused content_filter content_filtered safety prohibited_content blocked recitation",
    "max_turns": "max_turns error_max_turns max_turn_requests max_iterations max_steps step_limit limitsexceeded "
    "turn_limit max_session_turns maxiterationsreached",
}
_STATUS = {word: status for status, words in STATUS_WORDS.items() for word in words.split()}
_STOP = {word: reason for reason, words in STOP_WORDS.items() for word in words.split()}
_FALSE_WORDS = frozenset(("", "0", "false", "no", "none", "null"))
_SECONDS_BELOW = 1e11  # as seconds since 1970 that is the year 5138, as milliseconds 1973
_MICROSECONDS_FROM = 1e14


def as_text(value: Any) -> str:
    """Returns the value as text: the texts of content blocks, the JSON of anything else, "" for None."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    if type(value) is list:
        texts = [item.get("text") if type(item) is dict else item for item in value]
        found = [text for text in texts if type(text) is str]
        if found and all(type(item) in (str, dict) for item in value):
            return "".join(found)
    return msgspec.json.encode(value).decode()


def error_texts(value: Any) -> list[str]:
    """Returns the value as error texts: the items of a list of texts, otherwise one text; nothing for an empty one."""
    if type(value) is list and all(type(item) is str for item in value):
        return [item for item in value if item]
    text = as_text(value)
    return [text] if text else []


def is_true(value: Any) -> bool:
    """Returns whether this value, in a field for errors, means that there was one."""
    return value.strip().lower() not in _FALSE_WORDS if type(value) is str else bool(value)


def any_true(values: list[Any]) -> bool | None:
    """Returns whether any value stands for true; None if all are None."""
    found = [value for value in values if value is not None]
    return any(map(is_true, found)) if found else None


def status_of(word: Any) -> str | None:
    """Returns the status that an agent's own word stands for; None for an unknown word."""
    if type(word) is str:
        return _STATUS.get(word) or _STATUS.get(_normal(word))
    return ("completed" if word else "failed") if type(word) is bool else None


def stop_reason(found: list[Any]) -> str | None:
    """Returns why a turn ended: length, refusal or max_turns if one of the words means that, else the first word."""
    words = [word for word in found if type(word) is str and word]
    known = (_STOP.get(_normal(word)) for word in words)
    return next((reason for reason in known if reason), words[0] if words else None)


def _normal(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_")


def total(*values: Any) -> int | float | None:
    """Returns the sum of the numbers, those in lists included; None if there are none that can be counted."""
    numbers: list[int | float] = []
    left = [*reversed(values)]
    while left:  # in a loop, because lists may be nested deeper than calls may be
        value = left.pop()
        if type(value) is list:
            left += reversed(value)
        elif (type(value) is int or type(value) is float) and -LARGEST <= value <= LARGEST:
            numbers.append(value)
    return sum(numbers) if numbers else None


# --- times --------------------------------------------------------------------------------------


def milliseconds(moment: Any) -> float | None:
    """Returns a time in ms: a number is in ms already, a text is in ISO 8601; None for anything else."""
    if type(moment) is int or type(moment) is float:
        return moment
    return iso_milliseconds(moment) if type(moment) is str else None


def epoch_milliseconds(value: Any) -> int | None:
    """Returns ISO 8601, or seconds, milliseconds, micro- or nanoseconds since 1970, as milliseconds; else None."""
    if type(value) is str:
        number = whole_number(value)
        if number is None:
            moment = iso_milliseconds(value.strip())
            return None if moment is None else round(moment)
        value = number
    if type(value) not in (int, float) or not 0 < value < 1e20:
        return None
    found = float(value) * 1000 if value < _SECONDS_BELOW else float(value)
    while found >= _MICROSECONDS_FROM:
        found /= 1000
    return round(found)


def iso_milliseconds(text: str) -> float | None:
    """Returns a time in ISO 8601, by default in UTC, as milliseconds since 1970; None for any other text."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000


# --- JSON that is not quite JSON ----------------------------------------------------------------


def json_object(text: str) -> Any:
    """Returns the JSON object in a text, the form in which OpenAI's API passes tool input; else the text itself."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return text
    return value if type(value) is dict else text


def decode_leniently(line: str, *, keep_halves: bool = False) -> Any:
    """Decodes an event that strict JSON refuses but agents print: half a surrogate pair, NaN, a control character.

    With `keep_halves`, a half can still be joined to its partner in a later event: see `joined`.
    """
    text = line.strip().lstrip("\ufeff")
    if not text.startswith("{"):
        return None
    try:
        event = json.loads(text, parse_constant=lambda name: None, parse_int=integer_of, strict=False)
        event = _writable(event)
        return event if keep_halves else without_halves(event)
    except (ValueError, RecursionError):
        return None


def _writable(value: Any) -> Any:
    """Returns the value in a form that can be encoded: halves of surrogate pairs marked, infinite numbers null."""
    if type(value) is str:
        return re.sub(_LONE, lambda half: chr(ord(half[0]) + _PLANE), value)
    if type(value) is list:
        return [_writable(item) for item in value]
    if type(value) is dict:
        return {_writable(key): _writable(item) for key, item in value.items()}
    return None if type(value) is float and value in (float("inf"), float("-inf")) else value


# Agents that print a text in pieces may cut a character in two (`\ud83d`, then `\ude00`). No encoder writes half a
# surrogate pair, so until its text is complete a half is a character of the last private-use plane.
_PLANE = 0x10F800 - 0xD800
_LONE = "[\ud800-\udfff]"
_ANY_HALF = r"\\u[dD][89a-fA-F]|" + _LONE
_MARKED = "[\U0010f800-\U0010fbff][\U0010fc00-\U0010ffff]|[\U0010f800-\U0010ffff]"


def may_have_halves(line: str) -> bool:
    """Returns whether there is half a surrogate pair, or any escaped surrogate, in a line of JSON."""
    return bool(re.search(_ANY_HALF, line))


def joined(text: str) -> str:
    """Returns a complete text: its marked halves joined to characters, those without a partner replaced by U+FFFD."""
    return re.sub(_MARKED, _character, text)


def without_halves(value: Any) -> Any:
    """Returns a JSON value with all its texts joined."""
    return replace_texts(value, joined)


def held_back(text: str) -> tuple[str, str]:
    """Returns a piece of a text without the first half of a pair at its end, and that half, "" if there is none."""
    return (text[:-1], text[-1]) if "\U0010f800" <= text[-1:] <= "\U0010fbff" else (text, "")


def _character(found: re.Match[str]) -> str:
    halves = "".join(chr(ord(half) - _PLANE) for half in found[0])
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le") if len(halves) == 2 else "\ufffd"
