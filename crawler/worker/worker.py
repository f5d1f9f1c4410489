"""The worker: everything one process has open, and the outcomes of its visits.

All methods that settle a visit are plain calls from the event loop: they decide at once, send in the background
(joined with others in the batcher) and count. Nothing here waits for Redis on the engine's path."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from crawler.connection import Connection, connect
from crawler.errors import FrontierUnavailable, LonglineError
from crawler.frontier import (
    Added,
    Answer,
    Batcher,
    Candidate,
    Frontier,
    Lease,
    Redirect,
    Snapshot,
    Wire,
    policy,
)
from crawler.frontier.states import State
from crawler.options import Options
from crawler.storage.schema import fetch_entry, timestamp
from crawler.storage.sinks import DirectorySink
from crawler.storage.writer import CorpusWriter
from crawler.worker.candidates import Candidates
from crawler.worker.hosts import Hosts
from crawler.worker.visit import Fetch, Visit

logger = logging.getLogger(__name__)

CLOSING = (
    20.0  # seconds for which a closing worker waits for an unreachable frontier; what it holds then ends by expiry
)
MARGIN = 5.0  # seconds before a lease's end at which its request must be over


class Worker:
    """One process's share of the crawl. ``open`` before anything else, ``close`` at the end.

    ``wake`` is called when something may be handed to the engine; ``stopped`` with a reason when the crawl cannot go
    on here. ``count`` adds to a statistic, named area/metric/detail."""

    connection: Connection
    frontier: Frontier
    batcher: Batcher
    writer: CorpusWriter
    hosts: Hosts

    def __init__(self, options: Options) -> None:
        self.options = options
        self.epoch = os.urandom(4).hex()
        self.host = options.worker_name or f"{socket.gethostname()}-{os.getpid()}"
        self.name = f"{self.host}:{self.epoch}"
        self.visits: dict[bytes, Visit] = {}
        self.snapshot: Snapshot | None = None
        self.wake: Callable[[], None] = lambda: None
        self.stopped: Callable[[str], None] = _nothing
        self.count: Callable[[str, int], None] = _nothing
        self.opened = False
        self.candidates = Candidates(options)
        self.closing_by = 0.0
        self.failed = ""
        self._background: set[asyncio.Future[Any]] = set()
        self._clock_offset_ms = 0.0
        self._said: set[str] = set()

    @classmethod
    def from_settings(cls, settings: Any) -> Worker:
        """A worker for Scrapy's settings. Raises BadSetting."""
        return cls(Options.from_settings(settings))

    async def open(self) -> None:
        """Connect, check the stored crawl, open the spool and adopt what earlier workers left.

        Raises FrontierUnavailable, FrontierMismatch, SpoolError, SinkError.
        """
        options = self.options
        self.connection = await connect(options)
        self.frontier = await Frontier.open(self.connection.client, options, revive=self.connection.revive)
        self.batcher = Batcher(self.frontier)
        self.hosts = Hosts(self.frontier, options)
        self.writer = CorpusWriter(
            self.frontier,
            DirectorySink(Path(options.output)),
            crawl=options.crawl_id,
            worker=self.name,
            spool_dir=Path(options.spool_dir),
            group_commit=options.group_commit,
            segment_max_bytes=options.segment_max_bytes,
            segment_max_age=options.segment_max_age,
            spool_max_bytes=options.spool_max_bytes,
            on_settled=self._row_settled,
        )
        await self.writer.open()
        self.opened = True

    async def close(self, *, purge: bool = False) -> None:
        """Give back what is unfinished, publish what is there, leave; with ``purge`` the crawl's frontier goes too."""
        self.closing_by = time.monotonic() + CLOSING
        for visit in list(self.visits.values()):
            if not visit.settled:
                self.release(visit)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await self.drain()
        try:
            await self.writer.close()
        except LonglineError as error:
            logger.error(
                "not everything could be published; it is kept in %s for the next start: %s",
                self.options.spool_dir,
                error,
            )
            self.failed = "storage_failed"
        await self.batcher.close()
        if purge:
            await self.frontier.purge()
        await self.frontier.close()
        await self.connection.close()

    async def drain(self) -> None:
        """Wait until every answer that is on its way has come in."""
        while self._background:
            await asyncio.gather(*self._background, return_exceptions=True)

    # Time

    def set_clock(self, now_ms: int) -> None:
        """Take the frontier's clock from a reply."""
        self._clock_offset_ms = now_ms - time.monotonic() * 1000

    def now_ms(self) -> int:
        """The frontier's clock as known from the last reply; ours before the first one."""
        if not self._clock_offset_ms:
            return int(time.time() * 1000)
        return int(time.monotonic() * 1000 + self._clock_offset_ms)

    # Visits

    def begin(self, lease: Lease) -> Visit:
        """Start a visit on a fresh lease."""
        visit = Visit(lease, expires=lease.asked + self.options.lease_ttl - MARGIN)
        self.visits[lease.token] = visit
        return visit

    def visit_of(self, token: str | None) -> Visit | None:
        """The visit of a token in hex, as requests carry it."""
        return self.visits.get(bytes.fromhex(token)) if token else None

    def time_left(self, visit: Visit) -> float:
        """Seconds for which a request of this visit may still be in flight."""
        return min(self.options.fetch_timeout, visit.expires - time.monotonic())

    @property
    def unsettled(self) -> int:
        """Visits that are not yet sealed or otherwise answered for."""
        return len(self.visits)

    def known(self, key: int) -> bool:
        """Whether the frontier has answered for ``key`` before."""
        return self.opened and self.batcher.known(key)

    # The end of a request

    def wire_of(self, visit: Visit, fetch: Fetch, crawl_delay_ms: int = 0) -> Wire:
        """What the frontier is told when the turn ends: age, delay, the group's new pace."""
        pace = policy.Pace.unpack(visit.lease.pace)
        if crawl_delay_ms > pace.crawl_delay_ms:
            pace = replace(pace, crawl_delay_ms=crawl_delay_ms)
        response = policy.Response(
            now_ms=self.now_ms(),
            latency=fetch.latency,
            status=fetch.status,
            kind=fetch.kind or None,
            retry_after=fetch.retry_after,
        )
        pace, delay_ms = policy.next_pace(pace, response, self.options, random.random())
        return Wire(age_ms=max(0, int((time.monotonic() - fetch.ended) * 1000)), delay_ms=delay_ms, pace=pace.pack())

    def plain_wire(self, fetch: Fetch) -> Wire:
        """What the frontier is told of a request whose group's pace is not at hand: no more than the floor."""
        delay = self.options.download_delay * (1 + self.options.delay_jitter * random.random())
        return Wire(age_ms=max(0, int((time.monotonic() - fetch.ended) * 1000)), delay_ms=round(delay * 1000))

    def fetched(self, visit: Visit, fetch: Fetch) -> None:
        """The page is here: the group's turn is over, the URL stays ours."""
        visit.fetch = fetch
        visit.turn_over = True
        visit.waiting += 1
        wire = self.wire_of(visit, fetch)
        self._follow(
            lambda: self.batcher.fetched(visit.lease, wire), lambda answer: self._fetched_answered(visit, answer)
        )

    def _fetched_answered(self, visit: Visit, answer: Answer) -> None:
        visit.waiting -= 1
        visit.fetched_answered = True
        if answer is Answer.STALE:
            visit.stale = True
            self.count("lease/stale", 1)
        self._finish_if_ready(visit)

    # Outcomes

    def complete(
        self, visit: Visit, reason: str, fetch: Fetch | None = None, target: Candidate | None = None, log: bool = True
    ) -> None:
        """The URL is done without a document; ``target`` is where it redirects to."""
        if not visit.settle(reason):
            return
        wire = self._wire_if_open(visit, fetch)
        redirect = Redirect(target) if target else None
        self._follow(
            lambda: self.batcher.complete(visit.lease, reason, wire, redirect),
            lambda answer: self._completed(visit, answer, target),
        )
        self._end(visit, reason, fetch, target.url if target else "", log)

    def retry(self, visit: Visit, kind: str, fetch: Fetch | None = None) -> None:
        """The attempt failed; the policy's table says what it costs and whom."""
        if not visit.settle(kind):
            return
        wire = self._wire_if_open(visit, fetch)
        self._follow(
            lambda: self.batcher.retry(visit.lease, kind, wire), lambda state: self._answered(visit, state is None)
        )
        self._end(visit, kind, fetch, "", log=True)

    def release(
        self, visit: Visit, fetch: Fetch | None = None, *, crawl_delay_ms: int = 0, not_before_ms: int = 0
    ) -> None:
        """The URL goes back unattempted. With ``fetch``: a request was made to its group, though not for it."""
        if not visit.settle("release"):
            return
        wire = self._wire_if_open(visit, fetch, crawl_delay_ms)
        self._follow(
            lambda: self.batcher.release(visit.lease, wire, not_before_ms),
            lambda answer: self._answered(visit, answer is Answer.STALE),
        )
        self.count("lease/released", 1)

    def will_die(self, visit: Visit, kind: str) -> bool:
        """Whether a failure of ``kind`` would be the URL's last."""
        pace = policy.Pace.unpack(visit.lease.pace)
        fate = policy.after_failure(visit.lease.trail, kind, pace.failures, self.options, 0.0)
        return fate.state is State.DEAD

    def _wire_if_open(self, visit: Visit, fetch: Fetch | None, crawl_delay_ms: int = 0) -> Wire | None:
        if visit.turn_over or fetch is None:
            return None
        visit.turn_over = True
        visit.fetch = fetch
        return self.wire_of(visit, fetch, crawl_delay_ms)

    def _answered(self, visit: Visit, stale: bool) -> None:
        self.visits.pop(visit.lease.token, None)
        if stale:
            self.count("lease/stale", 1)

    def _completed(self, visit: Visit, answer: Answer, target: Candidate | None) -> None:
        self._answered(visit, answer is Answer.STALE)
        if target is not None and answer is not Answer.STALE:
            self.later(lambda: self.carry_redirect(visit.lease.group, visit.lease.token, target))

    async def carry_redirect(self, group: str, token: bytes, target: Candidate) -> None:
        """Carry an entry of the outbox out and strike it; whoever finds it there again may do the same."""
        answers = await self.frontier.add([target])
        self._offered(None, answers)
        await self.frontier.ack([(self.frontier.partition_of(group), token)])

    def _end(self, visit: Visit, outcome: str, fetch: Fetch | None, target: str, log: bool) -> None:
        self.count(f"fetch/kind/{outcome}", 1)
        if log:
            self.log_fetch(visit, outcome, fetch or visit.fetch, target)

    def log_fetch(self, visit: Visit, outcome: str, fetch: Fetch | None, redirect_to: str = "") -> None:
        """One line of the fetch log."""
        lease = visit.lease
        seen = fetch or Fetch(ended=time.monotonic(), at=time.time())
        ended = time.time() - (time.monotonic() - seen.ended)
        entry = fetch_entry(
            url=lease.url,
            key=lease.key,
            logged_at=time.time(),
            status=seen.status or -1,
            kind=outcome,
            started_at=timestamp(seen.at) if fetch else "",
            ended_at=timestamp(ended) if fetch else "",
            latency_ms=round(seen.latency * 1000) if fetch else -1,
            bytes=seen.bytes if fetch else -1,
            robots_rule=visit.robots_rule,
            ip=seen.ip,
            redirect_to=redirect_to,
            redirect_from=lease.parent if lease.chain else "",
            depth=lease.depth,
            visit=lease.visit,
            attempts=policy.attempts(lease.trail),
            crawl_id=self.options.crawl_id,
            worker=self.name,
        )
        self.writer.log(entry)

    # The parse

    def offer(self, visit: Visit | None, candidates: Sequence[Candidate]) -> None:
        """Send links to the frontier; the visit that found them is not sealed before they are answered."""
        if not candidates:
            return
        if visit is not None:
            visit.waiting += 1
        self._follow(lambda: self.batcher.add(candidates), lambda answers: self._offered(visit, answers))

    def _offered(self, visit: Visit | None, answers: Iterable[Added]) -> None:
        added = 0
        seen = 0
        for answer in answers:
            if answer is Added.ADDED or answer is Added.AGAIN:
                added += 1
            else:
                seen += 1
        if added:
            self.count("frontier/added", added)
            self.wake()
        if seen:
            self.count("frontier/seen", seen)
        if visit is not None:
            visit.waiting -= 1
            self._finish_if_ready(visit)

    def item_begun(self, visit: Visit) -> None:
        """An item of this visit entered the pipelines."""
        visit.waiting += 1

    def item_ended(self, visit: Visit, failure: str = "") -> None:
        """An item left the pipelines: scraped, dropped, or with ``failure``'s kind."""
        visit.waiting -= 1
        visit.failure = visit.failure or failure
        self._finish_if_ready(visit)

    def exhausted(self, visit: Visit, failure: str = "") -> None:
        """The callback has given all it had, or raised."""
        visit.exhausted = True
        visit.failure = visit.failure or failure
        self._finish_if_ready(visit)

    def _finish_if_ready(self, visit: Visit) -> None:
        """Settle a visit whose callback, items and links are all answered for (invariant 6: links first, then the
        row).
        """
        if visit.settled or not visit.exhausted or visit.waiting or not visit.turn_over:
            return
        if visit.stale:
            visit.settle("stale")
            self.visits.pop(visit.lease.token, None)
        elif visit.failure:
            self.retry(visit, visit.failure)
        elif visit.rows:
            visit.settle("document")
            self.log_fetch(visit, "", visit.fetch)
            self.writer.append(visit.lease, visit.rows)
        else:
            self.complete(visit, visit_reason(visit))

    def _row_settled(self, token: bytes, answer: Answer) -> None:
        visit = self.visits.pop(token, None)
        if answer is Answer.APPLIED or answer is Answer.ALREADY:
            self.count("corpus/documents", 1)
        elif visit is not None:
            self.count("lease/struck", 1)

    # Background

    def _follow(self, call: Callable[[], Awaitable[Any]], then: Callable[[Any], None]) -> None:
        """Make ``call`` until the frontier answers, then pass the answer on. An outage is said once; what we hold is
        kept meanwhile.
        """
        task = asyncio.ensure_future(self._answer(call))
        self._background.add(task)

        def done(finished: asyncio.Future[Any]) -> None:
            self._background.discard(finished)
            if finished.cancelled():
                return
            error = finished.exception()
            if error is None:
                then(finished.result())
            else:
                logger.error("frontier call failed: %s", error, exc_info=error)

        task.add_done_callback(done)

    async def _answer(self, call: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await call()
            except FrontierUnavailable as error:
                if self.closing_by and time.monotonic() > self.closing_by:
                    raise
                self.say_once("frontier", "frontier: %s; what this worker holds is kept until it is back", error)

    def later(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Run something in the background, again when the frontier was away; `drain` waits for it."""
        self._follow(call, lambda _: None)

    def say_once(self, topic: str, message: str, *args: object) -> None:
        """Log a warning the first time its topic comes up."""
        if topic not in self._said:
            self._said.add(topic)
            logger.warning(message, *args)

    def said_over(self, topic: str) -> bool:
        """Forget a topic whose trouble has passed; True when there was one."""
        if topic in self._said:
            self._said.discard(topic)
            return True
        return False


def _nothing(*_: object) -> None:
    """Before the scheduler has said whom to tell."""


def visit_reason(visit: Visit) -> str:
    """Why a visit that ended well has no document."""
    if visit.reason:
        return visit.reason
    status = visit.fetch.status if visit.fetch else 0
    if status == 404:
        return "not-found"
    if status == 410:
        return "gone"
    if 400 <= status < 500:
        return "http-4xx"
    if status >= 300:
        return "http-error"
    return "no-document"
