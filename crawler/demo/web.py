"""Serves a generated world on loopback from one event loop, and keeps the log that witnesses against the crawler.

HTTP/1.1 with keep-alive; pipelined requests are answered in order. The log has one line for each request, six columns
separated by tabs: start, end, host, path with query, status, method. Start is when the request's head was parsed, end
when the last byte is handed to the kernel, both in seconds since the epoch; a client that hung up first ends its
request there, with status 499 (nginx's number for it).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import TextIO, cast

from crawler.demo.world import Answer, World

CLIENT_CLOSED_REQUEST = 499
LOG_FLUSH_INTERVAL_S = 0.2
_HEAD_LIMIT_BYTES = 65_536
_FIELD = re.compile(rb"\r\n([^:\r\n]+):[ \t]*([^\r\n]*)")


@dataclass(slots=True)
class _Request:
    start: float
    method: str
    host: str
    path: str
    close: bool
    status: int = CLIENT_CLOSED_REQUEST
    end: float = 0.0  # seconds since the epoch; 0 until it is known


class _Access:
    """The log file: appended in memory, written out every LOG_FLUSH_INTERVAL_S and at the end."""

    def __init__(self, file: TextIO | None) -> None:
        self._file = file
        self._lines: list[str] = []

    def record(self, request: _Request) -> None:
        if self._file is not None:
            r = request
            end = r.end or time.time()
            self._lines.append(f"{r.start:.6f}\t{end:.6f}\t{r.host}\t{r.path}\t{r.status}\t{r.method}\n")

    def flush(self) -> None:
        if self._file is not None and self._lines:
            self._file.write("".join(self._lines))
            self._file.flush()
            self._lines.clear()

    async def keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(LOG_FLUSH_INTERVAL_S)
            self.flush()


class _Web:
    """What all connections share: the world, how often each URL was asked for, the log."""

    def __init__(self, world: World, access: _Access) -> None:
        self.world = world
        self.access = access
        self.connections: set[asyncio.Transport] = set()
        self._asked: Counter[str] = Counter()
        self._payload = lru_cache(maxsize=4096)(Answer.payload)

    def answer(self, request: _Request) -> tuple[Answer, bytes]:
        """The next answer of the requested URL, with its body; HEAD does not use an answer up."""
        url = f"http://{request.host}{request.path}"
        answers = self.world.answers(url)
        answer = answers[min(self._asked[url], len(answers) - 1)]
        if request.method != "HEAD" and len(answers) > 1:
            self._asked[url] += 1
        return answer, self._payload(answer)


class _Connection(asyncio.Protocol):
    def __init__(self, web: _Web) -> None:
        self._web = web
        self._buffer = b""
        self._waiting: deque[_Request] = deque()
        self._current: _Request | None = None
        self._unsent = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast("asyncio.Transport", transport)
        # With no room in the buffer the transport says when the last byte has gone: that is the end of a request.
        transport.set_write_buffer_limits(high=0)
        self._web.connections.add(transport)

    def pause_writing(self) -> None:
        self._unsent = True

    def resume_writing(self) -> None:
        self._unsent = False
        if self._current is not None:
            self._current.end = time.time()
        self._finish()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._web.connections.discard(self._transport)
        for request in [*([self._current] if self._current else []), *self._waiting]:
            request.status, request.end = CLIENT_CLOSED_REQUEST, time.time()
            self._web.access.record(request)
        self._current = None
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
            request, body_bytes = _parse(head)
            self._buffer = self._buffer[body_bytes:]
            self._waiting.append(request)
        if len(self._buffer) > _HEAD_LIMIT_BYTES:
            self._transport.abort()
        self._next()

    def _next(self) -> None:
        if self._current is not None or not self._waiting:
            return
        self._current = self._waiting.popleft()
        latency = self._web.world.latency.get(self._current.host, 0.0)
        if latency:
            asyncio.get_running_loop().call_later(latency, self._send, self._current)
        else:
            self._send(self._current)

    def _send(self, request: _Request) -> None:
        if self._current is not request or self._transport.is_closing():
            return
        answer, body = self._web.answer(request)
        request.status = answer.status
        request.close |= bool(answer.cut)
        # Before the bytes leave: afterwards this process may wait for a processor while the client already has them.
        request.end = time.time()
        self._transport.write(_head(answer, len(body), request.close) + (b"" if request.method == "HEAD" else body))
        if not self._unsent:
            self._finish()

    def _finish(self) -> None:
        request, self._current = self._current, None
        if request is None:
            return
        self._web.access.record(request)
        if request.close:
            self._transport.close()
        else:
            self._next()


def _parse(head: bytes) -> tuple[_Request, int]:
    """The request and the number of body bytes that follow its head (they are ignored)."""
    start = time.time()
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    fields = {name.lower(): value.strip() for name, value in _FIELD.findall(head)}
    method, target = [*words, "/"][:2]
    if "://" in target:  # a proxy's absolute form
        target = "/" + target.split("/", 3)[-1] if target.count("/") > 2 else "/"
    host = fields.get(b"host", b"").decode("latin-1").rsplit(":", 1)[0].lower()
    length = fields.get(b"content-length", b"0")
    close = fields.get(b"connection", b"").lower() == b"close"
    return _Request(start, method, host, target, close), int(length) if length.isdigit() else 0


@lru_cache(maxsize=4096)
def _head(answer: Answer, body_bytes: int, close: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {body_bytes + answer.cut}",
        *(f"{name}: {value}" for name, value in answer.headers),
        *(["Connection: close"] if close else []),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@contextlib.asynccontextmanager
async def serving(world: World, port: int = 0, log: Path | None = None) -> AsyncIterator[int]:
    """Serves `world` on 127.0.0.1 while the block runs and gives the port (0: a free one). The log is appended to.

    Raises OSError when the port is taken or the log cannot be written.
    """
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(log.open("a", encoding="latin-1", newline="\n")) if log else None
        access = _Access(file)
        web = _Web(world, access)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(web), "127.0.0.1", port, backlog=4096)
        flushing = asyncio.create_task(access.keep_flushing())
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            flushing.cancel()
            server.close()
            for connection in list(web.connections):
                connection.abort()
            await asyncio.sleep(0)  # lets the aborted connections write their last line
            access.flush()
