"""What the model has not: servers that forget scripts, lose replies, restart, freeze, are full, were made otherwise."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from crawler.errors import FrontierError, FrontierMismatch, FrontierUnavailable
from crawler.frontier import Added, Decision, Frontier, Handback, Wire
from crawler.frontier.link import Link, explained
from tests.contract.conftest import OPTIONS
from tests.support.frontier import START, candidate, granted, groups_in, tokens
from tests.support.servers import RedisServer


async def opened(server: RedisServer, client: Redis, **changes: Any) -> Frontier:
    patience = changes.pop("patience", 5.0)
    return await Frontier.open(client, replace(OPTIONS, **changes), patience=patience, rand=lambda: 0.0)


@pytest.mark.case("Q15")
async def test_a_server_that_forgets_its_scripts(redis_server: RedisServer, redis_client: Redis) -> None:
    frontier = await opened(redis_server, redis_client)
    for number in range(3):
        assert await frontier.add([candidate(f"http://a.test/{number}")], now=START) == [Added.ADDED]
        await redis_client.script_flush()


@pytest.mark.invariant(7)
async def test_a_reply_lost_after_the_write(redis_server: RedisServer, redis_client: Redis) -> None:
    """The call is made again as a whole, and its effect is there once."""
    frontier = await opened(redis_server, redis_client)
    losing = LosesReplies(frontier.link)
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(9)], now=START)
    leases = await granted(frontier, 9, START)
    assert len({lease.url for lease in leases}) == 9
    await frontier.fetched([(lease, Wire(0, 1000)) for lease in leases], now=START)
    await frontier.seal("w", leases[:4], "s", now=START)
    await frontier.publish("s", "{}", now=START)
    await frontier.release(leases[4:], now=START)
    snapshot = await frontier.snapshot(now=START)
    assert losing.lost > 8
    assert (snapshot.added, snapshot.queued, snapshot.done, snapshot.leased, snapshot.held) == (9, 5, 4, 0, 0)
    assert frontier.losses == losing.lost


class LosesReplies:
    """Every other script's reply does not arrive, though it ran."""

    def __init__(self, link: Link) -> None:
        self.lost = 0
        self.calls = 0
        self._evaluate = link._evaluate
        link._evaluate = self.evaluate  # type: ignore[method-assign]
        link._sleep = _at_once

    async def evaluate(self, *call: Any) -> Any:
        reply = await self._evaluate(*call)
        self.calls += 1
        if self.calls % 2:
            self.lost += 1
            raise RedisConnectionError("the reply was lost")
        return reply


async def _at_once(_seconds: float) -> None:
    await asyncio.sleep(0)


@pytest.mark.case("Q03")
async def test_a_server_that_is_restarted_is_waited_for(start_server: Callable[..., RedisServer]) -> None:
    server = start_server("valkey", appendfsync="always")
    async with server.client() as client:
        frontier = await opened(server, client)
        await frontier.add([candidate("http://a.test/")])
        server.kill9()
        adding = asyncio.create_task(frontier.add([candidate("http://b.test/")]))
        await asyncio.sleep(0)
        await asyncio.to_thread(server.start)
        assert await adding == [Added.ADDED]
        assert await frontier.add([candidate("http://a.test/")]) == [Added.SEEN], "invariant 8"


