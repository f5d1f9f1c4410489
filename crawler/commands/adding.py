"""What `scrapy frontier add` does: a source of any length goes into the frontier in batches."""

from __future__ import annotations

import io
import sys
from collections import Counter
from itertools import islice
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from crawler import seeds
from crawler.errors import BadSeeds
from crawler.frontier import Added, Candidate, Frontier
from crawler.worker.candidates import Candidates, Refused

BATCH = 1000
"""Lines that are in memory at once."""


async def add(frontier: Frontier, source: str) -> dict[str, Any]:
    """Offer every line of ``source`` as a seed; lines that are none are named on stderr.

    Returns how many were added, seen before, and refused. Raises BadSeeds when the source cannot be read or holds no
    URL.
    """
    if source == "-" and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    counts: Counter[str] = Counter()
    lines, make = seeds.read(source), Candidates(frontier.options)
    console = Console(stderr=True)
    columns = (TextColumn("adding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("", total=_lines(source))
        while batch := list(islice(lines, BATCH)):
            candidates = _candidates(batch, make, counts)
            for answer in await frontier.add(candidates):
                counts["added" if answer is Added.ADDED else "seen"] += 1
            progress.update(task, completed=batch[-1].line)
    if not counts:
        raise BadSeeds(f"{source!r} holds no URL")
    return {name: counts[name] for name in ("added", "seen", "refused")}


def _candidates(batch: list[seeds.Seed], make: Candidates, counts: Counter[str]) -> list[Candidate]:
    found = []
    for seed in batch:
        fault = seed.fault
        if not fault:
            try:
                found.append(make.from_url(seed.url, depth=0, origin="seed", band=seed.band))
                continue
            except Refused as error:
                fault = f"{seed.url!r} is out of scope: {error.reason}"
        counts["refused"] += 1
        print(f"longline: {seed.source}, line {seed.line}: {fault}", file=sys.stderr)
    return found


def _lines(source: str) -> int | None:
    """How many lines a file has; None for what can be read once only."""
    if source == "-" or not sys.stderr.isatty():
        return None
    try:
        with open(source, "rb") as file:
            return (
                sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) if file.seekable() else None
            )
    except OSError:  # seeds.read says what is wrong
        return None
