"""Every lease's request ends here first: its group's turn is over, and what came back is a page or an outcome.

The middleware stands next to the downloader, so that nothing between them can hide an answer. Outcomes are given to
the worker; the engine gets a marker Request in exchange, which the scheduler takes for what it is. So a retry or a
redirect costs no callback, and a spider's errback is called when, as in Scrapy, there is nothing left to try."""

from __future__ import annotations

import time
from collections.abc import Container
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)

from crawler.download.wire import META_KEY, WireResponse
from crawler.errors import FetchError
from crawler.frontier import policy
from crawler.requests import LEASE_KEY, SETTLED_KEY, TURN_KEY
from crawler.urls import redirect_target
from crawler.worker import Fetch, Visit, worker_of
from crawler.worker.candidates import Refused, carried
from crawler.worker.outcomes import status_kind
from crawler.worker.robots_turns import robots_ended

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawler.worker import Worker

SETTLED = Request("http://settled.invalid/", meta={SETTLED_KEY: True, "allow_offsite": True})
"""What the engine gets in place of a response once the lease has its outcome."""

_SCRAPY_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (DownloadTimeoutError, "timeout"),
    (CannotResolveHostError, "dns"),
    (DownloadConnectionRefusedError, "refused"),
    (ResponseDataLossError, "truncated"),
    (UnsupportedURLSchemeError, "unsupported-url"),
    (TimeoutError, "timeout"),
)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_THROTTLES = frozenset({429, 503})
_TRANSIENT = frozenset({408, 421, 425})
"""Request Timeout, Misdirected Request, Too Early: the same request may be answered the next time."""


class LeaseMiddleware:
    """Turns the ends of leased requests into outcomes."""

    def __init__(self, crawler: Crawler) -> None:
        self._worker: Worker = worker_of(crawler)
        self._allowed = frozenset(crawler.settings.getlist("HTTPERROR_ALLOWED_CODES"))
        self._allow_all = crawler.settings.getbool("HTTPERROR_ALLOW_ALL")
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LeaseMiddleware:
        """Scrapy's constructor."""
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response | Request:
        """Pass a page on; settle everything else."""
        visit = self._visit(request)
        if visit is None:
            return response
        fetch = fetch_of(request, response)
        self._worker.count("fetch/count", 1)
        self._worker.count(f"fetch/status/{fetch.status}", 1)
        if visit.robots_for:
            location = redirect_target(visit.robots_url, location_of(response))
            robots_ended(self._worker, visit, fetch, response.body, location)
            return SETTLED
        if self._is_page(request, visit, fetch):
            self._worker.fetched(visit, fetch)
            return response
        return self._settle(request, response, visit, fetch)

    def _visit(self, request: Request) -> Visit | None:
        """The visit whose request this is; None for one that is over, and for what has a turn of its own."""
        visit = self._worker.visit_of(request.meta.get(LEASE_KEY))
        return None if visit is None or visit.settled or TURN_KEY in request.meta else visit

    def _is_page(self, request: Request, visit: Visit, fetch: Fetch) -> bool:
        """Whether the spider's callback shall see this answer."""
        status = fetch.status
        if 200 <= status < 300:
            lost = fetch.truncated == "disconnect" and not self._worker.will_die(visit, "truncated")
            return not lost
        if self._allow_all or request.meta.get("handle_httpstatus_all"):
            return True
        own = getattr(self._crawler.spider, "handle_httpstatus_list", ())
        listed: Container[int] = request.meta.get("handle_httpstatus_list", own)
        return status in listed or status in self._allowed

    def _settle(self, request: Request, response: Response, visit: Visit, fetch: Fetch) -> Response | Request:
        status = fetch.status
        if 200 <= status < 300:
            self._worker.retry(visit, "truncated", fetch)
        elif status in _REDIRECTS and location_of(response):
            self._redirect(visit, fetch, location_of(response))
        elif status in _THROTTLES:
            fetch.kind = "throttled"
            return self._fail(request, response, visit, fetch)
        elif status >= 500 or status in _TRANSIENT:
            fetch.kind = "server-error"
            return self._fail(request, response, visit, fetch)
        elif has_errback(request):
            self._worker.fetched(visit, fetch)
            return response
        else:
            self._worker.complete(visit, status_kind(status), fetch)
        return SETTLED

    def _fail(self, request: Request, response: Response, visit: Visit, fetch: Fetch) -> Response | Request:
        """Retry; the errback of a spider sees the last failure, as with Scrapy's own retries."""
        last = has_errback(request) and self._worker.will_die(visit, fetch.kind)
        self._worker.retry(visit, fetch.kind, fetch)
        return response if last else SETTLED

    def _redirect(self, visit: Visit, fetch: Fetch, location: bytes) -> None:
        worker, lease = self._worker, visit.lease
        target = redirect_target(lease.url, location)
        if target is None:
            worker.complete(visit, "unsupported-url", fetch)
            return
        try:
            candidate = worker.candidates.redirected(target, lease, carried(lease.request, fetch.status))
        except Refused as refused:
            worker.count(f"links/refused/{refused.reason}", 1)
            worker.complete(visit, "filtered", fetch)
        else:
            worker.redirect(visit, fetch, candidate)

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """Settle a failure; None lets it go on to the spider's errback, when that is due."""
        visit = self._visit(request)
        if visit is None:
            return None
        if isinstance(exception, IgnoreRequest):
            self._worker.complete(visit, "filtered")
            return None
        kind = kind_of(exception)
        fetch = Fetch(kind=kind)
        self._worker.count("fetch/count", 1)
        if visit.robots_for:
            robots_ended(self._worker, visit, fetch)
            return SETTLED
        if policy.cost_of(kind, 0) is policy.Cost.ANSWER:
            self._worker.complete(visit, kind, fetch)
            return None if has_errback(request) else SETTLED
        last = has_errback(request) and self._worker.will_die(visit, kind)
        self._worker.retry(visit, kind, fetch)
        return None if last else SETTLED


