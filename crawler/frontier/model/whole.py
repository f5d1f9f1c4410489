"""The partitions of the model together, as `Frontier` has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from crawler.errors import BadInput, ProtocolError
from crawler.frontier import policy, records
from crawler.frontier.client import TURN_PATIENCE_MS
from crawler.frontier.model.base import Part
from crawler.frontier.model.ground import Row
from crawler.frontier.model.operators import Operators
from crawler.frontier.states import State
from crawler.frontier.types import (
    Added,
    Answer,
    Burial,
    Candidate,
    Completion,
    Decided,
    Decision,
    Failure,
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
    Wire,
)

T = TypeVar("T")


class Model(Operators):
    """See `Frontier` for what the methods do; here they never fail for want of a server."""

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
        asked, at_now = self.clock(), self._now(now)
        known, fresh = self._asked.split(tokens)
        leases: list[Lease] = []
        replies: list[tuple[int | None, int]] = []

        def ask(at: int, mine: list[bytes]) -> None:
            part = self.parts[at]
            self.homes[worker].add(at)
            granted, due, server_now = part.lease(at_now, mine, worker, self._lease_ms, self._session_ms)
            self._asked.note(at, granted)
            self._asked.free(set(mine) - set(granted))
            leases.extend(self._lease_of(part, token, asked) for token in granted)
            replies.append((due, server_now))

        for at, mine in known.items():
            ask(at, mine)
        for at in range(self.partitions) if partition is None else (partition,):
            fresh = [token for token in fresh if token not in {lease.token for lease in leases}]
            if fresh:
                ask(at, fresh)
        due = [soonest for soonest, _ in replies if soonest is not None]
        return LeaseReply(leases, min(due, default=None), max((now_ms for _, now_ms in replies), default=at_now))

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
