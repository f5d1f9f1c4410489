"""What the parts of `Model` share."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from crawler.frontier import keys
from crawler.frontier.model.fetching import Fetching
from crawler.frontier.model.keeping import Keeping
from crawler.frontier.tokens import Asked
from crawler.options import Options
from crawler.urls import DROPPED_PARAMETERS, fingerprint


class Part(Fetching, Keeping):
    """One partition: every method is one script."""


class Base:
    """The partitions, the options, the clock."""

    losses = 0

    def __init__(
        self,
        options: Options | None = None,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self.options = options or Options()
        self.partitions = self.options.frontier_partitions
        self.bands = self.options.frontier_bands
        self.epochs: dict[int, bytes] = {}
        self.clock, self.rand = clock, rand
        dropped = frozenset(self.options.url_parameters_ignored) or DROPPED_PARAMETERS
        self.fingerprint = partial(fingerprint, drop=dropped)
        self.homes: defaultdict[str, set[int]] = defaultdict(set)
        self._asked = Asked()
        self._wall = wall
        self._lease_ms = int(self.options.lease_ttl * 1000)
        self._session_ms = int(self.options.session_ttl * 1000)
        self.parts = self._new_parts()

    def _new_parts(self) -> list[Part]:
        return [Part(self.options.frontier_group_concurrency, self.bands) for _ in range(self.partitions)]

    async def close(self) -> None:
        """Nothing to do."""

    def partition_of(self, name: str) -> int:
        """The partition of a politeness group, or of a segment's decision."""
        return keys.partition_of(name, self.partitions)

    def part_of(self, name: str) -> Part:
        """That partition itself."""
        return self.parts[self.partition_of(name)]

    def _now(self, now: int | None) -> int:
        return int(self._wall() * 1000) if now is None else now
