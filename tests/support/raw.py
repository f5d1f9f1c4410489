"""A server that says exactly what it is told to, byte for byte, and keeps what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
"""The whole answer; or a coroutine function that writes it and may take its time. The connection is closed after it."""


@dataclass
class RawServer:
    """Answers each connection's first request by its path; an unknown path gets a 404. `asked`: the heads of all requests."""

    replies: Mapping[str, Reply]
    port: int = 0
    asked: list[bytes] = field(default_factory=list)
    keep_open: bool = False

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """Where `path` is."""
        return f"http://{host}:{self.port}{path}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked.append(head)
            path = head.split(b" ", 2)[1].decode("latin-1")
            reply = self.replies.get(path, ok(b"no such page", status="404 Not Found"))
            if isinstance(reply, bytes):
                writer.write(reply)
                await writer.drain()
            else:
                await reply(writer)
            if self.keep_open:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has seen enough
        finally:
            writer.close()


@asynccontextmanager
async def raw_server(replies: Mapping[str, Reply], *, keep_open: bool = False) -> AsyncIterator[RawServer]:
    """Serves on loopback while the block runs; with `keep_open` the client is the one that closes."""
    web = RawServer(replies, keep_open=keep_open)
    server = await asyncio.start_server(web._answer, "127.0.0.1", 0)
    web.port = server.sockets[0].getsockname()[1]
    async with server:
        yield web
        server.close()


def ok(body: bytes, *headers: str, status: str = "200 OK", content_type: str = "text/html") -> bytes:
    """A whole answer with a Content-Length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
