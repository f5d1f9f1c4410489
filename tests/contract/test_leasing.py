"""lease: who gets what, and when."""

from __future__ import annotations

from collections import Counter

import pytest

from crawler.frontier import Answer, Completion, Handback, Wire
from tests.contract.conftest import Open
from tests.support.frontier import START, AnyFrontier, candidate, granted, groups_in, tokens


@pytest.mark.invariant(2)
async def test_one_url_of_a_group_at_a_time(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://{host}.test/{n}") for host in "abc" for n in range(5)], now=START)
    leases = await granted(frontier, 15, START)
    assert sorted(lease.group for lease in leases) == ["a.test", "b.test", "c.test"]
    assert await granted(frontier, 15, START, first=100) == []


@pytest.mark.invariant(5)
@pytest.mark.case("Q11")
async def test_the_next_lease_of_a_group_waits_for_its_delay(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/1"), candidate("http://a.test/2")], now=START)
    lease = (await granted(frontier, 1, START))[0]
    await frontier.fetched([(lease, Wire(age_ms=200, delay_ms=1000))], now=START + 500)
    reply = await frontier.lease(tokens(1, 10), "w", now=START + 1299)
    assert not reply.leases
    assert reply.next_due_ms == START + 500 - 200 + 1000
    assert [le.url for le in await granted(frontier, 1, START + 1300, first=20)] == ["http://a.test/2"]


@pytest.mark.invariant(7)
async def test_the_same_tokens_bring_the_same_grants(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(8)], now=START)
    first = await granted(frontier, 5, START)
    again = await granted(frontier, 5, START + 3)
    assert {le.token: (le.url, le.deadline_ms) for le in again} == {le.token: (le.url, le.deadline_ms) for le in first}
    assert (await frontier.snapshot(now=START)).leased == 5


@pytest.mark.invariant(7)
async def test_a_token_means_something_in_one_partition(open_frontier: Open) -> None:
    """Asked again, it is offered to no other, though more is due there."""
    frontier = await open_frontier(frontier_partitions=8)
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(200)], now=START)
    first = await granted(frontier, 30, START)
    for _ in range(3):
        again = await granted(frontier, 30, START)
        assert {lease.token: lease.url for lease in again} == {lease.token: lease.url for lease in first}
    assert (await frontier.snapshot(now=START)).leased == 30


@pytest.mark.invariant(3)
async def test_a_token_whose_lease_is_over_but_held_brings_nothing(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/1"), candidate("http://a.test/2")], now=START)
    lease = (await granted(frontier, 1, START))[0]
    await frontier.fetched([(lease, Wire(0, 0))], now=START)
    assert await granted(frontier, 1, START + 5) == []
    assert (await frontier.snapshot(now=START + 5)).held == 1


async def test_several_at_once_where_the_group_may(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_group_concurrency=3)
    await frontier.add([candidate(f"http://a.test/{n}") for n in range(5)], now=START)
    leases = await granted(frontier, 5, START)
    assert len(leases) == 3
    await frontier.fetched([(leases[0], Wire(0, 1000))], now=START)
    assert await granted(frontier, 1, START + 999, first=50) == []
    assert len(await granted(frontier, 2, START + 1000, first=60)) == 1


@pytest.mark.case("Q20")
async def test_first_in_first_out_within_a_band_of_a_group(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://a.test/{n}") for n in range(4)], now=START)
    urls, now = [], START
    for number in range(4):
        lease = (await granted(frontier, 1, now, first=number))[0]
        urls.append(lease.url)
        await frontier.complete([Completion(lease, "not-found", Wire(0, 0))], now=now)
        now += 1
    assert urls == [f"http://a.test/{n}" for n in range(4)]


async def test_bands_share_by_weight_and_none_starves(open_frontier: Open) -> None:
    """8 : 4 : 2 : 1, and every 16th choice goes to whichever waits longest: here band 3, which was there first."""
    frontier = await open_frontier(frontier_partitions=1)
    for band in (3, 2, 1, 0):
        found = [candidate(f"http://b{band}n{n}.test/", band=band) for n in range(200)]
        await frontier.add(found, now=START + (3 - band))
    leases = await granted(frontier, 160, START + 10)
    assert Counter(lease.band for lease in leases) == {0: 80, 1: 40, 2: 20, 3: 20}


async def test_a_band_with_nothing_due_gives_its_turns_away(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_partitions=1)
    await frontier.add([candidate(f"http://h{n}.test/", band=3) for n in range(50)], now=START)
    assert len(await granted(frontier, 50, START)) == 50


async def test_a_large_group_delays_no_other(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_partitions=1)
    await frontier.add([candidate(f"http://giant.test/{n}", band=0) for n in range(3000)], now=START)
    await frontier.add([candidate(f"http://small{n}.test/", band=3) for n in range(3)], now=START)
    assert len(await granted(frontier, 10, START)) == 4


async def test_groups_that_wait_longer_come_first(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_partitions=1)
    names = groups_in(0, 1, 4)
    for number, name in enumerate(reversed(names)):
        await frontier.add([candidate(f"http://{name}/")], now=START + number)
    assert [le.group for le in await granted(frontier, 3, START + 10)] == list(reversed(names))[:3]


@pytest.mark.case("Q04")
async def test_when_to_ask_again(frontier: AnyFrontier) -> None:
    reply = await frontier.lease(tokens(1), "w", now=START)
    assert (reply.leases, reply.next_due_ms) == ([], None)
    await frontier.add([candidate("http://a.test/")], now=START)
    lease = (await granted(frontier, 1, START, first=5))[0]
    await frontier.release([Handback(lease, None, START + 7000)], now=START)
    assert (await frontier.lease(tokens(1, 9), "w", now=START)).next_due_ms == START + 7000


@pytest.mark.case("Q13")
async def test_a_url_that_has_killed_workers_is_granted_alone(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_partitions=1)
    await frontier.add([candidate("http://poison.test/")], now=START)
    now = START
    for number in range(2):
        assert len(await granted(frontier, 1, now, first=number)) == 1
        now += 20_000
        assert (await frontier.reclaim(now=now)).expired == 1
        now += 40_000
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(3)], now=now)
    batches, first = [], 100
    while batch := await granted(frontier, 10, now, first=first):
        batches.append([lease.group for lease in batch])
        first += 10
    assert ["poison.test"] in batches
    assert sum(len(batch) for batch in batches) == 4


async def test_a_stale_token_is_not_granted_twice(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(3)], now=START)
    one = tokens(1)[0]
    leases = list((await frontier.lease([one, one], "w", now=START)).leases)
    assert len(leases) == 1
    assert await frontier.release([leases[0], leases[0]], now=START) == [Answer.APPLIED, Answer.STALE]
