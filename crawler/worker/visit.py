"""One lease in this process, from its grant to its single outcome (invariant 3).

    READY ── handed to the engine ──► FETCHING ── turn over ──► PARSING ── callback, items and links done ──► settled

A visit is settled exactly once, as one of: document (a row waits for its seal), complete, retry, release, bury, or
stale. Whoever settles it says so through `settle`, and every later attempt is told that it comes too late."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from crawler.frontier import Lease, Wire


@dataclass(slots=True)
class Fetch:
    """What one request was like. Times in seconds: ``ended`` on the monotonic clock, ``at`` since the epoch.

    ``kind`` is '' or the failure's kind; ``retry_after`` the seconds a server asked for, None when it did not.
    """

    status: int = 0
    kind: str = ""
    latency: float = 0.0
    ended: float = field(default_factory=time.monotonic)
    at: float = field(default_factory=time.time)
    bytes: int = 0
    ip: str = ""
    retry_after: float | None = None
    truncated: str = ""
    last_modified: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn reserved to ask for ``url`` without a lease; ``pace`` is what its group's was then (policy.Pace)."""

    token: bytes
    group: str
    url: str
    pace: bytes


@dataclass(slots=True, eq=False, weakref_slot=True)
class Visit:
    """A lease and what has become of it here.

    ``expires`` is the monotonic second after which its request may not be in flight. ``robots_for`` names the
    authority when the lease's turn is used to ask for a robots.txt instead of the page, and ``turn`` a reserved one
    when that lies in another group. ``wire`` is what the frontier is told of the request, until it has answered.
    ``parsing``: the page has reached the spider. ``waiting`` counts answers and items that are not in yet; ``rows``
    are the page's documents, ``reason`` why it has none.
    """

    lease: Lease
    expires: float
    robots_for: str = ""
    robots_url: str = ""
    robots_rule: str = ""
    turn: Turn | None = None
    fetch: Fetch | None = None
    turn_over: bool = False
    wire: Wire | None = None
    parsing: bool = False
    exhausted: bool = False
    waiting: int = 0
    failure: str = ""
    stale: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""
    outcome: str = ""
    children: int = 0

    def settle(self, outcome: str) -> bool:
        """Take ``outcome`` if the visit has none yet; False when it comes too late."""
        if self.outcome:
            return False
        self.outcome = outcome
        return True

    @property
    def settled(self) -> bool:
        """Whether the outcome is decided."""
        return bool(self.outcome)
