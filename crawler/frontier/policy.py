"""What failures cost, how a group is paced, and which URL comes first. Pure: no clock, no Redis, no Scrapy.

Simulation runs these very functions. Times are milliseconds where the name says so, seconds otherwise.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from crawler.frontier.states import State
from crawler.options import Options


class Cost(Enum):
    """Who pays for a failure."""

    URL = "url"  # an attempt of the URL: the ladder, then the dead letters
    GROUP = "group"  # the politeness group backs off as one
    NONE = "none"  # nobody: ours, or a name for something that is counted elsewhere
    ANSWER = "answer"  # it is no failure: the URL is done without a document


@dataclass(frozen=True, slots=True)
class Kind:
    """A way in which a fetch ends without a document. ``code`` is stored in records and never changes its meaning."""

    name: str
    code: int
    cost: Cost


REPLAYED: Final = 0
"""The trail's code for "an operator replayed this URL": what stands before it no longer counts."""

_TABLE = (
    ("expired", 1, Cost.NONE),  # counted apart, against MAX_EXPIRIES
    ("poison", 2, Cost.NONE),
    ("offline", 3, Cost.NONE),
    ("dropped", 4, Cost.NONE),
    ("dns", 10, Cost.GROUP),
    ("refused", 11, Cost.GROUP),
    ("tls", 12, Cost.GROUP),
    ("connect-timeout", 13, Cost.GROUP),
    ("unreachable", 14, Cost.GROUP),
    ("robots-unreachable", 15, Cost.GROUP),
    ("throttled", 16, Cost.GROUP),  # 429, 503
    ("timeout", 20, Cost.URL),  # the group's when in a row, see `cost_of`
    ("reset", 21, Cost.URL),
    ("server-error", 22, Cost.URL),
    ("truncated", 23, Cost.URL),
    ("decode", 24, Cost.URL),
    ("bad-response", 25, Cost.URL),
    ("too-slow", 26, Cost.URL),
    ("callback-error", 30, Cost.URL),
    ("pipeline-error", 31, Cost.URL),
    ("cancelled", 40, Cost.NONE),  # we stopped: shutdown, a lost lease
    ("not-found", 50, Cost.ANSWER),
    ("gone", 51, Cost.ANSWER),
    ("http-4xx", 52, Cost.ANSWER),
    ("http-error", 53, Cost.ANSWER),
    ("redirect", 54, Cost.ANSWER),
    ("redirect-loop", 55, Cost.ANSWER),
    ("robots", 56, Cost.ANSWER),
    ("filtered", 57, Cost.ANSWER),
    ("guard", 58, Cost.ANSWER),  # the address guard refused every address
    ("too-large", 59, Cost.ANSWER),
    ("unsupported-content", 60, Cost.ANSWER),
    ("unsupported-url", 61, Cost.ANSWER),
    ("no-document", 62, Cost.ANSWER),  # a spider that yielded no item
    ("not-modified", 63, Cost.ANSWER),
    ("crawl-delay", 64, Cost.ANSWER),  # robots.txt asks for more than CRAWL_DELAY_MAX
)
KINDS: Final[dict[str, Kind]] = {name: Kind(name, code, cost) for name, code, cost in _TABLE}
"""Every kind of failure and every reason to be done without a document, by its one name."""

BY_CODE: Final[dict[int, Kind]] = {kind.code: kind for kind in KINDS.values()}

TIMEOUTS_IN_A_ROW: Final = 3
"""Failures in a row of one group from which on a timeout is the group's and no longer the URL's."""

MAX_HOPS: Final = 5
"""Longest redirect chain whose own members are taken again."""

ALONE_FROM: Final = 2
"""Expiries from which on a URL is granted alone, so that a page that kills workers takes no neighbours along."""


def cost_of(kind: str, failures: int) -> Cost:
    """Who pays for ``kind`` in a group that failed ``failures`` times in a row before. Unknown kinds are the
    URL's."""
    if kind == "timeout" and failures >= TIMEOUTS_IN_A_ROW:
        return Cost.GROUP
    known = KINDS.get(kind)
    return known.cost if known else Cost.URL


def _since_replay(trail: Sequence[str]) -> Sequence[str]:
    for at in range(len(trail), 0, -1):
        if trail[at - 1] == "replayed":
            return trail[at:]
    return trail


