"""Publication: how a closed segment becomes part of the corpus once, or not at all, whatever dies in between.

    sealed, durably ── rows counted ── objects stored where no reader looks
        │                 │ differs: ABORTED
        ▼                 ▼
    decided in the frontier, once, durably; the decision carries the manifest         the only commit point
        ▼
    effects in every partition, durably: URLs done (or queued again)
        ▼
    objects shown ── the decision's own manifest written ── finished ── spool files deleted

Everything after the decision is `carry`, which any worker can do, and do again, from the decision alone. Whoever
publishes a segment asks for its decision first, so that a publication can be begun again at any point by its worker
or by an adopter.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Collection
from pathlib import Path

from crawler.errors import CorruptSegment, SinkError, SpoolError
from crawler.frontier.types import Decided, Decision
from crawler.storage.journal import Part, segment_of
from crawler.storage.manifests import Manifest, ObjectEntry
from crawler.storage.schema import timestamp
from crawler.storage.sealing import Sealer, SegmentFrontier
from crawler.storage.segments import Segment, Totals, rewrite
from crawler.storage.sinks import Sink

log = logging.getLogger(__name__)


class Publisher:
    """Publishes, aborts and carries out segments for one worker of a crawl. ``wall`` gives the time for manifests."""

    def __init__(
        self,
        frontier: SegmentFrontier,
        sink: Sink,
        sealer: Sealer,
        *,
        crawl: str,
        worker: str,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._frontier = frontier
        self._sink = sink
        self._sealer = sealer
        self._crawl = crawl
        self._worker = worker
        self._wall = wall
        self._unreachable: set[str] = set()

    async def publish(self, segment: Segment) -> Decision | None:
        """Bring a closed segment to its end: published, aborted, or None when it had no row to decide about.

        Its spool files may be deleted afterwards.

        Raises FrontierUnavailable, SinkError, SpoolError or CorruptSegment; the call may be repeated.
        """
        decided = await self._frontier.decision(segment.name) or await self._decide(segment)
        if decided is not None:
            decided = await self._carry_from_spool(segment, decided)
        await self._sealer.give_back(segment)
        if decided is None or decided.decision is Decision.ABORTED:
            await asyncio.to_thread(self._store_fetchlog, segment)
        return decided.decision if decided else None

    async def _carry_from_spool(self, segment: Segment, decided: Decided) -> Decided:
        """`carry`; where OUTPUT was removed under the crawl, what was stored went with it and is stored again."""
        try:
            return await self.carry(segment.name, decided)
        except SinkError:
            if decided.decision is not Decision.PUBLISHED or not decided.manifest:
                raise
            await asyncio.to_thread(self._store, segment)
            return await self.carry(segment.name, decided)

    async def give_up(self, segment: Segment) -> None:
        """Abort a segment whose files are gone or damaged; its URLs are fetched again."""
        await self.abort(segment.name)
        await self._sealer.give_back(segment)

    async def abort(self, segment: str) -> Decision:
        """Decide that a segment is aborted, unless it was decided before, and carry out what was decided."""
        return (await self.carry(segment, await self._frontier.decide(segment, Decision.ABORTED, ""))).decision

    async def carry(self, segment: str, decided: Decided) -> Decided:
        """Carry out a decision everywhere, also when that was done before. Returns what was decided.

        A decision without its manifest's text is one whose manifest is known to stand; it is not asked to be made
        again.
        """
        if decided.decision is Decision.ABORTED or decided.manifest:
            decision, text = decided.decision, decided.manifest
            decided = await self._frontier.durable(lambda: self._frontier.decide(segment, decision, text))
        settled = decided.decision
        await self._frontier.durable(lambda: self._frontier.settle(segment, settled))
        if decided.decision is Decision.PUBLISHED and decided.manifest:
            await asyncio.to_thread(self._stand, segment, decided.manifest)
        await self._frontier.finished(segment)
        return decided

    async def carry_pending(self, busy: Collection[str] = ()) -> None:
        """Carry out decisions whose worker may be gone, but for segments in ``busy``: those are in hand here.

        Objects in a directory of another machine cannot be shown from here: said once for each segment, and left to
        others.
        """
        for segment in (await self._frontier.pending()).segments:
            if segment in busy or (decided := await self._frontier.decision(segment)) is None:
                continue
            try:
                await self.carry(segment, decided)
            except (SinkError, CorruptSegment) as error:
                if segment not in self._unreachable:
                    self._unreachable.add(segment)
                    log.warning("segment %s is decided, its objects cannot be shown from here: %s", segment, error)

    async def sweep(self) -> None:
        """Remove stored objects that will never be shown: their segment was aborted, or stands without them."""
        for key in await asyncio.to_thread(lambda: list(self._sink.staged())):
            segment = segment_of(key)
            decided = await self._frontier.decision(segment)
            if decided is None or (decided.decision is Decision.PUBLISHED and decided.manifest):
                continue
            if decided.decision is Decision.ABORTED or not await asyncio.to_thread(self._named, segment, key):
                await asyncio.to_thread(self._sink.discard, key)

    async def _decide(self, segment: Segment) -> Decided | None:
        total = await self._seal_durably(segment)
        if total != segment.kept:
            log.warning("segment %s has %d rows, %d are sealed: aborted", segment.name, segment.kept, total)
            return await self._frontier.decide(segment.name, Decision.ABORTED, "")
        if not segment.kept:
            return None
        manifest = await asyncio.to_thread(self._store, segment)
        return await self._frontier.decide(segment.name, Decision.PUBLISHED, manifest.text())

    async def _seal_durably(self, segment: Segment) -> int:
        """The number of tokens sealed for the segment, once that is on the frontier's disk.

        Seals are made again when the count says that some are missing, when the server moved meanwhile, or when
        another process made them.
        """
        first = True

        async def seal() -> int:
            nonlocal first
            trusted, first = first and not segment.adopted and not segment.unsealed, False
            total = await self._sealer.total(segment)
            if trusted and total == segment.kept:
                return total
            await self._sealer.seal_again(segment)
            return await self._sealer.total(segment)

        return await self._frontier.durable(seal)

    def _store(self, segment: Segment) -> Manifest:
        stored: dict[Part, ObjectEntry] = {}
        for part, totals in segment.parts.items():
            if segment.struck and part.kind == "documents":
                path = segment.rewritten(part)
                kept = rewrite(segment, part, segment.struck, path)
            else:
                path, kept = part.path(segment.directory, segment.name), totals
            if kept.lines:
                stored[part] = self._put(segment, part, path, kept)
        days = [part.day for part in stored if part.kind == "documents"]
        return Manifest(
            segment=segment.name,
            crawl=self._crawl,
            worker=self._worker,
            created=timestamp(self._wall()),
            min_date=min(days),
            max_date=max(days),
            objects=sorted(stored.values(), key=lambda entry: entry.key),
        )

    def _put(self, segment: Segment, part: Part, path: Path, totals: Totals) -> ObjectEntry:
        try:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
        except OSError as error:
            raise SpoolError(f"{path}: {error.strerror or error}") from error
        if size != totals.size:
            raise CorruptSegment(f"{path} has {size} bytes, its journal says {totals.size}")
        key = part.key(segment.name, digest)
        self._sink.put(key, path)
        return ObjectEntry(key, size, digest, totals.lines, totals.texts)

    def _store_fetchlog(self, segment: Segment) -> None:
        """Store the fetch log of a segment that does not stand: the fetches were made. No manifest names it."""
        for part, totals in segment.parts.items():
            if part.kind == "fetchlog" and part.path(segment.directory, segment.name).exists():
                entry = self._put(segment, part, part.path(segment.directory, segment.name), totals)
                self._sink.show(entry.key)

    def _stand(self, segment: str, manifest: str) -> None:
        for entry in Manifest.parse(manifest).objects:
            self._sink.show(entry.key)
        self._sink.put_manifest(segment, manifest)

    def _named(self, segment: str, key: str) -> bool:
        return any(entry.key == key for entry in Manifest.parse(self._sink.read_manifest(segment)).objects)
