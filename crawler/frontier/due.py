"""Which partitions a worker asks for leases, and when: known from replies, so that an idle worker asks seldom."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

IDLE_ASK = 0.25
"""Seconds between questions to partitions of which nothing is known to be due; other workers' links are found that
way."""


class DueTimes:
    """When each partition has something due, on the monotonic clock. What was never asked is due."""

    def __init__(self, partitions: int, clock: Callable[[], float]) -> None:
        self._due = [0.0] * partitions
        self._clock = clock
        self._idle_from = -math.inf
        self._turn = random.randrange(partitions)

    def plan(self) -> list[int]:
        """Partitions to ask now, each start at another; when none is due, now and then one of the others."""
        now, count = self._clock(), len(self._due)
        self._turn += 1
        order = [(self._turn + i) % count for i in range(count)]
        due = [partition for partition in order if self._due[partition] <= now]
        if not due and now - self._idle_from >= IDLE_ASK:
            due = order[:1]
        if due:
            self._idle_from = now
        return due

    def heard(self, partition: int, wait_ms: int | None) -> None:
        """A partition said that something is due after ``wait_ms``; None: nothing waits there."""
        self._due[partition] = math.inf if wait_ms is None else self._clock() + wait_ms / 1000

    def expect(self, partition: int, wait_ms: int = 0) -> None:
        """Something of ours will be due there after ``wait_ms``."""
        self._due[partition] = min(self._due[partition], self._clock() + wait_ms / 1000)

    def soonest_ms(self) -> int | None:
        """Milliseconds until the soonest partition is due; None: nothing is known to be."""
        soonest = min(self._due)
        return None if soonest == math.inf else max(0, math.ceil((soonest - self._clock()) * 1000))
