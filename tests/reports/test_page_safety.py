"""The html page with records that attack it: nothing runs, nothing is loaded, nothing is lost."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.reports.conftest import Open
from tests.reports.test_page import make_page
from tests.support.browser import OpenPage
from tests.support.page_records import HOSTILE, graded, hostile, result, trial
from tests.support.tool import run, write


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_page(tmp_path_factory.mktemp("hostile"), [hostile(text) for text in HOSTILE])


def assert_untouched(shown: OpenPage) -> None:
    """Asserts that no script of a record ran, nothing was requested and nothing was reported."""
    page = shown.page
    assert page.evaluate("[typeof window.pwned, typeof ({}).polluted, typeof Object.polluted]") == ["undefined"] * 3
    assert set(shown.requests) - {"about:blank"} <= {
        url for url in shown.requests if url.startswith(shown.path.as_uri())
    }
    assert shown.messages == []
    assert page.evaluate("document.querySelectorAll('img, iframe, object, embed, link, base, form').length") == 0
    assert page.evaluate("document.querySelectorAll('script:not([type]), style').length") == 2


def test_every_hostile_record_can_be_opened_and_does_nothing(hostile_page: Path, opened: Open) -> None:
    shown = opened(hostile_page)
    page = shown.go()
    assert page.locator("table.rows").get_attribute("aria-rowcount") == str(len(HOSTILE) + 1)
    for text in HOSTILE:
        page.evaluate("hash => { location.hash = hash }", f"#id={quote(text, safe='')}")
        at = HOSTILE.index(text)
        page.wait_for_selector(f"html[data-opened='{at}']", state="attached")
        page.wait_for_selector(".record-body .step >> nth=4")
        page.evaluate("document.querySelectorAll('#record details').forEach(details => { details.open = true })")
        assert page.locator(".step").count() == 5
        assert page.locator(".verdict").count() == len({"overall", text, "__proto__"})
    assert_untouched(shown)


def test_hostile_text_filters_and_is_found(hostile_page: Path, opened: Open) -> None:
    shown = opened(hostile_page)
    page = shown.go()
    for text in HOSTILE:
        page.evaluate("hash => { location.hash = hash }", f"#tool={quote(text, safe='')}")
        page.wait_for_selector("html[data-listed='1']", state="attached")
    assert_untouched(shown)


def test_text_is_shown_as_it_is_without_controls(hostile_page: Path, opened: Open) -> None:
    page = opened(hostile_page).go(f"#id={quote(HOSTILE[0], safe='')}")
    page.wait_for_selector(".record-body")
    assert page.locator("#record-title").text_content() == HOSTILE[0]
    at = next(at for at, text in enumerate(HOSTILE) if "nul" in text)
    page.evaluate("hash => { location.hash = hash }", f"#id={quote(HOSTILE[at], safe='')}")
    page.wait_for_selector(f"html[data-opened='{at}']", state="attached")
    assert page.locator("#record-title").text_content() == "nul␀ and ␛[31mred\\u009b31m"


def test_the_policy_blocks_what_is_not_ours(hostile_page: Path, opened: Open) -> None:
    shown = opened(hostile_page)
    page = shown.go()
    page.evaluate(
        """() => {
        const script = document.createElement('script');
        try { script.textContent = 'window.pwned = 1'; document.body.append(script); } catch {}
        try { document.body.innerHTML += '<img src="http://127.0.0.1:9/x.png">'; } catch {}
        const image = new Image(); image.src = 'http://127.0.0.1:9/y.png'; document.body.append(image);
        fetch('http://127.0.0.1:9/z').catch(() => {});
        }"""
    )
    assert page.evaluate("typeof window.pwned") == "undefined"
    page.wait_for_function("document.querySelector('body > img').complete")
    assert {reason for url, reason in shown.failures if "127.0.0.1" in url} == {"csp"}
    assert [url for url in shown.requests if "127.0.0.1" in url] == [url for url, _ in shown.failures]
    policy = page.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content") or ""
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy


def test_ten_megabytes_in_one_record_do_not_stop_the_page(tmp_path: Path, opened: Open) -> None:
    steps = [{"type": "tool_call", "name": "Read", "status": "completed", "output": "x" * 10_000_000}]
    huge = {"id": "huge", "output": "y\n" * 2_500_000, "trajectory": steps}
    many = {"id": "many", "output": "", "trajectory": [{"type": "message", "content": str(at)} for at in range(5000)]}
    page = opened(make_page(tmp_path, [huge, many])).go("#id=huge")
    page.wait_for_selector(".record-body .fold")
    page.get_by_role("button", name="Show more (10.0 MB left)").click()
    assert 100_000 <= len(page.locator(".step pre").inner_text()) < 200_000
    page.evaluate("location.hash = '#id=many'")
    page.get_by_role("button", name="Show 200 more of 5,000 steps").click()
    assert page.locator(".step").count() == 400


def test_hostile_trials(tmp_path: Path, opened: Open) -> None:
    text = HOSTILE[0]
    record = trial(text, [True, False], metadata={"agent": text, "__proto__": {"polluted": 1}})
    record["trials"][0] |= {"output": text, "reasoning": text, "scores": {text: {"pass": True, "score": 1}}}
    shown = opened(make_page(tmp_path, [record]))
    page = shown.go(f"#id={quote(text, safe='')}")
    page.wait_for_selector(".run-column")
    assert page.locator(".run-column").count() == 2
    assert_untouched(shown)


def test_pages_of_files_with_hostile_names(tmp_path: Path, opened: Open) -> None:
    """The name of the input is shown, and so are those of two runs; the page itself has such a name, too."""
    name = "x\"'><img src=y onerror='window.pwned=1'>\n\x1b[2J\u202e&amp;#id=a?x=%00"
    one, two = (write(tmp_path / f"{number}{name}.jsonl", result("a", score=graded(True, 1.0))) for number in (1, 2))
    shown = opened(one)
    for tool, files in (("ae-format", [one]), ("ae-compare", [one, two]), ("ae-history", [one, two])):
        page = tmp_path / f"{tool}{name}.html"
        run(tool, *files, "-f", "html", "-o", page, cwd=tmp_path).expect(0)
        shown.start_over(page)
        shown.go() if tool != "ae-history" else shown.page.goto(page.as_uri())
        text = shown.page.title() + shown.page.inner_text("body")
        assert "<img" in text and not re.search("[\x00-\x08\x0b-\x1f\u202e]", text)
        assert shown.page.evaluate("typeof window.pwned") == "undefined"
        assert shown.page.evaluate("document.querySelectorAll('img, iframe, object, embed').length") == 0
        assert set(shown.requests) - {"about:blank"} == {page.as_uri()} and shown.messages == []
