"""The end of a callback: links and child requests on their way, items counted, then the lease may settle.

Stands nearest to the engine, so that what the other spider middlewares add or take away has already happened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest

from crawler.items import PageItem
from crawler.requests import LEASE_KEY, PARENT_KEY
from crawler.worker import Visit, worker_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawler.worker import Worker


class LeaseOutputMiddleware:
    """Follows what a leased page's callback gives."""

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

    def _visit(self, response: Response | None) -> Visit | None:
        request = getattr(response, "request", None)
        return self._worker.visit_of(request.meta.get(LEASE_KEY)) if request is not None else None

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Stamp requests, count items, offer a page's links; at the end the callback is exhausted."""
        visit = self._visit(response)
        if visit is None:
            async for output in result:
                yield output
            return
        failure = "callback-error"
        try:
            async for output in result:
                if isinstance(output, Request):
                    _stamp(output, visit)
                elif output is not None:
                    self._worker.item_begun(visit)
                    if isinstance(output, PageItem):
                        self._worker.offer(visit, output.candidates)
                yield output
            failure = ""
        finally:
            self._worker.exhausted(visit, failure)

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """A callback that raised before it gave anything. HttpError and its like are no failures of the spider."""
        visit = self._visit(response)
        if visit is not None and not isinstance(exception, IgnoreRequest):
            self._worker.exhausted(visit, "callback-error")

    def _item_passed(self, response: Response | None) -> None:
        visit = self._visit(response)
        if visit is not None:
            self._worker.item_ended(visit)

    def _item_failed(self, response: Response | None) -> None:
        visit = self._visit(response)
        if visit is not None:
            self._worker.item_ended(visit, "pipeline-error")


def _stamp(request: Request, visit: Visit) -> None:
    """Name the parent; a child that copied its parent's meta must not carry the parent's lease."""
    request.meta.pop(LEASE_KEY, None)
    request.meta[PARENT_KEY] = visit.lease.token.hex()
