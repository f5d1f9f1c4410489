"""The frontier in Redis. One method per transition; each takes a batch and makes one call per partition.

Every call may be repeated after a lost reply with the same effect once. ``now`` (milliseconds) stands for the
server's clock in tests. Any call may raise FrontierUnavailable, when the server could not be reached for `patience`
seconds, and FrontierError.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final

from redis.asyncio import Redis

from crawler.errors import BadInput, FrontierMismatch
from crawler.frontier import keys, policy, records
from crawler.frontier.calls import chunked
from crawler.frontier.durability import Durability
from crawler.frontier.forget import Forgetting
from crawler.frontier.link import Argument, Link
from crawler.frontier.operators import Operators
from crawler.frontier.segments import Segments
from crawler.frontier.tokens import Asked
from crawler.frontier.types import (
    Added,
    Candidate,
    Handle,
    Holding,
    LeaseReply,
    Reclaimed,
    Reserved,
)
from crawler.options import Options
from crawler.urls import DROPPED_PARAMETERS, fingerprint

PROMOTE: Final = 200
"""Delayed URLs taken back in one lease call."""

RECLAIM: Final = 200
"""Leases taken back in one reclaim call of a partition."""

TURN_PATIENCE_MS: Final = 500
"""When to ask again for a group whose turn somebody has."""

_ADDED = {"A": Added.ADDED, "S": Added.SEEN, "G": Added.AGAIN}


class Frontier(Operators, Forgetting, Segments, Durability):
    """All URLs of one crawl; see the package's docstring for their life. Made by `open`."""

    @classmethod
    async def open(
        cls,
        client: Redis,
        options: Options | None = None,
        *,
        servers: Sequence[str] = (),
        patience: float = 5.0,
        revive: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        rand: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> Frontier:
        """Open the crawl of ``options``, or create it.

        ``client`` answers bytes and has its own retries off. ``servers`` names the servers of the partitions, in
        order, where there are several. Raises FrontierMismatch when the crawl was created with others, or with
        other partitions, bands or groups.
        """
        options = options or Options()
        link = Link(client, options.crawl_id, patience=patience, revive=revive, clock=clock, sleep=sleep)
        frontier = cls(link, options, clock, rand)
        await frontier._create_or_check(servers)
        return frontier

    def __init__(
        self, link: Link, options: Options, clock: Callable[[], float], rand: Callable[[], float] = random.random
    ) -> None:
        dropped = frozenset(options.url_parameters_ignored) or DROPPED_PARAMETERS
        super().__init__(link, options, partial(fingerprint, drop=dropped), clock, rand)
        self._asked = Asked()
        self._reclaim_at: list[float] = [0.0] * options.frontier_partitions

    async def _create_or_check(self, servers: Sequence[str]) -> None:
        options = self.options
        made = {
            "version": records.VERSION,
            "partitions": options.frontier_partitions,
            "bands": options.frontier_bands,
            "politeness_key": options.politeness_key,
            "url_parameters_ignored": sorted(options.url_parameters_ignored),
            "servers": list(servers),
        }
        self._made = json.dumps(made, sort_keys=True)
        new = await self._make()
        stored = json.loads(await self.link.command("HGET", self.link.key(0, keys.CRAWL), "made"))
        differing = [
            f"{name} {stored.get(name)!r}, not {value!r}" for name, value in made.items() if stored.get(name) != value
        ]
        if differing:
            raise FrontierMismatch(f"crawl {options.crawl_id!r} was made with {'; '.join(differing)}")
        await self._note_restart(new=new)

    async def close(self) -> None:
        """Forget what is known locally. The client is its maker's to close; leases end by their outcomes or
        deadlines."""
        self._asked.clear()
        self.homes.clear()

    # Adding

    async def add(self, candidates: Sequence[Candidate], *, now: int | None = None) -> list[Added]:
        """Mark candidates as seen and queue those that are new, in one step. Answers come in the order of the
        candidates.

        A member of its own redirect chain, up to MAX_HOPS long, is taken AGAIN once for each length of the chain.
        Raises BadInput for what is no URL in wire form.
        """
        parts: defaultdict[int, list[int]] = defaultdict(list)
        for i, candidate in enumerate(candidates):
            parts[self.partition_of(candidate.group)].append(i)
        # All is packed before anything is sent: a bad candidate leaves nothing half done.
        calls = [(partition, *_runs(chosen, candidates, self.bands)) for partition, chosen in chunked(parts)]
        replies = await self._all([self._add_runs(partition, runs, now) for partition, _, runs in calls])
        answers: list[Added] = [Added.SEEN] * len(candidates)
        for (_, order, _), letters in zip(calls, replies, strict=True):
            for i, letter in zip(order, letters, strict=True):
                answers[i] = _ADDED[letter]
        return answers

    async def _add_runs(self, partition: int, runs: Sequence[Argument], now: int | None) -> str:
        letters, epoch = await self.link.run("add", partition, [now or 0, self.turns, *runs])
        self.epochs[partition] = epoch
        answers: str = letters.decode()
        if answers.strip("S"):
            self.due.expect(partition)
        return answers

    # Leasing

    async def lease(
        self, tokens: Sequence[bytes], worker: str, partition: int | None = None, *, now: int | None = None
    ) -> LeaseReply:
        """Grant one URL per token, as far as groups are due. The same tokens bring the same grants again.

        Tokens are 16 random bytes, new for every URL. Without ``partition`` those that are due are asked, one after
        the other. When the call fails, ask again with the same tokens: some may have been granted.
        """
        asked = self.clock()
        known, fresh = self._asked.split(tokens)
        replies = [await self._lease_in(where, mine, worker, asked, now) for where, mine in known.items()]
        for where in self._lease_order(partition, now) if fresh else ():
            replies.append(await self._lease_in(where, fresh, worker, asked, now))
            granted = {lease.token for lease in replies[-1].leases}
            fresh = [token for token in fresh if token not in granted]
            if not fresh:
                break
        leases = [lease for reply in replies for lease in reply.leases]
        server_now = max((reply.now_ms for reply in replies), default=now or self.server_ms())
        if partition is None and now is None:
            wait = self.due.soonest_ms()
            return LeaseReply(leases, None if wait is None else server_now + wait, server_now)
        due = [reply.next_due_ms for reply in replies if reply.next_due_ms is not None]
        return LeaseReply(leases, min(due, default=None), server_now)

    def _lease_order(self, partition: int | None, now: int | None) -> Iterable[int]:
        if partition is not None:
            return (partition,)
        return self.due.plan() if now is None else range(self.partitions)

    async def _lease_in(
        self, partition: int, tokens: list[bytes], worker: str, asked: float, now: int | None
    ) -> LeaseReply:
        options = self.options
        self._asked.note(partition, tokens)
        began = self.due.ask(partition)
        self.homes[worker].add(partition)
        args: list[Argument] = [now or 0, self.turns, worker, self.lease_ms, self.session_ms, self.bands]
        raw = await self.link.run("lease", partition, [*args, PROMOTE, policy.ALONE_FROM, *tokens])
        server_now, due = int(raw[0]), int(raw[1])
        self.heard_clock(server_now)
        leases = [
            records.unpack_grant(raw[at], raw[at + 1], raw[at + 2], asked, self.fingerprint)
            for at in range(2, len(raw), 3)
        ]
        self._asked.free(set(tokens) - {lease.token for lease in leases})
        self.due.heard(partition, None if due < 0 else due - server_now, began)
        self._reclaim_soon(partition, min(options.lease_ttl, options.session_ttl))
        return LeaseReply(leases, None if due < 0 else due, server_now)

    async def heartbeat(self, worker: str, *, everywhere: bool = False, now: int | None = None) -> list[Holding]:
        """Keep the worker's sessions; tell what is held and sealed for it.

        Only partitions in which this process has leased or sealed for the worker are asked, unless ``everywhere``.
        """
        homes = range(self.partitions) if everywhere else sorted(self.homes[worker])
        return await self._all([self._heartbeat_in(at, worker, self.session_ms, now) for at in homes])

    async def _heartbeat_in(self, partition: int, worker: str, session_ms: int, now: int | None) -> Holding:
        raw = await self.link.run("heartbeat", partition, [now or 0, self.turns, worker, session_ms])
        self.heard_clock(int(raw[0]))
        held = [Handle(bytes(raw[at]), *records.split_row(bytes(raw[at + 1]))) for at in range(2, len(raw), 2)]
        return Holding(held, [name.decode() for name in raw[1]])

    async def leave(self, worker: str, *, now: int | None = None) -> None:
        """End the worker's sessions: what it still holds is taken back by the next `reclaim`, its sealed URLs after
        SPOOL_GRACE."""
        await self._all([self._heartbeat_in(at, worker, 0, now) for at in self.homes.pop(worker, ())])

    async def reserve(self, token: bytes, group: str, *, now: int | None = None) -> Reserved:
        """Take a group's turn without a URL, for as long as a lease lasts; ended by `fetched_turn`, or by its
        deadline."""
        partition = self.partition_of(group)
        records.group_name(group)
        args: list[Argument] = [now or 0, self.turns, token, group, self.lease_ms, TURN_PATIENCE_MS]
        granted, at, pace, server_now = await self.link.run("reserve", partition, args)
        self._reclaim_soon(partition, self.options.lease_ttl)
        self.heard_clock(server_now)
        return Reserved(bool(granted), at if granted else 0, 0 if granted else at, bytes(pace), server_now)

    # Taking back

    async def reclaim(self, *, now: int | None = None) -> Reclaimed:
        """Take back what nobody works on any more, a bounded number per call; in partitions only where there may be
        something.

        After the server was lost or restarted nothing is taken back for a session's length: sessions could not be
        kept meanwhile.
        """
        clock = self.clock()
        if now is None and clock - self.link.lost_at < self.options.session_ttl:
            return Reclaimed()
        asked = [p for p in range(self.partitions) if now is not None or self._reclaim_at[p] <= clock]
        parts = await self._all([self._reclaim_in(partition, now) for partition in asked])
        return Reclaimed(
            sum(part.expired for part in parts),
            sum(part.dead for part in parts),
            sum(part.turns for part in parts),
            sorted({segment for part in parts for segment in part.segments}),
        )

    async def _reclaim_in(self, partition: int, now: int | None) -> Reclaimed:
        options = self.options
        ladder = [
            int(1000 * policy.retry_delay(step, options.retry_delays, self.rand()))
            for step in range(1, len(options.retry_delays) + 1)
        ]
        args = [now or 0, self.turns, RECLAIM, options.max_expiries, int(options.spool_grace * 1000), *ladder]
        server_now, expired, dead, turns, more, segments = await self.link.run("reclaim", partition, args)
        self.heard_clock(server_now)
        longest = min(options.session_ttl, options.lease_ttl)
        wait = longest if more < 0 else max(0.0, (more - server_now) / 1000)
        self._reclaim_at[partition] = self.clock() + min(wait, longest)
        if expired or turns:
            self.due.expect(partition)
        return Reclaimed(expired, dead, turns, [name.decode() for name in segments])

    def _reclaim_soon(self, partition: int, wait: float) -> None:
        self._reclaim_at[partition] = min(self._reclaim_at[partition], self.clock() + wait)


def _runs(chosen: Sequence[int], candidates: Sequence[Candidate], bands: int) -> tuple[list[int], list[Argument]]:
    """The order in which candidates are sent, and the arguments of add.lua: runs of one group, band and form."""
    sorted_runs: dict[tuple[str, int, bool], list[int]] = {}
    met: set[tuple[int, bool]] = set()
    for i in chosen:
        candidate = candidates[i]
        chain = candidate.chain
        again = bool(chain) and candidate.key in chain and len(chain) <= policy.MAX_HOPS
        if (candidate.key, again) in met:  # the first counts, whichever run comes first; the others are SEEN
            continue
        met.add((candidate.key, again))
        if not 0 <= candidate.band < bands:
            raise BadInput(f"band {candidate.band} of {candidate.url!r}: there are {bands}")
        sorted_runs.setdefault((candidate.group, candidate.band, again), []).append(i)
    order: list[int] = []
    args: list[Argument] = []
    for (group, band, again), members in sorted_runs.items():
        order += members
        args += (records.group_name(group), band, -len(members) if again else len(members))
        for i in members:
            candidate = candidates[i]
            args.append(candidate.key)
            if again:
                args.append(len(candidate.chain))
            args.append(records.pack_record(candidate))
    return order, args
