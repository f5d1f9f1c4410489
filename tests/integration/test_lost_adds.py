"""Links are not lost with a server's last second while their worker lives (invariant 8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from crawler.errors import FrontierMismatch
from crawler.frontier import Batcher, Frontier
from crawler.frontier.batcher import RESEND
from crawler.options import Options
from tests.support.corpus import VirtualClock
from tests.support.frontier import candidate
from tests.support.power import cut_back, file_sizes
from tests.support.servers import RedisServer

LINKS = [candidate(f"http://h{number}.test/") for number in range(20)]

pytestmark = pytest.mark.invariant(8)


@pytest.fixture
def server(start_server: Callable[..., RedisServer]) -> RedisServer:
    return start_server(appendfsync="always")


@pytest.fixture
async def frontier(server: RedisServer) -> AsyncIterator[Frontier]:
    async with server.client() as client:
        yield await Frontier.open(client, Options(frontier_partitions=4))


async def add_and_lose(batcher: Batcher, frontier: Frontier, server: RedisServer) -> None:
    """The frontier answers for the links, and the server comes back without them, which is noticed."""
    before = file_sizes(server)
    await batcher.add(LINKS)
    assert cut_back(server, before) > 0
    server.start()
    await frontier.run_ids()
    assert (await frontier.snapshot()).queued == 0


async def test_lost_links_are_sent_again_without_a_further_add(server: RedisServer, frontier: Frontier) -> None:
    batcher = Batcher(frontier, window=0.0)
    await add_and_lose(batcher, frontier, server)
    assert await batcher.recover() == len(LINKS)
    assert (await frontier.snapshot()).queued == len(LINKS)
    assert await batcher.recover() == 0
    await batcher.close()


async def test_a_further_add_sends_them_again_too(server: RedisServer, frontier: Frontier) -> None:
    batcher = Batcher(frontier, window=0.0)
    await add_and_lose(batcher, frontier, server)
    await batcher.add([candidate("http://other.test/")])
    await batcher.close()
    assert (await frontier.snapshot()).queued == len(LINKS) + 1


@pytest.mark.parametrize("further", [True, False])
async def test_an_outage_may_last_longer_than_links_are_kept(
    server: RedisServer, frontier: Frontier, further: bool
) -> None:
    clock = VirtualClock()
    batcher = Batcher(frontier, window=0.0, clock=clock)
    await add_and_lose(batcher, frontier, server)
    clock.now += 10 * RESEND
    if further:
        await batcher.add([candidate("http://other.test/")])
    else:
        await batcher.recover()
    await batcher.close()
    assert (await frontier.snapshot()).queued == len(LINKS) + further


async def test_what_no_server_lost_is_not_sent_again(frontier: Frontier) -> None:
    batcher = Batcher(frontier, window=0.0)
    await batcher.add(LINKS)
    assert await batcher.recover() == 0
    await batcher.close()


async def test_a_server_that_was_flushed_is_noticed_once(server: RedisServer, frontier: Frontier) -> None:
    batcher = Batcher(frontier, window=0.0)
    await batcher.add(LINKS)
    assert not await frontier.was_emptied()
    async with server.client() as client:
        await client.flushall()
        assert await frontier.was_emptied()
        assert not await frontier.was_emptied()
        assert await batcher.recover() == len(LINKS)
        with pytest.raises(FrontierMismatch):  # the record is the crawl's own again
            await Frontier.open(client, Options(frontier_partitions=8))
    await batcher.close()
