"""What the words and values of agents stand for: texts, errors, the status of a tool, why a turn ended, times."""

from __future__ import annotations

from typing import Any

import msgspec

STATUS_WORDS = {
    "pending": "pending queued scheduled created requested waiting proposed",
    "in_progress": "in_progress inprogress running started executing working active streaming updated",
    "completed": "completed complete success succeeded successful ok okay done finished passed true",
    "failed": "failed failure fail error errored cancelled canceled aborted rejected denied declined refused "
    "timeout timed_out timedout interrupted killed crashed false",
}
_STATUS = {word: status for status, words in STATUS_WORDS.items() for word in words.split()}
_FALSE_WORDS = frozenset(("", "0", "false", "no", "none", "null"))


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
    """Returns the value as error texts: each of a list, none for an empty one."""
    if type(value) is list and all(type(item) is str for item in value):
        return [item for item in value if item]
    text = as_text(value)
    return [text] if text else []


def is_true(value: Any) -> bool:
    """Returns whether this value, in a field for errors, means that there was one."""
    if type(value) is str:
        return value.strip().lower() not in _FALSE_WORDS
    return bool(value)


def status_of(word: Any) -> str | None:
    """Returns the status that an agent's own word stands for, None for an unknown word."""
    if type(word) is bool:
        return "completed" if word else "failed"
    if type(word) is not str:
        return None
    return _STATUS.get(word) or _STATUS.get(word.strip().lower().replace("-", "_").replace(" ", "_"))


STOP_WORDS = {
    "length": "length max_tokens max_output_tokens token_limit context_window_exceeded model_context_window_exceeded "
    "incomplete",
    "refusal": "refusal refused content_filter content_filtered safety prohibited_content blocked recitation",
    "max_turns": "max_turns error_max_turns max_turn_requests max_iterations max_steps step_limit limitsexceeded "
    "turn_limit max_session_turns maxiterationsreached",
}
_STOP = {word: reason for reason, words in STOP_WORDS.items() for word in words.split()}


def stop_reason(*found: Any) -> str | None:
    """Returns why a turn ended: length, refusal or max_turns if one of the words means that, else the first word."""
    words = [word for word in found if type(word) is str and word]
    known = (_STOP.get(word.strip().lower().replace("-", "_").replace(" ", "_")) for word in words)
    return next((reason for reason in known if reason), words[0] if words else None)


def decoded(text: str) -> Any:
    """Returns the JSON object that a text is, as tools are given their input in OpenAI's API; else the text."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return text
    return value if type(value) is dict else text


def milliseconds(moment: Any) -> float | None:
    """Returns a time in ms: a number is in ms already, a text is in ISO 8601; None for anything else."""
    if type(moment) is int or type(moment) is float:
        return moment
    return iso_milliseconds(moment) if type(moment) is str else None


def iso_milliseconds(text: str) -> float | None:
    """Returns a time in ISO 8601, by default in UTC, as milliseconds since 1970; None for any other text."""
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000
