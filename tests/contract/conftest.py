"""The suite runs over the model and over every kind of server: what it says, any implementation must do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from crawler.frontier import Frontier, Model
from crawler.options import Options
from tests.support.frontier import AnyFrontier
from tests.support.servers import KINDS, RedisServer, binary_of

OPTIONS = Options(
    crawl_id="contract",
    frontier_partitions=2,
    lease_ttl=12.0,
    session_ttl=8.0,
    spool_grace=20.0,
    retry_delays=(30.0, 120.0),
    max_attempts=3,
    max_expiries=4,
    offline_after=60.0,
)
Open = Callable[..., Awaitable[AnyFrontier]]


@pytest.fixture(scope="session")
def server_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], RedisServer]]:
    """The session's server of a kind, started when first asked for."""
    running: dict[str, RedisServer] = {}
    with ExitStack() as stack:

        def server(kind: str) -> RedisServer:
            if kind not in running:
                binary = binary_of(kind)
                if binary is None:
                    pytest.skip(f"no {kind}-server on PATH")
                running[kind] = stack.enter_context(RedisServer(binary, tmp_path_factory.mktemp(f"contract-{kind}")))
            return running[kind]

        yield server


async def _opener(kind: str, server_of: Callable[[str], RedisServer]) -> AsyncIterator[Open]:
    clients = []

    async def open_(**changes: Any) -> AnyFrontier:
        options = replace(OPTIONS, **changes)
        if kind == "model":
            return Model(options, rand=lambda: 0.0)
        clients.append(server_of(kind).client())
        return await Frontier.open(clients[-1], options, rand=lambda: 0.0)

    if kind != "model":
        with server_of(kind).sync_client() as plain:
            plain.flushall()
            plain.script_flush()
    yield open_
    for client in clients:
        await client.aclose()


@pytest.fixture(params=["model", *KINDS])
async def open_frontier(request: pytest.FixtureRequest, server_of: Callable[[str], RedisServer]) -> AsyncIterator[Open]:
    """Open a frontier with OPTIONS changed as named; those that one test opens share one crawl, except for models."""
    async for opener in _opener(request.param, server_of):
        yield opener


@pytest.fixture
async def frontier(open_frontier: Open) -> AnyFrontier:
    """A fresh frontier with OPTIONS."""
    return await open_frontier()


@pytest.fixture(params=KINDS)
async def open_real(request: pytest.FixtureRequest, server_of: Callable[[str], RedisServer]) -> AsyncIterator[Open]:
    """The same on servers alone, for what the model has not."""
    async for opener in _opener(request.param, server_of):
        yield opener
