"""The main text of a page, by an extractor that a setting names."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Final

from resiliparse.extract.html2text import extract_plain_text

from crawler.errors import BadSetting

Extractor = Callable[[str, str], str]
"""Takes a page's HTML and its URL, returns its main text, "" when there is none."""

DEFAULT_EXTRACTOR: Final = "resiliparse"

_unwanted = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]").search
_remove_unwanted = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f]").sub


def resiliparse(html: str, _url: str) -> str:
    """Extract by resiliparse: fast (1 ms a page); a page in which it sees no main content gives all its text."""
    main: str = extract_plain_text(html, main_content=True, alt_texts=False)
    return main if main.strip() else str(extract_plain_text(html, alt_texts=False))


def trafilatura(html: str, url: str) -> str:
    """Extract by trafilatura: 8 times slower and better. Its `deduplicate` is off: it remembers earlier pages."""
    from trafilatura import extract

    return extract(html, url=url, include_comments=False, deduplicate=False) or ""


_BUILT_IN: Final[dict[str, Extractor]] = {"resiliparse": resiliparse, "trafilatura": trafilatura}


@lru_cache(maxsize=16)
def extractor(name: str) -> Extractor:
    """Return the extractor called `resiliparse` or `trafilatura`, or the callable at `module:name` or `module.name`.

    Raises `BadSetting`, naming it, when there is none.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    module, _, attribute = name.rpartition(":" if ":" in name else ".")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise BadSetting(f"no text extractor {name!r}: {error}") from error
    if not callable(found):
        raise BadSetting(f"no text extractor {name!r}: it cannot be called")
    return found  # type: ignore[no-any-return]


def clean(text: str) -> str:
    """Return `text` as a line of the corpus may hold it: no lone surrogate, no NUL or other control character."""
    if not _unwanted(text):
        return text
    return _remove_unwanted("", text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
