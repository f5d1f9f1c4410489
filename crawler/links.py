"""Which discovered links are worth offering to the frontier: scope and trap filters, each a pure test with a name.

The names are those of the stats (`links/rejected/<reason>`) and of the frontier's REJECTED answers. A filter never
changes a URL; what passes all of them is offered as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from crawler.hosts import hostname

SCHEME: Final = "scheme"
TOO_LONG: Final = "url-length"
TOO_DEEP: Final = "depth"
OFFSITE: Final = "offsite"
DENIED: Final = "denied"
TEMPLATE: Final = "template"
TOO_MANY_SEGMENTS: Final = "path-segments"
REPEATED_SEGMENT: Final = "repeated-segment"
TOO_MANY_PARAMETERS: Final = "query-parameters"
REPEATED_PARAMETER: Final = "repeated-parameter"

# What a template, a broken quote or a page that is escaped twice leaves in an address, as WHATWG escapes it.
_template = re.compile(
    r"%3[CE]|(?:\{|%7B){2}|\$(?:\{|%7B)|(?:%20[^%]*){16}|(?:amp(?:;|%(?:25)*3B).*){3}", re.IGNORECASE
).search


@dataclass(frozen=True, slots=True)
class Scope:
    """The limits of a crawl for one link. Lengths are in characters; 0 or an empty value is no limit."""

    schemes: frozenset[str] = frozenset({"http", "https"})
    allowed_domains: frozenset[str] = frozenset()
    """Domains with all their subdomains, in wire spelling."""
    deny: tuple[re.Pattern[str], ...] = ()
    """Patterns searched for in the wire form."""
    depth: int = 0
    """Links between a seed and a page."""
    url_length: int = 2083
    segments: int = 32
    repeated_segments: int = 3
    """How often one path segment may stand in a path: `/a/b/a/b/a/b/a` is a trap, `/2024/2024` is a date."""
    parameters: int = 32
    repeated_parameters: int = 4
    """How often one name may stand in a query."""
    _suffixes: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        suffixes = tuple(f".{domain.strip('.').lower()}" for domain in sorted(self.allowed_domains))
        object.__setattr__(self, "_suffixes", suffixes)

    def reason(self, url: str, depth: int) -> str | None:
        """Return why a link is left out, None when it is kept.

        `url` is in wire form, `depth` counts the links from a seed to it.
        """
        if url.partition(":")[0] not in self.schemes:
            return SCHEME
        if self.url_length and len(url) > self.url_length:
            return TOO_LONG
        if self.depth and depth > self.depth:
            return TOO_DEEP
        if self._suffixes and not f".{hostname(url)}".endswith(self._suffixes):
            return OFFSITE
        if any(pattern.search(url) for pattern in self.deny):
            return DENIED
        return self._trap(url)

    def _trap(self, url: str) -> str | None:
        """Return the sign of an endless or broken site that a URL shows, None for none."""
        if ("%" in url or "{" in url or "amp;" in url) and _template(url):
            return TEMPLATE
        address, _, query = url.partition("?")
        path = [segment for segment in address.split("/")[3:] if segment]
        if self.segments and len(path) > self.segments:
            return TOO_MANY_SEGMENTS
        if _repeats(path, self.repeated_segments):
            return REPEATED_SEGMENT
        if not query:
            return None
        names = [piece.partition("=")[0] for piece in query.split("&")]
        if self.parameters and len(names) > self.parameters:
            return TOO_MANY_PARAMETERS
        return REPEATED_PARAMETER if _repeats(names, self.repeated_parameters) else None


def _repeats(items: list[str], limit: int) -> bool:
    """Say whether one item stands more than `limit` times among the items; a limit of 0 is none."""
    return 0 < limit < len(items) and max(Counter(items).values()) > limit
