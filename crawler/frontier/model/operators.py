"""Operators' calls of the model."""

from __future__ import annotations

from collections.abc import Sequence

from crawler.frontier import records
from crawler.frontier.model.base import Base, Part
from crawler.frontier.model.ground import Row
from crawler.frontier.operators import FOREVER_MS
from crawler.frontier.states import COUNTED, State
from crawler.frontier.types import Answer, DeadLetter, GroupInfo, Snapshot


class Operators(Base):
    """See crawler.frontier.operators.Operators."""

    async def snapshot(self, *, now: int | None = None) -> Snapshot:
        total = Snapshot(moves=tuple(part.counts["moves"] for part in self.parts))
        for part in self.parts:
            at = max(self._now(now), part.latest)
            for state in COUNTED:
                setattr(total, state.value, getattr(total, state.value) + part.counts[state])
            total.added += part.counts["added"]
            total.expiries += part.counts["expiries"]
            total.groups += len(part.rows)
            total.due += sum(due <= at for band in part.due for due in band.values())
            total.outbox += len(part.outbox)
            total.pending += len(part.pending)
            for reason, count in part.reasons.items():
                total.reasons[reason] = total.reasons.get(reason, 0) + count
        total.next_due_ms = min((due for part in self.parts if (due := part.next_due()) is not None), default=None)
        return total

    async def host_get(self, hosts: Sequence[tuple[str, str]]) -> list[bytes | None]:
        return [self.part_of(group).hosts.get(authority) for group, authority in hosts]

    async def host_put(self, group: str, authority: str, record: bytes) -> None:
        self.part_of(group).hosts[authority] = record

    async def group_pace(self, group: str) -> bytes:
        return self.part_of(group).rows.get(group, Row()).pace

    async def group(self, group: str) -> GroupInfo | None:
        row = self.part_of(group).rows.get(group)
        return None if row is None else _info(group, row)

    async def groups(self, cursor: str = "", count: int = 100) -> tuple[list[GroupInfo], str]:
        every = [_info(name, row) for part in self.parts for name, row in sorted(part.rows.items())]
        start = int(cursor or 0)
        return every[start : start + count], str(start + count) if start + count < len(every) else ""

    async def peek(self, group: str, count: int = 10) -> list[str]:
        queues = self.part_of(group).queues
        waiting = [(record, band) for band in range(self.bands) for record in queues.get((band, group), ())]
        return [records.unpack_record(record, group, band, self.fingerprint).url for record, band in waiting[:count]]

    async def block(self, group: str, until_ms: int = FOREVER_MS, *, now: int | None = None) -> None:
        self.part_of(group).rule(self._now(now), group, until_ms, None)

    async def unblock(self, group: str, *, now: int | None = None) -> None:
        self.part_of(group).rule(self._now(now), group, 0, None)

    async def set_delay(self, group: str, delay: float, *, now: int | None = None) -> None:
        self.part_of(group).rule(self._now(now), group, None, round(delay * 1000))

    async def dead(self, cursor: str = "", count: int = 100) -> tuple[list[DeadLetter], str]:
        every = [
            records.dead_letter(f"{at}:{id_}-0", found.band, found.group, found.record, found.reason, found.buried_ms)
            for at, part in enumerate(self.parts)
            for id_, found in part.letters.items()
        ]
        left = [letter for letter in every if _order(letter.id) > _order(cursor)]
        return left[:count], left[count - 1].id if len(left) > count else ""

    async def letter(self, id_: str) -> DeadLetter | None:
        records.letter_place(id_)
        letters, _ = await self.dead(count=1 << 60)
        return next((letter for letter in letters if letter.id == id_), None)

    async def replay(self, ids: Sequence[str], *, now: int | None = None) -> list[Answer]:
        at = self._now(now)
        return [part.replay(at, id_) if part else Answer.STALE for part, id_ in self._letters(ids)]

    async def discard(self, ids: Sequence[str], *, now: int | None = None) -> list[Answer]:
        at = self._now(now)
        return [part.discard(at, id_) if part else Answer.STALE for part, id_ in self._letters(ids)]

    def _letters(self, ids: Sequence[str]) -> list[tuple[Part | None, int]]:
        places = [records.letter_place(id_) for id_ in ids]
        return [
            (self.parts[at] if at < self.partitions else None, int(place.partition("-")[0])) for at, place in places
        ]

    async def forget(self, url: str, group: str, *, now: int | None = None) -> State:
        return self.part_of(group).forget(self._now(now), group, self.fingerprint(url), self.fingerprint)

    async def purge(self) -> int:
        self.parts = self._new_parts()
        self.homes.clear()
        return 0


def _order(letter_id: str) -> tuple[int, ...]:
    return tuple(int(number) for number in letter_id.replace("-", ":").split(":") if number)


def _info(name: str, row: Row) -> GroupInfo:
    return GroupInfo(name, row.turns, tuple(sorted(row.bands)), row.next_ms, row.delay_ms, row.until_ms, row.pace)