def attempts(trail: Sequence[str]) -> int:
    """Attempts that a trail stands for: failures that were the URL's, since it was last replayed.

    The first failure that was the group's is no attempt; `after_failure` says when a later one is written down at
    all.
    """
    met = [cost_of(name, 0) for name in _since_replay(trail)]
    own = len(met) - met.count(Cost.NONE) - met.count(Cost.GROUP)
    return own + max(0, met.count(Cost.GROUP) - 1)


def expiries(trail: Sequence[str]) -> int:
    """Ended leases in a trail, since the URL was last replayed."""
    return list(_since_replay(trail)).count("expired")


def retry_delay(attempt: int, delays: Sequence[float], rand: float) -> float:
    """Seconds to wait after failed attempt number ``attempt`` (from 1): the ladder's step, the last one repeating.

    ``rand`` in [0, 1) adds up to a tenth, so that what failed together does not come back together.
    """
    if not delays:
        return 0.0
    return delays[min(attempt, len(delays)) - 1] * (1 + rand / 10)


@dataclass(frozen=True, slots=True)
class Fate:
    """Where a failed URL goes: DELAYED for ``delay`` seconds, QUEUED at the tail of its queue, or DEAD. ``code``:
    what to add to its trail."""

    state: State
    code: int | None
    delay: float = 0.0


def after_failure(trail: Sequence[str], kind: str, failures: int, options: Options, rand: float) -> Fate:
    """What becomes of a URL after a failure of ``kind``; ``failures``: how often its group failed in a row before.

    A failure of the group costs the URL nothing and sends it to the tail of its queue, behind those of the group's
    other hosts. But a URL that fails so again although its group has answered in the meantime (one dead host in a
    living domain) pays itself: otherwise it would be tried for ever.
    """
    cost = cost_of(kind, failures)
    known = KINDS.get(kind, KINDS["bad-response"])
    if cost is Cost.NONE:
        return Fate(State.QUEUED, None)
    if cost is Cost.GROUP:
        met_before = any(cost_of(name, 0) is Cost.GROUP for name in _since_replay(trail))
        if not met_before:
            return Fate(State.QUEUED, known.code)
        if failures:
            return Fate(State.QUEUED, None)
    attempt = attempts(trail) + 1
    if attempt >= options.max_attempts:
        return Fate(State.DEAD, known.code)
    return Fate(State.DELAYED, known.code, retry_delay(attempt, options.retry_delays, rand))


@dataclass(frozen=True, slots=True)
class Pace:
    """What the fleet knows of a group's patience. Stored in the group's row, written at the end of every turn.

    ``latency_ms`` is smoothed; ``penalty_ms`` is what 429 and 503 without Retry-After have added; ``failures`` in a
    row since ``failing_since_ms`` (0: the last request was answered); ``crawl_delay_ms`` is robots.txt's;
    ``fetched`` counts answers.
    """

    latency_ms: int = 0
    penalty_ms: int = 0
    failures: int = 0
    failing_since_ms: int = 0
    crawl_delay_ms: int = 0
    fetched: int = 0

    _FORM = struct.Struct(">BIIHQII")
    _VERSION = 1

    def pack(self) -> bytes:
        """27 bytes, the first of which is the version."""
        limit = 0xFFFFFFFF
        return self._FORM.pack(
            self._VERSION,
            min(self.latency_ms, limit),
            min(self.penalty_ms, limit),
            min(self.failures, 0xFFFF),
            self.failing_since_ms,
            min(self.crawl_delay_ms, limit),
            min(self.fetched, limit),
        )

    @classmethod
    def unpack(cls, stored: bytes) -> Pace:
        """The reverse; empty or of another version: a group of which nothing is known."""
        if len(stored) != cls._FORM.size or stored[0] != cls._VERSION:
            return cls()
        return cls(*cls._FORM.unpack(stored)[1:])


@dataclass(frozen=True, slots=True)
class Response:
    """How one request ended. ``kind`` is None for an answer that is no failure; ``retry_after`` in seconds, None
    where not said."""

    now_ms: int
    latency: float = 0.0
    status: int = 0
    kind: str | None = None
    retry_after: float | None = None


LATENCY_WEIGHT: Final = 0.5
"""Weight of the newest latency in the smoothed one, as in Scrapy's AutoThrottle: (old + new) / 2."""

PENALTY_FIRST_MS: Final = 1000
"""Least delay after a 429 or 503 that does not say how long to wait."""


