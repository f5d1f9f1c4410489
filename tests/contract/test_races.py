"""Many clients at once, each with its own connection."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from crawler.frontier import Added, Answer, Decision, Frontier, Lease, Wire
from tests.contract.conftest import OPTIONS
from tests.stateful.scan import scan
from tests.support.frontier import START, candidate
from tests.support.servers import RedisServer

CLIENTS = 50


@pytest.fixture
async def frontiers(redis_server: RedisServer) -> AsyncIterator[list[Frontier]]:
    """One frontier for each of CLIENTS clients."""
    clients = [redis_server.client() for _ in range(CLIENTS)]
    yield list(await asyncio.gather(*(Frontier.open(client, OPTIONS, rand=lambda: 0.0) for client in clients)))
    for client in clients:
        await client.aclose()


def fresh(count: int) -> list[bytes]:
    return [os.urandom(16) for _ in range(count)]


async def lease(frontier: Frontier, worker: int, count: int, now: int) -> list[Lease]:
    return list((await frontier.lease(fresh(count), f"w{worker}", now=now)).leases)


@pytest.mark.case("Q11")
@pytest.mark.invariant(2)
async def test_fifty_leases_of_one_group_get_one(frontiers: list[Frontier]) -> None:
    await frontiers[0].add([candidate(f"http://a.test/{n}") for n in range(200)], now=START)
    now = START
    for _ in range(5):
        found = await asyncio.gather(*(lease(frontier, n, 5, now) for n, frontier in enumerate(frontiers)))
        [granted] = [one for leases in found for one in leases]
        await frontiers[0].fetched([(granted, Wire(0, 10_000))], now=now)
        now += 9_999
        early = await asyncio.gather(*(lease(frontier, n, 1, now) for n, frontier in enumerate(frontiers)))
        assert early == [[]] * CLIENTS, "inside the delay"
        now += 1


@pytest.mark.invariant(2)
async def test_reservations_and_leases_compete_for_one_turn(frontiers: list[Frontier]) -> None:
    await frontiers[0].add([candidate(f"http://a.test/{n}") for n in range(9)], now=START)
    leases = (lease(frontier, n, 1, START) for n, frontier in enumerate(frontiers[:25]))
    turns = (frontier.reserve(os.urandom(16), "a.test", now=START) for frontier in frontiers[25:])
    found = await asyncio.gather(*leases, *turns)
    assert sum(bool(one) if isinstance(one, list) else one.granted for one in found) == 1


@pytest.mark.invariant(1)
@pytest.mark.case("Q02")
async def test_the_same_links_from_everybody_are_added_once(frontiers: list[Frontier]) -> None:
    links = [candidate(f"http://h{n % 7}.test/{n}") for n in range(300)]
    answers = await asyncio.gather(*(frontier.add(links, now=START) for frontier in frontiers))
    per_link = [Counter(answer[i] for answer in answers)[Added.ADDED] for i in range(len(links))]
    assert per_link == [1] * len(links)
    assert (await frontiers[0].snapshot(now=START)).queued == len(links)


@pytest.mark.case("Q14")
async def test_everybody_takes_back_the_same_leases(frontiers: list[Frontier]) -> None:
    await frontiers[0].add([candidate(f"http://h{n}.test/") for n in range(40)], now=START)
    await lease(frontiers[0], 0, 40, START)
    found = await asyncio.gather(*(frontier.reclaim(now=START + 12_000) for frontier in frontiers))
    assert sum(reclaimed.expired for reclaimed in found) == 40
    assert (await frontiers[0].snapshot(now=START + 12_000)).queued == 40


@pytest.mark.invariant(7)
async def test_publish_and_abort_at_once(frontiers: list[Frontier]) -> None:
    await frontiers[0].add([candidate(f"http://h{n}.test/") for n in range(30)], now=START)
    leases = await lease(frontiers[0], 0, 30, START)
    await frontiers[0].fetched([(one, Wire(0, 0)) for one in leases], now=START)
    await frontiers[0].seal("w0", leases, "s", now=START)
    decided = await asyncio.gather(
        *(
            frontier.publish("s", str(n), now=START) if n % 2 else frontier.abort("s", now=START)
            for n, frontier in enumerate(frontiers)
        )
    )
    assert len(set(decided)) == 1
    snapshot = await frontiers[0].snapshot(now=START)
    published = decided[0].decision is Decision.PUBLISHED
    assert (snapshot.done, snapshot.queued, snapshot.sealed) == ((30, 0, 0) if published else (0, 30, 0))


@pytest.mark.invariant(1, 2, 3, 5)
async def test_many_workers_over_a_thousand_groups(frontiers: list[Frontier], redis_server: RedisServer) -> None:
    """On the server's own clock: never two at once in a group, every URL once, the counters as a scan finds them."""
    links = [candidate(f"http://h{n % 1000}.test/{n // 1000}") for n in range(2000)]
    await frontiers[0].add(links)
    working: Counter[str] = Counter()
    done: list[str] = []

    async def worker(number: int) -> None:
        frontier, segment = frontiers[number], f"s{number}"
        while len(done) < len(links):
            leases = await lease_now(frontier, number)
            working.update(one.group for one in leases)
            assert max(working.values(), default=0) <= 1, "invariant 2"
            done.extend(one.url for one in leases)
            await asyncio.sleep(0)
            working.subtract(one.group for one in leases)
            assert set(await frontier.fetched([(one, Wire(0, 0)) for one in leases])) <= {Answer.APPLIED}
            if leases:
                assert set((await frontier.seal(f"w{number}", leases, segment)).answers) == {Answer.APPLIED}
        await frontier.publish(segment, "{}")

    await asyncio.gather(*(worker(number) for number in range(12)))
    assert sorted(done) == sorted(link.url for link in links), "each once"
    snapshot = await frontiers[0].snapshot()
    assert (snapshot.done, snapshot.open) == (len(links), 12), "12 decided segments wait for their manifests"
    with redis_server.sync_client() as plain:
        for partition in range(OPTIONS.frontier_partitions):
            found = scan(plain, OPTIONS.crawl_id, partition, OPTIONS.frontier_bands)
            assert not any(found.urls.values())
            assert found.counters["done"] == found.seen
            assert {group.turns for group in found.groups.values()} == {0}


async def lease_now(frontier: Frontier, number: int) -> list[Lease]:
    found: list[Lease] = []
    for partition in range(frontier.partitions):
        found += (await frontier.lease(fresh(10), f"w{number}", partition)).leases
    return found
