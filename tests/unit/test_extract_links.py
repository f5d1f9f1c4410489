"""Links of pages: our own cases, and 181 real pages against lxml under the same rules."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import lxml.html
import pytest
from ada_url import URL
from hypothesis import given
from hypothesis import strategies as st

from crawler.errors import InvalidURL
from crawler.extract import Link, decode, links, page
from crawler.extract.hyperlinks import refresh_target
from tests.unit.cases import PAGES, own

PAGE = "https://www.example.org/dir/page.html"


def urls(html: str | bytes, content_type: str | None = "text/html") -> list[str]:
    body = html.encode() if isinstance(html, str) else html
    return [link.url for link in links(body, PAGE, content_type)]


@pytest.mark.parametrize("case", own("links.json"))
def test_own_case(case: dict[str, Any]) -> None:
    html = "<div>" * 3000 + '<a href="/deep">' if case["id"] == "deep" else case["html"]
    found = links(html.encode(), case["base"], "text/html")
    if case["expect_link"] is None:
        assert found == [], case["why"]
    elif case["expect_link"] == "nofollow":
        assert [link.nofollow for link in found] == [True]
    else:
        assert [link.url for link in found] == [case["expect_link"]], case["why"]


@pytest.mark.parametrize("case", own("meta-refresh.json"))
def test_meta_refresh(case: dict[str, Any]) -> None:
    assert (page(case["html"].encode(), case["base"], "text/html").refresh_url or None) == case["expect"]


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0; url=/x", "/x"),
        ("5;URL='/x'y", "/x"),
        ('0, url = "/x', "/x"),
        ("0 /x", "/x"),
        ("0;urlx", "urlx"),
        (".5;/x", "/x"),
        ("0", None),
        ("0;", None),
        ("x;url=/x", None),
        ("; url=/x", None),
        ("0x; url=/x", None),
        ("", None),
    ],
)
def test_refresh_is_parsed_as_html_says(content: str, target: str | None) -> None:
    assert refresh_target(content) == target


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<base href="/forum/"><a href=x>', ["https://www.example.org/forum/x"]),
        ('<a href=x><base href="/late/">', ["https://www.example.org/late/x"]),
        ('<base target=_top><base href="/b/"><base href="/c/"><a href=x>', ["https://www.example.org/b/x"]),
        ('<!-- <base href="/c/"> --><a href=x>', ["https://www.example.org/dir/x"]),
        ('<base href="http://[::1"><a href=x>', ["https://www.example.org/dir/x"]),
        ('<base href="data:text/html,x"><a href=x>', ["https://www.example.org/dir/x"]),
        ('<base href="ftp://f.example/"><a href=x><a href=//h.example/>', []),
        ('<base href="/b/"><meta http-equiv=Refresh content="0;x">', ["https://www.example.org/b/x"]),
    ],
)
def test_base(html: str, expected: list[str]) -> None:
    assert urls(html) == expected


def test_what_links() -> None:
    html = """<link rel="next" href=/n><link rel="alternate stylesheet" href=/s.css><link rel=stylesheet href=/s>
    <link rel="canonical" href=/c><link rel="ALTERNATE nofollow" href=/rss><iframe src=/i></iframe><area href=/ar>
    <a>none</a><a href>empty</a><img src=/img><script>"<a href=/js>"</script><noscript><a href=/ns></a></noscript>
    <svg><a href=/svg></a></svg><p data-href=/no cite=/no>"""
    assert links(html.encode(), PAGE, "text/html") == [
        Link("https://www.example.org/n", False, "next"),
        Link("https://www.example.org/c", False, "canonical"),
        Link("https://www.example.org/rss", True, "alternate"),
        Link("https://www.example.org/i", False, "iframe"),
        Link("https://www.example.org/ar", False, "area"),
        Link(PAGE, False, "a"),
        Link("https://www.example.org/ns", False, "a"),
        Link("https://www.example.org/svg", False, "a"),
    ]


def test_one_url_is_one_link_and_followed_when_one_element_says_so() -> None:
    html = '<a rel="NoFollow" href=/a><a href="/a#x"><a rel=nofollow href=/b><a rel="ugc nofollow" href=/b>'
    assert links(html.encode(), PAGE, "text/html") == [
        Link("https://www.example.org/a", False, "a"),
        Link("https://www.example.org/b", True, "a"),
    ]


def test_a_broken_link_costs_only_itself() -> None:
    html = '<a href="http://[::1"><a href="http://a..b/"><a href="/x>y</a><a id="z" href="/next"><a href="/after">'
    assert urls(html) == ["https://www.example.org/after"]


def test_nul_does_not_run_on() -> None:
    assert urls(b'<link href="file:///C:1\0clip.xml" rel="File-List" /><a href="/a\0b"><a href="/after">') == [
        "https://www.example.org/after"
    ]


def test_queries_are_in_the_documents_encoding() -> None:
    html = '<a href="/ü?q=ü#ü"><a href="/?q=%FC"><a href="/?q=&uuml;&#x4e00;">'
    assert urls(html.encode("latin-1"), "text/html; charset=iso-8859-1") == [
        "https://www.example.org/%C3%BC?q=%FC",
        "https://www.example.org/?q=%FC",
        "https://www.example.org/?q=%FC%26%2319968%3B",
    ]
    assert urls(html, "text/html; charset=utf-8")[0] == "https://www.example.org/%C3%BC?q=%C3%BC"
    assert urls(html.encode("utf-16"), "text/html")[0] == "https://www.example.org/%C3%BC?q=%C3%BC"


def test_a_long_data_url_is_no_link() -> None:
    assert urls('<a href="data:image/png;base64,' + "A" * 200_000 + '"><a href=" JavaScript:x"><a href=/y>') == [
        "https://www.example.org/y"
    ]


def test_what_is_not_html_has_no_links() -> None:
    html = '<a href="/x">'
    assert urls(html, "text/plain") == []
    assert urls(html, "application/pdf") == []
    assert urls(html, None) == ["https://www.example.org/x"]
    assert urls(html, "text/html, text/html; charset=utf-8") == ["https://www.example.org/x"]
    assert urls('<?xml version="1.0"?><html><a href="/x"/></html>', "application/xml") == ["https://www.example.org/x"]
    assert urls("<rss><a href='/x'/></rss>", "text/xml") == []


def test_a_bad_page_url_is_named() -> None:
    with pytest.raises(InvalidURL, match="not-a-url"):
        links(b"<a href=/x>", "not-a-url", "text/html")


@given(st.binary(max_size=300))
def test_no_bytes_crash(body: bytes) -> None:
    for link in links(b"<a href='" + body + b"'><base href=" + body, PAGE, None):
        assert link.url.startswith(("http://", "https://"))


def _by_lxml(body: bytes, url: str) -> list[str]:
    """Return the links that libxml2's tree gives under the rules of the HTML and URL standards and our own."""
    text, _ = decode(body, "text/html")
    parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True)
    root = lxml.html.document_fromstring(text.encode(), parser=parser)
    base, hrefs = None, []
    for element in root.iter("base", "a", "area", "iframe", "link", "meta"):
        around = {ancestor.tag for ancestor in element.iterancestors()}
        rel = set(element.get("rel", "").lower().split())
        href = element.get("src" if element.tag == "iframe" else "href")
        if element.tag == "meta":
            refreshes = element.get("http-equiv", "").lower() == "refresh" and "noscript" not in around
            href = refresh_target(element.get("content", "")) if refreshes else None
        if href is None or "template" in around:
            continue
        if element.tag == "base":
            base = base or href
        elif element.tag != "link" or (rel & {"next", "canonical", "alternate"} and "stylesheet" not in rel):
            hrefs.append(href)
    return list(dict.fromkeys(_resolved(hrefs, URL(base, url).href if base else url)))


def _resolved(hrefs: list[str], base: str) -> list[str]:
    resolved = []
    for href in hrefs:
        if URL.can_parse(href, base):
            url = URL(href, base)
            if url.protocol in ("http:", "https:"):
                url.hash = url.username = url.password = ""
                resolved.append(url.href)
    return resolved


def test_real_pages_have_the_links_that_lxml_finds() -> None:
    """No page is excepted: on these 181 libxml2's tree and WHATWG's differ nowhere that matters to a link."""
    if not PAGES.is_dir():
        pytest.skip("../shared/web is not here")
    truth = json.loads((PAGES.parent / "ground-truth.json").read_text("utf-8"))
    paths: list[Path] = sorted(PAGES.glob("*.html.gz"))
    assert len(paths) == 181
    for path in paths:
        body, url = gzip.decompress(path.read_bytes()), truth[path.name.partition(".")[0]]["url"]
        assert [link.url for link in links(body, url, "text/html")] == _by_lxml(body, url), path.name
