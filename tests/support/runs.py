"""Runs any spider of the tests as a child process, on a server of the test's, and tells how it went."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crawler.frontier import Frontier, Snapshot
from crawler.options import Options
from tests.support.crawl import CONTACT, REPOSITORY
from tests.support.servers import RedisServer
from tests.support.site import Site

SPIDERS = "tests.support.spiders"


@dataclass
class Run:
    """One worker that has been started. `items` are what the feed has, `log` all that was said."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text("utf-8", "replace")

    @property
    def items(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "items.jsonl").read_text("utf-8").splitlines()]

    def stat(self, name: str) -> int:
        """A figure of Scrapy's stats as they were dumped at the end; 0 when it is not there."""
        found = re.search(rf"'{re.escape(name)}': (\d+)", self.log)
        return int(found[1]) if found else 0

    @property
    def reason(self) -> str:
        """Why the spider was closed."""
        found = re.search(r"Spider closed \((\w+)\)", self.log)
        return found[1] if found else ""

    def wait(self, deadline_s: float) -> int:
        """The exit code."""
        return self.process.wait(deadline_s)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)


@dataclass
class Crawl:
    """A crawl of `site` whose frontier lies on `server`; each `start` is one more worker or one more go."""

    root: Path
    site: Site
    server: RedisServer
    name: str = "test"
    settings: dict[str, Any] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    @property
    def output(self) -> Path:
        return self.root / "output"

    def command(self, spider: str, arguments: dict[str, Any], settings: dict[str, Any], folder: Path) -> list[str]:
        everything = {
            "SPIDER_MODULES": f"{SPIDERS},crawler.spiders",
            "REDIS_URL": self.server.url,
            "CRAWL_ID": self.name,
            "OUTPUT": self.output,
            "SPOOL_DIR": self.root / "spool",
            "RESOLVE": self.site.resolve,
            "USER_AGENT": CONTACT,
            "PROGRESS": "off",
            "DOWNLOAD_DELAY": 0.02,
            "GROUP_COMMIT": 0.05,
            **self.settings,
            **settings,
        }
        words = [sys.executable, "-m", "scrapy", "crawl", spider]
        words += [] if spider == "broad" else ["-o", f"{folder / 'items.jsonl'}:jsonlines"]
        words += [word for name, value in arguments.items() for word in ("-a", f"{name}={value}")]
        return words + [word for name, value in everything.items() for word in ("-s", f"{name}={value}")]

    def start(
        self, spider: str, arguments: dict[str, Any] | None = None, *, file_size: int = 0, **settings: Any
    ) -> Run:
        """Start one worker; no file of its grows beyond `file_size` bytes, if that is given."""
        folder = self.root / f"run{len(self.runs)}"
        folder.mkdir(parents=True)
        with (folder / "log.txt").open("wb") as log:
            process = subprocess.Popen(
                self.command(spider, arguments or {}, settings, folder),
                cwd=REPOSITORY,
                env={**os.environ, "SCRAPY_PROJECT": "default"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if file_size:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (file_size, file_size))
        run = Run(folder, process)
        self.runs.append(run)
        return run

    def run(self, spider: str, arguments: dict[str, Any] | None = None, **settings: Any) -> Run:
        """Crawl to the end. AssertionError with the log's end when the worker fails."""
        run = self.start(spider, arguments, **settings)
        code = run.wait(60)
        assert code == 0, run.log[-4000:]
        return run

    def snapshot(self) -> Snapshot:
        """The frontier's counters."""
        return asyncio.run(self._with_frontier(lambda frontier: frontier.snapshot()))

    def dead(self) -> dict[str, tuple[str, ...]]:
        """The dead letters: URL to reasons."""

        async def ask(frontier: Frontier) -> dict[str, tuple[str, ...]]:
            letters, cursor = [], ""
            while True:
                some, cursor = await frontier.dead(cursor)
                letters += some
                if not cursor:
                    return {letter.url: letter.reasons for letter in letters}

        return asyncio.run(self._with_frontier(ask))

    async def _with_frontier(self, ask: Any) -> Any:
        async with self.server.client() as client:
            partitions = int(self.settings.get("FRONTIER_PARTITIONS", 16))
            frontier = await Frontier.open(client, Options(crawl_id=self.name, frontier_partitions=partitions))
            return await ask(frontier)

    def end(self) -> None:
        """Whatever still runs is killed."""
        for run in self.runs:
            if run.process.poll() is None:
                run.process.kill()
                run.process.wait()


@contextmanager
def crawl_of(site: Site, server: RedisServer, root: Path, name: str = "test", **settings: Any) -> Iterator[Crawl]:
    """A crawl whose workers end with the block."""
    crawl = Crawl(root, site, server, name, settings)
    try:
        yield crawl
    finally:
        crawl.end()


def assert_settled(snapshot: Snapshot) -> None:
    """Every URL that was ever added has had its one end: nothing is leased, held or under way."""
    assert snapshot.open == 0, snapshot
    assert snapshot.added == snapshot.done + snapshot.dead, snapshot
