"""Bodies larger than what aiohttp buffers before it pauses reading arrive whole, on both event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from tests.support.fetching import fetch
from tests.support.raw import ok, raw_server


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("size", [60_000, 700_000, 5_000_000])
def test_arrive_whole(loop_factory: Callable[[], asyncio.AbstractEventLoop], size: int) -> None:
    async def ask() -> int:
        async with raw_server({"/": ok(b"x" * size)}, keep_open=True) as web:
            response, _ = await fetch(web.url())
            return len(response.body)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(ask()) == size
