"""Whole pages: text, language, metadata; pages made to hurt; real ones."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.errors import BadSetting
from crawler.extract import is_html, links, page, robots_directives, text
from crawler.extract.document import MAX_DEPTH
from crawler.extract.language import UNKNOWN, language
from crawler.extract.main_text import clean, extractor
from tests.unit.cases import PAGES

URL = "https://www.example.org/dir/page.html"
ARTICLE = """<html><head><title> A
 title </title><link rel=canonical href=/canonical>
<meta name=ROBOTS content="noindex"><meta name="robots" content="none"></head><body><nav><a href=/>Home</a></nav>
<article><h1>Heading</h1><p>The quick brown fox jumps over the lazy dog, and then it rests in the shade of the old oak
tree until the evening comes.</p></article><svg><title>drawing</title></svg></body>"""


def test_a_page_in_one_go() -> None:
    found = page(ARTICLE.encode(), URL + "#fragment", "text/html; charset=utf-8")
    assert found.url == URL
    assert found.is_html
    assert found.encoding == "utf-8"
    assert found.title == "A title"
    assert found.canonical_url == "https://www.example.org/canonical"
    assert found.meta_robots == "noindex, none"
    assert "quick brown fox" in found.text
    assert (found.lang, found.extractor) == ("en", "resiliparse")
    assert found.lang_score > 0.5
    assert found.links == links(ARTICLE.encode(), URL, "text/html")
    assert found.text == text(ARTICLE.encode(), URL, "text/html")


@pytest.mark.parametrize("name", ["resiliparse", "trafilatura", f"{__name__}:upper", "html.unescape"])
def test_extractor_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "html.unescape":
        with pytest.raises(TypeError):  # it takes no URL: a setting's mistake shows at the first page
            page(ARTICLE.encode(), URL, "text/html", text_extractor=name)
    else:
        assert "brown fox" in page(ARTICLE.encode(), URL, "text/html", text_extractor=name).text.lower()


def upper(html: str, url: str) -> str:
    return html.upper()


@pytest.mark.parametrize("name", ["", "nothing", "no.such.module", "json:nothing", "json.__name__", "..x"])
def test_an_unknown_extractor_is_named(name: str) -> None:
    with pytest.raises(BadSetting, match="extractor"):
        extractor(name)


def test_trafilatura_forgets_what_it_saw() -> None:
    answers = {text(ARTICLE.encode(), URL, "text/html", text_extractor="trafilatura") for _ in range(8)}
    assert len(answers) == 1


def test_without_text() -> None:
    found = page(ARTICLE.encode(), URL, "text/html", text_extractor="")
    assert (found.text, found.lang, found.lang_score, found.extractor) == ("", "", -1.0, "")
    assert found.links


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"plain \0 text\n", "text/plain", "plain  text"),
        (b"caf\xe9", "text/plain; charset=latin1", "caf\u00e9"),
        (b"%PDF-1.7", "application/pdf", ""),
        (b"<rss></rss>", "application/rss+xml", ""),
        (b"{}", "application/json", ""),
        (b"", "text/html", ""),
        (b"", None, ""),
        (b"<p>\xc3\xa9", None, "\u00e9"),
        (b"<p>a\0b\x01c&#xd800;", "text/html", "abc\ufffd"),
    ],
)
def test_text(body: bytes, content_type: str | None, expected: str) -> None:
    assert text(body, URL, content_type) == expected


def test_text_is_clean() -> None:
    assert clean("a\0b\ud83dc\x0b\td\n\ud83d\ude00") == "ab\ufffdc\td\n\U0001f600"


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("text/html", b"", True),
        ("TEXT/HTML;charset=x", b"", True),
        ("application/xhtml+xml", b"", True),
        ("text/html, text/html; charset=utf-8", b"", True),
        ("text/plain", b"<html>", False),
        ("image/png", b"<html>", False),
        ("application/xml", b"<?xml version='1.0'?><html xmlns=''>", True),
        ("application/xml", b"<urlset>", False),
        (None, b"  <p>x", True),
        (None, b"text <b>x</b>", True),
        ("", b"plain", False),
        (None, b"%PDF-1.4 <a>", False),
        (None, b"\x89PNG<a>", False),
        (None, b'{"a": "<b>"}', False),
        (None, b"a\0\0b<a>", False),
        (None, "<p>x".encode("utf-16"), True),
        ("application/octet-stream", b"<!doctype html>", True),
    ],
)
def test_is_html(content_type: str | None, body: bytes, expected: bool) -> None:
    assert is_html(content_type, body) is expected


@contextmanager
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    yield


def test_language_is_found_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    with no_network(monkeypatch):
        assert language("Ceci est un texte en fran\u00e7ais, \u00e9crit pour le test.")[0] == "fr"
        assert language("Dies ist ein deutscher Text,\nf\u00fcr den Test geschrieben.")[0] == "de"
        assert language("") == language(" 12 !!! ") == UNKNOWN


@pytest.mark.parametrize(
    ("values", "agent", "expected"),
    [
        (["NoIndex, nofollow"], "", {"noindex", "nofollow"}),
        (["none"], "", {"none", "noindex", "nofollow"}),
        (["otherbot: none", "noarchive"], "mybot", {"noarchive"}),
        (["MyBot: nofollow"], "mybot", {"nofollow"}),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST"], "", {"unavailable_after: 25 jun 2030 15:00:00 pst"}),
        (["", " , "], "", set()),
    ],
)
def test_robots_directives(values: list[str], agent: str, expected: set[str]) -> None:
    assert robots_directives(values, agent) == expected


HURTFUL = {
    "unclosed": "<div>" * 100_000 + "<a href=/deep>x",
    "closed": "<div>" * 100_000 + "<a href=/deep>x</a>" + "</div>" * 100_000,
    "lists": "<ul><li>" * 50_000 + "<a href=/deep>x",
    "formatting": "".join(f"<font size={n}><p>" for n in range(10_000)) + "<a href=/deep>x",
    "unknown": "<x-y>" * 100_000 + "<a href=/deep>x",
    "tables": "<table><td>" * 50_000 + "<a href=/deep>x",
    "attributes": "<a " + "x=1 " * 100_000 + "href=/deep>x",
    "angles": "<" * 1_000_000 + "<a href=/deep>x",
    "text": "x " * 2_000_000 + "<a href=/deep>x",
    "many elements at the limit": "<div>" * 400_000 + "<p>some words of text" * 9 + "<a href=/deep>x",
    "below the limit": "<div>" * 1_400 + "<a href=/deep>x</a>" + "</div>" * 1_400,
}


@pytest.mark.parametrize("html", HURTFUL.values(), ids=HURTFUL)
def test_a_page_made_to_hurt_takes_no_time(html: str) -> None:
    started = time.process_time()
    found = page(html.encode(), URL, "text/html")
    assert time.process_time() - started < 5  # some take minutes without the limits; with them, a tenth of a second
    assert found.links[-1].url == "https://www.example.org/deep"


def test_nested_text_is_kept() -> None:
    depth = MAX_DEPTH * 8
    body = ("<div>" * depth + "<p>innermost words" + "</div>" * depth + "<p>last words").encode()
    assert "last words" in text(body, URL, "text/html")


@given(st.binary(max_size=400))
def test_no_bytes_crash(body: bytes) -> None:
    for content_type in ("text/html", None, "text/plain; charset=utf-16"):
        found = page(b"<title>" + body, URL, content_type)
        for written in (found.text, found.title, found.meta_robots):
            written.encode()
            assert "\0" not in written


def test_real_pages() -> None:
    if not PAGES.is_dir():
        pytest.skip("../shared/web is not here")
    truth = json.loads((PAGES.parent / "ground-truth.json").read_text("utf-8"))
    texts, languages = 0, set()
    for path in sorted(PAGES.glob("*.html.gz")):
        url = truth[path.name.partition(".")[0]]["url"]
        found = page(gzip.decompress(path.read_bytes()), url, "text/html")
        assert found.title
        assert "\0" not in found.text
        texts += len(found.text) > 200
        languages.add(found.lang)
    assert texts > 170
    assert "en" in languages
