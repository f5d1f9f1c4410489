"""Closed segments that wait to be published: a worker's own, and those it adopts from spools whose worker is gone."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from crawler.errors import CorruptSegment, SinkError, SpoolError, StorageError
from crawler.storage.publish import Publisher
from crawler.storage.segments import Segment
from crawler.storage.spool import Spool

log = logging.getLogger(__name__)


class Backlog:
    """Brings segments to their end, oldest first; ``segments`` are those that have not reached it."""

    def __init__(self, publisher: Publisher, spool_dir: Path, crawl: str) -> None:
        self.segments: list[Segment] = []
        self._publisher = publisher
        self._spool_dir = spool_dir
        self._crawl = crawl
        self._adopted: list[Spool] = []
        self._refused: set[Path] = set()
        self._swept = False

    async def work_off(self) -> None:
        """Adopt, publish everything, and once in a process's life sweep what will never be shown.

        Raises SinkError, SpoolError or FrontierUnavailable; what is not done is done by a later call.
        """
        await self._adopt()
        for segment in list(self.segments):
            await self._bring_to_end(segment)
            self.segments.remove(segment)
        while self._adopted:
            await asyncio.to_thread(self._adopted[-1].remove)
            self._adopted.pop()
        if not self._swept:
            await self._publisher.sweep()
            self._swept = True

    def close(self) -> None:
        """Give up the locks of adopted spools; what is left in them is for the next adopter."""
        for spool in self._adopted:
            spool.close()
        self._adopted.clear()

    async def _bring_to_end(self, segment: Segment) -> None:
        try:
            await self._publisher.publish(segment)
        except CorruptSegment as error:
            log.error("segment %s is damaged, its pages are fetched again: %s", segment.name, error)
            await self._publisher.give_up(segment)
        except (SpoolError, SinkError):
            if not await asyncio.to_thread(segment.lost):
                raise
            log.error("segment %s was removed from the spool, its pages are fetched again", segment.name)
            await self._publisher.give_up(segment)
        await asyncio.to_thread(segment.delete)

    async def _adopt(self) -> None:
        for spool, segments in await asyncio.to_thread(self._adoptable):
            if segments:
                rows = sum(segment.rows for segment in segments)
                log.info("adopted spool %s: %d segments, %d rows", spool.directory, len(segments), rows)
            self._adopted.append(spool)
            self.segments += segments

    def _adoptable(self) -> list[tuple[Spool, list[Segment]]]:
        found = []
        for spool in Spool.adoptable(self._spool_dir, self._crawl):
            try:
                found.append((spool, spool.segments()))
            except StorageError as error:  # it is left as it is, for a release or an operator that can read it
                if spool.directory not in self._refused:
                    log.error("spool %s is left alone: %s", spool.directory, error)
                self._refused.add(spool.directory)
                spool.close()
        return found
