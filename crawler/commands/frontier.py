"""`scrapy frontier`: what a crawl's frontier holds, and what an operator may do to it while it runs or after."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from scrapy.commands import ScrapyCommand

from crawler.commands.adding import add
from crawler.commands.base import FrontierCommand
from crawler.errors import BadInput, FrontierError
from crawler.frontier import Frontier, GroupInfo, State
from crawler.frontier.operators import FOREVER_MS
from crawler.frontier.policy import Pace
from crawler.hosts import politeness_group
from crawler.urls import canonicalize


class Command(FrontierCommand, ScrapyCommand):
    """Looks into the frontier of CRAWL_ID, and changes it."""

    actions = {"stats": 0, "groups": 0, "peek": 1, "add": 1, "block": 1, "unblock": 1, "forget": 1, "purge": 0}  # noqa: RUF012 - Scrapy's way

    def syntax(self) -> str:
        """Scrapy's usage line."""
        return (
            "stats | groups [--limit N] | peek GROUP [--limit N] | add FILE|- | block GROUP [--for SECONDS] | "
            "unblock GROUP | forget URL | purge [--yes]   [--json]"
        )

    def short_desc(self) -> str:
        """Scrapy's one line."""
        return "Show and change the frontier of a crawl: counters, groups, seeds, blocks"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Arguments."""
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--limit", type=int, default=100, metavar="N", help="groups or URLs shown at most")
        parser.add_argument("--for", type=float, dest="seconds", metavar="SECONDS", help="how long a block lasts")
        parser.add_argument("--yes", action="store_true", help="purge without asking")

    def check(self, action: str, args: list[str], opts: argparse.Namespace) -> None:
        """Raises BadInput, UsageError."""
        super().check(action, args, opts)
        if opts.limit < 1:
            raise BadInput(f"--limit {opts.limit}: at least 1")
        if opts.seconds is not None and not 0 < opts.seconds < FOREVER_MS / 1e6:
            raise BadInput(f"--for {opts.seconds}: no time to wait")
        if action == "purge" and not opts.yes and not sys.stdin.isatty():
            raise BadInput("purge asks first, and there is no terminal to ask on; --yes purges without asking")

    async def call(self, frontier: Frontier, action: str, args: list[str], opts: argparse.Namespace) -> Any:
        """What the subcommand found or did."""
        match action:
            case "stats":
                return await _stats(frontier)
            case "groups":
                return await _groups(frontier, opts.limit)
            case "add":
                return await add(frontier, args[0])
            case "forget":
                return await _forget(frontier, args[0])
            case "purge":
                return await _purge(frontier, opts.yes)
            case "block":
                return await _block(frontier, args[0], opts.seconds)
        group = args[0]
        if await frontier.group(group) is None:
            raise BadInput(f"no such group: {group!r}")
        if action == "peek":
            return [{"url": url} for url in await frontier.peek(group, opts.limit)]
        await frontier.unblock(group)
        return {"group": group, "blocked": False}


async def _stats(frontier: Frontier) -> dict[str, Any]:
    snapshot = await frontier.snapshot()
    names = ("added", "queued", "delayed", "leased", "held", "sealed", "done", "dead", "groups", "due")
    stats: dict[str, Any] = {name: getattr(snapshot, name) for name in names}
    stats |= {"outbox": snapshot.outbox, "pending": snapshot.pending, "expiries": snapshot.expiries}
    stats["reasons"] = dict(sorted(snapshot.reasons.items()))
    return stats


async def _groups(frontier: Frontier, limit: int) -> list[dict[str, Any]]:
    """Groups that have queued work, in no order, each once."""
    found: dict[str, dict[str, Any]] = {}
    cursor = ""
    while len(found) < limit:
        page, cursor = await frontier.groups(cursor)
        found |= {info.group: _shown(info) for info in page if info.bands}
        if not cursor:
            break
    return list(found.values())[:limit]


def _shown(info: GroupInfo) -> dict[str, Any]:
    forever = info.blocked_until_ms >= FOREVER_MS
    return {
        "group": info.group,
        "bands": info.bands,
        "next_ms": None if forever else max(info.next_allowed_ms, info.blocked_until_ms) or None,
        "delay": info.delay_ms / 1000,
        "failures": Pace.unpack(info.pace).failures,
        "blocked": "for good" if forever else "until next_ms" if info.blocked_until_ms else "no",
    }


async def _block(frontier: Frontier, group: str, seconds: float | None) -> dict[str, Any]:
    """A group may be blocked before it is met; so its name must be one that can be met."""
    right = politeness_group(f"http://{group}/", frontier.options.politeness_key)
    if right != group:
        raise BadInput(f"no such group: {group!r}; the politeness group of that host is {right!r}")
    until = FOREVER_MS if seconds is None else await frontier.time_ms() + round(seconds * 1000)
    await frontier.block(group, until)
    return {"group": group, "blocked": True, "until_ms": None if seconds is None else until}


async def _forget(frontier: Frontier, text: str) -> dict[str, Any]:
    url = canonicalize(text)
    state = await frontier.forget(url, politeness_group(url, frontier.options.politeness_key))
    if state is State.UNKNOWN:
        raise BadInput(f"{url!r} was never seen")
    if state not in (State.DONE, State.DEAD):
        raise FrontierError(f"{url!r} is {state}: only what is done or dead can be forgotten")
    return {"url": url, "forgotten": True, "was": state.value}


async def _purge(frontier: Frontier, sure: bool) -> dict[str, Any]:
    crawl = frontier.options.crawl_id
    if at_work := await frontier.workers():
        raise FrontierError(f"crawl {crawl!r} is not purged: at work are {', '.join(sorted(at_work))}")
    if not sure:
        snapshot = await frontier.snapshot()
        print(f"Crawl {crawl!r} has {snapshot.added} URLs, {snapshot.open} of them not settled.", file=sys.stderr)
        print("Forget all of it? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise FrontierError("nothing was purged")
    return {"crawl": crawl, "keys": await frontier.purge()}
