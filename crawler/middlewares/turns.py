"""Requests that pass the scheduler by, such as a spider's inline downloads, are polite too: each takes a turn in its
group, and robots.txt is asked for first where its rules are not at hand.

They have no lease; `reserve` gives them a turn with a lease's deadline, and `fetched` ends it.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from crawler.errors import FetchError
from crawler.hosts import authority, politeness_group
from crawler.middlewares.lease import fetch_of, kind_of, location_of
from crawler.requests import LEASE_KEY, SLOT, TURN_KEY, robots_meta
from crawler.urls import redirect_target
from crawler.worker import Fetch, worker_of
from crawler.worker.hosts import Verdict
from crawler.worker.hoststate import MAX_HOPS, Robots
from crawler.worker.intake import robots_url
from crawler.worker.robots_turns import state_after
from crawler.worker.visit import Turn

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawler.worker import Worker

LONGEST_WAIT = 5.0  # seconds between two questions for a turn
ENDS_LATER = "lease_turn_ends_later"
"""request.meta: whoever made the request ends its turn."""


class TurnMiddleware:
    """Waits for a group's turn before an unleased request is sent."""

    def __init__(self, crawler: Crawler) -> None:
        self._worker: Worker = worker_of(crawler)
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> TurnMiddleware:
        """Scrapy's constructor."""
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        """Wait for a turn. Raises IgnoreRequest when robots.txt forbids the URL or cannot be had, and when the crawl
        ends meanwhile.
        """
        visit = self._worker.visit_of(request.meta.get(LEASE_KEY))
        if visit is not None and not visit.turn_over:
            return  # its own request; a second one that copied its meta has no turn left
        if not request.meta.get("dont_obey_robotstxt"):
            await self._obey_robots(request.url)
        request.meta["download_slot"] = SLOT
        request.meta[TURN_KEY] = await self._turn(request.url)

    async def _obey_robots(self, url: str) -> None:
        worker = self._worker
        group = politeness_group(url, worker.options.politeness_key)
        verdict, rule = Verdict.ASK, ""
        for _ in range(MAX_HOPS + 2):
            await worker.hosts.load([(group, url)], worker.now_ms())
            verdict, rule = worker.hosts.verdict(url, worker.now_ms())
            if verdict is not Verdict.ASK:
                break
            await self._ask_robots(url, group)
        if verdict is not Verdict.FETCH:
            raise IgnoreRequest(f"{url} may not be fetched, robots.txt: {rule or verdict.name.lower()}")

    async def _ask_robots(self, url: str, group: str) -> None:
        """Fetch the rules, or the next hop on the way to them, in a turn of their own; it ends when they are known, as
        they may lengthen the delay.
        """
        worker, name = self._worker, authority(url)
        state = worker.hosts.state(name)
        target = state.location if state.robots is Robots.REDIRECT else robots_url(url)
        request = Request(target, meta={**robots_meta(worker.options), ENDS_LATER: True})
        body, location = b"", None
        try:
            response = await self._crawler.engine.download_async(request)
        except (FetchError, IgnoreRequest) as error:
            fetch = Fetch(kind=kind_of(error))
        else:
            fetch, body = fetch_of(request, response), response.body
            location = redirect_target(target, location_of(response))
        await worker.hosts.store(group, name, state_after(worker, name, fetch, body, location))
        await self._end(request, fetch)

    async def _turn(self, url: str) -> Turn:
        token, group = os.urandom(16), politeness_group(url, self._worker.options.politeness_key)
        while not self._worker.leaving():
            grant = await self._worker.frontier.reserve(token, group)
            if grant.granted:
                return Turn(token, group, url, grant.pace)
            wait = (grant.next_ms - grant.now_ms) / 1000
            await asyncio.sleep(min(max(wait, 0.01), LONGEST_WAIT))
        raise IgnoreRequest(f"{url} is not fetched: the crawl is closing")

    async def process_response(self, request: Request, response: Response) -> Response:
        """End the turn."""
        if not request.meta.get(ENDS_LATER):
            await self._end(request, fetch_of(request, response))
        return response

    async def process_exception(self, request: Request, exception: Exception) -> None:
        """End the turn."""
        if not request.meta.get(ENDS_LATER):
            await self._end(request, Fetch(kind=kind_of(exception)))

    async def _end(self, request: Request, fetch: Fetch) -> None:
        turn: Turn | None = request.meta.pop(TURN_KEY, None)
        if turn is not None:
            await self._worker.end_turn(turn, fetch)
