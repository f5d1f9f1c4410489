"""The crash test's checks find what they are there for: each fails when the rule behind it is taken out of the workers.

Two small scenes, each played once by workers as they are, which must pass every check, and once for each mutant, which
the one check named there must catch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from crawler.demo.witness import violations
from tests.support.checks import corpus_faults, counter_faults, decisions
from tests.support.fleet import CRAWL, PARTITIONS, Fleet, Member, Stake
from tests.support.poll import until
from tests.support.servers import RedisServer, binary_of
from tests.support.web import serve

DELAY = 0.3
SETTINGS = {
    "DOWNLOAD_DELAY": DELAY,
    "DELAY_JITTER": 0,
    "LEASE_TTL": 4,
    "SESSION_TTL": 2,
    "SPOOL_GRACE": 60,  # nobody's spool is given up here
    "SEGMENT_MAX_AGE": 1,
    "GROUP_COMMIT": 0.3,
    "RETRY_DELAYS": "1,2",
}
DEADLINE = 60.0  # seconds for whatever is waited for


@contextlib.contextmanager
def small_fleet(folder: Path) -> Iterator[Fleet]:
    """No worker yet, a server, and 300 pages on 30 hosts that are all reachable from one seed."""
    binary = binary_of("valkey")
    assert binary is not None
    with (
        RedisServer(binary, folder / "redis", appendfsync="always") as server,
        serve(folder / "access.tsv", hosts=30, pages=10, latency=0.02) as web,
        Fleet(folder / "fleet", server, web, SETTINGS, seeds=web.world.seeds[:1]) as fleet,
    ):
        yield fleet


def one_dies_after_its_first_seal(fleet: Fleet, patches: Sequence[str]) -> None:
    """The only worker dies when the seed's page has just been sealed; another adopts its spool and crawls on."""
    first = fleet.start(patches=[*patches, "die_after_first_seal"])
    until(lambda: not first.alive, DEADLINE, "the first seal")
    fleet.start(patches=patches)


def one_is_frozen_past_its_leases(fleet: Fleet, patches: Sequence[str]) -> tuple[Member, Stake]:
    """One of two workers is stopped while it holds URLs, and goes on when they were taken back."""
    for spool in "ab":
        fleet.start(spool, patches)
    member, stake = fleet.catch(fleet.members, DEADLINE)
    until(lambda: not fleet.stake(member).groups, DEADLINE, "the frozen worker's URLs being taken back")
    fleet.wake(member)
    return member, stake


def page_faults(fleet: Fleet) -> list[str]:
    return corpus_faults(fleet.output, fleet.web.world.truth().documents)


def early_requests(fleet: Fleet) -> list[str]:
    return [str(early) for early in violations(fleet.web.hits(), DELAY)]


def aborted(fleet: Fleet) -> list[str]:
    return [name for name, decision in decisions(fleet.server, CRAWL, PARTITIONS).items() if decision == "A"]


def pages_twice(fleet: Fleet) -> list[str]:
    return [fault for fault in page_faults(fleet) if "more than once" in fault]


def pages_missing_in_the_end(fleet: Fleet) -> list[str]:
    if fleet.alive:
        return []
    fleet.finish(DEADLINE)  # a worker that failed would miss pages too
    return [fault for fault in page_faults(fleet) if "missing" in fault]


def test_a_death_after_the_first_seal_loses_nothing(tmp_path: Path) -> None:
    with small_fleet(tmp_path) as fleet:
        one_dies_after_its_first_seal(fleet, [])
        fleet.finish(DEADLINE)
        assert page_faults(fleet) == []
        assert counter_faults(fleet.server, CRAWL, PARTITIONS) == []
    assert early_requests(fleet) == []


def test_a_worker_that_wakes_too_late_publishes_nothing_twice(tmp_path: Path) -> None:
    with small_fleet(tmp_path) as fleet:
        member, stake = one_is_frozen_past_its_leases(fleet, [])
        fleet.finish(DEADLINE)
        assert page_faults(fleet) == []
        assert counter_faults(fleet.server, CRAWL, PARTITIONS) == []
        assert member.stat("lease/struck") > 0
        assert aborted(fleet) == []  # the stale rows were struck, the others stand
    assert len(early_requests(fleet)) <= len(stake.leased)  # the exception that is promised


@pytest.mark.parametrize(
    ("mutant", "scene", "caught_by"),
    [
        ("no_delay", one_dies_after_its_first_seal, early_requests),
        ("links_after_seal", one_dies_after_its_first_seal, pages_missing_in_the_end),
        ("seal_without_fence", one_is_frozen_past_its_leases, pages_twice),
        ("stale_rows_published", one_is_frozen_past_its_leases, pages_twice),
        ("stale_rows_kept", one_is_frozen_past_its_leases, aborted),
    ],
)
def test_a_rule_taken_out_is_missed(
    tmp_path: Path,
    mutant: str,
    scene: Callable[[Fleet, Sequence[str]], object],
    caught_by: Callable[[Fleet], list[str]],
) -> None:
    with small_fleet(tmp_path) as fleet:
        scene(fleet, [mutant])
        until(lambda: caught_by(fleet), DEADLINE, f"{caught_by.__name__} finding what {mutant} does")
