"""What the frontier does on one server: `python -m benchmarks.frontier --json`.

Each figure has two forms: work per second of wall time with one client process, which is often what is measured
here, and work per second of Redis's CPU, which says what a server carries when many workers ask it. Memory is
Redis's own account of what it uses.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

import uvloop

from crawler.frontier import Candidate, Decision, Frontier, Lease, Wire
from crawler.options import Options
from crawler.urls import fingerprint
from tests.support.servers import RedisServer, binary_of

IN_FLIGHT = 4
"""Calls that the client has under way at once."""

BATCH = 500


@dataclass
class Rate:
    """``count`` units of work in ``wall_s`` seconds, for ``redis_s`` seconds of Redis's CPU."""

    count: int
    wall_s: float
    redis_s: float

    def shown(self, name: str) -> dict[str, float]:
        """The figures as they are printed."""
        return {
            f"{name}_per_s": round(self.count / self.wall_s),
            f"{name}_per_redis_cpu_s": round(self.count / max(self.redis_s, 1e-9)),
            f"{name}_redis_cpu_s": round(self.redis_s, 3),
        }


class Bench:
    """One server, one crawl."""

    def __init__(self, client: Any, frontier: Frontier) -> None:
        self.client = client
        self.frontier = frontier

    async def used(self) -> int:
        """Bytes that Redis uses for data, after what is freed lazily is freed."""
        info = await self.client.info("memory")
        return (
            int(info["used_memory"]) - int(info.get("mem_clients_normal", 0)) - int(info.get("used_memory_scripts", 0))
        )

    async def timed(self, count: int, work: Callable[[], Awaitable[Any]]) -> Rate:
        """Do ``work`` and take the times."""
        before, wall = await self.cpu(), time.perf_counter()
        await work()
        return Rate(count, time.perf_counter() - wall, await self.cpu() - before)

    async def cpu(self) -> float:
        """Seconds of CPU of Redis's main thread: on a shared machine a clock would measure the neighbours."""
        info = await self.client.info("cpu")
        return float(info["used_cpu_user_main_thread"]) + float(info["used_cpu_sys_main_thread"])

    async def spread(self, chunks: Sequence[Any], call: Callable[[Any], Awaitable[Any]]) -> None:
        """Make a call for every chunk, IN_FLIGHT at once."""
        waiting = iter(chunks)

        async def lane() -> None:
            for chunk in waiting:
                await call(chunk)

        await asyncio.gather(*(lane() for _ in range(IN_FLIGHT)))


@asynccontextmanager
async def bench(kind: str, appendfsync: str, **options: Any) -> AsyncIterator[Bench]:
    """A fresh server and crawl."""
    directory = tempfile.TemporaryDirectory()
    server = RedisServer(
        str(binary_of(kind)), Path(directory.name), appendfsync=appendfsync, options={"list-compress-depth": "1"}
    )
    with directory, server:
        async with server.client() as client:
            frontier = await Frontier.open(client, Options(crawl_id="bench", **options))
            yield Bench(client, frontier)


def candidates(hosts: int, pages: int, first: int = 0) -> list[Candidate]:
    """URLs as the web has them: a mean path of 38 bytes; in page order, so that hosts alternate."""
    made = []
    for page in range(first, first + pages):
        for host in range(hosts):
            url = f"https://h{host}.test/articles/{page % 97}/some-longer-name-{page}.html"
            made.append(Candidate(url, fingerprint(url), f"h{host}.test"))
    return made


def chunked(items: Sequence[Any], size: int = BATCH) -> list[Sequence[Any]]:
    """Parts of ``size``."""
    return [items[at : at + size] for at in range(0, len(items), size)]


def in_calls(frontier: Frontier, found: Sequence[Candidate]) -> list[Sequence[Candidate]]:
    """Candidates as the batcher sends them: chunks of one partition each."""
    parts: list[list[Candidate]] = [[] for _ in range(frontier.partitions)]
    for candidate in found:
        parts[frontier.partition_of(candidate.group)].append(candidate)
    return [chunk for part in parts for chunk in chunked(part)]


