"""Grants in: leases are asked for ahead of need, and robots.txt is looked at before a page is handed to the engine.

A page whose authority's rules are missing does not wait in a slot: its lease's turn is used to ask for robots.txt,
and the page goes back to the head of its queue. So one worker asks once for the whole fleet."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from crawler.errors import FrontierUnavailable
from crawler.frontier import Lease
from crawler.hosts import authority, politeness_group
from crawler.worker.hosts import Verdict
from crawler.worker.hoststate import Robots
from crawler.worker.visit import Turn, Visit
from crawler.worker.worker import Worker

logger = logging.getLogger(__name__)

POLL = 0.5  # seconds between looks at an idle frontier, at most
LEAST_TIME = 0.5  # seconds; a lease with less time left is not worth a request
LEAST_WAIT = 0.002  # seconds; a due time is not asked for again sooner


class Intake:
    """Keeps `ready` filled with visits that may be fetched now. ``room`` says how many more the engine could take."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.ready: deque[Visit] = deque()
        self.room = 0
        self.paused = False
        self._need = asyncio.Event()
        self._unanswered: list[bytes] = []
        self._asked = 0.0
        self._stopping = False

    def hungry(self, room: int) -> None:
        """The engine could take ``room`` more."""
        self.room = room
        self._need.set()

    def stir(self) -> None:
        """Something was added that may be due at once."""
        self._need.set()

    def take(self) -> Visit | None:
        """The next visit whose lease still leaves time for its request; others go back."""
        while self.ready:
            visit = self.ready.popleft()
            if self._worker.time_left(visit) > LEAST_TIME:
                return visit
            self._worker.release(visit)
        return None

    def stop(self) -> None:
        """Let `run` return after the call that it is in."""
        self._stopping = True
        self._need.set()

    def hand_back(self) -> None:
        """Give up everything that was not handed to the engine."""
        while self.ready:
            self._worker.release(self.ready.popleft())

    async def run(self) -> None:
        """Ask for leases until stopped. An unreachable frontier is said once and waited for."""
        wait = 0.0
        while not self._stopping:
            await self._pause(wait)
            if self.paused or self.room <= len(self.ready) or self._worker.writer.full:
                wait = POLL
                continue
            try:
                wait = await self._ask(min(self.room - len(self.ready), self._worker.options.frontier_lease_batch))
            except FrontierUnavailable as error:
                self._worker.say_once("frontier", "frontier: %s; leasing pauses until it is back", error)
                wait = POLL
            else:
                if self._worker.said_over("frontier"):
                    logger.warning("frontier: back again")

    async def _pause(self, wait: float) -> None:
        if wait <= 0:
            await asyncio.sleep(0)
            return
        self._need.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):  # not wait_for, which may swallow a cancellation in Python 3.11
                await self._need.wait()

    def _tokens(self, count: int) -> tuple[list[bytes], float]:
        """Tokens to ask with, and the monotonic second from which their leases' time is counted.

        Those of a call that failed are asked with again, since their grants may be waiting, and count from that call.
        """
        now = time.monotonic()
        if not self._unanswered or now - self._asked > self._worker.options.lease_ttl:
            raw = os.urandom(16 * count)
            self._unanswered = [raw[at : at + 16] for at in range(0, len(raw), 16)]
            self._asked = now
        return self._unanswered, self._asked

    async def _ask(self, count: int) -> float:
        """One round: leases, records of their hosts, verdicts. Returns how long to wait before the next, in seconds."""
        worker = self._worker
        tokens, asked = self._tokens(count)
        reply = await worker.frontier.lease(tokens, worker.name)
        self._unanswered = []
        visits = [worker.begin(replace(lease, asked=asked)) for lease in reply.leases]
        if visits:
            try:
                await worker.hosts.load(((visit.lease.group, visit.lease.url) for visit in visits), reply.now_ms)
                for visit in visits:
                    await self._judge(visit, reply.now_ms)
            except FrontierUnavailable:
                for visit in visits:
                    if visit not in self.ready:
                        worker.release(visit)
                raise
            worker.count("lease/granted", len(visits))
            worker.wake()
            return 0.0
        if reply.next_due_ms is None:
            return POLL
        ahead = (reply.next_due_ms - reply.now_ms) / 1000
        return min(max(ahead, LEAST_WAIT) + random.uniform(0, LEAST_WAIT), POLL)

    async def _judge(self, visit: Visit, now_ms: int) -> None:
        worker = self._worker
        verdict, rule = worker.hosts.verdict(visit.lease.url, now_ms)
        visit.robots_rule = rule
        if verdict is Verdict.FETCH or ignores_robots(visit.lease):
            self.ready.append(visit)
        elif verdict is Verdict.FORBIDDEN:
            worker.complete(visit, "robots")
        elif verdict is Verdict.TOO_SLOW:
            worker.say_once(f"slow {visit.lease.group}", "group %s is skipped: %s", visit.lease.group, rule)
            worker.complete(visit, "crawl-delay")
        elif verdict is Verdict.OFFLINE:
            worker.bury(visit, "offline")
        elif verdict is Verdict.UNREACHABLE:
            worker.release(visit, not_before_ms=worker.hosts.state(authority(visit.lease.url)).next_ms)
        else:
            await self._ask_robots(visit)

    async def _ask_robots(self, visit: Visit) -> None:
        """Use the visit's turn to fetch robots.txt, or the next hop of its redirects."""
        worker = self._worker
        name = authority(visit.lease.url)
        state = worker.hosts.state(name)
        visit.robots_for = name
        visit.robots_url = state.location if state.robots is Robots.REDIRECT else robots_url(visit.lease.url)
        group = politeness_group(visit.robots_url, worker.options.politeness_key)
        if group != visit.lease.group and not await self._reserve(visit, group):
            return
        self.ready.append(visit)

    async def _reserve(self, visit: Visit, group: str) -> bool:
        """A turn in another group for a hop of robots.txt; without one the page waits until that group is free."""
        worker = self._worker
        token = os.urandom(16)
        grant = await worker.frontier.reserve(token, group)
        if grant.granted:
            visit.turn = Turn(token, group, visit.robots_url, grant.pace)
            return True
        worker.release(visit, not_before_ms=grant.next_ms)
        return False


def ignores_robots(lease: Lease) -> bool:
    """Whether a spider asked for this URL with Scrapy's `dont_obey_robotstxt`."""
    return bool(lease.request and lease.request.get("meta", {}).get("dont_obey_robotstxt"))


def robots_url(url: str) -> str:
    """Where the rules for ``url`` are (RFC 9309 2.3)."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/robots.txt"
