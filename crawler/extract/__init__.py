"""From the bytes of a response to text, links and metadata: pure functions, no network, no state.

    bytes ── encoding (labels, charsets, prescan) ──► text ── document ──► one lexbor tree
                                                       │                        ├── hyperlinks
                                                       └── main_text, language  └── pages: title, robots, canonical

`page` does all of it in one go; `decode`, `links` and `text` do one thing each for callers that want no more.
"""

from __future__ import annotations

from crawler.extract.directives import robots_directives
from crawler.extract.document import is_html, read
from crawler.extract.encoding import decode
from crawler.extract.hyperlinks import Link, links_of
from crawler.extract.main_text import DEFAULT_EXTRACTOR, extractor
from crawler.extract.pages import Page, page, text_of

__all__ = ["Link", "Page", "decode", "extractor", "is_html", "links", "page", "robots_directives", "text"]


def links(body: bytes, url: str, content_type: str | None) -> list[Link]:
    """Return the links of a response body in its order, each URL once; none of a body that is not HTML.

    Raises `InvalidURL` for a bad `url`, and nothing for any body.
    """
    return links_of(read(body, url, content_type))


def text(body: bytes, url: str, content_type: str | None, *, text_extractor: str = DEFAULT_EXTRACTOR) -> str:
    """Return the main text of a response body, "" when it has none.

    Raises `InvalidURL` for a bad `url`, `BadSetting` for an unknown extractor, and nothing for any body.
    """
    return text_of(read(body, url, content_type), content_type, text_extractor)
