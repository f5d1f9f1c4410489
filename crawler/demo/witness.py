"""Reads a web server's log and says whether the crawl was polite, and whether it used the rate that it might have.

Both measures see the server's side only. A gap measured here is never shorter than the one the client kept: the
request arrives after it was sent, and the answer's end is seen by the client after the server's last write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from crawler.demo.world import World, registrable

GroupOf = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Hit:
    """One request as the server saw it; times in seconds since the epoch."""

    start: float
    end: float
    host: str
    path: str
    status: int

    @property
    def url(self) -> str:
        """The URL that was asked for."""
        return f"http://{self.host}{self.path}"


@dataclass(frozen=True, slots=True)
class Violation:
    """Two requests to one group that were too close: `gap` seconds (negative: at the same time) in place of `delay`."""

    group: str
    first: Hit
    second: Hit
    gap: float
    delay: float

    def __str__(self) -> str:
        return (
            f"{self.group}: {self.second.url} began {self.gap:.3f} s after the end of {self.first.url} "
            f"({self.delay:.3f} s are due)"
        )


def read_log(path: Path) -> list[Hit]:
    """The requests in the order in which they started. A last line that is still being written is left out."""
    hits = []
    for line in path.read_text("latin-1").split("\n")[:-1]:
        start, end, host, url_path, status = line.split("\t")[:5]
        hits.append(Hit(float(start), float(end), host, url_path, int(status)))
    return sorted(hits, key=lambda hit: hit.start)


def violations(
    log: Iterable[Hit],
    delays: Mapping[str, float] | float,
    tolerance: float = 0.0,
    group_of: GroupOf = registrable,
) -> list[Violation]:
    """Every request that began less than its group's delay, less `tolerance` seconds, after any earlier one's end.

    `delays` gives seconds by politeness group, or one figure for all; a group that it does not name is a KeyError.
    """
    found = []
    for group, hits in by_group(log, group_of).items():
        delay = delays if isinstance(delays, int | float) else delays[group]
        last = hits[0]  # of the requests so far, the one that ended last
        for hit in hits[1:]:
            gap = hit.start - last.end
            if gap < delay - tolerance:
                found.append(Violation(group, last, hit, gap, delay))
            last = max(last, hit, key=lambda one: one.end)
    return found


def used_share(
    log: Iterable[Hit],
    delays: Mapping[str, float] | float,
    world: World | None = None,
    within: tuple[float, float] | None = None,
    group_of: GroupOf = registrable,
    disturbed: Callable[[str, float, float], bool] | None = None,
) -> float:
    """The share, 0 to 1, of the rate that the delays allow: over all groups, seconds needed / seconds taken.

    Between two requests to a group the delay is needed, the rest is loss; a request's own duration is needed. With
    `world`, time is loss only while there was something to ask for: a URL counts from the end of the first request
    for a page that links to it. Pairs that do not lie wholly in `within` (start, end) are left out, and those of which
    `disturbed` (group, start, end) says that something from outside held the group up. A group with one request says
    nothing; a log with no pair gives 1.0.
    """
    hits = list(log)
    known = known_from(hits, world) if world is not None else {}
    needed = taken = 0.0
    for group, visits in by_group(hits, group_of).items():
        delay = delays if isinstance(delays, int | float) else delays[group]
        open_from = _open_from(visits, known) if world is not None else [first.end for first in visits]
        for (first, second), known_at in zip(pairwise(visits), open_from, strict=False):
            if within is not None and not (within[0] <= first.start and second.start <= within[1]):
                continue
            if disturbed is not None and disturbed(group, first.start, second.start):
                continue
            due = min(max(first.end + delay, known_at), second.start)
            needed += due - first.start
            taken += second.start - first.start
    return needed / taken if taken else 1.0


def known_from(hits: Sequence[Hit], world: World) -> dict[str, float]:
    """For each URL when a crawler could first know it: the end of the first whole answer that links to it."""
    known: dict[str, float] = dict.fromkeys(world.seeds, 0.0)
    for hit in sorted(hits, key=lambda one: one.end):
        if hit.status == 200:
            for target in world.followed(hit.url):
                known.setdefault(target, hit.end)
    return known


def by_group(log: Iterable[Hit], group_of: GroupOf = registrable) -> dict[str, list[Hit]]:
    """The requests of each politeness group in the order in which they started."""
    groups: dict[str, list[Hit]] = {}
    for hit in sorted(log, key=lambda one: one.start):
        groups.setdefault(group_of(hit.host), []).append(hit)
    return groups


def refetched(log: Iterable[Hit], urls: Collection[str]) -> dict[str, int]:
    """How many whole answers each of `urls` that was fetched more than once has had: the price of crashes."""
    counts: dict[str, int] = {}
    for hit in log:
        if hit.status == 200 and hit.url in urls:
            counts[hit.url] = counts.get(hit.url, 0) + 1
    return {url: count for url, count in counts.items() if count > 1}


def _open_from(visits: Sequence[Hit], known: Mapping[str, float]) -> list[float]:
    """For each request of a group but the last: when work that was still undone at its end was first known.

    Undone is what is asked for later; a URL that was asked for before any page told of it (robots.txt, a redirect's
    target) counts as always known. The earliest of those times is a running minimum from the back.
    """
    earliest = [0.0] * len(visits)
    soonest = float("inf")
    for index in range(len(visits) - 1, 0, -1):
        told = known.get(visits[index].url, 0.0)
        soonest = min(soonest, told if told <= visits[index].start else 0.0)
        earliest[index - 1] = soonest
    return earliest[:-1]
