"""The worker's side of the corpus: rows go in at once, and come out published or given back.

`append` and `log` only put lines into memory. A committer writes them to the open segment as one commit about every
second, seals the commit's tokens, and closes the segment when it is big or old enough; a publisher brings closed
segments, and those of spools whose worker is gone, to their end one after the other. When the disk, the store or the
frontier cannot take its part, both try again with growing pauses, say so once, and `full` tells the scheduler to
lease no more once the spool holds as much as it may.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from crawler.errors import ProtocolError, SpoolError
from crawler.frontier.types import Answer, Lease
from crawler.storage.backlog import Backlog
from crawler.storage.duties import Duty
from crawler.storage.journal import Part, Row
from crawler.storage.publish import Publisher
from crawler.storage.schema import Line, encode, utc_day
from crawler.storage.sealing import Sealer, SegmentFrontier
from crawler.storage.segments import Batch, OpenSegment, Segment
from crawler.storage.sinks import Sink
from crawler.storage.spool import Spool, file_name

log = logging.getLogger(__name__)

EARLY_ROWS: Final = 1000
EARLY_BYTES: Final = 16 * 1024**2
"""What is buffered in memory at most before a commit is made ahead of its time."""

ADOPT_EVERY: Final = 5.0
"""Seconds between two looks for spools whose worker is gone."""


class CorpusWriter:
    """Writes one worker's documents and fetch log.

    ``worker`` is the name that the frontier knows the process by, new for every process. Times are seconds, sizes
    bytes. ``on_settled(token, answer)`` is called when a row's fate is known: APPLIED or ALREADY, it will be
    published with its segment; STALE, it was struck; ABORTED, it was struck and its URL released. ``clock`` is
    monotonic, ``wall`` the time of day.
    """

    def __init__(
        self,
        frontier: SegmentFrontier,
        sink: Sink,
        *,
        spool_dir: Path,
        crawl: str,
        worker: str,
        group_commit: float = 1.0,
        segment_max_bytes: int = 256 * 1024**2,
        segment_max_age: float = 600.0,
        spool_max_bytes: int = 8 * 1024**3,
        on_settled: Callable[[bytes, Answer], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._sink = sink
        self._spool_dir = spool_dir
        self._crawl = crawl
        self._worker = worker
        self._segment_max_bytes = segment_max_bytes
        self._segment_max_age = segment_max_age
        self._spool_max_bytes = spool_max_bytes
        self._on_settled = on_settled
        self._clock = clock
        self._sealer = Sealer(frontier, worker, self._settled)
        self._publisher = Publisher(frontier, sink, self._sealer, crawl=crawl, worker=worker, wall=wall)
        self._backlog = Backlog(self._publisher, spool_dir, crawl)
        self._committer = Duty("writing to the spool", self.commit, group_commit)
        self._publications = Duty("publishing", self.publish, ADOPT_EVERY)
        self._committing = asyncio.Lock()
        self._publishing = asyncio.Lock()
        self._batch = Batch()
        self._open_tokens: set[bytes] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._sequence = 0
        self._opened_at = 0.0
        self._rotate_at_once = False
        self._running = False

    async def open(self, *, background: bool = True) -> None:
        """Make sure that spool and sink can be written, and begin. Without ``background`` the caller commits and
        publishes.

        Raises SpoolError or SinkError, naming the path.
        """
        await asyncio.to_thread(self._sink.probe)
        self._spool = await asyncio.to_thread(Spool.open, self._spool_dir, self._crawl, self._worker)
        self._open = self._next_segment()
        self._running = True
        if background:
            self._committer.start()
            self._publications.start()

    # What the scheduler and the pipelines call: memory only

    def append(self, lease: Lease, documents: Sequence[Line]) -> None:
        """Take the documents of a fetched page. They are sealed with the next commit: its links must be added by now.

        All documents of a page go in one call. Raises BadInput for a line that is not JSON, ProtocolError for a
        second call or one without documents.
        """
        if not documents or self.knows(lease.token):
            what = "its documents were appended before" if documents else "there is no document to append"
            raise ProtocolError(f"{lease.url}: {what}")
        lines = [encode(document) for document in documents]
        texts = sum(1 for document in documents if document["text"])
        part = Part("documents", utc_day(lease.granted_ms / 1000))
        self._batch.add_row(Row(lease.token, lease.group, lease.record, part, len(lines), texts), lines)
        self._open_tokens.add(lease.token)
        if len(self._batch.rows) >= EARLY_ROWS or self._batch.size >= EARLY_BYTES:
            self._committer.wake()

    def log(self, entry: Line) -> None:
        """Take a fetch-log line, made by `schema.fetch_entry`."""
        self._batch.add(Part("fetchlog", entry["logged_at"][:10]), encode(entry))

    async def committed(self) -> None:
        """Return when what was appended and logged so far is on disk: wait for it before an outcome is told, and the
        outcome is in the log."""
        if self._batch or self._committing.locked():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def rotate_now(self) -> None:
        """Publish what there is without waiting for size or age."""
        self._rotate_at_once = True
        self._committer.wake()

    @property
    def unsealed(self) -> int:
        """Rows whose fate is open: buffered, being written, or on disk and not answered for by the frontier."""
        return len(self._open_tokens)

    @property
    def unpublished(self) -> int:
        """Rows that are not yet published, those of adopted segments too."""
        return len(self._open_tokens) + sum(segment.kept - len(segment.unsealed) for segment in self._segments())

    @property
    def spool_bytes(self) -> int:
        """Bytes of the segments that are not yet published."""
        return sum(segment.size for segment in self._segments())

    @property
    def full(self) -> bool:
        """Whether no more should be fetched for now: the spool has its size, or rows cannot be written or sealed."""
        return self.spool_bytes >= self._spool_max_bytes or self._committer.failure is not None

    @property
    def failure(self) -> Exception | None:
        """What keeps rows from being written or published at present."""
        return self._committer.failure or self._publications.failure

    def knows(self, token: bytes) -> bool:
        """Whether a row of this token is here. One that the frontier holds for us and nobody knows is released."""
        return token in self._open_tokens or any(token in segment.tokens for segment in self._segments())

    def known_segments(self) -> set[str]:
        """The segments that are here. One that the frontier holds for us and that is not among them is aborted."""
        return {segment.name for segment in self._segments()}

    # What the two duties do; tests and the end of a crawl call it too

    async def commit(self) -> None:
        """Write what is buffered as one commit, seal what is unsealed, and close the segment if it is time.

        Raises SpoolError, with the lines still buffered, or FrontierUnavailable, with the rows still unsealed.
        """
        async with self._committing:
            if self._open.lost() or self._spool.lost():
                await self._replace_lost()
            await self._write()
            aborted = await self._sealer.seal_new(self._open)
            if self._open.parts and (aborted or self._rotation_due()):
                self._rotate()
            self._rotate_at_once = False

    async def publish(self) -> None:
        """Adopt spools whose worker is gone, then bring every closed segment to its end, oldest first.

        Raises SinkError, SpoolError or FrontierUnavailable; what is not done is done by a later call.
        """
        async with self._publishing:
            await self._backlog.work_off()

    async def carry_pending(self) -> None:
        """Carry out what was decided about segments whose worker may be gone."""
        await self._publisher.carry_pending(self.known_segments())

    async def abort(self, segments: Iterable[str]) -> None:
        """Abort segments that nobody will publish: their worker and its spool are gone, or we do not know them."""
        for segment in segments:
            await self._publisher.abort(segment)

    async def close(self) -> None:
        """Commit, seal and publish everything, and give up the spool.

        Raises what stood in the way, if something did; what could not be published is in the spool for the next start.
        """
        if not self._running:
            return
        self._running = False
        try:
            await self._committer.stop()
            await self._publications.stop()
            self._rotate_at_once = True
            await self.commit()
            await self.publish()
        finally:
            self._open.close()
            await asyncio.to_thread(self._backlog.close)
            await asyncio.to_thread(self._spool.close)
            for waiter in self._waiters:
                waiter.cancel()

    # How

    def _segments(self) -> Iterator[Segment]:
        yield from self._backlog.segments
        yield self._open

    def _settled(self, token: bytes, answer: Answer) -> None:
        self._open_tokens.discard(token)
        if self._on_settled:
            self._on_settled(token, answer)

    def _next_segment(self) -> OpenSegment:
        self._sequence += 1
        name = f"{file_name(self._crawl)}-{file_name(self._worker)}-{self._sequence:06d}"
        return OpenSegment(self._spool.directory, name)

    async def _write(self) -> None:
        batch, waiters = self._batch, self._waiters
        self._batch, self._waiters = Batch(), []
        if batch:
            fresh = not self._open.parts
            try:
                await asyncio.to_thread(self._open.write, batch)
            except SpoolError:
                batch.extend(self._batch)
                self._batch, self._waiters = batch, waiters + self._waiters
                raise
            self._open.unsealed += batch.rows
            if fresh:
                self._opened_at = self._clock()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _rotation_due(self) -> bool:
        return (
            self._rotate_at_once
            or self._open.size >= self._segment_max_bytes
            or self._clock() - self._opened_at >= self._segment_max_age
        )

    def _rotate(self) -> None:
        self._open.close()
        self._backlog.segments.append(self._open)
        self._open = self._next_segment()
        self._publications.wake()

    async def _replace_lost(self) -> None:
        """Go on in a new spool; what was in the old one is aborted in its turn, what is in memory is not lost."""
        log.error("spool %s was removed: %d rows are fetched again", self._spool.directory, self._open.kept)
        lost = self._open
        lost.close()
        if self._spool.lost():
            await asyncio.to_thread(self._spool.close)
            self._spool = await asyncio.to_thread(Spool.open, self._spool_dir, self._crawl, self._worker)
        self._open = self._next_segment()
        if lost.parts:
            self._backlog.segments.append(lost)
            self._publications.wake()
