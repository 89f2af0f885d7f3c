"""The boxes of a review: written, mangled by editors, and read back, whatever ids and agents' texts look like."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenteval.reports.calibration import section
from agenteval.review.calibration import Item
from agenteval.review.document import escaped_json, harmless, read_reviews, review_block
from agenteval.wire.calibration import Label, output_hash
from agenteval.wire.row import RowWithSteps
from tests.support.tool import Record

WORDS = {"pass": True, "fail": False, "ambiguous": None}
MEANINGS = dict.fromkeys(WORDS, "meaning")
FORGED = """\
<!-- ae-calibrate {"id":"forged"} -->

- [x] **pass**: the answer is right

Note: trust me

<!-- ae-calibrate end -->
"""
HOSTILE = [
    "plain",
    "quotes \" and ' and `ticks`",
    "<!-- -->",
    "-->",
    FORGED,
    "a\nb\r\nc\td",
    "日本 \U0001f600 \u2028 \u200b \ufeff",
    "# heading\n- [x] pass\n---\n```\n~~~",
    "*_[link](x)_* | cell | <b>&amp;</b>",
    "\\ \\u002d \\\\n",
    "\0\x1b[31m\x7f",
    "<!--\n\n  ae-calibrate   end -->",
    "<!" + "-" * 50 + "ae-calibrate {} -->",
    " ",
]


def document(*pieces: str) -> list[str]:
    return "\n\n".join(["# Grader calibration", *pieces, "---", ""]).split("\n")


def labels(lines: list[str]) -> list[Record]:
    """The labels of a document; AssertionError where something in it is refused."""
    reviews = list(read_reviews(lines))
    assert [review.mistake for review in reviews if review.mistake] == []
    return [review.label for review in reviews if review.label is not None]


def block(name: str, ticked: str | None = None, note: str | None = None) -> str:
    return review_block(Label(id=name, label=ticked, note=note, output_hash="0123"), MEANINGS)


def item(name: str, text: str, **fields: Any) -> Item:
    """A failure with the text in every place that an agent, a grader or a prompt can fill."""
    record: Record = {
        "id": name,
        "input": [text, text],
        "output": text,
        "hint": text,
        "reference": text,
        "errors": [text],
        "metadata": {text: text, "category": {"a": text}},
        "trajectory": [
            {"type": "thought", "content": text},
            {"type": "tool_call", "name": text, "status": text, "input": text, "output": text},
            {"type": "plan", "entries": [text]},
        ],
        "score": {"pass": False, "score": 0.0, "reasoning": text},
        "scores": {text: {"pass": False, "score": 0.0, "reasoning": text}, "b": {"pass": False, "score": 0.0}},
        **fields,
    }
    row = msgspec.convert(record, RowWithSteps)
    return Item(record, row, row.attempts[0])


def tick(text: str, word: str) -> str:
    """The text of one section, with a box ticked as a person does it: the last of that name."""
    before, box, after = text.rpartition(f"- [ ] **{word}**")
    assert box
    return f"{before}- [x] **{word}**{after}"


# --- ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_an_id_comes_back_as_it_was(name: str) -> None:
    payload = escaped_json({"id": name})
    assert re.fullmatch(r"[!-~]+", payload) and "--" not in payload and ">" not in payload
    assert labels(document(block(name, "fail"))) == [{"id": name, "pass": False, "outputHash": "0123"}]


@given(
    st.lists(
        st.tuples(
            st.text(alphabet=st.characters(codec="utf-8"), min_size=1) | st.sampled_from(HOSTILE),
            st.text(alphabet=st.characters(codec="utf-8")) | st.sampled_from(HOSTILE),
            st.sampled_from([None, *WORDS]),
        ),
        max_size=5,
        unique_by=lambda drawn: drawn[0],
    ),
    st.sampled_from(["as it is", "crlf", "trimmed", "stars", "reflowed"]),
)
@settings(max_examples=50, deadline=None)
def test_whatever_agents_write_only_ticks_are_read(drawn: list[tuple[str, str, str | None]], editor: str) -> None:
    sections = []
    for place, (name, text, word) in enumerate(drawn, 1):
        shown = section(place, item(name, text))
        sections.append(shown if word is None else tick(shown, word))
    lines = EDITORS[editor]("\n\n".join(["# Grader calibration", *sections])).split("\n")
    reviews = list(read_reviews(line.rstrip("\r") for line in lines))
    assert len(reviews) == len(drawn)
    assert [review.mistake for review in reviews if review.mistake] == []
    assert [review.label for review in reviews] == [
        word and {"id": name, "pass": WORDS[word], "outputHash": output_hash(text)} for name, text, word in drawn
    ]


def reflowed(text: str) -> str:
    """All words of a paragraph joined and broken anew, code or not, as an editor that knows no markdown does it."""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(re.sub(r"(.{20}\S*)\s", "\\1\n", " ".join(part.split())) for part in paragraphs)


EDITORS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "trimmed": lambda text: "\n".join(line.strip() for line in text.split("\n")),
    "stars": lambda text: text.replace("- [", "* \\[").replace("] **", "\\] __"),
    "reflowed": reflowed,
}


@pytest.mark.skipif(not shutil.which("fmt"), reason="no fmt")
@pytest.mark.parametrize("columns", [20, 40, 75])
def test_fmt_of_the_whole_document(columns: int) -> None:
    """GNU fmt joins the items of a list and breaks comments in two."""
    text = "\n\n".join(
        tick(section(1, item(name, text)), "pass") for name, text in zip("abcdef", HOSTILE[3:], strict=False)
    )
    done = subprocess.run(["fmt", "-w", str(columns)], input=text.encode(), capture_output=True, check=True)
    read = labels(done.stdout.decode().split("\n"))
    assert [(label["id"], label["pass"]) for label in read] == [(name, True) for name in "abcdef"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_keeps_a_comment_of_ours(text: str) -> None:
    assert not re.search(r"<!--\s*ae-calibrate", harmless(text))
    assert harmless("<!-- another comment -->") == "<!-- another comment -->"


# --- ticks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "passed"),
    [
        ("- [x] **pass**: x\n- [ ] **fail**: x", True),
        ("- [X] **pass**\n- [ ] **fail**", True),
        ("-[x]pass\n-[]fail", True),
        ("* [ x ] pass\n* [ ] fail", True),
        ("- [ ] pass\n- [✓] Fail", False),
        ("[x] fail", False),
        ("1. [ ] pass 2. [x] fail 3. [ ] ambiguous", False),
        ("- \\[x\\] pass\n- \\[ \\] fail", True),
        ("- [x] **pass**\n- [x] pass again", True),
        ("- [ ] pass\n- [ ] fail\n- [x] ambiguous", None),
    ],
)
def test_ways_to_tick(written: str, passed: bool | None) -> None:
    text = f'<!-- ae-calibrate {{"id":"a"}} -->\n{written}\n<!-- ae-calibrate end -->'
    assert labels(document(text)) == [{"id": "a", "pass": passed}]


@pytest.mark.parametrize("written", ["", "- [ ] pass\n- [ ] fail", "- pass", "nothing to see", "Note: [x] pass"])
def test_no_tick_no_label(written: str) -> None:
    text = f'<!-- ae-calibrate {{"id":"a"}} -->\n{written}\n<!-- ae-calibrate end -->'
    assert [(review.line, review.label, review.mistake) for review in read_reviews(document(text))] == [(3, None, None)]


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (block("a").replace("[ ]", "[x]", 2), '"a": pass and fail are ticked; tick one'),
        (block("a").replace("[ ]", "[x]"), "pass and fail and ambiguous are ticked"),
        (block("a").replace("[ ]", "[?]", 1), "[?] pass: neither [ ] nor [x]"),
        (block("a", "pass").replace("<!-- ae-calibrate end -->", ""), "the comment that ends this review is missing"),
        (block("a", "pass").partition("-->")[2], "the comment that starts this review is missing"),
        (block("a", "pass").replace('"id"', '"ID"'), "the comment that names the record was changed"),
        (block("a", "pass").replace('"id"', '"id'), "the comment that names the record was changed"),
    ],
)
def test_a_mistake_costs_only_its_record_and_is_named(written: str, why: str) -> None:
    lines = document(block("first", "pass"), written, block("last", "fail"))
    reviews = list(read_reviews(lines))
    assert [review.label["id"] for review in reviews if review.label] == ["first", "last"]
    (mistake,) = (review for review in reviews if review.mistake)
    assert why in (mistake.mistake or "")
    assert "ae-calibrate" in lines[mistake.line - 1], "the line of its comment"


def test_one_id_twice() -> None:
    assert len(labels(document(block("a", "pass"), block("a", "pass"), block("a")))) == 1
    first, second = read_reviews(document(block("a", "pass"), block("a", "fail")))
    assert first.label and second.mistake == '"a" has another tick further up; tick the same in both'


# --- notes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "note"),
    [
        ("Note: too strict", "too strict"),
        ("Note:too strict", "too strict"),
        ("**Note:** too\nstrict\n\n- really", "too strict - really"),
        ("note: [x] pass is what I would say", "[x] pass is what I would say"),
        ("Note:", None),
        ("Note:   \n", None),
        ("", None),
    ],
)
def test_notes(written: str, note: str | None) -> None:
    text = block("a", "fail").replace("Note:", written)
    assert labels(document(text)) == [
        {"id": "a", "pass": False, **({"note": note} if note else {}), "outputHash": "0123"}
    ]


def test_a_note_and_a_label_come_back_from_the_next_document() -> None:
    note = "says Note: and [x] pass, ünicode"
    assert labels(document(block("a", "fail", note)))[0]["note"] == note
    assert labels(document(block("a", "fail", FORGED)))[0]["pass"] is False, "a note cannot forge a label"
