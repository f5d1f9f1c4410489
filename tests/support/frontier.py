"""Short forms for tests of the frontier."""

from __future__ import annotations

from typing import Any

from crawler.frontier import Candidate, Frontier, Lease, Model
from crawler.frontier.keys import partition_of
from crawler.hosts import politeness_group
from crawler.urls import fingerprint

START = 1_000_000
"""The virtual clock's first millisecond."""

AnyFrontier = Frontier | Model


def candidate(url: str, **more: Any) -> Candidate:
    """A candidate for a plain GET, its key and group as the crawl makes them."""
    key = more.pop("key") if "key" in more else fingerprint(url)
    group = more.pop("group") if "group" in more else politeness_group(url)
    return Candidate(url, key, group, **more)


def tokens(count: int, first: int = 0) -> list[bytes]:
    """Tokens that differ from run to run in nothing."""
    return [(first + number).to_bytes(16, "big") for number in range(count)]


async def granted(frontier: AnyFrontier, count: int, now: int, worker: str = "w", first: int = 0) -> list[Lease]:
    """The leases of one call."""
    return list((await frontier.lease(tokens(count, first), worker, now=now)).leases)


def groups_in(partition: int, partitions: int, count: int) -> list[str]:
    """Names of groups that lie in one partition."""
    found = (f"g{number}.test" for number in range(100_000))
    return [
        name
        for name, _ in zip((n for n in found if partition_of(n, partitions) == partition), range(count), strict=False)
    ]
