"""`scrapy frontier stats`: the frontier's counters, for people and for programs."""

from __future__ import annotations

import argparse
from typing import Any

from scrapy.commands import ScrapyCommand

from crawler.commands.base import FrontierCommand
from crawler.frontier import Frontier


class Command(FrontierCommand, ScrapyCommand):
    """Looks into the frontier of CRAWL_ID."""

    def syntax(self) -> str:
        """Scrapy's usage line."""
        return "stats [--json]"

    def short_desc(self) -> str:
        """Scrapy's one line."""
        return "Show the frontier of a crawl: how many URLs are in which state"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Arguments."""
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    async def call(self, frontier: Frontier, args: list[str], opts: argparse.Namespace) -> Any:  # noqa: ARG002 - the base's signature
        """The counters, and what they are reasons for."""
        self.expect(args, "stats")
        snapshot = await frontier.snapshot()
        names = ("added", "queued", "delayed", "leased", "held", "sealed", "done", "dead", "groups", "due")
        stats: dict[str, Any] = {name: getattr(snapshot, name) for name in names}
        stats |= {"outbox": snapshot.outbox, "pending": snapshot.pending, "expiries": snapshot.expiries}
        stats["reasons"] = dict(sorted(snapshot.reasons.items()))
        return stats
