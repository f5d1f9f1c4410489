"""Segments, turns without a URL, taking back, operators: what these scripts do, in plain Python. Times are ms."""

from __future__ import annotations

from collections.abc import Sequence

from crawler.frontier import policy, records
from crawler.frontier.client import RECLAIM
from crawler.frontier.model.ground import Ground, Row
from crawler.frontier.states import State
from crawler.frontier.types import Answer, Decided, Decision, Named


class Keeping(Ground):
    """seal, decide, settle, finished, reserve, reclaim, clear, replay, discard, forget, rule."""

    def seal(
        self, now: int, worker: str, session_ms: int, items: Sequence[Named], segment: str
    ) -> tuple[list[Answer], int]:
        now = self.at(now)
        tokens = self.segments.get(segment, ("", set()))[1]
        inside, answers, met = set(tokens), list[Answer](), set[bytes]()
        for item in items:
            owned = self.mine(item) if item.token not in met else None
            met.add(item.token)
            if owned is None:
                answers.append(Answer.STALE)
            elif owned.state is State.LEASED:
                answers.append(Answer.LEASED)
            elif owned.state is State.SEALED:
                answers.append(Answer.ALREADY if item.token in inside else Answer.STALE)
            elif segment in self.aborted:
                answers.append(Answer.ABORTED)
            else:
                owned.state = State.SEALED
                tokens.add(item.token)
                self.move(State.HELD, State.SEALED)
                answers.append(Answer.APPLIED)
        if tokens:
            self.segments[segment] = (worker, tokens)
            self.sessions[worker] = now + session_ms
        return answers, len(tokens)

    def settle(self, now: int, segment: str, decision: Decision) -> None:
        now = self.at(now)
        if decision is Decision.ABORTED:
            self.aborted.add(segment)
        _, tokens = self.segments.pop(segment, ("", set()))
        urls = [self.owned.pop(token) for token in sorted(tokens)]
        target = State.DONE if decision is Decision.PUBLISHED else State.QUEUED
        for _ in urls:
            self.move(State.SEALED, target)
        if target is State.QUEUED:
            self.push_heads(((url.band, url.group, url.record) for url in urls), now)

    def decide(self, now: int, segment: str, decision: Decision, manifest: str) -> Decided:
        if segment not in self.decisions:
            self.at(now)
            self.decisions[segment] = Decided(decision, manifest)
            self.pending.add(segment)
            self.counts["moves"] += 1
        return self.decisions[segment]

    def finished(self, now: int, segment: str) -> None:
        if segment in self.decisions:
            self.at(now)
            self.decisions[segment] = Decided(self.decisions[segment].decision, "")
            self.counts["moves"] += segment in self.pending
            self.pending.discard(segment)

    def reserve(self, now: int, token: bytes, group: str, lease_ms: int, patience: int) -> tuple[int, int, int]:
        """(deadline, 0, now) or (0, when to ask again, now)."""
        now = max(self.latest, now)
        if (token, group) in self.turns:
            return self.turns[token, group], 0, now
        row = self.rows.get(group, Row())
        if row.turns >= self.turns_at_once:
            return 0, max(row.next_ms, now + patience), now
        free_at = max(row.next_ms, row.until_ms)
        if free_at > now:
            return 0, free_at, now
        self.at(now)
        self.row(group).turns += 1
        self.turns[token, group] = now + lease_ms
        self.index(group, now)
        return now + lease_ms, 0, now

    def reclaim(self, now: int, most: int, grace: int, ladder: Sequence[int]) -> tuple[int, int, int, list[str]]:
        """URLs expired, dead of it, turns ended, segments to abort."""
        now = max(self.latest, now)
        turns = ((deadline, token + group.encode(), token, group) for (token, group), deadline in self.turns.items())
        late = sorted(turn for turn in turns if turn[0] <= now)[:RECLAIM]
        leased = [t for _, _, t, group in late if t in self.owned and self._leased_in(t, group)]
        over = sorted((end, worker) for worker, end in self.sessions.items() if end < now)
        orphans = [token for _, worker in over for token in self._owned_by(worker)][:RECLAIM]
        orphans = [token for token in orphans if token not in leased]
        doomed: list[str] = []
        for end, worker in over:
            theirs = [segment for segment, (owner, _) in self.segments.items() if owner == worker]
            if not theirs and not self._owned_by(worker):
                del self.sessions[worker]
            elif end + grace < now:
                doomed += theirs
        heads, dead = [], 0
        for token in leased + orphans:
            went = self._expire(now, token, most, ladder)
            dead += went is State.DEAD
            if isinstance(went, tuple):
                heads.append(went)
        for deadline, _, token, group in late:
            del self.turns[token, group]
            row = self.row(group)
            row.turns -= 1
            row.next_ms = max(row.next_ms, deadline + max(row.delay_ms, row.least_ms))
        self.push_heads(heads, now)
        for _, _, _, group in late:
            self.index(group, now)
        if late or orphans:
            self.at(now)
        return len(leased + orphans), dead, len(late), doomed

    def _leased_in(self, token: bytes, group: str) -> bool:
        owned = self.owned[token]
        return owned.state is State.LEASED and owned.group == group

    def _owned_by(self, worker: str) -> list[bytes]:
        return sorted(t for t, o in self.owned.items() if o.worker == worker and o.state is not State.SEALED)

    def _expire(self, now: int, token: bytes, most: int, ladder: Sequence[int]) -> State | tuple[int, str, bytes]:
        owned = self.owned.pop(token)
        record = records.with_failure(owned.record, policy.KINDS["expired"].code)
        met = policy.expiries(records.trail_of(record))
        self.counts["expiries"] += 1
        if met >= most:
            self.bury_url(owned.band, owned.group, record, "poison", now)
            self.move(owned.state, State.DEAD)
            return State.DEAD
        if met == 1 or not ladder:
            self.move(owned.state, State.QUEUED)
            return owned.band, owned.group, record
        self.delayed[owned.band, owned.group, record] = now + ladder[min(met - 2, len(ladder) - 1)]
        self.move(owned.state, State.DELAYED)
        return State.DELAYED

    def clear(self, now: int, group: str, target: State, reason: str) -> int:
        now = self.at(now)
        moved = 0
        for band in range(self.band_count):
            for record in self.queues.pop((band, group), ()):
                moved += 1
                self._end_waiting(State.QUEUED, target, band, group, record, reason, now)
        for band, name, record in [url for url in self.delayed if url[1] == group]:
            del self.delayed[band, name, record]
            moved += 1
            self._end_waiting(State.DELAYED, target, band, group, record, reason, now)
        if group in self.rows:
            self.rows[group].bands.clear()
            self.index(group, now)
        return moved

    def _end_waiting(
        self, source: State, target: State, band: int, group: str, record: bytes, reason: str, now: int
    ) -> None:
        if target is State.DEAD:
            self.bury_url(band, group, record, reason, now)
        else:
            self.reasons[reason] += 1
        self.move(source, target)

    def replay(self, now: int, id_: int) -> Answer:
        letter = self.letters.pop(id_, None)
        if letter is None:
            return Answer.STALE
        now = self.at(now)
        self.move(State.DEAD, State.QUEUED)
        self.push(letter.band, letter.group, [records.with_failure(letter.record, policy.REPLAYED)], now)
        return Answer.APPLIED

    def discard(self, now: int, id_: int) -> Answer:
        if self.letters.pop(id_, None) is None:
            return Answer.STALE
        self.at(now)
        self.move(State.DEAD, State.DONE)
        return Answer.APPLIED

    def forget(self, now: int, group: str, key: int, fingerprint: records.Fingerprint) -> State:
        def is_it(name: str, record: bytes) -> bool:
            return name == group and records.unpack_record(record, group, 0, fingerprint).key == key

        if key not in self.seen:
            return State.UNKNOWN
        if any(is_it(name, record) for (_, name), queue in self.queues.items() for record in queue):
            return State.QUEUED
        if any(is_it(name, record) for _, name, record in self.delayed):
            return State.DELAYED
        for owned in self.owned.values():
            if is_it(owned.group, owned.record):
                return State.SEALED if owned.state is State.SEALED else State.LEASED
        dead = [id_ for id_, letter in self.letters.items() if is_it(letter.group, letter.record)]
        state = State.DEAD if dead else State.DONE
        self.at(now)
        for id_ in dead:
            del self.letters[id_]
        self.seen.discard(key)
        self.hops = {hop for hop in self.hops if hop[0] != key}
        self.counts.update({state: -1, "added": -1, "moves": 1})
        return state

    def rule(self, now: int, group: str, until_ms: int | None, least_ms: int | None) -> None:
        now = self.at(now)
        row = self.row(group)
        row.until_ms = row.until_ms if until_ms is None else until_ms
        row.least_ms = row.least_ms if least_ms is None else least_ms
        self.index(group, now, ruled=True)
