"""The manifest of a segment: which objects hold its rows, and what they must look like.

Its text is part of the publish decision, so that anyone can write it; readers who want exactly what was published go
by manifests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from crawler.errors import CorruptSegment
from crawler.storage.schema import SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """One stored object: ``key`` in the corpus, ``bytes`` and ``sha256`` (hex) as stored, ``rows`` lines in it."""

    key: str
    bytes: int
    sha256: str
    rows: int
    rows_with_text: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What stands of a segment. ``min_date`` and ``max_date`` are the first and last UTC day of its documents."""

    segment: str
    crawl: str
    worker: str
    created: str
    min_date: str
    max_date: str
    objects: Sequence[ObjectEntry]
    schema_version: int = SCHEMA_VERSION

    def text(self) -> str:
        """Canonical JSON: keys sorted, no spaces, one line."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE).decode()

    @classmethod
    def parse(cls, text: str | bytes) -> Manifest:
        """The manifest of a text. Raises CorruptSegment, saying what is wrong with it."""
        try:
            body: dict[str, Any] = orjson.loads(text)
            objects = [ObjectEntry(**entry) for entry in body.pop("objects")]
            manifest = cls(objects=objects, **body)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise CorruptSegment(f"manifest is not readable: {error}") from error
        if manifest.schema_version != SCHEMA_VERSION:
            raise CorruptSegment(f"manifest has schema version {manifest.schema_version}, not {SCHEMA_VERSION}")
        return manifest
