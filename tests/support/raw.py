"""Servers that say exactly what they are told to, byte for byte, and keep what they were asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
"""The whole answer; or a coroutine function that writes it and may take its time. The connection is closed after it."""

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[int]:
    """A server on a free port of loopback; its connections are closed with the block."""
    writers: list[asyncio.StreamWriter] = []
    tasks: set[asyncio.Task[None] | None] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        tasks.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task), return_exceptions=True)
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@dataclass
class RawServer:
    """Answers each connection's first request by its path; an unknown path gets a 404. `asked`: all requests' heads."""

    replies: Mapping[str, Reply]
    keep_open: bool
    port: int = 0
    asked: list[bytes] = field(default_factory=list)

    def url(self, path: str = "/") -> str:
        """Where `path` is."""
        return f"http://127.0.0.1:{self.port}{path}"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        reply = self.replies.get(head.split(b" ", 2)[1].decode("latin-1"), ok(b"", status="404 Not Found"))
        if isinstance(reply, bytes):
            writer.write(reply)
            await writer.drain()
        else:
            await reply(writer)
        if self.keep_open:
            await reader.read()


@asynccontextmanager
async def raw_server(replies: Mapping[str, Reply], *, keep_open: bool = False) -> AsyncIterator[RawServer]:
    """Serves on loopback while the block runs; with `keep_open` the client is the one that closes."""
    web = RawServer(replies, keep_open)
    async with listening(web.talk) as web.port:
        yield web


def ok(body: bytes, *headers: str, status: str = "200 OK", content_type: str = "text/html") -> bytes:
    """A whole answer with a Content-Length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
