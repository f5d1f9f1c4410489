"""`python -m crawler.demo serve|crawl`: argument parsing only."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

import uvloop

from crawler.demo.profiles import demo, plain
from crawler.demo.run import DemoCrawl
from crawler.demo.web import serving
from crawler.demo.world import World


def main() -> int:
    """Runs one command and gives its exit code."""
    parser = argparse.ArgumentParser(prog="python -m crawler.demo", description=__doc__)
    commands = parser.add_subparsers(required=True)
    serve = commands.add_parser("serve", help="serve a generated web on loopback; the first line printed is JSON")
    serve.add_argument("--port", type=int, default=0, help="0 (default): a free one")
    serve.add_argument("--hosts", type=int, default=60)
    serve.add_argument("--pages", type=int, default=8, help="ordinary pages of each host")
    serve.add_argument("--seed", type=int, default=7)
    serve.add_argument("--log", type=Path, help="file for one line per request")
    serve.add_argument("--delay-rules", action="store_true", help="every tenth host has a Crawl-delay of 1 s")
    serve.add_argument("--latency", type=float, default=0.0, metavar="SECONDS", help="before each answer")
    serve.add_argument("--plain", action="store_true", help="pages and links only, all reachable and allowed")
    serve.set_defaults(run=_serve)
    crawl = commands.add_parser("crawl", help="serve the demo web and crawl it to its end")
    crawl.add_argument("--output", type=Path, default=Path("output"))
    crawl.add_argument("--crawl-id", default="demo")
    crawl.add_argument("--set", "-s", action="append", default=[], metavar="NAME=VALUE", help="a setting of the crawl")
    crawl.set_defaults(run=_crawl)
    args = parser.parse_args()
    result: int = args.run(args)
    return result


def _serve(args: argparse.Namespace) -> int:
    profile = plain if args.plain else demo
    world = profile(args.hosts, args.pages, args.seed, delay_rules=args.delay_rules, latency=args.latency)
    uvloop.run(_serve_until_told(world, args.port, args.log))
    return 0


async def _serve_until_told(world: World, port: int, log: Path | None) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with serving(world, port, log) as bound:
        print(json.dumps({"port": bound, "hosts": len(world.rules), "seeds": world.seeds}), flush=True)
        await told.wait()


def _crawl(args: argparse.Namespace) -> int:
    return DemoCrawl(args.output, args.crawl_id, tuple(args.set)).run()


if __name__ == "__main__":
    sys.exit(main())
