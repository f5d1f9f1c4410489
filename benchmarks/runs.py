"""One measured crawl: ours, or a peer's, as child processes whose CPU is counted to the end, their Redis included."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from benchmarks.webs import BENCH, REPOSITORY, Web
from crawler.embedded import Embedded

CONCURRENCY = 200
TUNED = ("CONCURRENT_ITEMS=4", "ASYNCIO_EVENT_LOOP=uvloop.Loop", "REFERER_ENABLED=false")

# Commands that scripts never call. Redis counts what a script calls like what a client sends; the rest is the scripts'.
SENT_BY_CLIENTS = frozenset({
    "eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro", "script", "function", "multi", "exec", "wait",
    "waitaof", "ping", "hello", "auth", "select", "info", "client", "config", "command", "cluster", "memory", "acl",
    "subscribe", "unsubscribe", "psubscribe", "publish",
})  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What one crawl did and cost. CPU in seconds, user and system, of all its processes from start to end."""

    who: str
    pages: int
    wall_s: float
    worker_cpu_s: float
    redis_cpu_s: float = 0.0
    worker_rss_mb: int = 0
    redis_commands: Mapping[str, int] = field(default_factory=dict)

    @property
    def pages_per_cpu_s(self) -> float:
        """Pages per second of CPU, Redis counted."""
        return self.pages / (self.worker_cpu_s + self.redis_cpu_s)

    def figures(self) -> dict[str, float]:
        """The figures of which medians are taken."""
        sent = sum(n for name, n in self.redis_commands.items() if name.split("|")[0] in SENT_BY_CLIENTS)
        return {
            "pages": self.pages,
            "pages_per_cpu_s": self.pages_per_cpu_s,
            "pages_per_s": self.pages / self.wall_s,
            "worker_cpu_ms_per_page": 1000 * self.worker_cpu_s / self.pages,
            "redis_cpu_ms_per_page": 1000 * self.redis_cpu_s / self.pages,
            "redis_commands_sent_per_page": sent / self.pages,
            "redis_commands_run_per_page": sum(self.redis_commands.values()) / self.pages,
            "worker_rss_mb": self.worker_rss_mb,
        }


def ours(web: Web, pages: int, settings: Mapping[str, str] | None = None) -> Run:
    """A fresh crawl of ours with a server of its own, as the embedded one is run. Raises SystemExit when it fails."""
    with tempfile.TemporaryDirectory(prefix="longline-bench-") as name, _server(Path(name)) as server:
        folder = Path(name)
        seeds = folder / "seeds.txt"
        seeds.write_text("".join(f"{url}\n" for url in web.seeds), "ascii")
        values = {
            "REDIS_URL": f"unix://{server.socket}",
            "CRAWL_ID": "benchmark",
            "RESOLVE": web.resolve,
            "OUTPUT": str(folder / "output"),
            "SPOOL_DIR": str(folder / "spool"),
            "DOWNLOAD_DELAY": "0",
            "CONCURRENT_REQUESTS": str(CONCURRENCY),
            "CLOSESPIDER_PAGECOUNT": str(pages),
            "USER_AGENT": "longline-benchmark/1.0 (+http://h0.test/)",
            "PROGRESS": "off",
            "LOG_LEVEL": "WARNING",
            **(settings or {}),
        }
        command = [sys.executable, "-m", "scrapy", "crawl", "broad", "-a", f"seeds={seeds}"]
        command += [word for pair in values.items() for word in ("-s", "=".join(pair))]
        child = _measured(command, dict(os.environ))
        cpu_s, commands = _redis_cost(server)
        return Run("longline", _rows(folder / "output"), *child.cost, cpu_s, child.rss_mb, commands)


def scrapy(web: Web, pages: int, *, direct: bool, tuned: bool) -> Run:
    """The peer script with Scrapy's memory queue; not `direct`: with the web as its proxy, so that no name resolves."""
    arguments = TUNED if tuned else ()
    return _peer("scrapy-tuned" if tuned else "scrapy", web, [str(pages), "memory", *arguments], {}, direct)


def scrapy_redis(web: Web, pages: int, *, direct: bool) -> Run:
    """The peer script with scrapy-redis on a server like ours, whose CPU is counted too."""
    with tempfile.TemporaryDirectory(prefix="longline-bench-") as name, _server(Path(name)) as server:
        url = {"REDIS_URL": f"unix://{server.socket}"}
        run = _peer("scrapy-redis", web, [str(pages), "redis"], url, direct)
        cpu_s, commands = _redis_cost(server)
        return Run(run.who, run.pages, run.wall_s, run.worker_cpu_s, cpu_s, run.worker_rss_mb, commands)


def _peer(who: str, web: Web, arguments: list[str], environment: Mapping[str, str], direct: bool) -> Run:
    proxy = {} if direct else {"http_proxy": f"http://127.0.0.1:{web.port}"}
    child = _measured(
        [sys.executable, str(BENCH / "peer_scrapy.py"), *arguments], {**os.environ, **proxy, **environment}
    )
    report = json.loads(child.output.splitlines()[-1])
    return Run(who, report["pages"], *child.cost, worker_rss_mb=child.rss_mb)


@dataclass(frozen=True)
class _Child:
    output: str
    cost: tuple[float, float]  # seconds of wall, seconds of CPU
    rss_mb: int


def _measured(command: list[str], environment: dict[str, str]) -> _Child:
    """Runs a command to its end; its CPU is what the kernel says it and its waited-for children used."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\nended with {process.returncode}:\n{err.read()[-4000:]}")
        return _Child(out.read(), (wall_s, usage.ru_utime + usage.ru_stime), usage.ru_maxrss // 1024)


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[Embedded]:
    """A server that outlives the crawl, so that it can be asked what it did."""
    server = Embedded(folder / "state")
    server.ensure()
    try:
        yield server
    finally:
        server.leave()


def _redis_cost(server: Embedded) -> tuple[float, dict[str, int]]:
    """Seconds of CPU of the server and its forks, and calls by command."""
    with redis.Redis(unix_socket_path=str(server.socket)) as client:
        cpu: dict[str, Any] = client.info("cpu")
        stats: dict[str, Any] = client.info("commandstats")
    names = ("used_cpu_user", "used_cpu_sys", "used_cpu_user_children", "used_cpu_sys_children")
    calls = {name.removeprefix("cmdstat_"): one["calls"] for name, one in stats.items()}
    return sum(cpu[name] for name in names), calls


def _rows(output: Path) -> int:
    """Documents in the corpus: only what is published counts as a page."""
    count = 0
    for part in output.glob("documents/*/*.jsonl.gz"):
        with gzip.open(part, "rb") as lines:
            count += sum(1 for _ in lines)
    if not count:
        raise SystemExit(f"the crawl ended well, but {output} holds no document")
    return count


Contender = Callable[[Web, int], Run]
