"""A worker's bounded memory of URLs that the frontier has answered for, in front of the seen set."""

from __future__ import annotations

from collections.abc import Iterable


class SeenFilter:
    """Keys in two generations of at most ``limit`` / 2 each: when the young one is full the old one is dropped.

    So what was met lately stays, at the cost of one set lookup more; some 70 bytes a key.
    """

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __contains__(self, key: int) -> bool:
        return key in self._young or key in self._old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def update(self, keys: Iterable[int]) -> None:
        """Remember keys. Only such as the frontier has answered for."""
        for key in keys:
            if len(self._young) >= self._half:
                self._old, self._young = self._young, set()
            self._young.add(key)

    def clear(self) -> None:
        """Forget everything."""
        self._young.clear()
        self._old.clear()
