"""What goes into the frontier and what comes out: plain values, no Redis.

Times are seconds since the epoch as float unless a name ends in ``_ms``. ``key`` is a URL's fingerprint, a signed
64-bit int.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class Answer(StrEnum):
    """What a call by token answers."""

    APPLIED = "APPLIED"
    ALREADY = "ALREADY"  # the same call was applied before: its reply was lost
    STALE = "STALE"  # the token holds this URL no longer: nothing was changed
    ABORTED = "ABORTED"  # seal only: the segment was aborted, the URL is still held and must be released
    LEASED = "LEASED"  # seal only, and only where asked for: ``fetched`` was never answered; else ProtocolError


class Added(StrEnum):
    """What ``add`` answers for one candidate."""

    ADDED = "ADDED"
    SEEN = "SEEN"
    AGAIN = "AGAIN"  # a target of its own redirect chain, taken again
    REJECTED = "REJECTED"


class Decision(StrEnum):
    """What was decided, once and for ever, about a segment."""

    PUBLISHED = "PUBLISHED"
    ABORTED = "ABORTED"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A URL offered to the frontier.

    ``url`` is the wire form, ``group`` its politeness group. ``chain`` holds the keys of the redirects that led
    here, oldest first. ``request`` is the JSON-able rest of a Scrapy Request (method, headers, body, callback, meta
    …), None for a plain GET by the spider's default callback. ``visit`` counts deliberate re-fetches. ``key`` is
    that of (url, request, visit): see records.candidate_key.
    """

    url: str
    key: int
    group: str
    band: int = 1
    depth: int = 0
    visit: int = 0
    chain: tuple[int, ...] = ()
    request: Mapping[str, Any] | None = None
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """One URL that its holder alone may fetch, until ``deadline_ms`` of the server's clock.

    ``token`` is 16 random bytes made by the caller. ``record`` is the stored form of the URL: with the token it
    names the URL in every later call. ``pace`` is the group's pace state, opaque here (policy.Pace). ``trail``
    holds one failure kind per earlier failure or expiry. ``asked`` is the caller's monotonic clock just before it
    first asked with this token, in seconds.
    """

    token: bytes
    group: str
    band: int
    record: bytes
    url: str
    key: int
    depth: int
    visit: int
    chain: tuple[int, ...]
    trail: tuple[str, ...]
    deadline_ms: int
    granted_ms: int
    pace: bytes = b""
    request: Mapping[str, Any] | None = None
    parent: str = ""
    asked: float = 0.0


class Named(Protocol):
    """What names a URL in a call by token: a Lease, a Handle, or anything else with these three."""

    @property
    def token(self) -> bytes: ...
    @property
    def group(self) -> str: ...
    @property
    def record(self) -> bytes: ...


class Handle(NamedTuple):
    """The least that names a leased, held or sealed URL."""

    token: bytes
    group: str
    record: bytes


@dataclass(frozen=True, slots=True)
class LeaseReply:
    """Grants, and when to ask again: ``next_due_ms`` on the server's clock (None: nothing waits here); ``now_ms``
    is that clock."""

    leases: Sequence[Lease]
    next_due_ms: int | None
    now_ms: int


@dataclass(frozen=True, slots=True)
class Wire:
    """What a request to a group was like, told when its turn ends.

    ``age_ms``: milliseconds since the request ended, on the caller's monotonic clock. ``delay_ms``: the group's
    delay from that end to the next request's start, jitter included (policy.next_pace). ``pace``: the group's new
    pace state, None to leave it as it is.
    """

    age_ms: int
    delay_ms: int
    pace: bytes | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where a completed URL led. ``candidate.chain`` already ends with the source's key."""

    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Completion:
    """A URL that is done without a document. ``reason``: one of policy.KINDS. Without a ``wire`` no request was
    made, or its turn is over."""

    lease: Named
    reason: str
    wire: Wire | None = None
    redirect: Redirect | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed by ``kind``, one of policy.KINDS; ``not_before_ms`` (the server's clock) may lengthen
    the delay."""

    lease: Named
    kind: str
    wire: Wire | None = None
    not_before_ms: int = 0


@dataclass(frozen=True, slots=True)
class Handback:
    """A URL given back unattempted. Before ``not_before_ms`` (the server's clock) it is not granted again."""

    lease: Named
    wire: Wire | None = None
    not_before_ms: int = 0


@dataclass(frozen=True, slots=True)
class Burial:
    """A URL that is given up now, for ``reason``."""

    lease: Named
    reason: str
    wire: Wire | None = None


@dataclass(frozen=True, slots=True)
class Reserved:
    """Whether a turn without a URL was granted: until ``deadline_ms``, or not before ``next_ms``; 0 where it does
    not apply.

    ``pace`` is the group's pace state, ``now_ms`` the server's clock.
    """

    granted: bool
    deadline_ms: int
    next_ms: int
    pace: bytes
    now_ms: int


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What a call of ``reclaim`` took back: URLs expired, those of them that are dead of it, turns ended; and which
    segments have been without their worker for longer than SPOOL_GRACE: the caller aborts them."""

    expired: int = 0
    dead: int = 0
    turns: int = 0
    segments: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Holding:
    """What the frontier holds for a worker in one partition: URLs held, and names of segments with sealed URLs."""

    held: Sequence[Handle]
    segments: Sequence[str]


@dataclass(frozen=True, slots=True)
class Pending:
    """Work that anyone may carry out: redirects in the outbox, decided segments whose effects or manifest are not
    known to stand."""

    outbox: Sequence[tuple[int, bytes, Candidate]]  # (partition, token, candidate)
    segments: Sequence[str]


@dataclass(frozen=True, slots=True)
class Decided:
    """A segment's decision and, while it is not known to stand, its manifest text."""

    decision: Decision
    manifest: str


@dataclass(frozen=True, slots=True)
class Sealed:
    """Answers in the order of the tokens asked about, and how many tokens the segment has over all partitions
    asked."""

    answers: Sequence[Answer]
    total: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A URL that was given up: ``reasons`` has every failure kind met, the last one final."""

    id: str
    url: str
    group: str
    depth: int
    reasons: tuple[str, ...]
    buried_ms: int


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A politeness group as operators see it. ``bands``: those in which it has work; ``pace``: see policy.Pace."""

    group: str
    turns: int
    bands: tuple[int, ...]
    next_allowed_ms: int
    delay_ms: int
    blocked_until_ms: int
    pace: bytes


@dataclass(slots=True)
class Snapshot:
    """Counters summed over the partitions.

    ``due``: groups that may be fetched now, once for each band in which one has work; ``moves``: transitions ever
    made, per partition; ``reasons``: URLs done without a document, and dead, by reason.
    """

    added: int = 0
    queued: int = 0
    delayed: int = 0
    leased: int = 0
    held: int = 0
    sealed: int = 0
    done: int = 0
    dead: int = 0
    groups: int = 0
    due: int = 0
    outbox: int = 0
    pending: int = 0
    expiries: int = 0
    moves: tuple[int, ...] = ()
    next_due_ms: int | None = None
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def open(self) -> int:
        """URLs and duties that are not settled; 0 in two snapshots with equal ``moves`` means that the crawl is
        finished."""
        return self.queued + self.delayed + self.leased + self.held + self.sealed + self.outbox + self.pending
