"""Batcher: many small calls, few commands; nothing lost while its worker lives."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from crawler.errors import BadInput, FrontierUnavailable
from crawler.frontier import Added, Answer, Batcher, Candidate, Frontier, Model, Redirect, State, Wire
from crawler.frontier.seen import SeenFilter
from tests.contract.conftest import OPTIONS, Open
from tests.support.frontier import AnyFrontier, candidate, granted, tokens
from tests.support.servers import RedisServer

WIRE = Wire(0, 1000)


async def _at_once(_seconds: float) -> None:
    await asyncio.sleep(0)


def batcher_of(frontier: AnyFrontier, **more: Any) -> Batcher:
    return Batcher(frontier, sleep=_at_once, **more)


class Counting(Model):
    """A model that counts its calls, and can be away."""

    def __init__(self) -> None:
        super().__init__(OPTIONS, wall=lambda: 1000.0, rand=lambda: 0.0)
        self.calls: Counter[str] = Counter()
        self.asked = asyncio.Event()
        self.away = 0
        self.losses = 0

    async def add(self, candidates: Sequence[Candidate], *, now: int | None = None) -> list[Added]:
        self._called("add")
        return await super().add(candidates, now=now)

    async def fetched(self, ended: Any, *, now: int | None = None) -> list[Answer]:
        self._called("fetched")
        return await super().fetched(ended, now=now)

    def _called(self, name: str) -> None:
        self.calls[name] += 1
        self.asked.set()
        if self.away:
            self.away -= 1
            raise FrontierUnavailable("away")


async def test_calls_of_one_window_go_together(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_partitions=1)
    batcher = batcher_of(frontier)
    pages = [[candidate(f"http://h{n}.test/{page}") for n in range(20)] for page in range(10)]
    answers = await asyncio.gather(*(batcher.add(page) for page in pages))
    assert answers == [[Added.ADDED] * 20] * 10
    leases = (await frontier.lease(tokens(20), "w")).leases
    assert len(leases) == 20
    target = Redirect(candidate("http://h0.test/"))
    assert await asyncio.gather(
        *(batcher.fetched(lease, WIRE) for lease in leases[:15]),
        batcher.complete(leases[15], "redirect", WIRE, target),
        batcher.retry(leases[16], "timeout", WIRE),
        batcher.release(leases[17]),
        batcher.bury(leases[18], "pipeline-error"),
    ) == [Answer.APPLIED] * 16 + [State.DELAYED, Answer.APPLIED, Answer.APPLIED]
    await batcher.close()


async def test_how_many_calls_that_are() -> None:
    model = Counting()
    batcher = batcher_of(model)
    await asyncio.gather(
        *(batcher.add([candidate(f"http://h{n}.test/{page}") for n in range(30)]) for page in range(9))
    )
    assert model.calls["add"] == OPTIONS.frontier_partitions
    leases = await granted(model, 30, 1_000_000)
    await asyncio.gather(*(batcher.fetched(lease, WIRE) for lease in leases))
    assert model.calls["fetched"] == OPTIONS.frontier_partitions


async def test_what_is_known_is_not_asked_again() -> None:
    model = Counting()
    batcher = batcher_of(model)
    page = [candidate(f"http://a.test/{n}") for n in range(5)]
    assert not batcher.known(page[0].key)
    await batcher.add(page)
    assert all(batcher.known(one.key) for one in page)
    assert await batcher.add(page) == [Added.SEEN] * 5
    assert model.calls["add"] == 1
    assert await batcher.add([*page, candidate("http://a.test/new")]) == [Added.SEEN] * 5 + [Added.ADDED]


async def test_a_member_of_its_chain_is_always_asked_about() -> None:
    model = Counting()
    batcher = batcher_of(model)
    page = candidate("http://a.test/")
    await batcher.add([page])
    [lease] = await granted(model, 1, 1_000_000)
    await batcher.complete(lease, "redirect")
    assert await batcher.add([candidate(page.url, chain=(page.key,))]) == [Added.AGAIN]


@pytest.mark.case("Q03")
@pytest.mark.invariant(8)
async def test_nothing_is_lost_while_the_frontier_is_away() -> None:
    model = Counting()
    batcher = batcher_of(model)
    model.away = 7
    assert await batcher.add([candidate("http://a.test/")]) == [Added.ADDED]
    assert model.calls["add"] == 8


async def test_closing_does_not_wait_for_a_frontier_that_is_away() -> None:
    model = Counting()
    batcher = batcher_of(model)
    model.away = 10**9
    adding = asyncio.create_task(batcher.add([candidate("http://a.test/")]))
    await asyncio.wait_for(model.asked.wait(), 5)
    await batcher.close()
    with pytest.raises(FrontierUnavailable):
        await adding


async def test_closing_sends_what_waits() -> None:
    model = Counting()
    batcher = Batcher(model)
    adding = asyncio.create_task(batcher.add([candidate("http://a.test/")]))
    await asyncio.sleep(0)
    await batcher.close()
    assert model.calls["add"] == 1
    assert await adding == [Added.ADDED]


async def test_one_bad_candidate_costs_only_its_page() -> None:
    model = Counting()
    batcher = batcher_of(model)
    good, bad = candidate("http://a.test/"), candidate("ftp://a.test/", key=5, group="a.test")
    answers = await asyncio.gather(batcher.add([good]), batcher.add([bad]), return_exceptions=True)
    assert answers[0] == [Added.ADDED]
    assert isinstance(answers[1], BadInput)


async def test_a_defect_is_told_to_every_caller() -> None:
    class Broken(Counting):
        async def add(self, candidates: Sequence[Candidate], *, now: int | None = None) -> list[Added]:
            raise ZeroDivisionError

    batcher = batcher_of(Broken())
    calls = [batcher.add([candidate(f"http://a.test/{n}")]) for n in range(3)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [ZeroDivisionError] * 3


@pytest.mark.invariant(8)
async def test_after_a_loss_the_latest_links_are_sent_again() -> None:
    """With appendfsync everysec a server may come back without its last second; we remember the links in it."""
    model = Counting()
    now = [100.0]
    batcher = batcher_of(model, clock=lambda: now[0])
    await batcher.add([candidate("http://old.test/")])
    now[0] += 11
    latest = [candidate(f"http://a.test/{n}") for n in range(3)]
    await batcher.add(latest)
    await model.purge()
    model.losses += 1
    await batcher.add([candidate("http://b.test/")])
    await batcher.close()
    assert (await model.snapshot()).added == 4, "the three of the last ten seconds, and the new one"
    assert not batcher.known(candidate("http://old.test/").key), "what was known is void"
    assert await batcher.add([candidate("http://old.test/")]) == [Added.ADDED]


@pytest.mark.invariant(8)
async def test_recovering_without_a_further_add() -> None:
    model = Counting()
    batcher = batcher_of(model)
    page = [candidate(f"http://a.test/{n}") for n in range(3)]
    await batcher.add(page)
    assert await batcher.recover() == 0
    await model.purge()
    model.losses += 1
    model.away = 1
    with pytest.raises(FrontierUnavailable):
        await batcher.recover()
    assert not batcher.known(page[0].key)
    assert await batcher.recover() == 3
    assert await batcher.recover() == 0
    assert (await model.snapshot()).added == 3


@pytest.mark.invariant(8)
async def test_a_purge_elsewhere_voids_what_is_known(redis_server: RedisServer, redis_client: Redis) -> None:
    frontier = await Frontier.open(redis_client, OPTIONS)
    batcher = batcher_of(frontier)
    page = candidate("http://a.test/")
    await batcher.add([page])
    await frontier.purge()
    await Frontier.open(redis_client, OPTIONS)
    await batcher.add([candidate("http://a.test/other")])
    await batcher.close()
    assert (await frontier.snapshot()).added == 2


@pytest.mark.case("Q03")
async def test_a_server_killed_under_a_batcher(start_server: Callable[..., RedisServer]) -> None:
    server = start_server("valkey", appendfsync="always")
    async with server.client() as client:
        frontier = await Frontier.open(client, OPTIONS, patience=0.05)
        batcher = Batcher(frontier)
        await batcher.add([candidate("http://a.test/")])
        server.kill9()
        adding = [asyncio.create_task(batcher.add([candidate(f"http://b.test/{n}")])) for n in range(5)]
        await asyncio.to_thread(server.start)
        assert await asyncio.gather(*adding) == [[Added.ADDED]] * 5
        await batcher.close()
        assert (await frontier.snapshot()).added == 6


async def test_a_cancelled_call_disturbs_no_other() -> None:
    model = Counting()
    batcher = batcher_of(model)
    first, second = (asyncio.create_task(batcher.add([candidate(f"http://a.test/{n}")])) for n in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == [Added.ADDED]
    await batcher.close()


def test_the_filter_is_bounded_and_keeps_the_latest() -> None:
    seen = SeenFilter(1000)
    for key in range(10_000):
        seen.update([key])
    assert len(seen) <= 1000
    assert all(key in seen for key in range(9501, 10_000))
    assert 0 not in seen
    seen.clear()
    assert len(seen) == 0
