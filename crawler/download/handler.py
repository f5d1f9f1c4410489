"""Scrapy's download handler for http and https, over aiohttp on the event loop.

It exists beside Scrapy's own aiohttp handler for five things: addresses are checked at the socket (guard.py), names
may come from RESOLVE, URLs are sent as the page wrote them, bodies and headers are handed over as they were received,
and every failure is a FetchError with one kind. Cookies, redirects and retries are other rooms' business."""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

import aiohttp
import yarl
from aiohttp.connector import Connection
from scrapy.http import Headers
from scrapy.responsetypes import responsetypes

from crawler.download.content import ACCEPTED, DecodeFailed, codings, decode
from crawler.download.guard import EVERYWHERE, LOOPBACK, REFUSAL, AddressGuard, AddressRefused
from crawler.download.lenient import HEAD_LIMIT, LenientHandler
from crawler.download.resolve import ResolveTable, TableResolver
from crawler.download.wire import META_KEY, WireResponse
from crawler.errors import FetchError
from crawler.identity import contact
from crawler.options import Options
from crawler.requests import CUT_KEY, TIMEOUT_KEY

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

NO_LIMIT = 1 << 40  # bytes
DNS_TTL = 300  # seconds an answer of the resolver is used
KEEPALIVE = 15.0  # seconds an idle connection stays open
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class _Answer(aiohttp.ClientResponse):
    """Keeps the peer's address: a short answer's connection is given back before anyone can ask for it
    (aiohttp#2205).
    """

    peer: str = ""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        name = connection.transport.get_extra_info("peername") if connection.transport else None
        self.peer = str(name[0]) if name else ""
        return await super().start(connection)


