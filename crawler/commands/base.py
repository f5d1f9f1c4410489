"""What the commands that look into a frontier share: options, connection, one-line errors, two forms of output."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
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

    actions: Mapping[str, int]
    """Each subcommand, and how many arguments it takes; -1: any number."""

    async def call(self, frontier: Frontier, action: str, args: list[str], opts: argparse.Namespace) -> Any:
        """The answer of a subcommand, JSON-able."""
        raise NotImplementedError

    def check(self, action: str, args: list[str], opts: argparse.Namespace) -> None:  # noqa: ARG002 - for those that override it
        """Whatever can be known to be wrong before a server is asked. Raises BadInput, UsageError."""
        stray = next((arg for arg in args if arg.startswith("--")), None)
        if stray:
            raise UsageError(f"no such option: {stray}")
        if self.actions[action] not in (-1, len(args)):
            raise UsageError(f"{action} takes {self.actions[action] or 'no'} argument(s), not {len(args)}")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Answer or complain, and set the exit code. Raises UsageError."""
        if not args or args[0] not in self.actions:
            raise UsageError
        try:
            self.check(args[0], args[1:], opts)
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
            return await self.call(frontier, args[0], args[1:], opts)
        finally:
            await connection.close()


def _table(answer: Any) -> str:
    """An answer for people: one line a figure; or a heading and one line a row; times as they read them."""
    if isinstance(answer, dict):
        return "\n".join(f"{name:<10} {_value(name, value)}" for name, value in answer.items())
    if not answer:
        return "nothing"
    rows = ["  ".join(_value(name, value) for name, value in row.items()) for row in answer]
    return "\n".join(["  ".join(answer[0]), *rows])


def _value(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name.endswith("_ms"):
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(str(part) for part in value)
    return str(value)
