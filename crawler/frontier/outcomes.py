"""What becomes of leases: fetched, and the outcomes without a document."""

from __future__ import annotations

from collections.abc import Sequence

from crawler.frontier import policy, records
from crawler.frontier.calls import ANSWERS, Calls
from crawler.frontier.link import Argument
from crawler.frontier.states import State
from crawler.frontier.types import Answer, Burial, Completion, Failure, Handback, Handle, Lease, Named, Wire

_FATES = {State.DELAYED: "D", State.QUEUED: "Q", State.DEAD: "X"}
_WENT = {letter: state for state, letter in _FATES.items()}


class Outcomes(Calls):
    """Every lease ends in exactly one of these, in a seal, or by expiry (invariant 3)."""

    async def fetched(self, ended: Sequence[tuple[Named, Wire]], *, now: int | None = None) -> list[Answer]:
        """The requests of these leases have ended: their groups' delays run from there. APPLIED, ALREADY or STALE.

        A turn ends even when the answer is STALE.
        """
        leases = [lease for lease, _ in ended]
        letters = await self._by_token("fetched", self._head(now), leases, lambda i: (self._wire(*ended[i]),))
        return [ANSWERS[letter] for letter in letters]

    async def fetched_turn(self, token: bytes, group: str, wire: Wire | None, *, now: int | None = None) -> None:
        """End a turn that `reserve` granted; without a ``wire`` no request was made."""
        turn = Handle(token, group, b"")
        await self._by_token("fetched", self._head(now), [turn], lambda _: (self._wire(turn, wire),))

    async def complete(self, completions: Sequence[Completion], *, now: int | None = None) -> list[Answer]:
        """These URLs are done without a document; redirects' targets go into the outbox. APPLIED or STALE."""

        def rest(i: int) -> Sequence[Argument]:
            done = completions[i]
            target = records.pack_entry(done.redirect.candidate) if done.redirect else b""
            return (self._wire(done.lease, done.wire), done.reason, target)

        letters = await self._by_token("complete", self._head(now), [done.lease for done in completions], rest)
        return [ANSWERS[letter] for letter in letters]

    async def retry(self, failures: Sequence[Failure], *, now: int | None = None) -> list[State | None]:
        """These attempts failed. Returns where each URL went by `policy.after_failure`; None: STALE.

        A group that has failed for OFFLINE_AFTER is declared offline: its waiting URLs go to the dead letters.
        """
        fates = [self._fate(failure) for failure in failures]

        def rest(i: int) -> Sequence[Argument]:
            failure, fate = failures[i], fates[i]
            record = records.with_failure(failure.lease.record, fate.code)
            wire = self._wire(failure.lease, failure.wire)
            return (wire, _FATES[fate.state], failure.kind, round(fate.delay * 1000), failure.not_before_ms, record)

        letters = await self._by_token("retry", self._head(now), [failure.lease for failure in failures], rest)
        for group in {failure.lease.group for failure in failures if self._is_offline(failure, now)}:
            await self.offline(group, now=now)
        return [_WENT.get(letter) for letter in letters]

    def _fate(self, failure: Failure) -> policy.Fate:
        pace = failure.lease.pace if isinstance(failure.lease, Lease) else b""
        trail = records.trail_of(failure.lease.record)
        failures = policy.Pace.unpack(pace).failures
        return policy.after_failure(trail, failure.kind, failures, self.options, self.rand())

    def _is_offline(self, failure: Failure, now: int | None) -> bool:
        if failure.wire is None or not failure.wire.pace:
            return False
        pace = policy.Pace.unpack(failure.wire.pace)
        return policy.is_offline(pace, now or self.server_ms(), self.options)

    async def release(self, handbacks: Sequence[Handback | Named], *, now: int | None = None) -> list[Answer]:
        """These URLs go back to the heads of their queues, no attempt counted. APPLIED or STALE."""
        backs = [item if isinstance(item, Handback) else Handback(item) for item in handbacks]

        def rest(i: int) -> Sequence[Argument]:
            return (self._wire(backs[i].lease, backs[i].wire), backs[i].not_before_ms)

        letters = await self._by_token("release", self._head(now), [back.lease for back in backs], rest)
        return [ANSWERS[letter] for letter in letters]

    async def bury(self, burials: Sequence[Burial], *, now: int | None = None) -> list[Answer]:
        """These URLs are given up now. APPLIED or STALE."""

        def rest(i: int) -> Sequence[Argument]:
            return (self._wire(burials[i].lease, burials[i].wire), burials[i].reason)

        letters = await self._by_token("bury", self._head(now), [burial.lease for burial in burials], rest)
        return [ANSWERS[letter] for letter in letters]

    async def offline(self, group: str, *, now: int | None = None) -> int:
        """Declare a group offline: what waits there is dead with that reason. Returns how many URLs."""
        return await self._clear(group, "dead", "offline", now)

    async def _clear(self, group: str, to: str, reason: str, now: int | None) -> int:
        partition, total, offset = self.partition_of(group), 0, 0
        while offset >= 0:
            args: list[Argument] = [*self._head(now), group, to, reason, self.bands, 500, offset]
            moved, offset = await self.link.run("clear", partition, args)
            total += moved
        return total

    def _head(self, now: int | None) -> list[Argument]:
        return [now or 0, self.turns]
