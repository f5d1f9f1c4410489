"""The worker's cache of authorities and its verdicts on URLs, over the records that all workers share in the
frontier.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from crawler.frontier import Frontier
from crawler.hosts import authority
from crawler.options import Options
from crawler.robots import RobotsRules, parse
from crawler.worker.hoststate import HostState, Robots

CACHED = 10_000  # authorities; a parsed robots.txt takes some 10 KB


class Verdict(Enum):
    """What may be done with a URL now."""

    FETCH = auto()
    FORBIDDEN = auto()  # by the rules: an outcome
    ASK = auto()  # robots.txt must be fetched first
    UNREACHABLE = auto()  # robots.txt could not be had: nothing may be fetched for now
    OFFLINE = auto()  # robots.txt could not be had for OFFLINE_AFTER
    TOO_SLOW = auto()  # the Crawl-delay asked for is longer than we keep to


@dataclass(slots=True)
class _Entry:
    state: HostState
    rules: RobotsRules | None


class Hosts:
    """Robots verdicts for one worker. Times are milliseconds of the frontier's clock."""

    def __init__(self, frontier: Frontier, options: Options) -> None:
        self._frontier = frontier
        self._options = options
        self._ttl_ms = int(options.robots_ttl * 1000)
        self._cache: OrderedDict[str, _Entry] = OrderedDict()

    async def load(self, urls: Iterable[tuple[str, str]], now_ms: int) -> None:
        """Have a record at hand for every (group, url) whose own copy is missing or outdated: one call for all."""
        wanted = {authority(url): group for group, url in urls}
        missing = [(group, name) for name, group in wanted.items() if not self._at_hand(name, now_ms)]
        if not missing:
            return
        for (_, name), stored in zip(missing, await self._frontier.host_get(missing), strict=True):
            self._keep(name, HostState.unpack(stored))

    def _at_hand(self, name: str, now_ms: int) -> bool:
        entry = self._cache.get(name)
        if entry is None:
            return False
        state = entry.state
        return state.current(now_ms, self._ttl_ms) or (state.robots is Robots.UNREACHABLE and now_ms < state.next_ms)

    def state(self, name: str) -> HostState:
        """The record at hand for an authority."""
        entry = self._cache.get(name)
        return entry.state if entry else HostState()

    def verdict(self, url: str, now_ms: int) -> tuple[Verdict, str]:
        """What may be done with ``url``, and the rule that says so ('' when none did). ``load`` comes first."""
        if not self._options.robotstxt_obey:
            return Verdict.FETCH, ""
        entry = self._cache.get(authority(url))
        if entry is None or not entry.state.current(now_ms, self._ttl_ms):
            return self._without_rules(entry, now_ms), ""
        if entry.rules is None:
            return Verdict.FETCH, ""
        agent = self._options.user_agent
        if not entry.rules.allowed(url, agent):
            return Verdict.FORBIDDEN, entry.rules.matched(url, agent)
        if (entry.rules.crawl_delay(agent) or 0.0) > self._options.crawl_delay_max:
            return Verdict.TOO_SLOW, f"crawl-delay: {entry.rules.crawl_delay(agent):g}"
        return Verdict.FETCH, ""

    def _without_rules(self, entry: _Entry | None, now_ms: int) -> Verdict:
        if entry is None or entry.state.robots is not Robots.UNREACHABLE:
            return Verdict.ASK
        if now_ms - entry.state.failing_since_ms >= self._options.offline_after * 1000:
            return Verdict.OFFLINE
        return Verdict.UNREACHABLE if now_ms < entry.state.next_ms else Verdict.ASK

    def crawl_delay_ms(self, name: str) -> int:
        """The Crawl-delay of an authority's rules in milliseconds; 0 when it asks for none, or for more than we keep
        to.
        """
        entry = self._cache.get(name)
        delay = entry.rules.crawl_delay(self._options.user_agent) if entry and entry.rules else None
        return int(delay * 1000) if delay is not None and delay <= self._options.crawl_delay_max else 0

    async def store(self, group: str, name: str, state: HostState) -> None:
        """Keep a new record here and for all workers."""
        self._keep(name, state)
        await self._frontier.host_put(group, name, state.pack())

    def forget(self, name: str) -> None:
        """Drop our copy, so that the next ``load`` asks the frontier."""
        self._cache.pop(name, None)

    def _keep(self, name: str, state: HostState) -> None:
        rules = parse(state.body) if state.robots is Robots.RULES and self._options.robotstxt_obey else None
        self._cache[name] = _Entry(state, rules)
        self._cache.move_to_end(name)
        while len(self._cache) > CACHED:
            self._cache.popitem(last=False)

    def snapshot(self) -> dict[str, Any]:
        """Figures for the metrics."""
        return {"robots_cached": len(self._cache)}
