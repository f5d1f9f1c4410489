"""Where tokens were granted, so that the same ones bring the same grants: a token means something in one partition."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

REMEMBERED: Final = 1 << 14
"""Tokens; the oldest are forgotten, long after their leases are over."""


class Asked:
    """The partition in which each token holds, or may hold, a lease."""

    def __init__(self) -> None:
        self._where: OrderedDict[bytes, int] = OrderedDict()

    def split(self, tokens: Sequence[bytes]) -> tuple[dict[int, list[bytes]], list[bytes]]:
        """Tokens by the partition in which they were asked for before, and those that are new."""
        known: dict[int, list[bytes]] = {}
        fresh: list[bytes] = []
        for token in dict.fromkeys(tokens):
            partition = self._where.get(token)
            if partition is None:
                fresh.append(token)
            else:
                known.setdefault(partition, []).append(token)
        return known, fresh

    def note(self, partition: int, tokens: Iterable[bytes]) -> None:
        """These may be granted there: the call is about to be made, and its reply may be lost."""
        for token in tokens:
            self._where[token] = partition
        while len(self._where) > REMEMBERED:
            self._where.popitem(last=False)

    def free(self, tokens: Iterable[bytes]) -> None:
        """These were not granted: they may be asked for elsewhere."""
        for token in tokens:
            self._where.pop(token, None)

    def clear(self) -> None:
        """Forget everything."""
        self._where.clear()
