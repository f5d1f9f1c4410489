"""What operators and metrics ask: counters, groups, dead letters, host records, rules, and the end of it all."""

from __future__ import annotations

from collections.abc import Sequence

from crawler.frontier import keys, records
from crawler.frontier.calls import chunked
from crawler.frontier.link import Argument
from crawler.frontier.outcomes import Outcomes
from crawler.frontier.states import COUNTED
from crawler.frontier.types import Answer, DeadLetter, GroupInfo, Snapshot

FOREVER_MS = 1 << 52
"""A time that does not come."""


class Operators(Outcomes):
    """Cursors are opaque text, "" for the first page and after the last."""

    async def snapshot(self, *, now: int | None = None) -> Snapshot:
        """All counters, summed over the partitions; costs one short script in each."""
        total = Snapshot()
        parts = [self.link.run("snapshot", partition, [now or 0, self.bands]) for partition in range(self.partitions)]
        soonest: list[int] = []
        for server_now, groups, due, outbox, pending, next_due, fields in await self._all(parts):
            self.heard_clock(server_now)
            total.groups += groups
            total.due += due
            total.outbox += outbox
            total.pending += pending
            if next_due >= 0:
                soonest.append(next_due)
            _count(total, {fields[at].decode(): int(fields[at + 1]) for at in range(0, len(fields), 2)})
        total.next_due_ms = min(soonest, default=None)
        return total

    # Host records

    async def host_get(self, hosts: Sequence[tuple[str, str]]) -> list[bytes | None]:
        """The records of authorities, each given as (group, authority), in their order; None where there is none."""
        parts: dict[int, list[int]] = {}
        for i, (group, _) in enumerate(hosts):
            parts.setdefault(self.partition_of(group), []).append(i)
        found: list[bytes | None] = [None] * len(hosts)
        replies = await self._all(
            [
                self.link.command("HMGET", self.link.key(partition, "hosts"), *(hosts[i][1] for i in chosen))
                for partition, chosen in parts.items()
            ]
        )
        for chosen, values in zip(parts.values(), replies, strict=True):
            for i, value in zip(chosen, values, strict=True):
                found[i] = value
        return found

    async def host_put(self, group: str, authority: str, record: bytes) -> None:
        """Store an authority's record, opaque here, in its group's partition."""
        await self.link.command("HSET", self.link.key(self.partition_of(group), "hosts"), authority, record)

    # Groups

    async def group_pace(self, group: str) -> bytes:
        """A group's pace state (policy.Pace), b"" when nothing is known of it."""
        return records.unpack_pace(await self._group_row(group))

    async def group(self, group: str) -> GroupInfo | None:
        """What is known of one group."""
        row = await self._group_row(group)
        return None if row is None else await self._group_info(group, row)

    async def groups(self, cursor: str = "", count: int = 100) -> tuple[list[GroupInfo], str]:
        """About ``count`` groups, and the cursor of the next page. Each group comes at least once."""
        partition, _, at = (cursor or "0:0").partition(":")
        key = self.link.key(int(partition), "groups")
        after, fields = await self.link.command("HSCAN", key, at, "COUNT", count)
        found = [await self._group_info(name.decode(), row) for name, row in fields.items()]
        if int(after):
            return found, f"{partition}:{int(after)}"
        following = int(partition) + 1
        return found, f"{following}:0" if following < self.partitions else ""

    async def peek(self, group: str, count: int = 10) -> list[str]:
        """The next URLs of a group's queues, band by band, ``count`` at most."""
        urls: list[str] = []
        for band in range(self.bands):
            key = self.link.key(self.partition_of(group), f"q:{band}:{group}")
            waiting = await self.link.command("LRANGE", key, 0, count - len(urls) - 1) if len(urls) < count else []
            urls += [records.unpack_record(record, group, band, self.fingerprint).url for record in waiting]
        return urls

    async def _group_row(self, group: str) -> bytes | None:
        row: bytes | None = await self.link.command("HGET", self.link.key(self.partition_of(group), "groups"), group)
        return row

    async def _group_info(self, group: str, row: bytes) -> GroupInfo:
        rules = None
        if row[1]:
            rules = await self.link.command("HGET", self.link.key(self.partition_of(group), "rules"), group)
        return records.unpack_group(group, row, rules)

    async def block(self, group: str, until_ms: int = FOREVER_MS, *, now: int | None = None) -> None:
        """Grant nothing of a group before ``until_ms`` of the server's clock."""
        await self._rule(group, until_ms, "", now)

    async def unblock(self, group: str, *, now: int | None = None) -> None:
        """Take a block back."""
        await self._rule(group, 0, "", now)
        self.due.expect(self.partition_of(group))

    async def set_delay(self, group: str, delay: float, *, now: int | None = None) -> None:
        """Least seconds between two requests to a group; 0 takes that back."""
        await self._rule(group, "", round(delay * 1000), now)

    async def _rule(self, group: str, until: Argument, least: Argument, now: int | None) -> None:
        records.group_name(group)
        await self.link.run("rule", self.partition_of(group), [*self._head(now), group, until, least])

    async def drop(self, group: str, *, now: int | None = None) -> int:
        """What waits in a group is done without being fetched, reason "dropped". Returns how many URLs."""
        return await self._clear(group, "done", "dropped", now)

    # Dead letters

    async def dead(self, cursor: str = "", count: int = 100) -> tuple[list[DeadLetter], str]:
        """Up to ``count`` dead letters, oldest first in each partition, and the cursor of the next page."""
        partition, _, after = cursor.partition(":")
        at, letters = int(partition or 0), list[DeadLetter]()
        while at < self.partitions and len(letters) < count:
            start = f"({after}" if after else "-"
            entries = await self.link.command(
                "XRANGE", self.link.key(at, "dead"), start, "+", "COUNT", count - len(letters)
            )
            for id_, fields in entries:
                after = id_.decode()
                letters.append(records.unpack_letter(f"{at}:{after}", fields[b"l"]))
            if len(letters) < count:
                at, after = at + 1, ""
        return letters, f"{at}:{after}" if at < self.partitions else ""

    async def replay(self, ids: Sequence[str], *, now: int | None = None) -> list[Answer]:
        """Queue dead letters again; what they failed of before no longer counts. STALE: there is no such letter.

        Raises BadInput for what is no letter's id.
        """
        return await self._by_letter("replay", self._head(now), ids)

    async def discard(self, ids: Sequence[str], *, now: int | None = None) -> list[Answer]:
        """Throw dead letters away: their URLs are done, and stay seen. STALE: there is no such letter.

        Raises BadInput for what is no letter's id.
        """
        return await self._by_letter("discard", [now or 0], ids)

    async def letter(self, id_: str) -> DeadLetter | None:
        """The dead letter of that id. Raises BadInput for what is no letter's id."""
        partition, place = records.letter_place(id_)
        if partition >= self.partitions:
            return None
        found = await self.link.command("XRANGE", self.link.key(partition, "dead"), place, place)
        return records.unpack_letter(id_, found[0][1][b"l"]) if found else None

    async def _by_letter(self, script: str, head: list[Argument], ids: Sequence[str]) -> list[Answer]:
        places = [records.letter_place(id_) for id_ in ids]
        parts: dict[int, list[int]] = {}
        for i, (partition, _) in enumerate(places):
            if partition < self.partitions:
                parts.setdefault(partition, []).append(i)
        answers = [Answer.STALE] * len(ids)
        for partition, chosen in chunked(parts):
            letters = await self.link.run(script, partition, [*head, *(places[i][1] for i in chosen)])
            for i, letter in zip(chosen, letters.decode(), strict=True):
                answers[i] = Answer.APPLIED if letter == "A" else Answer.STALE
            self.due.expect(partition)
        return answers

    async def time_ms(self) -> int:
        """The server's clock now, in ms."""
        seconds, micros = await self.link.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def workers(self, *, now: int | None = None) -> set[str]:
        """Names of the workers whose sessions last."""
        now = await self.time_ms() if now is None else now
        sessions = [self.link.key(partition, "sessions") for partition in range(self.partitions)]
        found = await self._all([self.link.command("ZRANGEBYSCORE", key, now, "+inf") for key in sessions])
        return {name.decode() for names in found for name in names}

    async def purge(self) -> int:
        """Forget the whole crawl. Returns how many keys that were. No worker may be running."""
        found, cursor, glob = 0, 0, keys.everything(self.options.crawl_id)
        while True:
            after, names = await self.link.command("SCAN", cursor, "MATCH", glob, "COUNT", 1000)
            for name in names:
                found += await self.link.command("UNLINK", name)
            cursor = int(after)
            if not cursor:
                return found


def _count(total: Snapshot, counters: dict[str, int]) -> None:
    for state in COUNTED:
        setattr(total, state.value, getattr(total, state.value) + counters.get(state.value, 0))
    total.added += counters.get("added", 0)
    total.expiries += counters.get("expiries", 0)
    total.moves = (*total.moves, counters.get("moves", 0))
    for name, value in counters.items():
        if name.startswith("reason:"):
            reason = name.removeprefix("reason:")
            total.reasons[reason] = total.reasons.get(reason, 0) + value