async def measure_adds(kind: str, count: int, hosts: int) -> dict[str, float]:
    """New URLs, then the same again: mostly seen, as links are."""
    async with bench(kind, "") as b:
        calls = in_calls(b.frontier, candidates(hosts, count // hosts))
        added = await b.timed(count, lambda: b.spread(calls, b.frontier.add))
        seen = await b.timed(count, lambda: b.spread(calls, b.frontier.add))
        return {**added.shown("adds"), **seen.shown("seen_checks")}


async def measure_cycles(kind: str, appendfsync: str, groups: int) -> dict[str, float]:
    """lease → fetched → seal → publish, a URL in each of ``groups`` groups due."""
    async with bench(kind, appendfsync) as b:
        await b.spread(in_calls(b.frontier, candidates(groups, 1)), b.frontier.add)
        done: list[int] = []

        async def worker(number: int) -> None:
            name, segment = f"w{number}", f"w{number}-1"
            while True:
                raw = os.urandom(16 * 100)
                reply = await b.frontier.lease([raw[at : at + 16] for at in range(0, len(raw), 16)], name)
                if not reply.leases:
                    break
                await b.frontier.fetched([(lease, Wire(0, 1000, b"p" * 27)) for lease in reply.leases])
                await b.frontier.seal(name, reply.leases, segment)
                done.append(len(reply.leases))
            decided = await b.frontier.decide(segment, Decision.PUBLISHED, "{}")
            await b.frontier.settle(segment, decided.decision)

        async def work() -> None:
            await asyncio.gather(*(worker(number) for number in range(IN_FLIGHT)))

        rate = await b.timed(groups, work)
        assert sum(done) == groups, f"{sum(done)} of {groups} were leased"
        return rate.shown(f"cycles_{appendfsync or 'no'}")


async def measure_memory(kind: str, count: int) -> dict[str, float]:
    """Bytes a seen URL (URLs leased out and done), a queued URL beyond the head of its group, a group with one
    URL."""
    async with bench(kind, "", frontier_partitions=1) as b:
        start = await b.used()
        await b.spread(chunked(candidates(count, 1)), b.frontier.add)
        group = (await b.used() - start) / count
    async with bench(kind, "", frontier_partitions=1) as b:
        start = await b.used()
        await b.spread(chunked(candidates(10, count // 10)), b.frontier.add)
        both = (await b.used() - start) / count
        seen = sum([await b.client.memory_usage(f"{{bench:0}}:seen:{i}", samples=0) or 0 for i in range(200)])
        members = sum([await b.client.scard(f"{{bench:0}}:seen:{i}") for i in range(200)])
        overhead = 64  # dict entry, key object and hash slot of a bucket, which MEMORY USAGE leaves out in part
        each = (seen + 200 * overhead) / members
    return {
        "bytes_per_seen_url": round(each, 1),
        "bytes_per_queued_url": round(both - each, 1),
        "bytes_per_group": round(group - each, 1),
    }


async def measure_latency(kind: str, deep: int, wide: int) -> dict[str, float]:
    """Redis's time for a lease of 100: with ``deep`` URLs in one group among others, and with ``wide`` groups."""
    found = {}
    for name, groups, pages in (("deep", 100, deep // 100), ("wide", wide, 1)):
        async with bench(kind, "", frontier_partitions=1) as b:
            await b.spread(chunked(candidates(groups, pages)), b.frontier.add)
            found[name] = await _lease_p99(b, 200)
    return {"lease_p99_ms": max(found.values()), **{f"lease_p99_{name}_ms": value for name, value in found.items()}}


async def _lease_p99(b: Bench, rounds: int) -> float:
    times, leases = [], list[Lease]()
    for _ in range(rounds):
        before = await b.cpu()
        raw = os.urandom(1600)
        leases = list((await b.frontier.lease([raw[at : at + 16] for at in range(0, 1600, 16)], "w", 0)).leases)
        times.append((await b.cpu() - before) * 1000)
        await b.frontier.fetched([(lease, Wire(0, 0)) for lease in leases])
    return round(quantiles(times, n=100)[98], 3)


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything, in one dictionary."""
    kind = arguments.server
    found: dict[str, Any] = {"server": kind, "urls": arguments.urls}
    found |= await measure_adds(kind, arguments.urls, 2000)
    for appendfsync in ("", "everysec", "always"):
        found |= await measure_cycles(kind, appendfsync, arguments.groups)
    found |= await measure_memory(kind, arguments.urls)
    found |= await measure_latency(kind, arguments.urls, arguments.urls // 4)
    return found


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frontier", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--server", default="valkey", choices=("valkey", "redis"))
    parser.add_argument("--urls", type=int, default=400_000)
    parser.add_argument("--groups", type=int, default=10_000)
    arguments = parser.parse_args()
    found = uvloop.run(measure(arguments))
    print(json.dumps(found, indent=2) if arguments.json else "\n".join(f"{name:32} {found[name]}" for name in found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