def next_pace(pace: Pace, response: Response, options: Options, rand: float) -> tuple[Pace, int]:
    """A group's pace after a request, and the delay from that request's end to the next one's start, in milliseconds.

    delay = max(DOWNLOAD_DELAY, Crawl-delay, AutoThrottle's, penalty, back-off, Retry-After), lengthened by jitter.
    AutoThrottle's is the smoothed latency / target concurrency; errors never shorten it. 429 and 503: Retry-After
    is kept to, else the penalty doubles; every answer after that halves it. Failures of the group climb the ladder
    RETRY_DELAYS.
    """
    kind = response.kind
    cost = cost_of(kind, pace.failures) if kind else Cost.ANSWER
    if cost is Cost.GROUP or kind == "timeout":
        pace = _after_group_failure(pace, response, options)
    elif cost is not Cost.NONE:
        pace = _after_answer(pace, response, failed=cost is Cost.URL)
    waits = [options.download_delay * 1000, float(pace.crawl_delay_ms), float(pace.penalty_ms)]
    if options.autothrottle_enabled:
        latency = pace.latency_ms / options.autothrottle_target_concurrency
        waits.append(min(latency, options.autothrottle_max_delay * 1000))
    if response.retry_after is not None:
        waits.append(min(max(response.retry_after, 0.0), options.retry_after_max) * 1000)
    elif cost is Cost.GROUP and kind != "throttled":
        waits.append(retry_delay(pace.failures, options.retry_delays, 0.0) * 1000)
    return pace, round(max(waits) * (1 + options.delay_jitter * rand))


def _after_answer(pace: Pace, response: Response, *, failed: bool) -> Pace:
    latency = response.latency * 1000
    if pace.latency_ms:
        latency = pace.latency_ms * (1 - LATENCY_WEIGHT) + latency * LATENCY_WEIGHT
    if failed or response.status != 200:
        latency = max(latency, pace.latency_ms)
    penalty = pace.penalty_ms // 2
    return replace(
        pace,
        latency_ms=round(latency),
        penalty_ms=penalty if penalty >= PENALTY_FIRST_MS // 2 else 0,
        failures=0,
        failing_since_ms=0,
        fetched=pace.fetched + 1,
    )


def _after_group_failure(pace: Pace, response: Response, options: Options) -> Pace:
    penalty = pace.penalty_ms
    if response.kind == "throttled" and response.retry_after is None:
        floor = max(PENALTY_FIRST_MS, round(options.download_delay * 1000), pace.crawl_delay_ms)
        penalty = min(2 * max(penalty, floor), round(options.retry_after_max * 1000))
    return replace(
        pace,
        penalty_ms=penalty,
        failures=pace.failures + 1,
        failing_since_ms=pace.failing_since_ms or response.now_ms,
    )


def is_offline(pace: Pace, now_ms: int, options: Options) -> bool:
    """Whether a group has failed for OFFLINE_AFTER."""
    return bool(pace.failing_since_ms) and now_ms - pace.failing_since_ms >= options.offline_after * 1000


BAND_TURNS: Final = 16
"""Choices of a band in one round; see `band_of_turn`."""


def band_of_turn(turn: int, bands: int) -> int | None:
    """The band that choice number ``turn`` prefers: 0, 1, 2, 3 at 8 : 4 : 2 : 1; None, once in 16: whichever waits
    longest.

    The ruler sequence: the number of trailing zeros of ``turn`` (from 1).
    """
    turn %= BAND_TURNS
    if turn == 0:
        return None
    return min((turn & -turn).bit_length() - 1, bands - 1)


@dataclass(frozen=True, slots=True)
class Found:
    """Where a candidate comes from, for `priority`. ``origin``: seed, sitemap, redirect or link."""

    url: str
    depth: int
    origin: str = "link"


def priority(found: Found, group: Pace, bands: int) -> int:
    """The band of a candidate: 0 for seeds, 1 for redirects and sitemaps, else by what the URL is likely to cost.

    FRONTIER_PRIORITY names a function of this form. It sees the candidate and its group's last known pace.
    """
    if found.origin == "seed":
        return 0
    if found.origin in ("redirect", "sitemap"):
        return min(1, bands - 1)
    address, _, query = found.url.partition("?")
    segments = [segment for segment in address.split("/")[3:] if segment]
    cost = max(0, found.depth - 1) + len(segments) // 3 + 2 * (len(segments) - len(set(segments)))
    if query:
        cost += 1 + query.count("&")
    if group.fetched > 1000:
        cost += 1
    band = 1 if cost <= 2 else 2 if cost <= 5 else 3
    return min(band, bands - 1)
