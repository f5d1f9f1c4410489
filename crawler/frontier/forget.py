"""Forgetting a URL, so that it may be added anew.

Where a URL stands is told by its record alone, and records are found by looking through all of them. So the caller
looks, and the script forgets only if nothing has moved in the partition since (optimistic concurrency control; Kung
and Robinson, 1981).
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Final

from crawler.errors import FrontierUnavailable
from crawler.frontier import policy, records
from crawler.frontier.calls import Calls
from crawler.frontier.link import Argument
from crawler.frontier.states import State

LOOKS: Final = 20
"""How often a URL is looked for while the partition moves."""

PAGE: Final = 1000
"""Records read in one command."""


class Forgetting(Calls):
    """One call; costs O(URLs in the group, and in the partition delayed, leased or dead)."""

    async def forget(self, url: str, group: str, *, now: int | None = None) -> State:
        """Forget the plain GET of ``url`` (wire form) if it is done or dead: the next `add` takes it as new.

        Returns the state it was in: DONE or DEAD, it is forgotten; UNKNOWN, it was never seen (or the reply was lost
        when it was forgotten); in any other (LEASED stands for HELD too) it stays as it is. Raises
        FrontierUnavailable when the partition moves faster than it can be looked through.
        """
        partition, key = self.partition_of(group), self.fingerprint(url)
        records.group_name(group)
        found, letter, moves = State.DONE, "", ""
        for _ in range(1 + LOOKS):
            args: list[Argument] = [now or 0, key, moves, letter, random.getrandbits(48), policy.MAX_HOPS]
            answer, before = await self.link.run("forget", partition, args)
            if answer:
                return found if answer > 0 else State.UNKNOWN
            found, letter = await self._find(partition, group, key)
            if found not in (State.DONE, State.DEAD):
                return found
            moves = before.decode()
        raise FrontierUnavailable(f"{url!r} is not forgotten: too much goes on beside it; try again")

    async def _find(self, partition: int, group: str, key: int) -> tuple[State, str]:
        """The state of a seen URL, and the place of its letter when it is dead."""
        async for state, name, record, place in self._records(partition, group):
            if name == group and records.unpack_record(record, group, 0, self.fingerprint).key == key:
                return state, place
        return State.DONE, ""

    async def _records(self, partition: int, group: str) -> AsyncIterator[tuple[State, str, bytes, str]]:
        """State, group, record and place of whatever may be a URL of the group and is not done."""
        for band in range(self.bands):
            async for record in self._pages("LRANGE", self.link.key(partition, f"q:{band}:{group}")):
                yield State.QUEUED, group, record, ""
        async for member in self._pages("ZRANGE", self.link.key(partition, "delayed")):
            yield State.DELAYED, *records.split_tail(member[1:]), ""
        cursor = b"0"
        while cursor:
            after, rows = await self.link.command("HSCAN", self.link.key(partition, "leases"), cursor, "COUNT", PAGE)
            for row in rows.values():
                yield State.SEALED if row[1:2] == b"S" else State.LEASED, *records.split_row(row), ""
            cursor = b"%d" % int(after) if int(after) else b""
        after_id = "-"
        while letters := await self.link.command(
            "XRANGE", self.link.key(partition, "dead"), after_id, "+", "COUNT", PAGE
        ):
            for id_, fields in letters:
                yield State.DEAD, *records.split_letter(fields[b"l"]), id_.decode()
            after_id = f"({letters[-1][0].decode()}"

    async def _pages(self, command: str, key: str) -> AsyncIterator[bytes]:
        start = 0
        while page := await self.link.command(command, key, start, start + PAGE - 1):
            for entry in page:
                yield entry
            start += PAGE
