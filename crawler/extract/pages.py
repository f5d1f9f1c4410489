"""Everything that is taken from one page, in one go: one decoding, one tree."""

from __future__ import annotations

from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser

from crawler.extract.document import Document, media_type, read
from crawler.extract.hyperlinks import Link, elements_of, links_of
from crawler.extract.language import UNKNOWN, language
from crawler.extract.main_text import DEFAULT_EXTRACTOR, clean, extractor


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says. Unknown strings are "", and `lang_score` is -1.0 where `lang` is unknown."""

    url: str
    """Wire form of the address it was read at."""
    is_html: bool
    encoding: str
    """WHATWG name, lower case."""
    text: str
    """Main text."""
    links: list[Link]
    title: str
    lang: str
    """Detected from the text, ISO 639."""
    lang_score: float
    canonical_url: str
    """Wire form of the first `link rel=canonical`."""
    refresh_url: str
    """Wire form of where a meta refresh leads."""
    meta_robots: str
    """Contents of the `meta name=robots` elements, joined by ", "; see `robots_directives`."""
    extractor: str
    """Name of what made `text`; "" when none was asked."""


def page(body: bytes, url: str, content_type: str | None, *, text_extractor: str = DEFAULT_EXTRACTOR) -> Page:
    """Read one response body. `content_type` is the whole header; `text_extractor` is "" for no text.

    Raises `InvalidURL` for a bad `url`, `BadSetting` for an unknown extractor, and nothing for any body.
    """
    document = read(body, url, content_type)
    text = text_of(document, content_type, text_extractor) if text_extractor else ""
    lang, lang_score = language(text) if text else UNKNOWN
    elements = elements_of(document)
    links = links_of(document, elements)
    tree = document.tree
    return Page(
        url=document.url,
        is_html=tree is not None,
        encoding=document.encoding,
        text=text,
        links=links,
        title=_title(tree) if tree else "",
        lang=lang,
        lang_score=lang_score,
        canonical_url=_first(links, "canonical"),
        refresh_url=_first(links, "refresh"),
        meta_robots=clean(", ".join(filter(None, elements.meta_robots))),
        extractor=text_extractor,
    )


def text_of(document: Document, content_type: str | None, name: str) -> str:
    """Return a document's main text: what the extractor finds in HTML, plain text as it is, "" of anything else."""
    if document.tree is not None:
        return clean(extractor(name)(document.html.replace("\0", ""), document.url)).strip()
    declared = media_type(content_type)
    if declared.startswith("text/") and not declared.endswith(("/xml", "+xml", "/css", "/javascript")):
        return clean(document.html).strip()
    return ""


def _first(links: list[Link], rel: str) -> str:
    return next((link.url for link in links if link.rel == rel), "")


def _title(tree: LexborHTMLParser) -> str:
    # The title of a drawing is not the page's.
    node = tree.css_first(":not(svg) > title")
    return clean(" ".join(node.text().split())) if node else ""
