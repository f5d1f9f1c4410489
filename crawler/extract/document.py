"""A response body read once: its text, its encoding, its tree, for everything that is taken from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from crawler.extract.encoding import decode_markup
from crawler.urls import canonicalize

MAX_DEPTH: Final = 512
"""Elements within elements; those nested deeper become siblings, as in browsers (Blink's limit is the same).

Parsers and text extractors take time by the square of the depth: lexbor 15 s for 100,000 nested elements.
"""

MIN_DEPTH: Final = 16
"""What is left of `MAX_DEPTH` on the pages with most tags."""

_MAX_STEPS = 20_000_000
"""Tags times depth. Text extraction walks from every element to the root, 50 ns a step: 600,000 tags below 512 elements
stopped a worker for 50 s, longer than its session lasts. Pages of up to 39,000 tags keep their whole depth."""

MAX_FORMATTING: Final = 16
"""Formatting elements open at once. The parser opens each again in every paragraph after them (HTML 13.2.4.3): 5,000
unclosed `font` elements between 5,000 `p` are 12 million elements."""

# Pages with fewer tags are not looked at: the look costs a millisecond, and nested at their worst they cost 0.2 s, with
# formatting elements at their worst 3 s.
_HARMLESS_TAGS = 3_000

_tag_names = re.compile(r"<(/?)([A-Za-z][^\t\n\f\r />]*)").sub

# Elements that nest nothing: void ones, those whose end tag may be left out, and those that lexbor closes by itself.
_FLAT = {
    *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"),
    *("a", "body", "colgroup", "dd", "dt", "head", "html", "li", "option", "p", "rp", "rt"),
    *("tbody", "td", "tfoot", "th", "thead", "title", "tr", "script", "style", "textarea"),
}

_FORMATTING = {"b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}

_markup = re.compile(rb"<[!/?A-Za-z]").search
_html_root = re.compile(rb"<(?:!doctype[\t\n\f\r ]+html|html)\b", re.IGNORECASE).search
_SNIFFED = 1024
_BINARY_BYTES = bytes(set(range(0x20)) - set(b"\t\n\f\r\x1b"))
_SIGNATURES = (b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"RIFF", b"{", b"[")


@dataclass(frozen=True, slots=True)
class Document:
    """One body, decoded and parsed once."""

    url: str
    """The page's address in wire form: what its links resolve against when it names no base."""
    html: str
    """The text of the body, NUL characters still in it; nested within `MAX_DEPTH` and `MAX_FORMATTING`."""
    encoding: str
    """WHATWG name in lower case."""
    tree: LexborHTMLParser | None
    """None for a body that is not HTML."""


def read(body: bytes, url: str, content_type: str | None) -> Document:
    """Decode and parse one body. Raises `InvalidURL` for the page's own URL, and nothing for any body."""
    address = canonicalize(url)
    text, encoding = decode_markup(body, content_type)
    if not is_html(content_type, body):
        return Document(address, text, encoding, None)
    html = _flattened(text)
    return Document(address, html, encoding, LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS))


def media_type(content_type: str | None) -> str:
    """Return the type and subtype of a Content-Type header in lower case, the first of several; "" for none."""
    return re.split("[;,]", content_type or "", maxsplit=1)[0].strip().lower()


def is_html(content_type: str | None, body: bytes) -> bool:
    """Say whether a body is to be read as HTML.

    A declared type is believed; XML counts when its root is `html`; without a type the body counts unless its first
    kilobyte is binary, is JSON, or the body has no markup.
    """
    declared = media_type(content_type)
    if declared in ("text/html", "application/xhtml+xml"):
        return True
    head = body[:_SNIFFED]
    if declared in ("text/xml", "application/xml"):
        return _html_root(head) is not None
    if declared not in ("", "application/octet-stream", "application/x-unknown", "unknown/unknown", "*/*"):
        return False
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _markup(body.replace(b"\0", b"")) is not None
    if head.lstrip().startswith(_SIGNATURES) or len(head.translate(None, _BINARY_BYTES)) + 1 < len(head):
        return False
    return _markup(body) is not None


def _flattened(html: str) -> str:
    """Return `html` nested within the limits: tags of elements beyond them are renamed to the void element `wbr`."""
    tags = html.count("<")
    if tags <= _HARMLESS_TAGS:
        return html
    max_depth = min(MAX_DEPTH, max(MIN_DEPTH, _MAX_STEPS // tags))
    open_elements = {True: 0, False: 0}

    def flatten(found: re.Match[str]) -> str:
        name = found[2].lower()
        if name in _FLAT:
            return found[0]
        formatting = name in _FORMATTING
        limit = MAX_FORMATTING if formatting else max_depth
        depth = open_elements[formatting]
        if found[1]:
            open_elements[formatting] = max(depth - 1, 0)
            return found[0] if depth <= limit else "</wbr"
        open_elements[formatting] = depth + 1
        return found[0] if depth < limit else "<wbr"

    return _tag_names(flatten, html)
