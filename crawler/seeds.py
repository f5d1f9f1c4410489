"""Seeds: where a crawl begins. A file, `-` for standard input, or a URL; one URL a line, with an optional band behind
it.

Empty lines and lines that begin with `#` are passed over.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

from crawler.errors import BadSeeds, InvalidURL
from crawler.urls import canonicalize


@dataclass(frozen=True, slots=True)
class Seed:
    """One line of a seeds source. ``url`` is the wire form, '' when the line is no seed and ``fault`` says why;
    ``band`` None: the policy's.
    """

    source: str
    line: int
    url: str
    band: int | None = None
    fault: str = ""


def read(source: str) -> Iterator[Seed]:
    """Every line of ``source`` that means something, right or wrong. Raises BadSeeds when it cannot be read."""
    if source.startswith(("http://", "https://")):
        yield _seed(source, 1, source)
        return
    try:
        with nullcontext(sys.stdin) if source == "-" else open(source, encoding="utf-8-sig", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                text = line.strip()
                if text and not text.startswith("#"):
                    yield _seed(source, number, text)
    except FileNotFoundError:
        raise BadSeeds(f"seeds file {source!r} does not exist") from None
    except (OSError, UnicodeError) as error:
        raise BadSeeds(f"seeds file {source!r} cannot be read: {error}") from error


def check(source: str) -> None:
    """Raises BadSeeds unless ``source`` can be read and holds at least one URL. Standard input is taken on trust: it
    can be read once.
    """
    if source != "-" and not any(seed.url for seed in read(source)):
        raise BadSeeds(f"seeds file {source!r} holds no URL")


def _seed(source: str, number: int, text: str) -> Seed:
    url, _, rest = text.partition(" ") if "\t" not in text else text.partition("\t")
    band: int | None = None
    if rest.strip():
        if not (rest.strip().isascii() and rest.strip().isdigit()):
            return Seed(source, number, "", fault=f"{rest.strip()!r} is no band")
        band = int(rest)
    try:
        return Seed(source, number, canonicalize(url), band)
    except InvalidURL as error:
        return Seed(source, number, "", fault=str(error))
