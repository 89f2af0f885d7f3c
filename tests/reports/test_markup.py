"""Text of agents as the words of a line of markdown."""

from __future__ import annotations

import random

import pytest

from agenteval.reports.markup import inline, inline_all

PIECES = ["a", "b_c", "_", "__x", "\\", "`", "*", "[x]", "|", "#", "~", "$", "&", "<", ">", "é", "数", " ", "  ", "\n"]
CONTROLS = ["\t", "\r\n", "\r", "\x00", "\x01", "\x1b", "\x85", "\u00a0", "\u2028"]


@pytest.mark.parametrize(
    "text, shown",
    [
        ("", ""),
        ("plain words", "plain words"),
        ("a  b\n\n c \n", "a b<br>c"),
        ("test_001 _x_ a_", r"test_001 \_x\_ a\_"),
        ("a\\_b", r"a\\\_b"),
        ("é_é a__b 1_2_", r"é_é a\_\_b 1_2\_"),
        ("\u00a0a\u3000 b\u2028\u2028 c\x1c", "a b<br>c"),
        ("<br> & &lt;", "&lt;br&gt; &amp; &amp;lt;"),
        ("[x](y) `z` *w* |#~$", r"\[x\](y) \`z\` \*w\* \|\#\~\$"),
        ("a\x00b\x1b[0m", "a␀b␛\\[0m"),
    ],
)
def test_words_of_one_line(text: str, shown: str) -> None:
    assert inline(text) == shown


@pytest.mark.parametrize("pieces", [PIECES, PIECES + CONTROLS], ids=["simple", "controls"])
def test_many_texts_at_a_time_are_as_one_by_one(pieces: list[str]) -> None:
    draw = random.Random(15)
    for _ in range(2_000):
        texts = ["".join(draw.choices(pieces, k=draw.randrange(7))) for _ in range(draw.randrange(1, 5))]
        assert inline_all(texts) == list(map(inline, texts)), texts
