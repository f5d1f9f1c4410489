"""Scrapy's DUPEFILTER_CLASS on the frontier's seen set.

The seen set is asked by the frontier's `add`, in the same step that queues a URL; a filter that answered beforehand
could only race with it. So this class answers from the worker's local filter alone: True means that the frontier has
answered for the URL before, False that it must be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.dupefilters import BaseDupeFilter

from crawler.errors import InvalidURL
from crawler.worker import worker_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from crawler.worker import Worker


class FrontierDupeFilter(BaseDupeFilter):
    """Knows which plain GETs the frontier has already answered for; counts what it filters."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self._worker = worker

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FrontierDupeFilter:
        """Scrapy's constructor."""
        return cls(worker_of(crawler))

    def request_seen(self, request: Request) -> bool:
        """Whether the frontier is known to have this request's URL. Memory only."""
        if request.method != "GET" or request.body:
            return False
        try:
            return self._worker.known(self._worker.candidates.key(request.url))
        except InvalidURL:
            return False
