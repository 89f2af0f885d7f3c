"""Token counts are exact without a network, and marked approximate if they are not."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import re
import sys
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from agenteval.models import tokens
from agenteval.models.tokens import Count, count_tokens, encoding_of, estimate
from tests.support.tool import ROOT, run

MODELS = {"gpt-4o-mini": "o200k_base", "gpt-3.5-turbo": "cl100k_base"}
TEXTS = [
    "",
    " ",
    "Consumer behaviour is the study of individuals, groups, or organisations.",
    "don't DON'T we'll I'VE it's 'S 'quoted'",
    "1234567890 3.14159 1,000,000 2nd ½ ٣٤٥",
    "  two  spaces,\ttabs\t\tand\r\nlines\n\n\n   indented   ",
    "trailing space \n \n",
    '{"results": [{"title": "Loss aversion", "snippet": "…"}]}',
    "def f(x):\n    return x**2  # ²\n",
    "https://en.wikipedia.org/wiki/Prospect_theory?x=1&y=2#z",
    "Größe, naïve, façade, Ærø, Łódź, ĲSSEL, ǅ",
    "漢字とかな交じり文 한국어 العربية עברית हिन्दी ภาษาไทย",
    "👩‍👩‍👧‍👦 🇩🇪 e\u0301 a\u0308\u0323 \u200b\u00ad",
    "<|endoftext|> and <|im_start|>system<|im_end|> <|endofprompt|>",
    "CamelCaseWord XMLHttpRequest snake_case_word SHOUTING",
    "////\n!!!\r\n---\n\n***",
    "\x00\x01\x7f",
]


ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"


def ours(encoding: str) -> tiktoken.Encoding:
    found = tokens._load(encoding)
    assert found is not None
    return found


# --- exact --------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_same_tokens_as_the_tokenizer_of_the_package_with_the_vocabulary(model: str) -> None:
    bpe_openai = pytest.importorskip("bpe_openai")
    theirs = bpe_openai.get_encoding(MODELS[model])
    files = [path.read_text() for path in sorted((ROOT / "agenteval").glob("*.py"))]
    for text in TEXTS + files + [(ROOT / "README.md").read_text()]:
        expected = theirs.encode(text, disallowed_special=())
        assert ours(MODELS[model]).encode_ordinary(text) == list(expected), text
        assert count_tokens(text, model) == Count(len(expected), approximate=False), text


@pytest.fixture(scope="module", params=sorted(MODELS.values()))
def tiktokens(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tiktoken.Encoding:
    """tiktoken's own encoding, whose checksum accepts the same vocabulary when it lies in its cache."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(cached(request.param, cache)))
        return tiktoken.get_encoding(request.param)


def cached(name: str, folder: Path) -> Path:
    """The folder, with the vocabulary of the installed package where tiktoken looks for it."""
    spec = importlib.util.find_spec("bpe_openai")
    assert spec and spec.submodule_search_locations
    data = gzip.decompress(Path(spec.submodule_search_locations[0], "data", f"{name}.tiktoken.gz").read_bytes())
    (folder / hashlib.sha1(ADDRESS.format(name).encode()).hexdigest()).write_bytes(data)
    return folder


@settings(max_examples=40, deadline=None)
@given(text=st.text() | st.text("aA'sS 1\n\t/.é漢ǅ\u0301-") | st.lists(st.sampled_from(TEXTS)).map(" ".join))
def test_same_tokens_as_tiktoken_on_any_text(tiktokens: tiktoken.Encoding, text: str) -> None:
    assert ours(tiktokens.name).encode_ordinary(text) == tiktokens.encode_ordinary(text)


def test_special_tokens_count_as_the_text_they_are() -> None:
    assert count_tokens("<|endoftext|>", "gpt-4o").tokens > 1


def test_half_a_character_is_counted() -> None:
    assert count_tokens("\ud83d lone", "gpt-4o").tokens > 0


@pytest.mark.parametrize("space", [" ", "\t", "\u3000"])
def test_a_gap_of_a_million_spaces_does_not_end_the_process(space: str) -> None:
    found = count_tokens(f"a{space * 1_000_000}b", "gpt-4o")
    assert found.approximate and 500 < found.tokens <= 1_000_002


# --- which vocabulary ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("offline", "o200k_base"),
        ("gpt-4o", "o200k_base"),
        ("gpt-4o-mini-2024-07-18", "o200k_base"),
        ("gpt-4.1-nano", "o200k_base"),
        ("gpt-5.1", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-3.5-turbo-0125", "cl100k_base"),
        ("openai/gpt-4o-mini", "o200k_base"),
        ("ft:gpt-4o-mini-2024-07-18:me::abc", "o200k_base"),
        ("ft:gpt-3.5-turbo:me", "cl100k_base"),
        ("gpt-oss:20b", "o200k_base"),
        ("text-davinci-003", None),
        ("claude-sonnet-4-5", None),
        ("meta-llama/Llama-3.3-70B-Instruct", None),
        ("gpt-9", None),
        ("", None),
    ],
)
def test_encoding_of_a_model(model: str, encoding: str | None) -> None:
    assert encoding_of(model) == encoding


def test_counts_of_other_peoples_models_are_approximate() -> None:
    text = "How do customers decide?"
    assert count_tokens(text, "claude-sonnet-4-5") == Count(count_tokens(text, "gpt-4o").tokens, approximate=True)
    assert not count_tokens(text, "offline").approximate
    assert not count_tokens(text, "gpt-oss-20b").approximate


# --- no network ---------------------------------------------------------------------------------

ALONE = """
import socket, sys
def refuse(*args, **more): raise AssertionError("reached for the network")
socket.socket.connect = socket.getaddrinfo = refuse
if sys.argv[1:]: sys.modules["bpe_openai"] = None
from agenteval.models.tokens import count_tokens
print(*count_tokens("How do customers decide?", "gpt-4o"), *count_tokens(" decide decide", "text-davinci-003"))
"""


@pytest.mark.parametrize(("hidden", "counts"), [([], "5 False 2 True"), (["bpe_openai"], "6 True 4 True")])
def test_no_network_is_needed(hidden: list[str], counts: str) -> None:
    """Without the vocabularies of bpe-openai, the count is an estimate."""
    done = run(sys.executable, "-c", ALONE, *hidden, cwd=ROOT).expect(0, stderr="")
    assert done.stdout == f"{counts}\n"


def test_estimates_are_near() -> None:
    readme = re.sub(r"[│─┐└┘▼|-]+", " ", (ROOT / "README.md").read_text())
    for text in [readme, " ".join(TEXTS)]:
        assert estimate(text) == pytest.approx(count_tokens(text, "gpt-4o").tokens, rel=0.35)
    assert estimate("") == 0
    assert estimate("a") == 1
