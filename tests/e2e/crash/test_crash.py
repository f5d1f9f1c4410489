"""Four workers, killed and frozen at random, on a server that is killed too: every page once, nobody asked too soon.

Every worker has a spool directory of its own, as on a machine of its own. What must hold afterwards is told from
outside: by the corpus, the server's counters, the workers' own figures, and the log of the web that was crawled.

Two exceptions to politeness are promised (`docs/architecture.md`), and nothing else is excused:
- a worker frozen between its last look at the clock and the sending may, once woken, send one early request for each
  lease that it had in flight;
- a server that lost its last second may have forgotten that a request was made: one early request to each group.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from crawler.demo.witness import Hit, Violation, refetched, used_share, violations
from tests.e2e.crash.events import Events
from tests.support.checks import OPEN, corpus_faults, counter_faults, decisions
from tests.support.fleet import CRAWL, PARTITIONS, Fleet
from tests.support.servers import RedisServer, binary_of
from tests.support.web import Web, serve

logger = logging.getLogger(__name__)

DELAY = 3.0
LATENCY = 0.1
LEASE_TTL = 8.0
SETTINGS = {
    "DOWNLOAD_DELAY": DELAY,
    "DELAY_JITTER": 0,
    "LEASE_TTL": LEASE_TTL,
    "SESSION_TTL": 4,
    "SPOOL_GRACE": 6,
    "SEGMENT_MAX_AGE": 3,
    "GROUP_COMMIT": 0.5,
    "RETRY_DELAYS": "1,2,4",  # also of URLs whose leases end twice
    "CONCURRENT_REQUESTS": 64,
}
SHARE = 0.9  # of the rate that the delays allow, at least so much is used
SHARE_UNDER_FIRE = 0.8  # the same of groups that were not hit, while workers start anew on the processors of all others

SHORT = (
    *[Events.kill] * 2,
    Events.scan,
    Events.freeze,
    Events.kill,
    Events.kill_redis,
    *[Events.kill] * 2,
    Events.wake,
    Events.kill_with_disk,
    Events.cut_power,
    *[Events.kill] * 2,
    Events.scan,
    Events.kill_redis,
    *[Events.kill] * 2,
    Events.return_disk,
)
KILLS = 10  # in the short form, at least


def crawl_under_fire(folder: Path, plan: Sequence, *, pages: int, deadline_s: float) -> tuple[Web, Events]:  # type: ignore[type-arg]
    """Crawl 300 hosts of `pages` pages to the end while the plan is carried out; check the corpus and the frontier."""
    binary = binary_of("valkey")
    assert binary is not None
    with (
        RedisServer(binary, folder / "redis", appendfsync="always") as server,
        serve(folder / "access.tsv", hosts=300, pages=pages, latency=LATENCY) as web,
        Fleet(folder / "fleet", server, web, SETTINGS) as fleet,
    ):
        events = Events(fleet, random.Random(11), LEASE_TTL)
        for spool in "abcd":
            fleet.start(spool)
        events.run(plan, first=0.3, last=0.95, total=300 * pages, deadline_s=deadline_s)
        fleet.finish(deadline_s)
        assert corpus_faults(fleet.output, web.world.truth().documents) == []
        assert counter_faults(server, CRAWL, PARTITIONS) == []
        assert {state: fleet.counters().get(state, 0) for state in OPEN} == dict.fromkeys(OPEN, 0)
        decided = list(decisions(server, CRAWL, PARTITIONS).values())
        logger.info("%d segments published, %d aborted", decided.count("P"), decided.count("A"))
    return web, events


def check_struck(events: Events) -> None:
    """The worker that woke up after its leases had ended had rows of URLs that were no longer its own."""
    woken = events.freezes[-1]
    struck = woken.member.stat("lease/struck")
    logger.info("%s struck %d rows, %d held when frozen", woken.member.name, struck, len(woken.stake.held))
    assert struck > 0


def check_polite(hits: Sequence[Hit], events: Events) -> None:
    """No two requests to a group closer than its delay, but for what is excused; an excuse counts once."""
    used: set[str] = set()
    unexcused: list[Violation] = []
    for early in violations(hits, DELAY):
        free = [excuse for excuse in events.excuses(early) if excuse not in used]
        used.update(free[:1])
        unexcused += [] if free else [early]
    logger.info("early requests that are excused: %s", sorted(used) or "none")
    assert [str(early) for early in unexcused] == []


def check_rate(hits: Sequence[Hit], web: Web, events: Events) -> None:
    """The rate that the delays allow is used: before the first kill by all groups, later by those that were not hit.

    Measured from the moment when a twentieth of the pages is fetched: before that all four workers are still starting.
    """
    start = sorted(hit.start for hit in hits)[len(web.world.resources) // 20]
    calm = used_share(hits, DELAY, web.world, within=(start, events.deaths[0].at))
    spared = used_share(hits, DELAY, web.world, within=(start, events.ended), disturbed=events.disturbed)
    logger.info("share of the allowed rate: %.3f before the first kill, %.3f of groups not hit", calm, spared)
    assert calm >= SHARE
    assert spared >= SHARE_UNDER_FIRE


def check_all(web: Web, events: Events) -> None:
    hits = web.hits()
    logger.info("%d kills, %d pages fetched again", len(events.deaths), len(refetched(hits, web.world.resources)))
    assert all(loss.stake.leased and loss.stake.rows for loss in events.deaths)
    check_struck(events)
    check_polite(hits, events)
    check_rate(hits, web, events)


@pytest.mark.invariant(1, 4, 5, 6, 7, 8)
def test_the_fleet_survives(tmp_path: Path) -> None:
    web, events = crawl_under_fire(tmp_path, SHORT, pages=10, deadline_s=120.0)
    assert len(events.deaths) >= KILLS
    check_all(web, events)


@pytest.mark.long
@pytest.mark.invariant(1, 4, 5, 6, 7, 8)
def test_the_fleet_survives_for_long(tmp_path: Path) -> None:
    web, events = crawl_under_fire(tmp_path, [Events.kill, *SHORT * 3], pages=25, deadline_s=500.0)
    assert len(events.deaths) >= 3 * KILLS
    check_all(web, events)
