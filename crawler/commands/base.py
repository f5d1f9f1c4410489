"""What the commands that look into a frontier share: options, connection, one-line errors, two forms of output."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from datetime import UTC, datetime
from typing import Any

from scrapy.exceptions import UsageError

from crawler.connection import connect
from crawler.errors import BadInput, LonglineError
from crawler.frontier import Frontier
from crawler.options import Options


class FrontierCommand:
    """Opens the frontier, calls `call`, prints what it returns. Exit code 1: the frontier, 2: the command line or
    settings.

    To be mixed with ScrapyCommand, which makes a command of every subclass that it finds here.
    """

    requires_project = True
    requires_crawler_process = False
    settings: Any
    exitcode: int

    async def call(self, frontier: Frontier, args: list[str], opts: argparse.Namespace) -> Any:
        """The command's answer, JSON-able."""
        raise NotImplementedError

    def expect(self, args: list[str], *allowed: str) -> str:
        """The subcommand. Raises UsageError for another."""
        if len(args) != 1 or args[0] not in allowed:
            raise UsageError
        return args[0]

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Answer or complain, and set the exit code."""
        try:
            answer = asyncio.run(self._answer(Options.from_settings(self.settings), args, opts))
        except LonglineError as error:
            print(f"longline: {error}", file=sys.stderr)
            self.exitcode = 2 if isinstance(error, BadInput) else 1
            return
        print(json.dumps(answer) if opts.json else _table(answer))

    async def _answer(self, options: Options, args: list[str], opts: argparse.Namespace) -> Any:
        connection = await connect(options)
        try:
            frontier = await Frontier.open(connection.client, options, revive=connection.revive)
            return await self.call(frontier, args, opts)
        finally:
            await connection.close()


def _table(answer: Any) -> str:
    """An answer for people: one line a figure, one line a letter; times as they read them."""
    if isinstance(answer, dict):
        return "\n".join(f"{name:<10} {_value(name, value)}" for name, value in answer.items())
    if not answer:
        return "nothing"
    return "\n".join("  ".join(_value(name, value) for name, value in row.items()) for row in answer)


def _value(name: str, value: Any) -> str:
    if name.endswith("_ms"):
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(str(part) for part in value)
    return str(value)
