"""One partition of the in-memory model: every public method is what one script does, in plain Python.

Written from the design, not from the scripts, so that each checks the other; only the bytes of records are shared.
Times are ms.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from crawler.frontier import policy, records
from crawler.frontier.states import State
from crawler.frontier.types import Added, Answer, Decided, Decision, Named, Wire

PROMOTE = 200
RECLAIM = 200


@dataclass(slots=True)
class Row:
    """A politeness group. ``due``: the bands in whose index it stands, as of the last `Part._index`."""

    turns: int = 0
    bands: set[int] = field(default_factory=set)
    next_ms: int = 0
    delay_ms: int = 0
    pace: bytes = b""
    until_ms: int = 0
    least_ms: int = 0
    due: frozenset[int] = frozenset()
    indexed_ms: int = 0


@dataclass(slots=True)
class Owned:
    """A leased, held or sealed URL."""

    state: State
    band: int
    group: str
    record: bytes
    worker: str
    granted_ms: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter."""

    band: int
    group: str
    record: bytes
    reason: str
    buried_ms: int


class Part:
    """A partition's state and its transitions."""

    def __init__(self, turns: int, bands: int) -> None:
        self.turns_at_once, self.band_count = turns, bands
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.latest, self.turn = 0, 0
        self.seen: set[int] = set()
        self.hops: set[tuple[int, int]] = set()
        self.rows: dict[str, Row] = {}
        self.queues: dict[tuple[int, str], deque[bytes]] = {}
        self.due: list[dict[str, int]] = [{} for _ in range(bands)]
        self.delayed: dict[tuple[int, str, bytes], int] = {}
        self.owned: dict[bytes, Owned] = {}
        self.turns: dict[tuple[bytes, str], int] = {}
        self.sessions: dict[str, int] = {}
        self.segments: dict[str, tuple[str, set[bytes]]] = {}
        self.aborted: set[str] = set()
        self.outbox: dict[bytes, tuple[int, bytes]] = {}
        self.letters: dict[int, Letter] = {}
        self.letter_id = 0
        self.decisions: dict[str, Decided] = {}
        self.pending: set[str] = set()
        self.hosts: dict[str, bytes] = {}

    # Helpers

    def at(self, now: int) -> int:
        """The time of a transition: it never runs backwards."""
        self.latest = max(self.latest, now)
        return self.latest

    def move(self, source: State | None, target: State) -> None:
        if source is not None:
            self.counts[source] -= 1
        self.counts[target] += 1
        self.counts["moves"] += 1

    def row(self, group: str) -> Row:
        return self.rows.setdefault(group, Row())

    def index(self, group: str, now: int, ruled: bool = False) -> None:
        """Bring a group's place in the due index up to date."""
        row = self.rows[group]
        due = frozenset(row.bands) if row.turns < self.turns_at_once else frozenset[int]()
        moved = row.next_ms != row.indexed_ms or ruled
        for band in row.due - due:
            del self.due[band][group]
        for band in due if moved else due - row.due:
            self.due[band][group] = max(row.next_ms, now, row.until_ms)
        row.due, row.indexed_ms = due, row.next_ms

    def push(self, band: int, group: str, pushed: Sequence[bytes], now: int, *, head: bool = False) -> None:
        """Put records into a queue; at the head the first of them comes first."""
        queue = self.queues.setdefault((band, group), deque())
        if head:
            queue.extendleft(reversed(pushed))
        else:
            queue.extend(pushed)
        self.row(group).bands.add(band)
        self.index(group, now)

    def push_heads(self, urls: Iterable[tuple[int, str, bytes]], now: int) -> None:
        """The same for the heads of several queues."""
        by_queue: dict[tuple[int, str], list[bytes]] = {}
        for band, group, record in urls:
            by_queue.setdefault((band, group), []).append(record)
        for (band, group), found in by_queue.items():
            self.push(band, group, found, now, head=True)

    def bury_url(self, band: int, group: str, record: bytes, reason: str, now: int) -> None:
        self.letter_id += 1
        self.letters[self.letter_id] = Letter(band, group, record, reason, now)
        self.reasons[reason] += 1

    def mine(self, item: Named) -> Owned | None:
        """What the token holds, if it is this very URL."""
        owned = self.owned.get(item.token)
        return owned if owned and (owned.group, owned.record) == (item.group, item.record) else None

    def end_turn(self, item: Named, wire: Wire | None, now: int) -> None:
        """End the item's turn, unless its token holds another URL by now, whose turn it is then."""
        turn = (item.token, item.group)
        if turn not in self.turns or (item.token in self.owned and self.mine(item) is None):
            return
        del self.turns[turn]
        row = self.row(item.group)
        row.turns -= 1
        if wire is not None:
            row.delay_ms = max(wire.delay_ms, row.least_ms)
            row.next_ms = max(row.next_ms, now - wire.age_ms + row.delay_ms)
            row.pace = row.pace if wire.pace is None else wire.pace
        self.index(item.group, now)

    def leave(self, item: Named) -> tuple[State, Owned] | None:
        """Take a URL from its owner; None when it is not this one's to give, or sealed."""
        owned = self.mine(item)
        if owned is None or owned.state is State.SEALED:
            return None
        del self.owned[item.token]
        return owned.state, owned

    # Transitions

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

    def next_due(self) -> int | None:
        return min([*self.delayed.values(), *(due for band in self.due for due in band.values())], default=None)

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

    def seal(self, now: int, worker: str, session_ms: int, items: Sequence[Named], segment: str) -> tuple[list[Answer], int]:
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
        late = sorted((deadline, token + group.encode(), token, group) for (token, group), deadline in self.turns.items())
        late = [turn for turn in late if turn[0] <= now][:RECLAIM]
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

    def rule(self, now: int, group: str, until_ms: int | None, least_ms: int | None) -> None:
        now = self.at(now)
        row = self.row(group)
        row.until_ms = row.until_ms if until_ms is None else until_ms
        row.least_ms = row.least_ms if least_ms is None else least_ms
        self.index(group, now, ruled=True)
