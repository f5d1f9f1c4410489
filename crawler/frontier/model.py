"""The frontier in memory, with the interface of `Frontier`: for tests, which hold the two against each other, and
for simulation.

Nothing is stored and nobody else sees it. Time is ``wall`` (seconds) unless a call brings ``now`` (ms).
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from crawler.errors import BadInput, ProtocolError
from crawler.frontier import keys, policy, records
from crawler.frontier.client import TURN_PATIENCE_MS
from crawler.frontier.model_part import Part, Row
from crawler.frontier.operators import FOREVER_MS
from crawler.frontier.states import COUNTED, State
from crawler.frontier.types import (
    Added,
    Answer,
    Burial,
    Candidate,
    Completion,
    DeadLetter,
    Decided,
    Decision,
    Failure,
    GroupInfo,
    Handback,
    Handle,
    Holding,
    Lease,
    LeaseReply,
    Named,
    Pending,
    Reclaimed,
    Reserved,
    Sealed,
    Snapshot,
    Wire,
)
from crawler.options import Options
from crawler.urls import DROPPED_PARAMETERS, fingerprint

T = TypeVar("T")


class Model:
    """See `Frontier` for what the methods do; here they never fail for want of a server."""

    losses = 0

    def __init__(
        self,
        options: Options | None = None,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self.options = options or Options()
        self.partitions = self.options.frontier_partitions
        self.bands = self.options.frontier_bands
        self.epochs: dict[int, bytes] = {}
        self.clock, self.rand = clock, rand
        dropped = frozenset(self.options.url_parameters_ignored) or DROPPED_PARAMETERS
        self.fingerprint = partial(fingerprint, drop=dropped)
        self.homes: defaultdict[str, set[int]] = defaultdict(set)
        self._wall = wall
        self._lease_ms = int(self.options.lease_ttl * 1000)
        self._session_ms = int(self.options.session_ttl * 1000)
        self.parts = self._new_parts()

    def _new_parts(self) -> list[Part]:
        return [Part(self.options.frontier_group_concurrency, self.bands) for _ in range(self.partitions)]

    async def close(self) -> None:
        """Nothing to do."""

    def partition_of(self, name: str) -> int:
        """The partition of a politeness group, or of a segment's decision."""
        return keys.partition_of(name, self.partitions)

    def part_of(self, name: str) -> Part:
        """That partition itself."""
        return self.parts[self.partition_of(name)]

    def _now(self, now: int | None) -> int:
        return int(self._wall() * 1000) if now is None else now

    # Adding and leasing

    async def add(self, candidates: Sequence[Candidate], *, now: int | None = None) -> list[Added]:
        for candidate in candidates:
            if not 0 <= candidate.band < self.bands:
                raise BadInput(f"band {candidate.band} of {candidate.url!r}: there are {self.bands}")
            records.group_name(candidate.group)
        packed = [records.pack_record(candidate) for candidate in candidates]
        at = self._now(now)
        return [
            self.part_of(c.group).add(at, c.key, c.band, c.group, record, c.chain)
            for c, record in zip(candidates, packed, strict=True)
        ]

    async def lease(
        self, tokens: Sequence[bytes], worker: str, partition: int | None = None, *, now: int | None = None
    ) -> LeaseReply:
        asked, left = self.clock(), list(dict.fromkeys(tokens))
        leases: list[Lease] = []
        server_now, soonest = self._now(now), list[int]()
        for at in range(self.partitions) if partition is None else [partition]:
            part = self.parts[at]
            self.homes[worker].add(at)
            granted, due, part_now = part.lease(self._now(now), left, worker, self._lease_ms, self._session_ms)
            leases += [self._lease_of(part, token, asked) for token in granted]
            left = [token for token in left if token not in granted]
            server_now = max(server_now, part_now)
            if due is not None:
                soonest.append(due)
            if not left:
                break
        return LeaseReply(leases, min(soonest, default=None), server_now)

    def _lease_of(self, part: Part, token: bytes, asked: float) -> Lease:
        owned = part.owned[token]
        url = records.unpack_record(owned.record, owned.group, owned.band, self.fingerprint)
        return Lease(
            token, owned.group, owned.band, owned.record, url.url, url.key, url.depth, url.visit, url.chain,
            records.trail_of(owned.record), owned.deadline_ms, owned.granted_ms, part.rows[owned.group].pace,
            url.request, url.parent, asked,
        )  # fmt: skip

    async def heartbeat(self, worker: str, *, everywhere: bool = False, now: int | None = None) -> list[Holding]:
        homes = range(self.partitions) if everywhere else sorted(self.homes[worker])
        found = []
        for part in (self.parts[at] for at in homes):
            part.sessions[worker] = part.at(self._now(now)) + self._session_ms
            held = [
                Handle(token, owned.group, owned.record)
                for token, owned in part.owned.items()
                if owned.worker == worker and owned.state is State.HELD
            ]
            found.append(Holding(held, [name for name, (owner, _) in part.segments.items() if owner == worker]))
        return found

    async def leave(self, worker: str, *, now: int | None = None) -> None:
        for part in (self.parts[at] for at in self.homes.pop(worker, ())):
            part.sessions[worker] = part.at(self._now(now))

    async def workers(self, *, now: int | None = None) -> set[str]:
        at = self._now(now)
        return {worker for part in self.parts for worker, end in part.sessions.items() if end >= at}

    async def reserve(self, token: bytes, group: str, *, now: int | None = None) -> Reserved:
        records.group_name(group)
        part = self.part_of(group)
        deadline, again, server_now = part.reserve(self._now(now), token, group, self._lease_ms, TURN_PATIENCE_MS)
        return Reserved(bool(deadline), deadline, again, part.rows.get(group, Row()).pace, server_now)

    async def reclaim(self, *, now: int | None = None) -> Reclaimed:
        options = self.options
        steps = range(1, len(options.retry_delays) + 1)
        ladder = [int(1000 * policy.retry_delay(step, options.retry_delays, self.rand())) for step in steps]
        grace = int(options.spool_grace * 1000)
        parts = [part.reclaim(self._now(now), options.max_expiries, grace, ladder) for part in self.parts]
        expired, dead, turns, doomed = zip(*parts, strict=True)
        return Reclaimed(sum(expired), sum(dead), sum(turns), sorted({name for names in doomed for name in names}))

    # Outcomes

    def _each(self, items: Sequence[Named], now: int | None, one: Callable[[Part, int, int], T], stale: T) -> list[T]:
        """Call ``one(part, time, i)`` for each item; a token that comes twice is answered once."""
        met = set[tuple[int, bytes]]()
        answers = []
        for i, item in enumerate(items):
            at = self.partition_of(item.group)
            fresh = (at, item.token) not in met
            met.add((at, item.token))
            part = self.parts[at]
            answers.append(one(part, part.at(self._now(now)), i) if fresh else stale)
        return answers

    async def fetched(self, ended: Sequence[tuple[Named, Wire]], *, now: int | None = None) -> list[Answer]:
        leases = [lease for lease, _ in ended]
        return self._each(leases, now, lambda part, at, i: part.fetched(at, *ended[i]), Answer.STALE)

    async def fetched_turn(self, token: bytes, group: str, wire: Wire | None, *, now: int | None = None) -> None:
        turn = Handle(token, group, b"")
        self._each([turn], now, lambda part, at, _: part.fetched(at, turn, wire), Answer.STALE)

    async def complete(self, completions: Sequence[Completion], *, now: int | None = None) -> list[Answer]:
        def one(part: Part, at: int, i: int) -> Answer:
            done = completions[i]
            target = records.pack_entry(done.redirect.candidate) if done.redirect else b""
            return part.complete(at, done.lease, done.wire, done.reason, target)

        return self._each([done.lease for done in completions], now, one, Answer.STALE)

    async def retry(self, failures: Sequence[Failure], *, now: int | None = None) -> list[State | None]:
        def one(part: Part, at: int, i: int) -> State | None:
            failure = failures[i]
            pace = policy.Pace.unpack(failure.lease.pace if isinstance(failure.lease, Lease) else b"")
            trail = records.trail_of(failure.lease.record)
            fate = policy.after_failure(trail, failure.kind, pace.failures, self.options, self.rand())
            return part.retry(at, failure.lease, failure.wire, fate, failure.kind, failure.not_before_ms)

        went = self._each([failure.lease for failure in failures], now, one, None)
        for failure in failures:
            if failure.wire and failure.wire.pace:
                pace = policy.Pace.unpack(failure.wire.pace)
                if policy.is_offline(pace, self._now(now), self.options):
                    await self.offline(failure.lease.group, now=now)
        return went

    async def release(self, handbacks: Sequence[Handback | Named], *, now: int | None = None) -> list[Answer]:
        backs = [item if isinstance(item, Handback) else Handback(item) for item in handbacks]
        heads: dict[int, list[tuple[int, str, bytes]]] = {}

        def one(part: Part, at: int, i: int) -> Answer:
            went = part.release(at, backs[i].lease, backs[i].wire, backs[i].not_before_ms)
            if isinstance(went, Answer):
                return went
            heads.setdefault(self.partition_of(went[1]), []).append(went)
            return Answer.APPLIED

        answers = self._each([back.lease for back in backs], now, one, Answer.STALE)
        for at, urls in heads.items():
            self.parts[at].push_heads(urls, self.parts[at].latest)
        return answers

    async def bury(self, burials: Sequence[Burial], *, now: int | None = None) -> list[Answer]:
        def one(part: Part, at: int, i: int) -> Answer:
            return part.bury(at, burials[i].lease, burials[i].wire, burials[i].reason)

        return self._each([burial.lease for burial in burials], now, one, Answer.STALE)

    async def offline(self, group: str, *, now: int | None = None) -> int:
        return self.part_of(group).clear(self._now(now), group, State.DEAD, "offline")

    async def drop(self, group: str, *, now: int | None = None) -> int:
        return self.part_of(group).clear(self._now(now), group, State.DONE, "dropped")

    # Segments

    async def seal(
        self, worker: str, rows: Sequence[Named], segment: str, *, strict: bool = True, now: int | None = None
    ) -> Sealed:
        parts: dict[int, list[int]] = {} if rows else {at: [] for at in range(self.partitions)}
        for i, row in enumerate(rows):
            parts.setdefault(self.partition_of(row.group), []).append(i)
        self.homes[worker].update(parts)
        answers = [Answer.STALE] * len(rows)
        total = 0
        for at, chosen in parts.items():
            part = self.parts[at]
            given, count = part.seal(self._now(now), worker, self._session_ms, [rows[i] for i in chosen], segment)
            total += count
            for i, answer in zip(chosen, given, strict=True):
                answers[i] = answer
        if strict and Answer.LEASED in answers:
            bad = rows[answers.index(Answer.LEASED)]
            raise ProtocolError(f"sealed while leased, without `fetched`: token {bad.token.hex()}")
        return Sealed(answers, total)

    async def decide(self, segment: str, decision: Decision, manifest: str = "", *, now: int | None = None) -> Decided:
        return self.part_of(segment).decide(self._now(now), segment, decision, manifest)

    async def decision(self, segment: str) -> Decided | None:
        return self.part_of(segment).decisions.get(segment)

    async def settle(self, segment: str, decision: Decision, *, now: int | None = None) -> None:
        for part in self.parts:
            part.settle(self._now(now), segment, decision)

    async def finished(self, segment: str, *, now: int | None = None) -> None:
        self.part_of(segment).finished(self._now(now), segment)

    async def publish(self, segment: str, manifest: str, *, now: int | None = None) -> Decided:
        decided = await self.decide(segment, Decision.PUBLISHED, manifest, now=now)
        await self.settle(segment, decided.decision, now=now)
        return decided

    async def abort(self, segment: str, *, now: int | None = None) -> Decided:
        decided = await self.decide(segment, Decision.ABORTED, "", now=now)
        await self.settle(segment, decided.decision, now=now)
        return decided

    async def pending(self, *, settled_ms: int = 0, now: int | None = None) -> Pending:
        outbox = [
            (at, token, records.unpack_entry(bytes(9) + entry, self.fingerprint)[0])
            for at, part in enumerate(self.parts)
            for token, (made, entry) in part.outbox.items()
            if made + settled_ms <= max(self._now(now), part.latest)
        ]
        return Pending(outbox, [segment for part in self.parts for segment in sorted(part.pending)])

    async def ack(self, carried: Sequence[tuple[int, bytes]]) -> None:
        for at, token in carried:
            self.parts[at].outbox.pop(token, None)

    async def run_ids(self) -> tuple[str, ...]:
        return ("model",)

    async def fence(self) -> None:
        """Nothing here is ever on disk, and nothing is lost."""

    async def durable(self, step: Callable[[], Awaitable[T]]) -> T:
        return await step()

    # Operators

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
            records.dead_letter(f"{at}:{id_}-0", letter.band, letter.group, letter.record, letter.reason, letter.buried_ms)
            for at, part in enumerate(self.parts)
            for id_, letter in part.letters.items()
        ]
        left = [letter for letter in every if _order(letter.id) > _order(cursor)]
        return left[:count], left[count - 1].id if len(left) > count else ""

    async def replay(self, ids: Sequence[str], *, now: int | None = None) -> list[Answer]:
        places = [records.letter_place(id_) for id_ in ids]
        return [
            self.parts[at].replay(self._now(now), int(place.partition("-")[0])) if at < self.partitions else Answer.STALE
            for at, place in places
        ]

    async def purge(self) -> int:
        self.parts = self._new_parts()
        self.homes.clear()
        return 0


def _order(letter_id: str) -> tuple[int, ...]:
    return tuple(int(number) for number in letter_id.replace("-", ":").split(":") if number)


def _info(name: str, row: Row) -> GroupInfo:
    return GroupInfo(
        name, row.turns, tuple(sorted(row.bands)), row.next_ms, row.delay_ms, row.until_ms, row.pace
    )
