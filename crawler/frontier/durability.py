"""When what the frontier answered is on disk (invariant 8).

Nothing follows a decision elsewhere before it is there: WAITAOF, after a write on the same connection, says so; a
server that has no WAITAOF, or no append-only file, is watched for two seconds instead, in which its run id must not
move.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from crawler.errors import FrontierUnavailable
from crawler.frontier import keys
from crawler.frontier.calls import Calls

SETTLES: Final = 2.0
"""Seconds after which appendfsync everysec has written what was answered before (redis.conf: at most two seconds
old)."""

WAIT_MS: Final = 5000
"""Milliseconds that WAITAOF may take."""

POLL: Final = 0.1
"""Seconds between two looks at the run id."""

T = TypeVar("T")


class Durability(Calls):
    """Fences. ``_run_ids``: the servers' run ids as last seen. ``_made``: the crawl's record, as JSON."""

    _run_ids: tuple[str, ...] = ()
    _made = ""

    async def _make(self) -> bool:
        """Write the crawl's record and its partitions' epochs where they are missing; True when the crawl is new."""
        new = await self.link.command("HSETNX", self.link.key(0, keys.CRAWL), "made", self._made)
        for partition in range(self.partitions):
            await self.link.command("HSETNX", self.link.key(partition, "meta"), "epoch", random.getrandbits(48))
        return bool(new)

    async def was_emptied(self) -> bool:
        """Whether the server holds the crawl no more: its data was flushed, or a restart lost it without a disk.

        The crawl's record is made again, so only the first worker that asks is told; all find new epochs.
        """
        if await self.link.command("HEXISTS", self.link.key(0, keys.CRAWL), "made") or not await self._make():
            return False
        self.link.lost_at = self.clock()
        self.link.lost += 1
        return True

    async def run_ids(self) -> tuple[str, ...]:
        """The run id of each server; a server that was restarted or replaced has another."""
        info = await self.link.repeat(lambda: self.link.client.info("server"))
        ids = (str(info["run_id"]),)
        if self._run_ids and ids != self._run_ids:
            self.link.lost_at = self.clock()
            self.link.lost += 1
        self._run_ids = ids
        return ids

    async def _note_restart(self, *, new: bool) -> None:
        """Take a server that has just started for one that was lost: sessions could not be kept while it was away."""
        info = await self.link.repeat(lambda: self.link.client.info("server"))
        self._run_ids = (str(info["run_id"]),)
        up = float(info["uptime_in_seconds"])
        if up < self.options.session_ttl and not new:
            self.link.lost_at = self.clock() - up

    async def fence(self) -> None:
        """Return when everything answered so far is on the server's disk, or can no longer be undone by losing its
        last second.

        Raises FrontierUnavailable when the server moved meanwhile or cannot write.
        """
        before = await self.run_ids()
        if not await self.link.repeat(self._wait_aof):
            settled = self.clock() + SETTLES
            while self.clock() < settled:
                await self.link.pause(POLL)
        if await self.run_ids() != before:
            raise FrontierUnavailable("the server was restarted while its disk was waited for")

    async def _wait_aof(self) -> bool:
        """False where the server cannot say: no WAITAOF, or no append-only file."""
        client: Redis = self.link.client
        async with client.client() as own:  # WAITAOF answers for the writes of its own connection and all before them
            await own.hincrby(self.link.key(0, "crawl"), "fences", 1)
            try:
                reply = await own.waitaof(1, 0, WAIT_MS)
            except ResponseError as error:
                if "WAITAOF" in str(error) or "unknown command" in str(error):
                    return False
                raise
        if int(reply[0]) < 1:
            raise FrontierUnavailable(f"the server did not write its append-only file within {WAIT_MS} ms")
        return True

    async def durable(self, step: Callable[[], Awaitable[T]]) -> T:
        """Await ``step`` and a fence, again until no server was lost in between: then what it did stands. Returns
        its result."""
        while True:
            before = await self.run_ids()
            result = await step()
            try:
                await self.fence()
            except FrontierUnavailable:
                if await self.run_ids() == before:
                    raise
                continue
            if self._run_ids == before:
                return result
