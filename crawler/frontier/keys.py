"""The name of every key, once. Scripts get theirs from the headers of the .lua files; the names there are these.

All keys of partition p of crawl c begin with the tag ``{c:p}:``, so that Redis Cluster keeps them together.
"""

from __future__ import annotations

from zlib import crc32

CRAWL = "crawl"
"""In partition 0: what the crawl was made with."""


def tag(crawl: str, partition: int) -> str:
    """What all keys of a partition begin with."""
    return f"{{{crawl}:{partition}}}:"


def partition_of(name: str, partitions: int) -> int:
    """The partition of a politeness group; also of a segment's decision. CRC-32 of the name, fixed for ever."""
    return crc32(name.encode()) % partitions


def everything(crawl: str) -> str:
    """The glob that matches all keys of a crawl, for `purge`."""
    escaped = "".join(f"\\{char}" if char in "*?[]\\^" else char for char in crawl)
    return f"{{{escaped}:*}}:*"
