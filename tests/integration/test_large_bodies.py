"""Bodies larger than what aiohttp buffers before it pauses reading arrive whole, on both event loops."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import uvloop

from tests.support.fetching import fetch
from tests.support.raw import ok


@contextmanager
def at_once(reply: bytes) -> Iterator[str]:
    """A server in a thread of its own that gives `reply` to the kernel in one piece, as sendfile does, and stays."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * len(reply))
                connection.recv(65536)
                connection.sendall(reply)
                connection.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join(timeout=5)


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("size", [60_000, 262_000, 703_139, 5_000_000])
def test_arrive_whole(loop_factory: Callable[[], asyncio.AbstractEventLoop], size: int) -> None:
    async def ask(url: str) -> int:
        response, _ = await fetch(url)
        return len(response.body)

    with at_once(ok(b"x" * size)) as url, asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(ask(url)) == size
