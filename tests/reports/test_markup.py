"""Text of agents as the words of a line of markdown."""

from __future__ import annotations

import pytest

from agenteval.reports.markup import inline


@pytest.mark.parametrize(
    "text, shown",
    [
        ("", ""),
        ("plain words", "plain words"),
        ("plain, text. (1) - ok!", "plain, text. (1) - ok!"),
        ("one\n# two\r\n\n\n---\rthree", "one<br>\\# two<br>---<br>three"),
        ("a  b\n\n c \n", "a b<br>c"),
        ("test_001 _x_ a_", r"test_001 \_x\_ a\_"),
        ("a\\_b", r"a\\\_b"),
        ("é_é a__b 1_2_", r"é_é a\_\_b 1_2\_"),
        ("\u00a0a\u3000 b\u2028\u2028 c\x1c", "a b<br>c"),
        ("<br> & &lt;", "&lt;br&gt; &amp; &amp;lt;"),
        ("[x](y) `z` *w* |#~$", r"\[x\](y) \`z\` \*w\* \|\#\~\$"),
        ("a\x00b\x1b[0m", "a␀b␛\\[0m"),
        ("@me #1 http://x", "@\u2060me \\#\u20601 http:\u2060//x"),
        ("www.a Www.b wWW.c WWW.d", "www\u2060.a Www\u2060.b wWW\u2060.c WWW\u2060.d"),
        ("awww.a wwww.b éwww.c www a www,", "awww.a wwww.b éwww.c www a www,"),
    ],
)
def test_words_of_one_line(text: str, shown: str) -> None:
    assert inline(text) == shown