@pytest.mark.invariant(8)
async def test_everything_survives_a_restart(start_server: Callable[..., RedisServer]) -> None:
    server = start_server("valkey", appendfsync="always")
    async with server.client() as client:
        frontier = await opened(server, client)
        await frontier.add([candidate(f"http://h{n}.test/") for n in range(30)], now=START)
        leases = await granted(frontier, 20, START)
        await frontier.fetched([(lease, Wire(0, 7000)) for lease in leases[:15]], now=START)
        await frontier.seal("w", leases[:9], "s", now=START)
        await frontier.decide("s", Decision.PUBLISHED, "text", now=START)
        await frontier.block("h1.test", START + 5, now=START)
        await frontier.host_put("h1.test", "http://h1.test:80", b"rules")
        before = await frontier.snapshot(now=START)
        server.kill9()
        server.start()
        again = await opened(server, client)
        assert await again.snapshot(now=START) == before
        for partition in range(OPTIONS.frontier_partitions):
            own = [lease for lease in leases[15:] if again.partition_of(lease.group) == partition]
            reply = await again.lease([lease.token for lease in own], "w", partition, now=START)
            assert {lease.url for lease in reply.leases} == {lease.url for lease in own}
        assert await again.host_get([("h1.test", "http://h1.test:80")]) == [b"rules"]
        decided = await again.decision("s")
        assert decided is not None
        assert decided.manifest == "text"


async def test_patience_ends(start_server: Callable[..., RedisServer]) -> None:
    server = start_server("valkey")
    async with server.client() as client:
        frontier = await opened(server, client, patience=0.2)
        server.kill9()
        with pytest.raises(FrontierUnavailable, match="does not serve us"):
            await frontier.add([candidate("http://a.test/")])
        tried: list[bool] = []

        async def revive() -> None:
            tried.append(True)
            await asyncio.to_thread(server.start)

        frontier.link._revive = revive
        frontier.link._patience = 10.0
        assert await frontier.add([candidate("http://a.test/")]) == [Added.ADDED]
        assert tried == [True]


async def test_a_grant_whose_reply_was_lost_for_good_is_asked_for_again(
    redis_server: RedisServer, redis_client: Redis
) -> None:
    """Without that the same token could be granted a second URL in another partition."""
    frontier = await opened(redis_server, redis_client, patience=0.0)
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(40)])
    evaluate = frontier.link._evaluate

    async def lose(*call: Any) -> Any:
        await evaluate(*call)
        raise RedisConnectionError("gone")

    asked = tokens(5)
    frontier.link._evaluate = lose  # type: ignore[method-assign]
    with pytest.raises(FrontierUnavailable):
        await frontier.lease(asked, "w")
    frontier.link._evaluate = evaluate  # type: ignore[method-assign]
    leases = (await frontier.lease(asked, "w")).leases
    assert len(leases) == 5
    assert len({frontier.partition_of(lease.group) for lease in leases}) == 1
    assert (await frontier.snapshot()).leased == 5


@pytest.mark.case("Q17")
async def test_a_full_server_refuses_links_and_takes_outcomes(start_server: Callable[..., RedisServer]) -> None:
    server = start_server("valkey", options={"maxmemory-policy": "noeviction"})
    async with server.client() as client:
        frontier = await opened(server, client, patience=0.1)
        await frontier.add([candidate(f"http://h{n}.test/") for n in range(30)], now=START)
        leases = await granted(frontier, 30, START)
        await client.config_set("maxmemory", 1)
        with pytest.raises(FrontierUnavailable, match="maxmemory"):
            await frontier.add([candidate("http://new.test/")], now=START)
        await client.config_set("maxmemory", 0)
        snapshot = await frontier.snapshot(now=START)
        assert (snapshot.added, snapshot.leased) == (30, 30), "a refused script has changed nothing"
        assert len(await frontier.fetched([(lease, Wire(0, 0)) for lease in leases], now=START)) == 30


async def test_a_wrong_type_is_no_outage(redis_server: RedisServer, redis_client: Redis) -> None:
    frontier = await opened(redis_server, redis_client)
    await redis_client.set(frontier.link.key(frontier.partition_of("a.test"), "groups"), "somebody else's")
    with pytest.raises(FrontierError, match="WRONGTYPE") as caught:
        await frontier.add([candidate("http://a.test/")], now=START)
    assert not isinstance(caught.value, FrontierUnavailable)


