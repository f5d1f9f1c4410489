"""What a crawl has done so far, read from stats and the frontier's snapshot, and how it is said. Pure functions."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from crawler.frontier.policy import KINDS, Cost

STATES = ("queued", "delayed", "leased", "held", "sealed", "done", "dead")
_WAITING = ("queued", "delayed", "leased")  # states of URLs that are still to be fetched
_KINDS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Figures:
    """One look at a crawl. `frontier` is None until the first snapshot has come; it counts for all workers."""

    at: float  # seconds on any one clock
    fetched: int = 0  # pages asked for, robots.txt not counted
    answered_well: int = 0  # of those: status below 400
    documents: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)  # failures: kind → count
    answers: Mapping[str, int] = field(default_factory=dict)  # done without a document: reason → count
    frontier: Mapping[str, Any] | None = None

    @property
    def success(self) -> float | None:
        """Share of the fetches that were answered below 400; None before the first fetch."""
        return self.answered_well / self.fetched if self.fetched else None

    @property
    def waiting(self) -> int | None:
        """URLs that are known and still to be fetched, by any worker."""
        return None if self.frontier is None else sum(self.frontier.get(state, 0) for state in _WAITING)


def read(at: float, stats: Mapping[str, Any], snapshot: Mapping[str, Any] | None) -> Figures:
    """Figures from Scrapy's stats (keys `area/metric/detail`) and the scheduler's snapshot."""
    robots = _details(stats, "robots/status/")
    no_robots = _details(stats, "robots/kind/")
    kinds = _details(stats, "fetch/kind/")
    return Figures(
        at=at,
        fetched=stats.get("fetch/count", 0) - sum(robots.values()) - sum(no_robots.values()),
        answered_well=_well(_details(stats, "fetch/status/")) - _well(robots),
        documents=stats.get("corpus/documents", 0),
        errors={kind: count for kind, count in kinds.items() if not _is_answer(kind)},
        answers={kind: count for kind, count in kinds.items() if _is_answer(kind)},
        frontier=dict(snapshot) if snapshot else None,
    )


def _is_answer(kind: str) -> bool:
    return kind in KINDS and KINDS[kind].cost is Cost.ANSWER


def _well(statuses: Mapping[str, int]) -> int:
    return sum(count for status, count in statuses.items() if "200" <= status < "400")


def _details(stats: Mapping[str, Any], prefix: str) -> dict[str, int]:
    return {key.removeprefix(prefix): count for key, count in stats.items() if key.startswith(prefix)}


class Window:
    """The figures of the last `span` seconds: what is going on now, not on average since the start."""

    def __init__(self, span: float = 10.0) -> None:
        self._span = span
        self._looks: deque[Figures] = deque()

    def add(self, figures: Figures) -> None:
        """Takes a look in; looks that are older than the span go."""
        self._looks.append(figures)
        while len(self._looks) > 2 and self._looks[1].at <= figures.at - self._span:
            self._looks.popleft()

    @property
    def rate(self) -> float:
        """Pages per second within the window; 0.0 as long as there is one look only."""
        first, last = self._ends()
        return (last.fetched - first.fetched) / (last.at - first.at) if last.at > first.at else 0.0

    @property
    def time_left(self) -> float | None:
        """Seconds until nothing is waiting if it goes on like this; None while links are found faster than fetched, and
        at less than a second: what is left then waits for a retry or a publication, not for a rate.
        """
        first, last = self._ends()
        if first.waiting is None or last.waiting is None or last.at <= first.at:
            return None
        drained = (first.waiting - last.waiting) / (last.at - first.at)
        return last.waiting / drained if 0 < drained <= last.waiting else None

    def _ends(self) -> tuple[Figures, Figures]:
        return (self._looks[0], self._looks[-1]) if self._looks else (Figures(0.0), Figures(0.0))


def duration(seconds: float) -> str:
    """`45 s`, `3 min 05 s`, `2 h 07 min`, `3 d 04 h`."""
    whole = int(seconds)
    for unit, small, large_s, small_s in (("d", "h", 86_400, 3_600), ("h", "min", 3_600, 60), ("min", "s", 60, 1)):
        if whole >= large_s:
            return f"{whole // large_s} {unit} {whole % large_s // small_s:02} {small}"
    return f"{whole} s"


def plain_line(now: Figures, window: Window, elapsed: float) -> str:
    """The crawl in one line, for logs."""
    parts = [f"{duration(elapsed)}: {_fetched(now)}, {window.rate:.1f} pages/s now"]
    if now.frontier is not None:
        parts.append(", ".join(f"{state} {now.frontier.get(state, 0):,}" for state in STATES))
        parts.append(_groups(now.frontier))
    if now.errors:
        parts.append(f"errors: {_counts(now.errors)}")
    if window.time_left is not None:
        parts.append(f"about {duration(window.time_left)} left")
    return "; ".join(parts)


def live_view(now: Figures, window: Window, elapsed: float, title: str) -> RenderableType:
    """The crawl as a panel for a terminal."""
    left = window.time_left
    head = Table.grid(padding=(0, 2))
    head.add_row("fetched", f"[bold]{_fetched(now)}")
    head.add_row("now", f"{window.rate:.1f} pages/s")
    head.add_row("errors", _counts(now.errors) if now.errors else "none")
    head.add_row("time", duration(elapsed) + (f", about {duration(left)} left" if left is not None else ""))
    if now.frontier is None:
        return Panel(head, title=title, title_align="left")
    head.add_row("groups", _groups(now.frontier))
    states = Table(box=None, padding=(0, 2, 0, 0), expand=False)
    for state in STATES:
        states.add_column(state, justify="right")
    states.add_row(*(f"{now.frontier.get(state, 0):,}" for state in STATES))
    return Panel(Group(head, "", states), title=title, title_align="left")


def closing_report(now: Figures, elapsed: float, reason: str, crawl_id: str, output: str) -> str:
    """What was fetched, where it lies, and a line that reads it."""
    lines = [f"Crawl '{crawl_id}' {_ended(now, reason)}.", f"  fetched    {_fetched(now)} in {duration(elapsed)}"]
    lines.append(f"  documents  {now.documents:,}")
    if now.answers:
        lines.append(f"  others     {_counts(now.answers)}")
    if now.errors:
        lines.append(f"  errors     {_counts(now.errors)}")
    if now.frontier is not None and now.frontier.get("dead"):
        lines.append(f"  dead       {now.frontier['dead']:,} URLs: {_scrapy()} dlq list -s CRAWL_ID={crawl_id}")
    if reason == "finished" and not _is_empty(now):
        lines.append("  another    a crawl of another name begins anew: -s CRAWL_ID=NAME")
    lines += ["", f"It lies in {output if '://' in output else Path(output).resolve()}"]
    return "\n".join(lines + [f"  {line}" for line in reading_lines(output, crawl_id)])


def _ended(now: Figures, reason: str) -> str:
    if reason != "finished":
        return f"stopped ({reason}); the same command goes on from here"
    if _is_empty(now):
        return "has no URLs yet: give it some with -a seeds=, a file, - or a URL"
    return "is finished" if now.fetched else "is finished: nothing was left to fetch"


def _is_empty(now: Figures) -> bool:
    """Whether nothing was ever given to the crawl."""
    return now.frontier is not None and not now.frontier.get("added")


def _scrapy() -> str:
    """How to call scrapy from here: by its name where that is the one beside this interpreter, else by its path."""
    ours = Path(sys.executable).parent / "scrapy"
    found = shutil.which("scrapy")
    if found and Path(found) == ours:
        return "scrapy"
    return str(ours.relative_to(Path.cwd())) if ours.is_relative_to(Path.cwd()) else str(ours)


def reading_lines(output: str, crawl_id: str) -> list[str]:
    """Shell lines that show documents of this crawl; none as long as there is nothing to show."""
    pattern = f"{crawl_id}-*.jsonl.gz"
    files = f"{output}/documents/*/{pattern}".replace("'", "''")
    query = f"SELECT url, metadata.title FROM '{files}' LIMIT 10"  # noqa: S608 -- for people to run
    # The query has quotes of its own; in double ones people can read it, unless the shell would read it too.
    quoted = shlex.quote(query) if set(query) & set('"$`\\!') else f'"{query}"'
    with_duckdb = f"with DuckDB: duckdb -c {quoted}"
    if "://" in output:
        return [with_duckdb]
    if not any(Path(output).glob(f"documents/*/{pattern}")):
        return []
    return [f"read it:     gzip -dc {shlex.quote(output)}/documents/*/{pattern} | head -n 1", with_duckdb]


def _fetched(now: Figures) -> str:
    success = f" ({now.success:.0%} answered well)" if now.success is not None else ""
    return f"{now.fetched:,} pages{success}"


def _groups(frontier: Mapping[str, Any]) -> str:
    return f"{frontier.get('groups', 0):,} groups, {frontier.get('due', 0):,} due"


def _counts(named: Mapping[str, int]) -> str:
    by_count = sorted(named.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in by_count[_KINDS_SHOWN:])
    return ", ".join(f"{kind} {count:,}" for kind, count in by_count[:_KINDS_SHOWN]) + (
        f", others {rest:,}" * bool(rest)
    )
