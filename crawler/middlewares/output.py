"""The end of a callback or errback: links and child requests on their way, items counted, then the lease may settle."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.spider import iterate_spider_output
from twisted.python.failure import Failure

from crawler.items import PageItem
from crawler.middlewares.lease import kind_of
from crawler.requests import LEASE_KEY, PARENT_KEY
from crawler.worker import Visit, worker_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawler.worker import Worker


class LeaseOutputMiddleware:
    """Follows what a leased page's callback gives.

    Stands nearest to the engine, so that what the other spider middlewares add or take away has already happened.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._worker: Worker = worker_of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LeaseOutputMiddleware:
        """Scrapy's constructor; listens for the ends of items."""
        middleware = cls(crawler)
        crawler.signals.connect(middleware._item_passed, signals.item_scraped)
        crawler.signals.connect(middleware._item_passed, signals.item_dropped)
        crawler.signals.connect(middleware._item_failed, signals.item_error)
        return middleware

    def _visit(self, response: Response | Failure | None) -> Visit | None:
        request: Request | None = getattr(response, "request", None)
        return self._worker.visit_of(request.meta.get(LEASE_KEY)) if request is not None else None

    def process_spider_input(self, response: Response) -> None:
        """From here on what the spider gives for this page, its errback included, comes by here."""
        visit = self._visit(response)
        if visit is not None:
            visit.parsing = True

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Stamp requests, count items, offer a page's links; at the end the callback is exhausted."""
        visit = self._visit(response)
        followed = result if visit is None else _followed(self._worker, visit, result)
        async for output in followed:
            yield output

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """A callback that raised before it gave anything."""
        visit = self._visit(response)
        if visit is not None:
            _ended_by(self._worker, visit, exception)

    def _item_passed(self, response: Response | Failure | None) -> None:
        visit = self._visit(response)
        if visit is not None:
            self._worker.item_ended(visit)

    def _item_failed(self, response: Response | Failure | None) -> None:
        visit = self._visit(response)
        if visit is not None:
            self._worker.item_ended(visit, "pipeline-error")


class Errback:
    """Stands before the spider's own errback: a failure that no middleware of ours has seen still ends the lease, and
    what an errback gives is followed like what a callback gives.
    """

    def __init__(self, worker: Worker, visit: Visit, spider_errback: Any) -> None:
        self._worker = worker
        self._visit = visit
        self.spider_errback = spider_errback
        functools.update_wrapper(self, spider_errback or Errback.__call__)

    def __call__(self, failure: Failure) -> Any:
        """Settle the visit where nothing has, then let the spider have its say, if nothing is left to try."""
        worker, visit, error = self._worker, self._visit, failure.value
        if visit.parsing:
            return self.spider_errback(failure) if self.spider_errback else failure
        if isinstance(error, IgnoreRequest):
            worker.complete(visit, "filtered")
        elif error is not None and not visit.settled:
            last = worker.will_die(visit, kind_of(error))
            worker.retry(visit, kind_of(error))
            if not last:
                return None
        if self.spider_errback is None:
            return failure
        output = self.spider_errback(failure)
        return output if isinstance(output, Failure) else _followed(worker, visit, _iterated(output))


async def _iterated(output: Any) -> AsyncIterator[Any]:
    """What a callback or errback may return, as Scrapy understands it."""
    iterable = await ensure_awaitable(iterate_spider_output(output))
    async for one in iterable if isinstance(iterable, AsyncIterator) else as_async_generator(iterable):
        yield one


async def _followed(worker: Worker, visit: Visit, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
    try:
        async for output in result:
            if isinstance(output, Request):
                _stamp(output, visit)
            elif output is not None:
                worker.item_begun(visit)
                if isinstance(output, PageItem):
                    worker.offer(visit, output.candidates)
            yield output
    except Exception as error:
        _ended_by(worker, visit, error)
        raise
    except BaseException:
        worker.release(visit)  # we are being stopped: the page is not at fault
        raise
    worker.exhausted(visit)


def _ended_by(worker: Worker, visit: Visit, exception: Exception) -> None:
    """A page whose callback closes the spider was not worked off and goes back; one that is ignored is done."""
    if isinstance(exception, CloseSpider):
        worker.release(visit)
    elif isinstance(exception, IgnoreRequest):
        visit.reason = visit.reason or "filtered"
        worker.exhausted(visit)
    else:
        worker.exhausted(visit, "callback-error")


def _stamp(request: Request, visit: Visit) -> None:
    """Name the parent; a child that copied its parent's meta must not carry the parent's lease."""
    request.meta.pop(LEASE_KEY, None)
    request.meta[PARENT_KEY] = visit.lease.token.hex()
