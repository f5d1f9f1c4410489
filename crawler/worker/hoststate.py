"""What is known of one authority (scheme, host, port) for all workers: its robots.txt, and when to ask for it again.

RFC 9309: 2xx gives rules; 4xx allows everything (429 counts as 5xx); 5xx, time-outs and unreachable disallow
everything for now and are asked again with back-off; redirects are followed up to five hops and then count as 4xx. A
hop is not followed at once: the location is stored, and whoever next has the group's turn goes on from there, so that
the group's delay lies between any two requests."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from crawler.errors import FrontierMismatch

VERSION = 1
MAX_HOPS = 5  # RFC 9309 2.3.1.2
MAX_STORED = 32 * 1024  # bytes of compressed rules kept in the frontier


class Robots(StrEnum):
    """What an authority's robots.txt means at the moment."""

    UNKNOWN = "unknown"
    RULES = "rules"
    ALLOW = "allow"
    UNREACHABLE = "unreachable"
    REDIRECT = "redirect"


@dataclass(frozen=True, slots=True)
class HostState:
    """One authority's record. Times are milliseconds of the frontier's clock; 0 means never.

    ``body`` holds the rules' text. ``location`` and ``hops`` are those of a redirect that is still to be followed.
    ``failures`` counts unreachable answers in a row, since ``failing_since_ms``; the next attempt is not before
    ``next_ms``.
    """

    robots: Robots = Robots.UNKNOWN
    fetched_ms: int = 0
    next_ms: int = 0
    status: int = 0
    failures: int = 0
    failing_since_ms: int = 0
    hops: int = 0
    location: str = ""
    body: bytes = b""

    def pack(self) -> bytes:
        """The stored form: version byte, JSON head, newline, compressed rules."""
        head = {
            "robots": self.robots.value,
            "fetched_ms": self.fetched_ms,
            "next_ms": self.next_ms,
            "status": self.status,
            "failures": self.failures,
            "failing_since_ms": self.failing_since_ms,
            "hops": self.hops,
            "location": self.location,
        }
        return bytes([VERSION]) + orjson.dumps(head) + b"\n" + zlib.compress(self.body, 6)

    @classmethod
    def unpack(cls, stored: bytes | None) -> HostState:
        """Read ``pack``'s form; None is an authority never asked. Raises FrontierMismatch for another version."""
        if not stored:
            return cls()
        if stored[0] != VERSION:
            raise FrontierMismatch(f"host state of version {stored[0]}, this code reads {VERSION}")
        head, _, packed = stored[1:].partition(b"\n")
        values: dict[str, Any] = orjson.loads(head)
        return cls(**{**values, "robots": Robots(values["robots"])}, body=zlib.decompress(packed))

    def current(self, now_ms: int, ttl_ms: int) -> bool:
        """Whether rules or their absence are young enough to go by."""
        return self.robots in (Robots.RULES, Robots.ALLOW) and now_ms - self.fetched_ms < ttl_ms

    def answered(
        self, status: int, body: bytes, location: str | None, now_ms: int, delays: Sequence[float]
    ) -> HostState:
        """The record after an answer to the robots.txt request. ``delays``: back-off of unreachable ones, seconds."""
        if 200 <= status < 300:
            return HostState(Robots.RULES, now_ms, 0, status, body=_cut(body))
        if 300 <= status < 400:
            if location and self.hops < MAX_HOPS:
                return replace(
                    self, robots=Robots.REDIRECT, status=status, hops=self.hops + 1, location=location, next_ms=0
                )
            return HostState(Robots.ALLOW, now_ms, 0, status)
        if status == 429 or status >= 500 or status < 200:
            return self.unreachable(status, now_ms, delays)
        return HostState(Robots.ALLOW, now_ms, 0, status)

    def unreachable(self, status: int, now_ms: int, delays: Sequence[float]) -> HostState:
        """The record after no usable answer: everything is disallowed until ``next_ms``, then asked again."""
        wait = delays[min(self.failures, len(delays) - 1)] if delays else 60.0
        return HostState(
            Robots.UNREACHABLE,
            now_ms,
            now_ms + int(wait * 1000),
            status,
            failures=self.failures + 1,
            failing_since_ms=self.failing_since_ms or now_ms,
        )


def _cut(body: bytes) -> bytes:
    """Rules that still fit when compressed; cut at a line end, longest first lines kept."""
    while len(zlib.compress(body, 6)) > MAX_STORED:
        end = body.rfind(b"\n", 0, len(body) * 3 // 4)
        if end <= 0:
            return b""
        body = body[: end + 1]
    return body
