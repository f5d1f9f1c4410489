"""What a spider's callback gives for one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crawler.extract import Link
from crawler.frontier import Candidate


@dataclass(slots=True)
class PageItem:
    """One page: its text for the corpus, its links for the frontier. A spider may change any of it before it yields it.

    ``metadata`` holds values of the corpus schema (storage/schema.py METADATA) besides those that the worker knows.
    ``index`` False keeps the page out of the corpus; its links are followed all the same. ``candidates`` are the
    links that are in scope."""

    url: str
    text: str
    links: list[Link] = field(default_factory=list)
    candidates: Sequence[Candidate] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    index: bool = True
    token: str = ""
