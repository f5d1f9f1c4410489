"""From a candidate to a lease's outcome without a document: what these scripts do, in plain Python. Times are ms."""

from __future__ import annotations

from collections.abc import Sequence

from crawler.frontier import policy, records
from crawler.frontier.client import PROMOTE
from crawler.frontier.model.ground import Ground, Owned
from crawler.frontier.states import State
from crawler.frontier.types import Added, Answer, Named, Wire


class Fetching(Ground):
    """add, lease, fetched, complete, retry, release, bury."""

    def add(self, now: int, key: int, band: int, group: str, record: bytes, chain: tuple[int, ...]) -> Added:
        now = self.at(now) if key not in self.seen else now
        if key not in self.seen:
            self.seen.add(key)
            self.counts["added"] += 1
            answer, source = Added.ADDED, None
        elif key in chain and len(chain) <= policy.MAX_HOPS and (key, len(chain)) not in self.hops:
            now = self.at(now)
            self.hops.add((key, len(chain)))
            answer, source = Added.AGAIN, State.DONE
        else:
            return Added.SEEN
        self.move(source, State.QUEUED)
        self.push(band, group, [record], now)
        return answer

    def lease(
        self, now: int, tokens: Sequence[bytes], worker: str, lease_ms: int, session_ms: int
    ) -> tuple[list[bytes], int | None, int]:
        """Tokens that hold a lease now, when to ask again, and the time."""
        now = self.at(now)
        granted = [t for t in tokens if t in self.owned and self.owned[t].state is State.LEASED]
        free = [t for t in tokens if t not in self.owned]
        self.promote(now)
        self.sessions[worker] = now + session_ms
        waiting = [self._waiting(band, now) for band in range(self.band_count)]
        for i, token in enumerate(free):
            band = self._choose(waiting)
            if band is None:
                break
            group = waiting[band][0]
            queue = self.queues[band, group]
            lonely = policy.expiries(records.trail_of(queue[0])) >= policy.ALONE_FROM
            if lonely and i:
                break
            self.turn += 1
            row = self.rows[group]
            row.turns += (token, group) not in self.turns
            self.owned[token] = Owned(State.LEASED, band, group, queue.popleft(), worker, now, now + lease_ms)
            self.turns[token, group] = now + lease_ms
            if not queue:
                row.bands.discard(band)
            self.move(State.QUEUED, State.LEASED)
            granted.append(token)
            if lonely:
                break
        for token in granted:
            self.index(self.owned[token].group, now)
        return granted, self.next_due(), now

    def promote(self, now: int) -> None:
        ready = sorted(
            (due, bytes((band,)) + records.tail_of(group, record), (band, group, record))
            for (band, group, record), due in self.delayed.items()
            if due <= now
        )[:PROMOTE]
        for _, _, url in ready:
            del self.delayed[url]
            self.move(State.DELAYED, State.QUEUED)
        self.push_heads((url for _, _, url in ready), now)

    def _waiting(self, band: int, now: int) -> list[str]:
        return [name for due, name in sorted((due, name) for name, due in self.due[band].items()) if due <= now]

    def _choose(self, waiting: list[list[str]]) -> int | None:
        for band, names in enumerate(waiting):
            while names and (self.rows[names[0]].turns >= self.turns_at_once or band not in self.rows[names[0]].bands):
                names.pop(0)
        open_bands = [band for band, names in enumerate(waiting) if names]
        preferred = policy.band_of_turn(self.turn + 1, self.band_count)
        if preferred is None:
            return min(open_bands, key=lambda band: self.due[band][waiting[band][0]], default=None)
        return preferred if preferred in open_bands else min(open_bands, default=None)

    def fetched(self, now: int, item: Named, wire: Wire | None) -> Answer:
        self.end_turn(item, wire, now)
        owned = self.mine(item)
        if owned is None:
            return Answer.STALE
        if owned.state is not State.LEASED:
            return Answer.ALREADY
        owned.state = State.HELD
        self.move(State.LEASED, State.HELD)
        return Answer.APPLIED

    def complete(self, now: int, item: Named, wire: Wire | None, reason: str, target: bytes) -> Answer:
        self.end_turn(item, wire, now)
        left = self.leave(item)
        if left is None:
            return Answer.STALE
        self.move(left[0], State.DONE)
        self.reasons[reason] += 1
        if target:
            self.outbox[item.token] = (now, target)
        return Answer.APPLIED

    def retry(
        self, now: int, item: Named, wire: Wire | None, fate: policy.Fate, kind: str, not_before: int
    ) -> State | None:
        self.end_turn(item, wire, now)
        left = self.leave(item)
        if left is None:
            return None
        state, owned = left
        record = records.with_failure(owned.record, fate.code)
        if fate.state is State.DELAYED:
            self.delayed[owned.band, owned.group, record] = max(now + round(fate.delay * 1000), not_before)
        elif fate.state is State.QUEUED:
            self.push(owned.band, owned.group, [record], now)
        else:
            self.bury_url(owned.band, owned.group, record, kind, now)
        self.move(state, fate.state)
        return fate.state

    def release(self, now: int, item: Named, wire: Wire | None, not_before: int) -> tuple[int, str, bytes] | Answer:
        """STALE; APPLIED when the URL is delayed; else what is to be put at the head of its queue."""
        self.end_turn(item, wire, now)
        left = self.leave(item)
        if left is None:
            return Answer.STALE
        state, owned = left
        if not_before > now and not_before > self.row(owned.group).next_ms:
            self.delayed[owned.band, owned.group, owned.record] = not_before
            self.move(state, State.DELAYED)
            return Answer.APPLIED
        self.move(state, State.QUEUED)
        return owned.band, owned.group, owned.record

    def bury(self, now: int, item: Named, wire: Wire | None, reason: str) -> Answer:
        self.end_turn(item, wire, now)
        left = self.leave(item)
        if left is None:
            return Answer.STALE
        state, owned = left
        self.bury_url(owned.band, owned.group, owned.record, reason, now)
        self.move(state, State.DEAD)
        return Answer.APPLIED
