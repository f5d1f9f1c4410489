"""Scrapy's SCHEDULER on the frontier.

Scrapy calls `next_request`, `enqueue_request` and `has_pending_requests` several times per response and waits for
their answers, so they touch memory only: leases come in ahead of need (worker/intake.py), children go out joined (the
batcher). When leases arrive the engine is woken; it would otherwise look again only after its own 5 s heartbeat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider
from scrapy.http import Headers
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import build_from_crawler, load_object

from crawler.errors import InvalidURL, LonglineError, NotSerialisable
from crawler.middlewares.output import Errback
from crawler.requests import (
    LEASE_KEY,
    PARENT_KEY,
    SETTLED_KEY,
    SLOT,
    TIMEOUT_KEY,
    robots_meta,
    stored_form,
    to_request,
)
from crawler.worker import Visit, worker_of
from crawler.worker.candidates import Refused, visit_number
from crawler.worker.duties import Duties
from crawler.worker.intake import Intake

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.dupefilters import BaseDupeFilter
    from scrapy.settings import BaseSettings
    from twisted.internet.defer import Deferred

    from crawler.frontier import Candidate
    from crawler.worker import Worker

logger = logging.getLogger(__name__)


class Scheduler(BaseScheduler):
    """Leases in, outcomes out. The spider closes when the whole crawl is finished, not when this worker is idle."""

    def __init__(self, crawler: Crawler, dupefilter: BaseDupeFilter) -> None:
        self.worker: Worker = worker_of(crawler)
        self.intake = Intake(self.worker)
        self.duties = Duties(self.worker, self.intake)
        self._crawler = crawler
        self._dupefilter = dupefilter
        self._stats = crawler.stats
        self._default_headers = _default_headers(crawler.settings)
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: asyncio.Future[None] | None = None
        self._spider: Spider

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Scheduler:
        """Scrapy's constructor. Raises BadSetting."""
        return cls(crawler, build_from_crawler(load_object(crawler.settings["DUPEFILTER_CLASS"]), crawler))

    @property
    def snapshot(self) -> dict[str, Any] | None:
        """The frontier's counters as last seen, for displays."""
        return self.duties.snapshot

    def open(self, spider: Spider) -> Deferred[None]:
        """Connect, adopt, start asking for leases. A crawl that cannot start closes the spider with the reason."""
        self._spider = spider
        return deferred_from_coro(self._open(spider))

    async def _open(self, spider: Spider) -> None:
        worker = self.worker
        worker.count = self._count
        worker.wake = self._wake
        worker.stir = self.intake.stir
        worker.stopped = self._stop
        worker.leaving = self._closing
        try:
            await worker.open()
        except LonglineError as error:
            logger.error("the crawl cannot start: %s", error)
            # Raised from here it would leave Scrapy half open; once the spider is open it closes in order.
            self._crawler.signals.connect(self._refuse, signals.spider_opened)
            return
        self._unpaced_slot()
        self.duties.spider_name = spider.name
        self.duties.engine_idle = self._engine_idle
        self.duties.closing = self._closing
        self._tasks = [asyncio.ensure_future(self.intake.run()), asyncio.ensure_future(self.duties.run())]
        for task in self._tasks:
            task.add_done_callback(self._task_ended)

    def _refuse(self) -> None:
        raise CloseSpider("start_failed")

    def _unpaced_slot(self) -> None:
        downloader = self._crawler.engine.downloader
        downloader.per_slot_settings[SLOT] = {"concurrency": 1 << 30, "delay": 0, "jitter": 0}

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task of the worker failed: %s", task.exception(), exc_info=task.exception())
            self._stop("worker_failed")

    # Scrapy's side, memory only

    def has_pending_requests(self) -> bool:
        """True until the whole crawl is finished and everything of ours is answered for."""
        return not self.duties.finished

    def next_request(self) -> Request | None:
        """A request that may be sent now, or None."""
        self.intake.hungry(self._room())
        visit = self.intake.take()
        while visit is not None:
            request = self._request(visit)
            if request is not None:
                return request
            visit = self.intake.take()
        return None

    def _room(self) -> int:
        return self.worker.options.concurrent_requests - len(self._crawler.engine.downloader.active)

    def _request(self, visit: Visit) -> Request | None:
        timeout = self.worker.time_left(visit)
        if visit.robots_for:
            return self._robots_request(visit, timeout)
        try:
            request = to_request(visit.lease, self._spider, timeout)
        except NotSerialisable as error:
            self.worker.say_once(f"stored {error}", "a stored request cannot be made again: %s", error)
            self.worker.retry(visit, "callback-error")
            return None
        request.errback = Errback(self.worker, visit, request.errback)
        return request

    def _robots_request(self, visit: Visit, timeout: float) -> Request:
        meta = {**robots_meta(self.worker.options), LEASE_KEY: visit.lease.token.hex(), TIMEOUT_KEY: timeout}
        return Request(visit.robots_url, callback=NO_CALLBACK, meta=meta, errback=Errback(self.worker, visit, None))

    def enqueue_request(self, request: Request) -> bool:
        """Offer a request to the frontier; False when it is known, out of scope, or cannot be stored (said and
        counted).
        """
        if request.meta.get(SETTLED_KEY):
            return True
        visit = self.worker.visit_of(request.meta.get(LEASE_KEY))
        if visit is not None and not visit.settled:
            return self._given_back(request, visit)
        if not request.dont_filter and self._dupefilter.request_seen(request):
            self._dupefilter.log(request, self._spider)
            self._count("frontier/seen", 1)
            return False
        parent = self.worker.visit_of(request.meta.get(PARENT_KEY))
        try:
            candidate = self._candidate(request, parent)
        except Refused as refused:
            self._count(f"links/refused/{refused.reason}", 1)
            return False
        except InvalidURL as error:
            self._count("links/refused/invalid-url", 1)
            logger.debug("%s", error)
            return False
        except NotSerialisable as error:
            self._count("links/refused/not-serialisable", 1)
            logger.error("request refused: %s", error)
            return False
        self.worker.offer(parent, [candidate])
        return True

    def _candidate(self, request: Request, parent: Visit | None) -> Candidate:
        return self.worker.candidates.from_stored(
            request.url,
            stored_form(request, self._spider, self._default_headers),
            depth=int(request.meta.get("depth", parent.lease.depth + 1 if parent else 0)),
            seed=parent is None,
            visit=visit_number(parent) if request.dont_filter else 0,
        )

    def _given_back(self, request: Request, visit: Visit) -> bool:
        """A downloader middleware of the user's returned a Request in place of a response: the same one is a retry,
        another a redirect.
        """
        worker, lease = self.worker, visit.lease
        try:
            stored = stored_form(request, self._spider, self._default_headers)
            target = worker.candidates.redirected(request.url, lease, stored)
        except (Refused, InvalidURL, NotSerialisable) as error:
            logger.error("a request given back by a middleware is refused: %s", error)
            worker.complete(visit, "filtered", visit.fetch)
            return False
        if target.key == lease.key and without_priority(stored) == without_priority(lease.request):
            worker.retry(visit, "bad-response", visit.fetch)
        else:
            worker.redirect(visit, visit.fetch, target)
        return True

    # The engine's side

    def _wake(self) -> None:
        slot = self._crawler.engine._slot  # noqa: SLF001 - Scrapy has no public way to wake its engine
        if slot is not None:
            slot.nextcall.schedule()
        self.intake.stir()

    def _closing(self) -> bool:
        slot = self._crawler.engine._slot  # noqa: SLF001 - nor to ask whether it is closing
        return slot is None or slot.closing is not None

    def _engine_idle(self) -> bool:
        engine = self._crawler.engine
        scraper = engine.scraper.slot
        starting = engine._start is not None  # noqa: SLF001 - nor whether start() has ended
        return not engine.downloader.active and scraper is not None and scraper.is_idle() and not starting

    def _stop(self, reason: str) -> None:
        if not self._closing() and self._ending is None:
            self._ending = asyncio.ensure_future(self._crawler.engine.close_spider_async(reason=reason))

    def _count(self, name: str, by: int) -> None:
        self._stats.inc_value(name, by)

    def close(self, reason: str) -> Deferred[None] | None:
        """Give back leases, publish what is there, leave."""
        return deferred_from_coro(self._close(reason))

    async def _close(self, reason: str) -> None:
        self.intake.stop()
        self.duties.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self.worker.opened:
            return
        self.intake.hand_back()
        await self.duties.last()
        await self.worker.close(purge=reason == "finished" and not self.worker.options.scheduler_persist)


def _default_headers(settings: BaseSettings) -> dict[bytes, list[bytes]]:
    """What Scrapy's own middlewares put into every request."""
    given = {name: value for name, value in settings.getdict("DEFAULT_REQUEST_HEADERS").items() if value is not None}
    return dict(Headers({**given, "User-Agent": settings["USER_AGENT"]}).items())


def without_priority(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a stored request asks for; Scrapy's own retries lower its priority."""
    return {name: value for name, value in (stored or {}).items() if name != "priority"}
