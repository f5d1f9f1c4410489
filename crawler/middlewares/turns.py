"""Requests that pass the scheduler by, such as a spider's inline downloads, are polite too: each takes a turn in its
group.

They have no lease; `reserve` gives them a turn with a lease's deadline, and `fetched` ends it.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest

from crawler.hosts import politeness_group
from crawler.middlewares.lease import fetch_of, kind_of
from crawler.requests import LEASE_KEY
from crawler.worker import Fetch, worker_of
from crawler.worker.visit import Turn

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawler.worker import Worker

TURN_KEY = "lease_turn"
LONGEST_WAIT = 5.0  # seconds between two questions for a turn


class TurnMiddleware:
    """Waits for a group's turn before an unleased request is sent."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> TurnMiddleware:
        """Scrapy's constructor."""
        return cls(worker_of(crawler))

    async def process_request(self, request: Request) -> None:
        """Wait for a turn. Raises IgnoreRequest when robots.txt is known to forbid the URL."""
        if request.meta.get(LEASE_KEY):
            return
        worker = self._worker
        group = politeness_group(request.url, worker.options.politeness_key)
        await worker.hosts.load([(group, request.url)], worker.now_ms())
        if worker.hosts.forbids(request.url, worker.now_ms()):
            raise IgnoreRequest(f"{request.url} is forbidden by robots.txt")
        token = os.urandom(16)
        while True:
            grant = await worker.frontier.reserve(token, group)
            if grant.granted:
                break
            wait = (grant.next_ms - grant.now_ms) / 1000
            await asyncio.sleep(min(max(wait, 0.01), LONGEST_WAIT))
        request.meta[TURN_KEY] = Turn(token, group)

    async def process_response(self, request: Request, response: Response) -> Response:
        """End the turn."""
        await self._end(request, fetch_of(request, response))
        return response

    async def process_exception(self, request: Request, exception: Exception) -> None:
        """End the turn."""
        await self._end(request, Fetch(kind=kind_of(exception)))

    async def _end(self, request: Request, fetch: Fetch) -> None:
        turn: Turn | None = request.meta.pop(TURN_KEY, None)
        if turn is not None:
            await self._worker.frontier.fetched_turn(turn.token, turn.group, self._worker.plain_wire(fetch))