def fetch_of(request: Request, response: Response) -> Fetch:
    """What the request was like, from our handler's record or, with another handler, from Scrapy's."""
    wire: WireResponse | None = request.meta.get(META_KEY)
    modified = (response.headers.get(b"Last-Modified") or b"").decode("latin-1")
    wait = retry_after(response) if response.status in _THROTTLES else None
    if wire is None:
        return Fetch(
            status=response.status,
            retry_after=wait,
            latency=float(request.meta.get("download_latency") or 0.0),
            bytes=len(response.body),
            ip=str(response.ip_address or ""),
            last_modified=modified,
        )
    return Fetch(
        status=wire.status,
        retry_after=wait,
        latency=wire.latency,
        ended=wire.ended,
        at=time.time() - (time.monotonic() - wire.started),
        bytes=len(wire.body),
        ip=wire.ip,
        truncated=wire.truncated,
        last_modified=modified,
    )


def location_of(response: Response) -> bytes:
    """Where a response points to, as sent; the first of several, b'' for none."""
    return next(iter(response.headers.getlist(b"Location")), b"")


def has_errback(request: Request) -> bool:
    """Whether the spider named an errback (the scheduler wraps it; see Scheduler)."""
    return bool(getattr(request.errback, "spider_errback", None))


def kind_of(exception: BaseException) -> str:
    """The one name of a failure."""
    if isinstance(exception, FetchError):
        return exception.kind
    for known, kind in _SCRAPY_KINDS:
        if isinstance(exception, known):
            return kind
    return "bad-response"


def retry_after(response: Response) -> float | None:
    """Retry-After in seconds from now: a number, or an HTTP date in any of its three forms, read against the server's
    own Date.

    None when there is none, it cannot be read, or the moment has passed: the usual back-off holds then.
    """
    value = (response.headers.get(b"Retry-After") or b"").decode("latin-1").strip()
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:12])
    then = _date(value)
    if then is None:
        return None
    now = _date((response.headers.get(b"Date") or b"").decode("latin-1")) or datetime.now(UTC)
    wait = (then - now).total_seconds()
    return wait if wait > 0 else None


def _date(value: str) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
