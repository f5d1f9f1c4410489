"""One partition of the in-memory model: every public method is what one script does, in plain Python.

Written from the design, not from the scripts, so that each checks the other; only the bytes of records are shared.
Times are ms.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from crawler.frontier.states import State
from crawler.frontier.types import Decided, Named, Wire


@dataclass(slots=True)
class Row:
    """A politeness group. ``due``: the bands in whose index it stands, as of the last `Ground.index`."""

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


class Ground:
    """A partition's state."""

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

    def next_due(self) -> int | None:
        return min([*self.delayed.values(), *(due for band in self.due for due in band.values())], default=None)
