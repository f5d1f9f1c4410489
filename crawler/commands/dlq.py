"""`scrapy dlq`: the dead letters, with every reason met; they can be replayed or dropped."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from crawler.commands.base import FrontierCommand
from crawler.errors import BadInput
from crawler.frontier import Answer, DeadLetter, Frontier
from crawler.frontier.records import letter_place

PAGE = 500


class Command(FrontierCommand, ScrapyCommand):
    """Looks into the dead letters of CRAWL_ID, and empties them."""

    actions = {"list": 0, "show": 1, "replay": -1, "drop": -1}  # noqa: RUF012 - Scrapy's way

    def syntax(self) -> str:
        """Scrapy's usage line."""
        return "list | show ID | replay WHICH | drop WHICH   [--json]   (WHICH: ID... | --all | --group G, --reason R)"

    def short_desc(self) -> str:
        """Scrapy's one line."""
        return "List URLs that a crawl has given up, with the reasons; replay or drop them"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Arguments."""
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--group", metavar="G", help="letters of a politeness group")
        parser.add_argument("--reason", metavar="R", help="letters whose last reason is R")
        parser.add_argument("--all", action="store_true", help="every letter")

    def check(self, action: str, args: list[str], opts: argparse.Namespace) -> None:
        """Raises BadInput for what is no letter's id, UsageError unless it is clear which letters are meant."""
        super().check(action, args, opts)
        filtered = bool(opts.group or opts.reason)
        if action in ("replay", "drop") and [bool(args), filtered, opts.all].count(True) != 1:
            raise UsageError(f"{action} takes ids, or --all, or --group and --reason")
        for id_ in args:
            letter_place(id_)

    async def call(self, frontier: Frontier, action: str, args: list[str], opts: argparse.Namespace) -> Any:
        """What the subcommand found or did."""
        if action == "list":
            return [asdict(letter) async for letter in _letters(frontier, opts)]
        if action == "show":
            letter = await frontier.letter(args[0])
            if letter is None:
                raise BadInput(f"no such dead letter: {args[0]!r}")
            return asdict(letter)
        move = frontier.replay if action == "replay" else frontier.discard
        if args:
            answers = await move(args)
            missing = [id_ for id_, answer in zip(args, answers, strict=True) if answer is Answer.STALE]
            if missing:
                raise BadInput(
                    f"no such dead letter: {', '.join(missing)}; {len(args) - len(missing)} others: {action}"
                )
            return {action: len(args)}
        done = 0
        batch: list[str] = []
        async for letter in _letters(frontier, opts):
            batch.append(letter.id)
            if len(batch) == PAGE:
                done += (await move(batch)).count(Answer.APPLIED)
                batch = []
        return {action: done + (await move(batch)).count(Answer.APPLIED)}


async def _letters(frontier: Frontier, opts: argparse.Namespace) -> AsyncIterator[DeadLetter]:
    """The letters that are meant and were there at the start, oldest first in each partition."""
    began, cursor = await frontier.time_ms(), ""
    while True:
        found, cursor = await frontier.dead(cursor, PAGE)
        for letter in found:
            meant = opts.group in (None, letter.group) and opts.reason in (None, letter.reasons[-1])
            if meant and letter.buried_ms <= began:
                yield letter
        if not cursor:
            return
