"""The download handler against servers that answer rightly, wrongly, slowly and too much."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import resource
from pathlib import Path

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse

from crawler.errors import FetchError
from crawler.frontier import policy
from crawler.requests import CUT_KEY
from tests.support.fetching import fetch, handler
from tests.support.raw import listening, ok, raw_server

CASES = Path(__file__).parents[3] / "shared/cases/own/raw-http.json"
PAGE = b"<!doctype html><title>t</title><p>ok</p>"

WHOLE = (200, 90, "")
BAD = "bad-response"
EXPECTED: dict[str, tuple[int, int, str] | str] = {
    # as many bytes as were declared, on a connection that is not used again
    "cl-too-small": (200, 20, ""),
    "cl-dup-diff": BAD,
    "cl-negative": BAD,
    "cl-plus": BAD,
    "cl-huge": BAD,
    "status-000": BAD,
    "status-99": BAD,
    "status-999": (999, 90, ""),
    "icy": BAD,
    "http09": BAD,
    "only-crlf": "reset",
    "hdr-70k": WHOLE,  # browsers accept 256 KB
    "ce-gzip-bomb-200M": (200, 1_000_000, "length"),
    "te-chunked-nofinal": (200, 90, "disconnect"),
    "te-chunked-badhex": BAD,
    "te-chunked-hugehex": BAD,
    "te-chunked-plain-body": BAD,
    "101": BAD,
    "204-with-body": (204, 0, ""),
    "304-unasked": (304, 0, ""),
    "206-unasked": (206, 90, "range"),
    "421": (421, 90, ""),
    "503-past": (503, 90, ""),
    "302-two-locations": (302, 90, ""),
    "302-js": (302, 90, ""),
    "charset-unicode-escape": (200, 13, ""),
}


def raw_cases() -> list[dict[str, str]]:
    return json.loads(CASES.read_text("utf-8")) if CASES.exists() else [{"id": "none", "raw_b64": ""}]


@pytest.mark.parametrize("case", raw_cases(), ids=lambda case: case["id"])
async def test_every_raw_reply_ends_as_a_response_or_as_one_named_kind(case: dict[str, str]) -> None:
    if not CASES.exists():
        pytest.skip("../shared/cases is not here")
    async with raw_server({"/": base64.b64decode(case["raw_b64"])}) as web:
        ended: object
        try:
            response, wire = await fetch(web.url(), download_maxsize=1_000_000)
            ended = (response.status, len(response.body), wire.truncated)
        except FetchError as error:
            ended = error.kind
    assert ended == EXPECTED.get(case["id"], WHOLE)
    assert isinstance(ended, tuple) or ended in policy.KINDS


async def test_a_broken_chunk_that_comes_late_ends_the_request_at_once() -> None:
    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<html\r\n")
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(b"zz\r\n")

    async with raw_server({"/": reply}) as web:
        with pytest.raises(FetchError, match="bad-response"):
            await fetch(web.url(), meta={"download_timeout": 30.0})


async def test_bytes_and_header_are_handed_over_as_received() -> None:
    packed = gzip.compress(PAGE)
    async with raw_server({"/": ok(packed, "content-ENCODING: gzip", "X-Odd:  \xe9 b")}) as web:
        response, wire = await fetch(web.url())
    assert wire.body == packed
    assert wire.raw_headers[2:] == ((b"content-ENCODING", b"gzip"), (b"X-Odd", b"\xe9 b"))
    assert (wire.ip, wire.version, wire.reason) == ("127.0.0.1", "HTTP/1.1", "OK")
    assert isinstance(response, HtmlResponse)
    assert response.body == PAGE
    assert b"Content-Encoding" not in response.headers, "the body is decoded, and its header must not say otherwise"


@pytest.mark.parametrize("target", ["/?p[]=1", "/a%2cb", "/a,b%C3%A9?q=%2C", "/A%2fB?x=a+b&x=%20", "/~u/|{}"])
async def test_a_url_is_sent_as_the_page_wrote_it(target: str) -> None:
    async with raw_server({target: ok(PAGE)}) as web:
        response, _ = await fetch(web.url(target))
    assert response.status == 200
    assert web.asked[0].split(b" ", 2)[1] == target.encode()


async def test_only_the_headers_of_the_request_are_sent_and_encodings_offered() -> None:
    async with raw_server({"/": ok(PAGE)}) as web, handler() as made:
        await made.download_request(Request(web.url(), headers={"User-Agent": "a/1"}))
    head = web.asked[0].lower()
    assert b"user-agent: a/1\r\n" in head
    assert b"accept-encoding: gzip, deflate, br, zstd\r\n" in head
    assert b"aiohttp" not in head


async def test_a_body_that_is_declared_too_large_is_not_read() -> None:
    """The server has sent nothing but the header when the request ends."""
    asked_for_more = asyncio.Event()

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000001\r\n\r\n")
        await writer.drain()
        await asked_for_more.wait()

    async with raw_server({"/": reply}) as web:
        with pytest.raises(FetchError, match="too-large: 1000001 bytes declared, 1000000 allowed"):
            await fetch(web.url(), download_maxsize=1_000_000)
        asked_for_more.set()


async def test_robots_txt_is_cut_off_where_a_page_would_be_refused() -> None:
    async with raw_server({"/": ok(b"x" * 2000)}) as web:
        response, wire = await fetch(web.url(), download_maxsize=1000, meta={CUT_KEY: True})
    assert (len(response.body), wire.truncated) == (1000, "length")


@pytest.mark.parametrize("overflow", ["truncate", "drop"])
async def test_a_body_that_grows_too_large_is_cut_or_dropped(overflow: str) -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + b"x" * 300_000
    async with raw_server({"/": endless}) as web:
        if overflow == "drop":
            with pytest.raises(FetchError, match="too-large: more than 100000 bytes"):
                await fetch(web.url(), download_maxsize=100_000, body_overflow="drop")
        else:
            response, wire = await fetch(web.url(), download_maxsize=100_000)
            assert (len(response.body), len(wire.body), wire.truncated) == (100_000, 100_000, "length")


async def test_without_a_limit_everything_is_read() -> None:
    async with raw_server({"/": ok(gzip.compress(b"x" * 300_000), "Content-Encoding: gzip")}) as web:
        response, wire = await fetch(web.url(), download_maxsize=0)
    assert (len(response.body), wire.truncated) == (300_000, "")


@pytest.mark.parametrize("framing", ["length", "chunks", "end"])
async def test_a_body_larger_than_any_buffer_comes_whole(framing: str) -> None:
    """aiohttp pauses and resumes its parser on the way."""
    body = bytes(range(256)) * 20_000
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
    reply = {
        "length": head + b"Content-Length: %d\r\n\r\n" % len(body) + body,
        "chunks": head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n",
        "end": head + b"\r\n" + body,
    }[framing]
    async with raw_server({"/": reply}) as web:
        response, wire = await fetch(web.url())
    assert (response.body == body, wire.truncated) == (True, "")


async def test_a_spider_may_set_its_own_limit() -> None:
    async with raw_server({"/": ok(b"x" * 2000)}) as web:
        with pytest.raises(FetchError, match="too-large"):
            await fetch(web.url(), meta={"download_maxsize": 1000})


async def test_a_body_that_drips_ends_at_the_total_time() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        loop = asyncio.get_running_loop()
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            tick = loop.create_future()
            loop.call_later(0.02, tick.set_result, None)
            await tick

    async with raw_server({"/": drip}) as web:
        with pytest.raises(FetchError, match=r"timeout: more than 0\.3 s"):
            await fetch(web.url(), meta={"download_timeout": 0.3})


async def test_the_lease_bounds_the_time_whatever_the_spider_asks_for() -> None:
    async with raw_server({"/": _silent}) as web:
        with pytest.raises(FetchError, match=r"timeout: more than 0\.2 s"):
            await fetch(web.url(), meta={"download_timeout": 30.0, "lease_timeout": 0.2})
        with pytest.raises(FetchError, match=r"timeout: more than 0\.2 s"):
            await fetch(web.url(), meta={"download_timeout": 0.2, "lease_timeout": 30.0})


async def test_failures_to_connect_have_their_own_kinds() -> None:
    async with raw_server({}) as web:
        gone = web.url()
    with pytest.raises(FetchError, match=r"^refused"):
        await fetch(gone)
    with pytest.raises(FetchError, match=r"^dns"):
        await fetch("http://no-such-host.invalid/")
    async with raw_server({"/": b""}) as web:
        with pytest.raises(FetchError, match=r"^reset"):
            await fetch(web.url())


async def test_a_server_that_speaks_no_tls_is_named_so() -> None:
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(PAGE))

    async with listening(speak) as port:
        with pytest.raises(FetchError, match=r"^tls"):
            await fetch(f"https://127.0.0.1:{port}/")


async def test_a_bomb_takes_no_memory() -> None:
    """200 MB of zeros, gzipped twice: 600 bytes on the wire."""
    bomb = gzip.compress(gzip.compress(bytes(200 * 1024**2)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with raw_server({"/": ok(bomb, "Content-Encoding: gzip, gzip")}) as web:
        response, wire = await fetch(web.url(), download_maxsize=1_000_000)
    assert (len(response.body), wire.truncated) == (1_000_000, "length")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "KB"


async def test_a_page_in_a_wrong_coding_is_a_failure_but_a_redirect_still_leads_on() -> None:
    noise = bytes(range(256))
    replies = {
        "/page": ok(noise, "Content-Encoding: br"),
        "/moved": ok(noise, "Content-Encoding: br", "Location: /page", status="302 Found"),
    }
    async with raw_server(replies) as web:
        with pytest.raises(FetchError, match="decode: body is not br"):
            await fetch(web.url("/page"))
        response, _ = await fetch(web.url("/moved"))
        assert (response.status, response.headers[b"Location"], response.body) == (302, b"/page", b"")


async def test_a_connection_is_used_again_only_after_an_orderly_answer() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while head := await reader.readuntil(b"\r\n\r\n"):
            extra = b"and more" if b"/odd" in head else b""
            writer.write(ok(PAGE) + extra)

    async with listening(serve) as port, handler() as made:
        for path, expected in (("/", 1), ("/", 1), ("/odd", 1), ("/", 2)):
            response = await made.download_request(Request(f"http://127.0.0.1:{port}{path}"))
            assert (response.body, connections) == (PAGE, expected)


async def _silent(_: asyncio.StreamWriter) -> None:
    await asyncio.get_running_loop().create_future()
