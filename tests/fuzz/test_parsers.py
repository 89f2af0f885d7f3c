"""Every parser, called directly: what it cannot read is refused by the error that its callers expect, and no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenteval.adapters.paths import PathError, compile_path, split_wildcard
from agenteval.adapters.values import decode_leniently
from agenteval.adapters.values import epoch_milliseconds as milliseconds
from agenteval.agents.acp.rpc import find_message
from agenteval.agents.kinds import split_words
from agenteval.agents.session import parse_rate
from agenteval.cli.agent_options import parse_pattern
from agenteval.cli.options import parse_size
from agenteval.cluster.shards import parse_shard
from agenteval.errors import BadRecord, UserError
from agenteval.grading.verdict import read_answer
from agenteval.review.document import read_reviews
from agenteval.streams import text as texts
from agenteval.streams.jsonl import decode, decode_record, encode
from agenteval.streams.text import parse_milliseconds
from agenteval.wikipedia.score import parse_minimum
from agenteval.wire.records import GraderAnswer
from tests.fuzz.checks import examples
from tests.fuzz.strategies import SAMPLES, as_line, broken_lines, json_values, lines_of

PATH_WORDS = [
    "$",
    ".",
    "a",
    "[*]",
    "[0]",
    "..",
    "['a']",
    "[?(@.a == 1)]",
    "[?@.a]",
    "[1:2]",
    "'x'",
    "@",
    "content",
    "[",
    "]",
]
paths = st.one_of(st.lists(st.sampled_from(PATH_WORDS), max_size=6).map("".join), st.text(max_size=20))
words = st.one_of(
    st.text(max_size=12),
    st.from_regex(r"-?[0-9]{1,5}(\.[0-9]+)?(ms|s|m|h|K|M|G|/s|/min|/[0-9])?", fullmatch=True),
    st.sampled_from(
        ["", "²", "9" * 5000, "nan", "inf", "1e999", "0", "-0", "1/0", "0/1", "1/1", "slurm", "k8s", "1_0", "٣"]
    ),
)
REVIEW = ['<!-- ae-calibrate {"id":"a"} -->', "<!-- ae-calibrate end -->", "- [x] pass", "- [ ] fail", "- [y] fail"]
reviews = st.lists(st.one_of(st.sampled_from(REVIEW), st.text(max_size=20)), max_size=8)

Parser = Callable[[Any], object]
FROM_BYTES: dict[str, tuple[Parser, tuple[type[Exception], ...]]] = {
    "decode": (decode, (BadRecord,)),
    "decode_record": (decode_record, (BadRecord,)),
    "find_message": (find_message, ()),
    "read_answer": (lambda line: read_answer(line, GraderAnswer), ()),
    "decode_leniently": (lambda line: decode_leniently(line.decode("utf-8", "replace")), (ValueError,)),
}
FROM_TEXT: dict[str, tuple[Parser, tuple[type[Exception], ...]]] = {
    "parse_rate": (parse_rate, (ValueError,)),
    "parse_shard": (parse_shard, (ValueError,)),
    "parse_milliseconds": (parse_milliseconds, (ValueError,)),
    "parse_size": (parse_size, (ValueError,)),
    "parse_minimum": (parse_minimum, (UserError, ValueError)),
    "parse_pattern": (parse_pattern, (ValueError,)),
    "split_words": (split_words, (UserError,)),
    "visible": (texts.visible, ()),
    "one_line": (lambda text: texts.one_line(text, 10), ()),
    "clip": (lambda text: texts.clip(text, 7), ()),
    "screen_lines": (texts.screen_lines, ()),
    "milliseconds": (milliseconds, ()),
}


@pytest.mark.parametrize("name", FROM_BYTES)
def test_lines(name: str) -> None:
    parse, errors = FROM_BYTES[name]

    @examples(short=10, long=3000)
    @given(lines_of("any"))
    def try_it(line: bytes) -> None:
        with suppress(*errors):
            parse(line)

    try_it()


@pytest.mark.parametrize("name", FROM_TEXT)
def test_words(name: str) -> None:
    parse, errors = FROM_TEXT[name]

    @examples(short=10, long=3000)
    @given(words)
    def try_it(text: str) -> None:
        with suppress(*errors):
            parse(text)

    try_it()


@examples(short=20, long=5000)
@given(json_values)
def test_what_is_written_is_read(value: Any) -> None:
    line = json.dumps(value).encode()
    try:
        found = decode(line)
    except BadRecord:
        return
    assert decode(encode(found)) == found


@examples(short=20, long=3000)
@given(paths, json_values)
def test_paths(path: str, value: Any) -> None:
    with suppress(PathError):
        compile_path(path).get(value)
    with suppress(PathError):
        split_wildcard(path)


@examples(short=10, long=2000)
@given(reviews)
def test_reviews(lines: list[str]) -> None:
    list(read_reviews(lines))


@examples(short=10, long=2000)
@given(broken_lines(st.sampled_from(SAMPLES["any"])), st.sampled_from(SAMPLES["any"]).map(as_line))
def test_a_broken_line_says_where(line: bytes, _other: bytes) -> None:
    """A message is one line, and short."""
    try:
        decode_record(line)
    except BadRecord as error:
        assert len(str(error)) < 300 and "\n" not in str(error), str(error)