@pytest.mark.parametrize("said", ["NOAUTH Authentication required.", "NOPERM no permissions"])
def test_a_refusal_is_told_as_one(said: str) -> None:
    from redis.exceptions import ResponseError

    assert "refuses us" in str(explained(ResponseError(said)))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"frontier_partitions": 3}, "partitions 2, not 3"),
        ({"frontier_bands": 2}, "bands 4, not 2"),
        ({"politeness_key": "host"}, "politeness_key 'domain', not 'host'"),
        ({"url_parameters_ignored": ("sid",)}, "url_parameters_ignored"),
    ],
)
async def test_a_crawl_made_otherwise_is_refused(
    redis_server: RedisServer, redis_client: Redis, changes: dict[str, Any], named: str
) -> None:
    await opened(redis_server, redis_client)
    with pytest.raises(FrontierMismatch, match=named):
        await opened(redis_server, redis_client, **changes)
    await opened(redis_server, redis_client, crawl_id="another", **changes)


async def test_crawls_on_one_server_do_not_meet(redis_server: RedisServer, redis_client: Redis) -> None:
    one, other = [await opened(redis_server, redis_client, crawl_id=name) for name in ("a", "a*")]
    for frontier in (one, other):
        assert await frontier.add([candidate("http://a.test/")], now=START) == [Added.ADDED]
    await other.purge()
    assert (await one.snapshot(now=START)).queued == 1


async def test_a_version_of_tomorrow_is_refused(redis_server: RedisServer, redis_client: Redis) -> None:
    frontier = await opened(redis_server, redis_client)
    await redis_client.hset(frontier.link.key(frontier.partition_of("s"), "decisions"), mapping={"s": b"\x09P\x00text"})
    with pytest.raises(FrontierMismatch, match="version 9"):
        await frontier.decision("s")


@pytest.mark.invariant(8)
@pytest.mark.parametrize("kind", ["valkey", "redis"])
@pytest.mark.parametrize("appendfsync", ["always", ""])
async def test_a_fence(start_server: Callable[..., RedisServer], kind: str, appendfsync: str) -> None:
    """With WAITAOF and a file it takes a moment; without either, two seconds of an unmoved run id."""
    server = start_server(kind, appendfsync=appendfsync)
    clock = Clock()
    async with server.client() as client:
        frontier = await Frontier.open(client, OPTIONS, clock=clock, sleep=clock.sleep)
        await frontier.add([candidate("http://a.test/")])
        await frontier.fence()
        assert clock.slept == (0 if (kind, appendfsync) == ("valkey", "always") else pytest.approx(2.0, abs=0.2))


class Clock:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.slept = 0.0

    def __call__(self) -> float:
        return self.slept

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        await asyncio.sleep(0)


@pytest.mark.invariant(8)
async def test_a_step_is_repeated_when_the_server_moved_behind_it(start_server: Callable[..., RedisServer]) -> None:
    server = start_server("valkey", appendfsync="always")
    async with server.client() as client:
        frontier = await opened(server, client)
        steps: list[int] = []

        async def step() -> int:
            steps.append(len(steps))
            if len(steps) == 1:
                await asyncio.to_thread(server.kill9)
                await asyncio.to_thread(server.start)
            await frontier.decide("s", Decision.PUBLISHED, "text")
            return len(steps)

        assert await frontier.durable(step) == 2


async def test_after_an_outage_the_first_reclaim_waits_a_sessions_length(
    start_server: Callable[..., RedisServer],
) -> None:
    """Nobody could keep a session while the server was away."""
    server = start_server("valkey", appendfsync="always")
    clock = Clock()
    async with server.client() as client:
        frontier = await Frontier.open(
            client, replace(OPTIONS, session_ttl=8.0, lease_ttl=9.0), clock=clock, sleep=clock.sleep
        )
        await frontier.add([candidate("http://a.test/")])
        await frontier.reserve(b"r" * 16, "b.test")
        key = frontier.link.key(frontier.partition_of("b.test"), "turns")
        await client.zadd(key, {b"r" * 16 + b"b.test": 1})
        server.kill9()
        server.start()
        await frontier.snapshot()
        assert frontier.losses
        clock.slept += 7.9
        assert (await frontier.reclaim()).turns == 0
        clock.slept += 0.2
        assert (await frontier.reclaim()).turns == 1


