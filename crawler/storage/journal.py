"""The journal of a segment: one line for each group commit, which says what of the segment's parts counts."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from crawler.errors import CorruptSegment

JOURNAL: Final = ".journal"
"""What a journal's file name ends with, after the segment's name."""

_VERSION: Final = 1
_EXTENSIONS: Final = {"documents": "jsonl.gz", "fetchlog": "jsonl.gz"}


class Part(NamedTuple):
    """One file of a segment: a kind of line (``documents``, ``fetchlog``) and the UTC day it belongs to."""

    kind: str
    day: str

    def path(self, directory: Path, segment: str) -> Path:
        """Where the part lies in a spool."""
        return directory / f"{segment}.{self.kind}.{self.day}.{_EXTENSIONS[self.kind]}"

    def key(self, segment: str, digest: str) -> str:
        """Where it lies in the corpus; ``digest`` is its SHA-256 in hex, of which the key carries 16 digits."""
        return f"{self.kind}/dt={self.day}/{segment}.{digest[:16]}.{_EXTENSIONS[self.kind]}"


def segment_of(key: str) -> str:
    """The segment whose name is in an object's key."""
    return key.rsplit("/", 1)[-1].rsplit(".", 3)[0]


class Row(NamedTuple):
    """What one leased URL has in a segment: ``lines`` lines of ``part``, ``texts`` of which hold text."""

    token: bytes
    group: str
    record: bytes
    part: Part
    lines: int
    texts: int


class Extent(NamedTuple):
    """The member that one commit wrote to a part: its place in bytes, its CRC-32, and how many lines it holds."""

    part: Part
    offset: int
    length: int
    crc: int
    lines: int


class Commit(NamedTuple):
    """One group commit, as the journal tells it."""

    extents: tuple[Extent, ...]
    rows: tuple[Row, ...]


def pack(commit: Commit) -> bytes:
    """A commit as one journal line: CRC-32 in hex, the JSON it is of, a newline."""
    parts = list(dict.fromkeys(extent.part for extent in commit.extents))
    body = orjson.dumps(
        {
            "v": _VERSION,
            "parts": [list(part) for part in parts],
            "extents": [(parts.index(e.part), e.offset, e.length, e.crc, e.lines) for e in commit.extents],
            "rows": [
                (_text(row.token), row.group, _text(row.record), parts.index(row.part), row.lines, row.texts)
                for row in commit.rows
            ],
        }
    )
    return b"%08x %s\n" % (zlib.crc32(body), body)


def unpack(line: bytes) -> Commit | None:
    """The commit of a journal line, None when the line is not whole. Raises CorruptSegment for another version's."""
    if not line.endswith(b"\n") or line[:9] != b"%08x " % zlib.crc32(line[9:-1]):
        return None
    body: dict[str, Any] = orjson.loads(line[9:-1])
    if body["v"] != _VERSION:
        raise CorruptSegment(f"journal of version {body['v']}, not {_VERSION}: another release wrote this spool")
    parts = [Part(*part) for part in body["parts"]]
    extents = tuple(Extent(parts[at], *numbers) for at, *numbers in body["extents"])
    rows = tuple(
        Row(b64decode(token), group, b64decode(record), parts[at], lines, texts)
        for token, group, record, at, lines, texts in body["rows"]
    )
    return Commit(extents, rows)


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def read_journal(path: Path, end: int) -> Iterator[tuple[int, Commit]]:
    """(where the journal line ends, the commit), up to the first line that is not whole, or ``end``."""
    at = 0
    with open(path, "rb") as journal:
        for line in journal:
            at += len(line)
            if at > end or (commit := unpack(line)) is None:
                return
            yield at, commit
