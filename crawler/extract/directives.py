"""What a page lets be done with it: robots directives of meta elements and of the X-Robots-Tag header."""

from __future__ import annotations

import re
from collections.abc import Iterable

_VALUED = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
_addressee = re.compile(r"[\t ]*([A-Za-z0-9_-]+)[\t ]*:(.*)", re.DOTALL).match


def robots_directives(values: Iterable[str], agent: str = "") -> frozenset[str]:
    """Return the directives in lower case that contents of `<meta name=robots>` or X-Robots-Tag headers give an agent.

    A header value may begin with the product token it is for (`otherbot: nofollow`); those for others than `agent` do
    not count. `none` stands for noindex and nofollow, and both are added.
    """
    found: set[str] = set()
    for value in values:
        addressed = _addressee(value)
        if addressed is None or addressed[1].lower() in _VALUED:
            directives = value
        elif addressed[1].lower() == agent.lower():
            directives = addressed[2]
        else:
            continue
        found.update(filter(None, (directive.strip().lower() for directive in directives.split(","))))
    if "none" in found:
        found |= {"noindex", "nofollow"}
    return frozenset(found)
