"""Sealing: the frontier says which rows on disk are this worker's to publish; the others are struck.

Invariant 6: a row is on disk, and its page's links are in the frontier, before it is sealed. Invariant 4: a row whose
token is stale is struck, and a segment is published only when the frontier counts as many sealed tokens under its
name as it has rows that were not.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

from crawler.frontier.types import Answer, Decided, Decision, Named, Pending, Sealed
from crawler.storage.journal import Row
from crawler.storage.segments import Segment

log = logging.getLogger(__name__)

T = TypeVar("T")
Settled = Callable[[bytes, Answer], None]

CHUNK: Final = 500
"""Rows in one call: a script's work stays within milliseconds."""


class SegmentFrontier(Protocol):
    """The calls of the frontier that storage makes; `crawler.frontier.Frontier` and its in-memory model have them."""

    async def seal(self, worker: str, rows: Sequence[Named], segment: str, *, strict: bool) -> Sealed: ...
    async def release(self, handbacks: Sequence[Named], /) -> Any: ...
    async def decide(self, segment: str, decision: Decision, manifest: str) -> Decided: ...
    async def settle(self, segment: str, decision: Decision) -> Any: ...
    async def decision(self, segment: str) -> Decided | None: ...
    async def finished(self, segment: str) -> Any: ...
    async def pending(self) -> Pending: ...
    async def durable(self, step: Callable[[], Awaitable[T]]) -> T: ...


class Sealer:
    """Seals the rows of segments for one worker. ``on_settled(token, answer)`` is told what became of each row."""

    def __init__(self, frontier: SegmentFrontier, worker: str, on_settled: Settled) -> None:
        self._frontier = frontier
        self._worker = worker
        self._on_settled = on_settled

    async def seal_new(self, segment: Segment) -> bool:
        """Seal what the segment has on disk and unsealed. Returns whether the segment turned out to be aborted.

        Raises FrontierUnavailable with the rows that were not answered for still unsealed.
        """
        aborted = False
        while rows := segment.unsealed[:CHUNK]:
            answers = await self._seal(segment, rows)
            del segment.unsealed[: len(rows)]
            for row, answer in zip(rows, answers, strict=True):
                self._on_settled(row.token, answer)
            aborted = aborted or Answer.ABORTED in answers
        return aborted

    async def seal_again(self, segment: Segment) -> None:
        """Seal every row that is not struck, sealed before or not: a segment taken over, or a server that forgot."""
        rows = (row for commit in segment.commits() for row in commit.rows if row.token not in segment.struck)
        while chunk := list(islice(rows, CHUNK)):
            await self._seal(segment, chunk)
        for row in segment.unsealed:
            self._on_settled(row.token, Answer.STALE if row.token in segment.struck else Answer.APPLIED)
        segment.unsealed.clear()

    async def total(self, segment: Segment) -> int:
        """How many tokens are sealed under the segment's name, over all partitions."""
        return (await self._frontier.seal(self._worker, [], segment.name, strict=False)).total

    async def give_back(self, segment: Segment) -> None:
        """Release the URLs of rows that will not be sealed in this segment, as far as their tokens still hold them."""
        while rows := segment.unsealed[:CHUNK]:
            await self._frontier.release(rows)
            del segment.unsealed[: len(rows)]
            for row in rows:
                self._on_settled(row.token, Answer.ABORTED)

    async def _seal(self, segment: Segment, rows: Sequence[Row]) -> Sequence[Answer]:
        answers = (await self._frontier.seal(self._worker, rows, segment.name, strict=False)).answers
        if leased := answers.count(Answer.LEASED):
            # A server that lost its last second forgot that these were fetched. Their leases will run out.
            log.error("struck %d rows of segment %s whose URLs are still leased", leased, segment.name)
        if aborted := [row for row, answer in zip(rows, answers, strict=True) if answer is Answer.ABORTED]:
            await self._frontier.release(aborted)
        segment.struck.update(row.token for row, answer in zip(rows, answers, strict=True) if is_struck(answer))
        return answers


def is_struck(answer: Answer) -> bool:
    """Whether a row with this answer may not be published in its segment."""
    return answer not in (Answer.APPLIED, Answer.ALREADY)
