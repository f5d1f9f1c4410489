"""Which partitions a worker asks for leases, and when: known from replies, so that an idle worker asks seldom."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

SWEEP = 0.25
"""Seconds between questions to partitions of which nothing is known to be due: so other workers' links are found."""


class DueTimes:
    """When each partition has something due, on the monotonic clock. What was never asked is due."""

    def __init__(self, partitions: int, clock: Callable[[], float]) -> None:
        self._due = [-math.inf] * partitions
        self._expected = [-math.inf] * partitions
        self._asked = [-math.inf] * partitions
        self._clock = clock
        self._swept = -math.inf
        self._turn = random.randrange(partitions)

    def plan(self) -> list[int]:
        """Partitions to ask now, each time beginning with another; now and then first the one that was not asked for
        longest."""
        now, count = self._clock(), len(self._due)
        self._turn += 1
        order = [(self._turn + i) % count for i in range(count)]
        due = [partition for partition in order if self._due[partition] <= now]
        others = [partition for partition in order if self._due[partition] > now]
        if others and now - self._swept >= SWEEP:
            self._swept = now
            due.insert(0, min(others, key=self._asked.__getitem__))
        return due

    def ask(self, partition: int) -> float:
        """A question is put to a partition now; what it says is told to `heard` with the time returned here."""
        self._asked[partition] = self._clock()
        return self._asked[partition]

    def heard(self, partition: int, wait_ms: int | None, asked: float) -> None:
        """A partition said that something is due after ``wait_ms``; None: nothing waits there."""
        due = math.inf if wait_ms is None else self._clock() + wait_ms / 1000
        if self._expected[partition] >= asked:  # it may have answered before what is expected was there
            due = min(due, self._due[partition])
        self._due[partition] = due

    def expect(self, partition: int, wait_ms: int = 0) -> None:
        """Something of ours will be due there after ``wait_ms``."""
        self._expected[partition] = self._clock()
        self._due[partition] = min(self._due[partition], self._clock() + wait_ms / 1000)

    def soonest_ms(self) -> int | None:
        """Milliseconds until the soonest partition is due; None: nothing is known to be."""
        soonest, now = min(self._due), self._clock()
        if soonest == math.inf:
            return None
        return math.ceil((soonest - now) * 1000) if soonest > now else 0
