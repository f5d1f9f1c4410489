"""The links of a page, as a browser would resolve them.

From `a`, `area`, `iframe`, `link` with rel next, canonical or alternate, and a meta refresh. Never from comments,
templates, scripts, or attributes that only look like links.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ada_url import join_url
from selectolax.lexbor import LexborNode

from crawler.errors import InvalidURL
from crawler.extract.charsets import encode_query
from crawler.extract.document import Document
from crawler.urls import canonicalize

FOLLOWED_RELS: Final = ("next", "canonical", "alternate")
"""Relations of a `link` element that make it a link for us, the first that applies naming it."""

_ELEMENTS: Final = "a[href],area[href],link[href],iframe[src],meta[content],base[href]"

# A scheme that is not http or https: most of what pages hold of those is `javascript:`, `mailto:` and `data:`, which
# may be long; they never reach the URL parser.
_foreign = re.compile(r"[\x00-\x20]*(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE).match

# HTML Standard, shared declarative refresh steps (4.2.5.3): a time, a separator, perhaps `url=`, perhaps quotes.
_refresh = re.compile(
    r"[\t\n\f\r ]*(?:\d+|(?=\.))[\d.]*(?:[\t\n\f\r ]*[;,][\t\n\f\r ]*|[\t\n\f\r ]+)"
    r"(?:url[\t\n\f\r ]*=[\t\n\f\r ]*)?(?:\"([^\"]*)|'([^']*)|(.+))",
    re.IGNORECASE | re.DOTALL,
).match


class Link(NamedTuple):
    """One link of a page."""

    url: str
    """Wire form."""
    nofollow: bool
    """Whether each element that links there has the token `nofollow` in its rel."""
    rel: str
    """What links: `a`, `area`, `iframe`, `refresh`, or one of `FOLLOWED_RELS` for a `link` element."""


class Reference(NamedTuple):
    """A link as written."""

    href: str
    nofollow: bool
    rel: str


class Elements(NamedTuple):
    """What one walk over a document's elements finds."""

    base: str
    """The URL that references resolve against."""
    references: list[Reference]
    meta_robots: list[str]
    """Contents of the `meta name=robots` elements."""


def links_of(document: Document, elements: Elements | None = None) -> list[Link]:
    """Return the document's links in its order, each URL once. What cannot be resolved or fetched is left out.

    Also left out is what no author meant: an address with `<` or `>` in it comes from a quote that was not closed, one
    with a NUL from a file that is not what it says.
    """
    base, references, _ = elements or elements_of(document)
    damaged = "\0" in document.html
    resolved: dict[str, str | None] = {}
    links: dict[str, Link] = {}
    for href, nofollow, rel in references:
        if href in resolved:
            url = resolved[href]
        else:
            junk = "<" in href or ">" in href or (damaged and "\ufffd" in href)
            url = resolved[href] = None if junk else _resolve(href, base, document.encoding)
        if url is None:
            continue
        known = links.get(url)
        if known is None:
            links[url] = Link(url, nofollow, rel)
        elif known.nofollow and not nofollow:
            links[url] = known._replace(nofollow=False)
    return list(links.values())


def refresh_target(content: str) -> str | None:
    """Return the address in the content of a meta refresh as written; None when the page reloads itself."""
    found = _refresh(content)
    return next(filter(None, found.groups()), None) if found else None


def elements_of(document: Document) -> Elements:
    """Return what links, or speaks of links, in a document; nothing of one that is not HTML."""
    if document.tree is None:
        return Elements(document.url, [], [])
    base = ""
    references: list[Reference] = []
    meta_robots: list[str] = []
    for node in document.tree.css(_ELEMENTS):
        tag, attributes = node.tag, node.attrs
        if tag == "base":
            base = base or _base_of(attributes.sget("href"), document.url)
        elif tag == "meta":
            target = _refresh_of(node)
            if target:
                references.append(Reference(target, False, "refresh"))
            if attributes.sget("name").lower() == "robots":
                meta_robots.append(attributes.sget("content").strip())
        else:
            rel = attributes.sget("rel").lower().split()
            kind = _link_kind(rel) if tag == "link" else str(tag)
            if kind:
                href = attributes.sget("src" if tag == "iframe" else "href")
                references.append(Reference(href, "nofollow" in rel, kind))
    return Elements(base or document.url, references, meta_robots)


def _base_of(href: str, url: str) -> str:
    """Return the base URL that a `base` element sets (HTML Standard 4.2.3), the document's own for a bad one."""
    try:
        base = join_url(url, href)
    except ValueError:
        return url
    return url if base.startswith(("data:", "javascript:")) else base


def _link_kind(rel: Iterable[str]) -> str:
    tokens = set(rel)
    if "stylesheet" in tokens:
        return ""
    return next((kind for kind in FOLLOWED_RELS if kind in tokens), "")


def _refresh_of(meta: LexborNode) -> str | None:
    """Return where a meta element sends the browser; one in `noscript` is not for readers that follow links."""
    if meta.attrs.sget("http-equiv").lower() != "refresh":
        return None
    ancestor = meta.parent
    while ancestor is not None:
        if ancestor.tag == "noscript":
            return None
        ancestor = ancestor.parent
    return refresh_target(meta.attrs.sget("content"))


def _resolve(href: str, base: str, encoding: str) -> str | None:
    """Return the wire form of a reference, its query in the document's encoding; None when there is none."""
    if _foreign(href):
        return None
    if encoding != "utf-8" and not href.isascii():
        path, mark, query = href.partition("#")[0].partition("?")
        href = path + mark + encode_query(query, encoding)
    try:
        return canonicalize(href, base)
    except InvalidURL:
        return None
