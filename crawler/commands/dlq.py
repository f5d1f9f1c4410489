"""`scrapy dlq list`: the dead letters, with every reason met."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from scrapy.commands import ScrapyCommand

from crawler.commands.base import FrontierCommand
from crawler.frontier import Frontier

PAGE = 500


class Command(FrontierCommand, ScrapyCommand):
    """Looks into the dead letters of CRAWL_ID."""

    def syntax(self) -> str:
        """Scrapy's usage line."""
        return "list [--json]"

    def short_desc(self) -> str:
        """Scrapy's one line."""
        return "List URLs that a crawl has given up, with the reasons"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Arguments."""
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print a JSON array")

    async def call(self, frontier: Frontier, args: list[str], opts: argparse.Namespace) -> Any:  # noqa: ARG002 - the base's signature
        """All letters, oldest first in each partition."""
        self.expect(args, "list")
        letters: list[dict[str, Any]] = []
        cursor = ""
        while True:
            found, cursor = await frontier.dead(cursor, PAGE)
            letters += [asdict(letter) for letter in found]
            if not cursor:
                return letters