@pytest.mark.case("Q04")
async def test_an_idle_worker_asks_seldom(redis_server: RedisServer, redis_client: Redis) -> None:
    """Sixteen partitions with nothing in them: five commands a second at most, however often the scheduler asks."""
    clock = Clock()
    frontier = await Frontier.open(redis_client, replace(OPTIONS, frontier_partitions=16), clock=clock)
    for _ in range(20):
        await frontier.lease([os.urandom(16)], "w")
    before = await commands(redis_client)
    for _ in range(1000):
        clock.slept += 0.01
        await frontier.lease([os.urandom(16)], "w")
    assert await commands(redis_client) - before <= 5 * 10 + 2


async def commands(client: Redis) -> int:
    stats = await client.info("commandstats")
    return sum(int(stats[f"cmdstat_{name}"]["calls"]) for name in ("eval", "evalsha") if f"cmdstat_{name}" in stats)


async def test_what_a_worker_adds_it_finds_at_once(redis_server: RedisServer, redis_client: Redis) -> None:
    """However idle it was."""
    clock = Clock()
    frontier = await Frontier.open(redis_client, replace(OPTIONS, frontier_partitions=16), clock=clock)
    for _ in range(20):
        await frontier.lease([os.urandom(16)], "w")
    await frontier.add([candidate("http://a.test/")])
    assert len((await frontier.lease([os.urandom(16)], "w")).leases) == 1


async def test_what_others_add_is_found_though_this_worker_is_busy(
    redis_server: RedisServer, redis_client: Redis
) -> None:
    """Else a partition whose only adder died would starve."""
    clock = Clock()
    options = replace(OPTIONS, frontier_partitions=4)
    frontier = await Frontier.open(redis_client, options, clock=clock)
    other = await Frontier.open(redis_client, options)
    for _ in range(9):
        await frontier.lease([os.urandom(16)], "w")
    busy, idle = groups_in(0, 4, 1)[0], groups_in(1, 4, 1)[0]
    await frontier.add([candidate(f"http://{busy}/{n}") for n in range(50)])
    await other.add([candidate(f"http://{idle}/")])
    found = []
    for _ in range(40):
        clock.slept += 0.05
        leases = (await frontier.lease([os.urandom(16)], "w")).leases
        found += [lease.group for lease in leases]
        await frontier.release([Handback(lease) for lease in leases if lease.group == busy])
    assert idle in found


async def test_the_servers_clock_is_known(redis_server: RedisServer, redis_client: Redis) -> None:
    frontier = await opened(redis_server, redis_client)
    await frontier.lease([os.urandom(16)], "w")
    assert abs(frontier.server_ms() - time.time() * 1000) < 5000


async def test_a_seen_set_that_splits_forgets_nothing(redis_server: RedisServer, redis_client: Redis) -> None:
    """Enough members for several levels of linear hashing, and every bucket still an intset."""
    frontier = await opened(redis_server, redis_client, frontier_partitions=1)
    count = 9000
    found = [candidate(f"http://a.test/{n}", key=hash((n, "spread")) ^ (n << 40)) for n in range(count)]
    assert set(await frontier.add(found, now=START)) == {Added.ADDED}
    assert set(await frontier.add(found, now=START)) == {Added.SEEN}
    buckets = [key async for key in redis_client.scan_iter(match="*:seen:*")]
    sizes = [await redis_client.scard(key) for key in buckets]
    assert sum(sizes) == count
    assert count / 200 < len(buckets) < count / 120
    assert {await redis_client.object("ENCODING", key) for key in buckets} == {b"intset"}
