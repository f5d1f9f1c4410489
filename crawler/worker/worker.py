"""The worker: everything one process has open, and its visits by token."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from crawler.connection import Connection, connect
from crawler.errors import FrontierUnavailable, LonglineError
from crawler.frontier import Batcher, Frontier, Lease, Snapshot
from crawler.options import Options
from crawler.storage.sinks import DirectorySink
from crawler.storage.writer import CorpusWriter
from crawler.worker.candidates import Candidates
from crawler.worker.hosts import Hosts
from crawler.worker.outcomes import Outcomes
from crawler.worker.visit import Visit

logger = logging.getLogger(__name__)

CLOSING = 20.0
"""Seconds for which a closing worker waits for an unreachable frontier; what it holds then ends by expiry."""

CLOSING_FULL = 1.0
"""The same where the disk takes nothing: outcomes that wait for the log end by their sessions."""

MARGIN = 5.0
"""Seconds before a lease's end at which its request must be over; a tenth of a lease that is shorter than 50 s."""


class Worker(Outcomes):
    """One process's share of the crawl. ``open`` before anything else, ``close`` at the end.

    ``wake`` is called when something may be handed to the engine; ``stopped`` with a reason when the crawl cannot go
    on here; ``leaving`` says whether this worker's crawl is closing. ``count`` adds to a statistic, named
    area/metric/detail.
    """

    connection: Connection
    hosts: Hosts

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.epoch = os.urandom(4).hex()
        self.name = f"{options.worker}:{self.epoch}"
        self.visits: dict[bytes, Visit] = {}
        self._met: WeakValueDictionary[bytes, Visit] = WeakValueDictionary()
        self.snapshot: Snapshot | None = None
        self.wake = _nothing
        self.stir = _nothing
        self.stopped: Callable[[str], None] = _nothing
        self.leaving: Callable[[], bool] = lambda: False
        self.count = _nothing
        self.opened = False
        self.candidates = Candidates(options)
        self.failed = ""
        self._claim = ""

    @classmethod
    def from_settings(cls, settings: Any) -> Worker:
        """A worker for Scrapy's settings. Raises BadSetting."""
        return cls(Options.from_settings(settings))

    async def open(self) -> None:
        """Connect, check the stored crawl, open the spool and adopt what earlier workers left.

        Raises FrontierUnavailable, FrontierMismatch, SpoolError, SinkError.
        """
        self.connection = await connect(self.options)
        try:
            await self._open()
        except BaseException:
            await self.connection.close()
            raise
        self.opened = True

    async def _open(self) -> None:
        options = self.options
        self.frontier = await Frontier.open(self.connection.client, options, revive=self.connection.revive)
        if options.scheduler_flush_on_start:
            await self._flush()
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
            on_settled=self.row_settled,
        )
        await self.writer.open()

    async def _flush(self) -> None:
        """Purge the frontier, once for a whole fleet: who finds others at work, or has been forestalled within a
        session's length, joins the crawl as it is.
        """
        options = self.options
        claim = f"longline:flush:{options.crawl_id}"
        session_ms = round(options.session_ttl * 1000)
        ours = await self.frontier.link.command("SET", claim, self.name, "NX", "PX", session_ms)
        if not ours or await self.frontier.workers():
            logger.warning("SCHEDULER_FLUSH_ON_START: nothing is purged, others are at crawl %r", options.crawl_id)
            return
        self._claim = claim
        logger.info("SCHEDULER_FLUSH_ON_START: purged %d keys", await self.frontier.purge())
        self.frontier = await Frontier.open(self.connection.client, options, revive=self.connection.revive)

    async def close(self, *, purge: bool = False) -> None:
        """Give back what is unfinished, publish what is there, leave; with ``purge`` the crawl's frontier goes too."""
        self.closing_by = time.monotonic() + CLOSING
        for visit in list(self.visits.values()):
            if not visit.settled:
                self.release(visit)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING if self.writer.failure is None else CLOSING_FULL):
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
        try:
            await self._leave(purge)
        except FrontierUnavailable as error:
            logger.warning("frontier: %s; what this worker holds is taken back when its session ends", error)
        await self.frontier.close()
        await self.connection.close()

    async def _leave(self, purge: bool) -> None:
        await self.frontier.leave(self.name)
        if purge:
            await self.frontier.purge()
        if self._claim:
            await self.frontier.link.command("DEL", self._claim)

    # Visits

    def begin(self, lease: Lease) -> Visit:
        """Start a visit on a fresh lease."""
        ttl = self.options.lease_ttl
        visit = Visit(lease, expires=lease.asked + ttl - min(MARGIN, ttl / 10))
        self.visits[lease.token] = self._met[lease.token] = visit
        return visit

    def visit_of(self, token: str | None) -> Visit | None:
        """The visit of a token in hex, as requests carry it; also one that is over, while its request is about."""
        return self._met.get(bytes.fromhex(token)) if token else None

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


def _nothing(*_: object) -> None:
    """Before the scheduler has said whom to tell."""
