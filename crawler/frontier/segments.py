"""From rows on disk to done: seal, decide, settle. See the package's docstring for the order, invariants 4, 6 and 7
for the reason.

A segment's decision is made once, in the partition of its name, and stands for ever. Its effects are carried into
the others by `settle`, which anyone may repeat.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawler.errors import FrontierMismatch, ProtocolError
from crawler.frontier import records
from crawler.frontier.calls import ANSWERS, Calls, chunked
from crawler.frontier.link import Argument
from crawler.frontier.types import Answer, Candidate, Decided, Decision, Named, Pending, Sealed

SETTLE = 500
"""URLs that one script settles at most."""

OUTBOX = 500
"""Entries of one partition's outbox that one `pending` brings, more or less."""

_LETTERS = {Decision.PUBLISHED: b"P", Decision.ABORTED: b"A"}
_DECISIONS = {letter: decision for decision, letter in _LETTERS.items()}


class Segments(Calls):
    """Sealing and what comes after it."""

    async def seal(
        self, worker: str, rows: Sequence[Named], segment: str, *, strict: bool = True, now: int | None = None
    ) -> Sealed:
        """The rows of these held URLs are on disk in ``segment``; ``worker`` answers for it from now on.

        APPLIED, ALREADY, STALE (strike the row), or ABORTED (strike it and release the URL). Without rows every
        partition is asked, and the total is the segment's. Raises ProtocolError when a URL is still leased, because
        `fetched` was not answered for it; with ``strict=False`` the answer is LEASED: the way to seal again after a
        server lost its last second.
        """
        letters: list[str] = [""] * len(rows)
        parts: dict[int, list[int]] = {} if rows else {partition: [] for partition in range(self.partitions)}
        for i, row in enumerate(rows):
            parts.setdefault(self.partition_of(row.group), []).append(i)
        self.homes[worker].update(parts)
        totals = dict.fromkeys(parts, 0)

        async def part(partition: int, chosen: Sequence[int]) -> None:
            args: list[Argument] = [now or 0, self.turns, worker, self.session_ms, segment]
            for i in chosen:
                args += (rows[i].token, records.tail_of(rows[i].group, rows[i].record))
            reply, total = await self.link.run("seal", partition, args)
            for i, letter in zip(chosen, reply.decode(), strict=True):
                letters[i] = letter
            totals[partition] = max(totals[partition], total)

        await self._all([part(partition, chosen) for partition, chosen in chunked(parts)])
        answers = [ANSWERS[letter] for letter in letters]
        if strict and Answer.LEASED in answers:
            bad = rows[answers.index(Answer.LEASED)]
            raise ProtocolError(f"sealed while leased, without `fetched`: token {bad.token.hex()}")
        return Sealed(answers, sum(totals.values()))

    async def decide(self, segment: str, decision: Decision, manifest: str = "", *, now: int | None = None) -> Decided:
        """Decide what becomes of a segment, unless that is decided. Returns the decision that stands, with its
        manifest."""
        args: list[Argument] = [now or 0, segment, _LETTERS[decision], manifest]
        return _decided(await self.link.run("decide", self.partition_of(segment), args))

    async def decision(self, segment: str) -> Decided | None:
        """The decision about a segment, None while there is none. Its manifest is "" once that is known to stand."""
        stored = await self.link.command("HGET", self.link.key(self.partition_of(segment), "decisions"), segment)
        return None if stored is None else _decided(stored)

    async def settle(self, segment: str, decision: Decision, *, now: int | None = None) -> None:
        """Carry a decision into every partition: its URLs are done, or queued again. May be repeated by anyone, at
        any time."""
        await self._all([self._settle_in(partition, segment, decision, now) for partition in range(self.partitions)])

    async def _settle_in(self, partition: int, segment: str, decision: Decision, now: int | None) -> None:
        left = 1
        while left:
            if decision is Decision.PUBLISHED:
                left = await self.link.run("publish", partition, [now or 0, segment, SETTLE])
            else:
                left = await self.link.run("abort", partition, [now or 0, self.turns, segment, SETTLE])
                self.due.expect(partition)

    async def finished(self, segment: str, *, now: int | None = None) -> None:
        """A decision's effects are everywhere and its manifest stands: its text is no longer kept, the decision
        is."""
        await self.link.run("finished", self.partition_of(segment), [now or 0, segment])

    async def publish(self, segment: str, manifest: str, *, now: int | None = None) -> Decided:
        """Decide to publish, and carry out whatever was decided. The manifest is the caller's to write, then
        `finished`."""
        return await self._decide_and_settle(segment, Decision.PUBLISHED, manifest, now)

    async def abort(self, segment: str, *, now: int | None = None) -> Decided:
        """Decide to abort, and carry out whatever was decided."""
        return await self._decide_and_settle(segment, Decision.ABORTED, "", now)

    async def _decide_and_settle(self, segment: str, decision: Decision, manifest: str, now: int | None) -> Decided:
        decided = await self.decide(segment, decision, manifest, now=now)
        await self.settle(segment, decided.decision, now=now)
        return decided

    async def pending(self, *, settled_ms: int = 0, now: int | None = None) -> Pending:
        """What anyone may carry out: redirects in the outbox for at least ``settled_ms``, segments decided and not
        finished.

        A redirect's source is done, and is still after a server lost its last second, once its entry is on disk:
        after two seconds with appendfsync everysec. Entries that cannot be read any more are left where they are.
        """
        outbox: list[tuple[int, bytes, Candidate]] = []
        segments: list[str] = []
        parts = [self.link.run("pending", partition, [now or 0, OUTBOX]) for partition in range(self.partitions)]
        for partition, (server_now, names, *entries) in enumerate(await self._all(parts)):
            segments += [name.decode() for name in names]
            for token, entry in zip(entries[::2], entries[1::2], strict=True):
                candidate, made = records.unpack_entry(entry, self.fingerprint)
                if made + settled_ms <= server_now:
                    outbox.append((partition, token, candidate))
        return Pending(outbox, segments)

    async def ack(self, carried: Sequence[tuple[int, bytes]]) -> None:
        """Strike redirects, each (partition, token), whose targets `add` has answered for."""
        parts: dict[int, list[bytes]] = {}
        for partition, token in carried:
            parts.setdefault(partition, []).append(token)
        for partition, tokens in parts.items():
            await self.link.command("HDEL", self.link.key(partition, "outbox"), *tokens)


def _decided(stored: bytes) -> Decided:
    if stored[0] != records.VERSION:
        raise FrontierMismatch(f"a decision of version {stored[0]}; this program knows {records.VERSION}")
    return Decided(_DECISIONS[stored[1:2]], stored[3:].decode())
