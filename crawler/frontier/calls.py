"""What the parts of `Frontier` share: the link, the options in the units of the scripts, the server's clock, the
due times."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from crawler.frontier import keys, records
from crawler.frontier.due import DueTimes
from crawler.frontier.link import Argument, Link
from crawler.frontier.types import Answer, Named, Wire
from crawler.options import Options

T = TypeVar("T")

ANSWERS = {
    "A": Answer.APPLIED,
    "Y": Answer.ALREADY,
    "S": Answer.STALE,
    "T": Answer.ABORTED,
    "L": Answer.LEASED,
}
"""What scripts answer, by their letter."""


CHUNK = 500
"""Items in one script at most: its work stays within 5 ms."""


def chunked(parts: Mapping[int, Sequence[int]]) -> list[tuple[int, Sequence[int]]]:
    """Each partition's items in chunks; a partition without items gets one empty chunk."""
    return [(p, chosen[at : at + CHUNK]) for p, chosen in parts.items() for at in range(0, len(chosen) or 1, CHUNK)]


class Calls:
    """Base of the parts. ``epochs``: each partition's epoch as last heard; another one means that what is known
    locally is void."""

    def __init__(
        self,
        link: Link,
        options: Options,
        fingerprint: records.Fingerprint,
        clock: Callable[[], float] = time.monotonic,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self.link = link
        self.options = options
        self.clock = clock
        self.rand = rand
        self.fingerprint = fingerprint
        self.partitions = options.frontier_partitions
        self.bands = options.frontier_bands
        self.turns = options.frontier_group_concurrency
        self.lease_ms = int(options.lease_ttl * 1000)
        self.session_ms = int(options.session_ttl * 1000)
        self.due = DueTimes(self.partitions, clock)
        self.epochs: dict[int, bytes] = {}
        self.homes: defaultdict[str, set[int]] = defaultdict(set)  # partitions in which a worker may hold something
        self._ahead_ms = time.time() * 1000 - clock() * 1000

    def partition_of(self, name: str) -> int:
        """The partition of a politeness group, or of a segment's decision."""
        return keys.partition_of(name, self.partitions)

    @property
    def losses(self) -> int:
        """How often the server was lost, or found to be another, since `open`."""
        return self.link.lost

    def heard_clock(self, server_ms: int) -> None:
        """Take the server's clock from a reply."""
        self._ahead_ms = server_ms - self.clock() * 1000

    def server_ms(self) -> int:
        """The server's clock as far as it is known, in ms."""
        return int(self.clock() * 1000 + self._ahead_ms)

    async def _all(self, calls: Sequence[Awaitable[T]]) -> list[T]:
        """Await calls to several partitions together; all are awaited before the first error is raised."""
        if len(calls) == 1:
            return [await calls[0]]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return list(results)  # type: ignore[arg-type]

    async def _by_token(
        self, script: str, head: Sequence[Argument], items: Sequence[Named], rest: Callable[[int], Sequence[Argument]]
    ) -> list[str]:
        """Run a script whose items are named by token: one call per partition and chunk; its letters in the items'
        order.

        ``rest(i)`` gives the arguments of item i after its token and tail.
        """
        parts: defaultdict[int, list[int]] = defaultdict(list)
        for i, item in enumerate(items):
            parts[self.partition_of(item.group)].append(i)
        letters = [""] * len(items)

        async def part(partition: int, chosen: Sequence[int]) -> None:
            args = list(head)
            for i in chosen:
                item = items[i]
                args += (item.token, records.tail_of(item.group, item.record), *rest(i))
            reply = await self.link.run(script, partition, args)
            for i, letter in zip(chosen, self._letters(reply), strict=True):
                letters[i] = letter

        await self._all([part(partition, chosen) for partition, chosen in chunked(parts)])
        return letters

    def _letters(self, reply: bytes | Sequence[bytes | int]) -> str:
        if isinstance(reply, bytes):
            return reply.decode()
        self.heard_clock(int(reply[1]))
        return bytes(reply[0]).decode()

    def _wire(self, item: Named, wire: Wire | None) -> bytes:
        wait = wire.delay_ms - wire.age_ms if wire else 0
        self.due.expect(self.partition_of(item.group), wait)
        return records.pack_wire(wire)
