"""What every worker does beside fetching: show that it lives, take back what others lost, carry out what was decided,
notice the end.

All of it may be done by anyone and repeated; periods are jittered so that workers do not do it together.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from crawler.errors import FrontierUnavailable, SinkError, SpoolError
from crawler.frontier import Holding, Snapshot
from crawler.worker.intake import Intake
from crawler.worker.start_urls import StartUrls
from crawler.worker.worker import Worker

logger = logging.getLogger(__name__)

TICK = 0.2  # seconds between looks at what is due
SNAPSHOT_EVERY = 2.0  # seconds
PENDING_EVERY = 5.0  # seconds
OUTBOX_AGE_MS = 2000  # a redirect whose worker lives is carried out by it; one that is older is anyone's
END_EVERY = 0.5  # seconds, only while this worker has nothing to do
END_MOST = 4.0  # seconds; the period doubles up to here while there is work that waits or that others have
START_URLS_EVERY = 1.0  # seconds
STORAGE_EVERY = 0.5  # seconds


class Duties:
    """One worker's housekeeping. ``finished`` turns True when the whole crawl is."""

    def __init__(self, worker: Worker, intake: Intake) -> None:
        self._worker = worker
        self._intake = intake
        self.finished = False
        self._stopping = False
        self.snapshot: dict[str, Any] | None = None
        self.spider_name = ""
        self.engine_idle: Callable[[], bool] = lambda: False
        self.closing: Callable[[], bool] = lambda: False
        self._before: tuple[int, ...] | None = None
        self._held_before: set[bytes] = set()
        self._due: dict[str, float] = {}
        self._end_wait = END_EVERY
        self._storage_failing_since = 0.0

    async def run(self) -> None:
        """Until stopped. An unreachable frontier is said once and tried again at the next turn."""
        options = self._worker.options
        start_urls = StartUrls(self._worker, options.redis_start_urls_key % {"name": self.spider_name})
        rounds: tuple[tuple[str, float, Callable[[], Awaitable[None]]], ...] = (
            ("heartbeat", options.session_ttl / 3, self._heartbeat),
            ("reclaim", min(options.lease_ttl, options.session_ttl) / 4, self._reclaim),
            ("pending", PENDING_EVERY, self._pending),
            ("start_urls", START_URLS_EVERY, start_urls.take),
            ("storage", STORAGE_EVERY, self._storage),
            ("snapshot", SNAPSHOT_EVERY, self._look),
            ("end", END_EVERY, self._end),
        )
        while not self._stopping:
            if self.closing():
                self._intake.paused = True
                self._intake.hand_back()
            for name, period, duty in rounds:
                await self._if_due(name, period, duty)
            await asyncio.sleep(TICK)

    def stop(self) -> None:
        """Let `run` return after the duty that it is in."""
        self._stopping = True

    async def _if_due(self, name: str, period: float, duty: Callable[[], Awaitable[None]]) -> None:
        now = time.monotonic()
        if now < self._due.get(name, 0.0):
            return
        self._due[name] = now + period * random.uniform(0.8, 1.0)
        try:
            await duty()
        except FrontierUnavailable as error:
            self._worker.say_once("frontier", "frontier: %s", error)
        except (SinkError, SpoolError) as error:
            self._worker.say_once("sink", "corpus: %s", error)

    async def last(self) -> None:
        """At the end of this worker: one more look, so that displays show the final figures."""
        try:
            await self._look()
        except FrontierUnavailable as error:
            self._worker.say_once("frontier", "frontier: %s", error)

    async def _look(self) -> None:
        await self._snapshot()

    async def _snapshot(self) -> Snapshot:
        snapshot = await self._worker.frontier.snapshot()
        self._worker.snapshot = snapshot
        self.snapshot = asdict(snapshot)
        self._due["snapshot"] = time.monotonic() + max(SNAPSHOT_EVERY, 2 * self._end_wait) * 0.9
        return snapshot

    def _wait_longer(self, *, again: bool) -> None:
        """A look asks every partition: a worker that waits for a page due in minutes must not look twice a second."""
        self._end_wait = min(2 * self._end_wait, END_MOST) if again else END_EVERY
        self._due["end"] = time.monotonic() + self._end_wait * random.uniform(0.8, 1.0)

    async def _storage(self) -> None:
        """A disk or store that takes nothing for STORAGE_PATIENCE ends this worker; leasing has paused before."""
        worker, now = self._worker, time.monotonic()
        if worker.writer.failure is None:
            self._storage_failing_since = 0.0
        elif not self._storage_failing_since:
            self._storage_failing_since = now
        elif now - self._storage_failing_since > worker.options.storage_patience and not worker.failed:
            logger.error("this worker stops, since nothing can be stored: %s", worker.writer.failure)
            worker.failed = "storage_failed"
            worker.stopped(worker.failed)

    async def _heartbeat(self) -> None:
        """Keep the session, and give up what the frontier holds for us and we do not know.

        A token counts as unknown only when two heartbeats in a row say so: the first may have crossed with its own
        reply."""
        worker = self._worker
        unknown: set[bytes] = set()
        for holding in await worker.frontier.heartbeat(worker.name):
            await self._reconcile(holding, unknown)
        self._held_before = unknown

    async def _reconcile(self, holding: Holding, unknown: set[bytes]) -> None:
        worker = self._worker
        strangers = [
            held for held in holding.held if held.token not in worker.visits and not worker.writer.knows(held.token)
        ]
        unknown.update(held.token for held in strangers)
        orphans = [held for held in strangers if held.token in self._held_before]
        if orphans:
            worker.count("lease/orphaned", len(orphans))
            await worker.frontier.release(orphans)
        segments = worker.writer.known_segments()
        for segment in holding.segments:
            if segment not in segments:
                logger.warning("segment %s is not in our spool: it is aborted, its pages are fetched again", segment)
                await worker.writer.abort([segment])

    async def _meet_server(self) -> None:
        """Notice a server that was lost between two calls, and send it again what it may have forgotten.

        redis-py makes a broken connection anew without a word, so only the run id tells. A server that forgot
        everything is said: what is sent again is the latest only, so the crawl may end early or fetch pages again.
        """
        worker = self._worker
        await worker.frontier.run_ids()
        # Without SCHEDULER_PERSIST a worker that found the end has purged the frontier, and means it.
        if worker.options.scheduler_persist and await worker.frontier.was_emptied():
            logger.error(
                "the server holds nothing of crawl %r any more (flushed, or restarted without its data):"
                " only what was found in the last seconds is sent again",
                worker.options.crawl_id,
            )
        await worker.batcher.recover()

    async def _reclaim(self) -> None:
        await self._meet_server()
        reclaimed = await self._worker.frontier.reclaim()
        if reclaimed.expired:
            self._worker.count("lease/expired", reclaimed.expired)
        for segment in reclaimed.segments:
            logger.warning(
                "segment %s: its worker is gone and its spool did not come back; its pages are fetched again", segment
            )
            await self._worker.writer.abort([segment])

    async def _pending(self) -> None:
        looked = self._worker.snapshot
        if looked is not None and not looked.pending and not looked.outbox:
            return
        pending = await self._worker.frontier.pending(settled_ms=OUTBOX_AGE_MS)
        if pending.segments:
            await self._worker.writer.carry_pending()
        if pending.outbox:
            await self._worker.frontier.add([candidate for _, _, candidate in pending.outbox])
            await self._worker.frontier.ack([(partition, token) for partition, token, _ in pending.outbox])

    async def _end(self) -> None:
        """Two passes with nothing open and unchanged transitions end the crawl; with only sealed URLs left, rotate at
        once.
        """
        worker = self._worker
        if not self.engine_idle() or self._intake.ready or worker.unsettled > worker.writer.unsealed:
            self._before, self._end_wait = None, END_EVERY
            return
        await self._meet_server()
        snapshot = await self._snapshot()
        self._wait_longer(again=bool(snapshot.queued + snapshot.delayed + snapshot.leased))
        active = snapshot.queued + snapshot.delayed + snapshot.leased + snapshot.held + snapshot.outbox
        if not active and (snapshot.sealed or worker.writer.unpublished):
            worker.writer.rotate_now()
        if snapshot.open or worker.unsettled or worker.writer.unpublished:
            self._before = None
        elif self._before != snapshot.moves:
            self._before = snapshot.moves
            self._due["end"] = 0.0
        else:
            self.finished = True
            worker.wake()