class DownloadHandler:
    """Fetches one request. Raises FetchError; everything else that escapes is a defect."""

    lazy = True  # a crawl that cannot start leaves no session open

    def __init__(self, options: Options) -> None:
        self._options = options
        self._table = ResolveTable(options.resolve)
        self._tls = _unverified_tls()
        allowed = [ip_network(network) for network in options.allowed_private_networks]
        known = bool(contact(options.user_agent))
        guard = AddressGuard(allowed, public=known)
        table_guard = AddressGuard((*allowed, *(EVERYWHERE if known else LOOPBACK)), public=known)
        self._public = self._session(aiohttp.AsyncResolver(), guard.socket_factory())
        self._mapped = self._session(TableResolver(self._table), table_guard.socket_factory())

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> DownloadHandler:
        """Scrapy's constructor."""
        return cls(Options.from_settings(crawler.settings))

    def _session(self, resolver: Any, socket_factory: Any) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=self._options.concurrent_requests,
            limit_per_host=0,
            resolver=resolver,
            ttl_dns_cache=DNS_TTL,
            keepalive_timeout=KEEPALIVE,
            socket_factory=socket_factory,
        )
        protocol: Any = partial(LenientHandler, loop=asyncio.get_running_loop())
        connector._factory = protocol  # noqa: SLF001 - aiohttp has no public way
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_AUTOMATIC,
            response_class=_Answer,
            max_line_size=HEAD_LIMIT,
            max_field_size=HEAD_LIMIT,
        )
        # aiohttp would ask again at once where a server hangs up; the group's delay and the ladder are for us to keep.
        session._retry_connection = False  # noqa: SLF001
        return session

    async def download_request(self, request: Request) -> Response:
        """Fetch ``request``; its meta gets the WireResponse. Raises FetchError."""
        url = yarl.URL(request.url, encoded=True)
        session = self._mapped if self._table.find(url.raw_host or "") else self._public
        started = time.monotonic()
        timeout = self._time_for(request)
        headers = request.headers.copy()
        headers.setdefault(b"Accept-Encoding", ACCEPTED)
        with _named_failures(timeout):
            async with (
                asyncio.timeout(timeout),
                session.request(
                    request.method,
                    url,
                    data=request.body or None,
                    headers=headers.to_tuple_list(),
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(timeout, 30.0)),
                    ssl=self._tls,
                    allow_redirects=False,
                ) as answer,
            ):
                latency = time.monotonic() - started
                wire = await self._receive(answer, request, started, latency)
        request.meta[META_KEY] = wire
        request.meta["download_latency"] = latency
        return self._response(request, wire)

    def _time_for(self, request: Request) -> float:
        """Seconds for the whole request: what its lease leaves, less where the spider asks for less."""
        allowed = float(request.meta.get(TIMEOUT_KEY) or self._options.fetch_timeout)
        return min(allowed, float(request.meta.get("download_timeout") or allowed))

    async def _receive(
        self, answer: aiohttp.ClientResponse, request: Request, started: float, latency: float
    ) -> WireResponse:
        if answer.status < 200:
            raise FetchError("bad-response", f"status {answer.status} in place of an answer")
        limit, cut = self._limit(request), bool(request.meta.get(CUT_KEY))
        if (answer.content_length or 0) > limit and request.method != "HEAD" and not cut:
            raise FetchError("too-large", f"{answer.content_length} bytes declared, {limit} allowed")
        body, truncated = await _read(answer, limit)
        if truncated == "length" and self._options.body_overflow == "drop" and not cut:
            raise FetchError("too-large", f"more than {limit} bytes")
        if answer.status == 206 and b"Range" not in request.headers:
            truncated = truncated or "range"
        if answer.status == 421:
            answer.close()  # whoever asks again shall not do so on this connection (RFC 9110 15.5.20)
        version = answer.version or aiohttp.HttpVersion11
        return WireResponse(
            status=answer.status,
            reason=answer.reason or "",
            version=f"HTTP/{version.major}.{version.minor}",
            raw_headers=tuple(answer.raw_headers),
            body=body,
            ip=answer.peer if isinstance(answer, _Answer) else "",
            started=started,
            ended=time.monotonic(),
            latency=latency,
            truncated=truncated,
        )

    def _limit(self, request: Request) -> int:
        return int(request.meta.get("download_maxsize") or self._options.download_maxsize) or NO_LIMIT

    def _response(self, request: Request, wire: WireResponse) -> Response:
        headers = Headers()
        for name, value in wire.raw_headers:
            headers.appendlist(name, value)
        applied = codings(headers.getlist(b"Content-Encoding"))
        body = wire.body
        if applied and body:
            try:
                body, cut = decode(body, applied, self._limit(request))
            except DecodeFailed as error:
                if 200 <= wire.status < 300:
                    raise FetchError("decode", str(error)) from error
                body, cut = b"", ""
            wire.truncated = wire.truncated or cut
            del headers[b"Content-Encoding"]
        response_class = responsetypes.from_args(headers=headers, url=request.url, body=body)
        return response_class(
            url=request.url,
            status=wire.status,
            headers=headers,
            body=body,
            request=request,
            protocol=wire.version,
            ip_address=_parsed_ip(wire.ip),
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._public.close()
        await self._mapped.close()


async def _read(answer: aiohttp.ClientResponse, limit: int) -> tuple[bytes, str]:
    """The body, up to ``limit`` bytes, and why it is not whole ('' when it is)."""
    body = bytearray()
    try:
        async for chunk in answer.content.iter_any():
            body += chunk
            if len(body) > limit:
                answer.close()
                return bytes(body[:limit]), "length"
    except aiohttp.ClientPayloadError:
        return bytes(body), "disconnect"
    return bytes(body), ""


@contextmanager
def _named_failures(timeout: float) -> Iterator[None]:
    """Turn what aiohttp and the socket layer raise into a FetchError of one kind."""
    try:
        yield
    except (aiohttp.ConnectionTimeoutError, aiohttp.SocketTimeoutError) as error:
        raise FetchError("connect-timeout", str(error)) from error
    except TimeoutError as error:
        raise FetchError("timeout", f"more than {timeout:g} s") from error
    except aiohttp.ClientConnectorDNSError as error:
        raise FetchError("dns", str(error)) from error
    except (aiohttp.ClientSSLError, ssl.SSLError) as error:
        raise FetchError("tls", str(error)) from error
    except aiohttp.ClientConnectorError as error:
        raise FetchError(_connect_kind(error.os_error), f"{error.host}:{error.port}: {error.os_error}") from error
    except (aiohttp.InvalidURL, ValueError) as error:
        raise FetchError("bad-response", str(error)) from error
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError) as error:
        raise FetchError("reset", str(error)) from error
    except aiohttp.ClientError as error:
        raise FetchError("bad-response", str(error)) from error


def _connect_kind(error: OSError) -> str:
    """The kind of a connection that did not come about."""
    if isinstance(error, AddressRefused) or REFUSAL in str(error):  # of several addresses the reasons are joined
        return "guard"
    return "refused" if error.errno == errno.ECONNREFUSED else "unreachable"


def _parsed_ip(text: str) -> Any:
    return ip_address(text.partition("%")[0]) if text else None


def _unverified_tls() -> ssl.SSLContext:
    """Accept any certificate: a crawler reads what is public, and most bad certificates are expired ones."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.options |= getattr(ssl, "OP_LEGACY_SERVER_CONNECT", 0)
    return context
