"""`make crawl` without seeds: serves the demo web from this process and crawls it with a child `scrapy crawl broad`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path

import uvloop

from crawler.demo.profiles import demo
from crawler.demo.web import serving
from crawler.demo.world import World

STATE_DIR = Path(".longline")
DEPTH_LIMIT = 16  # where the endless calendar ends
SETTINGS = {
    "DOWNLOAD_DELAY": "0.2",
    "DEPTH_LIMIT": str(DEPTH_LIMIT),
    "RETRY_DELAYS": "1,2,3,4",
    "OFFLINE_AFTER": "20",
    "SEGMENT_MAX_AGE": "10",
    "USER_AGENT": "longline-demo/1.0 (+http://h0.test/)",
}


@dataclass(frozen=True)
class DemoCrawl:
    """One crawl of the demo web into `output`; `extra` are further settings, each as NAME=VALUE."""

    output: Path
    crawl_id: str
    extra: tuple[str, ...] = ()

    def run(self) -> int:
        """Serves, crawls to the end or to Ctrl-C, and gives the crawl's exit code."""
        world = demo()
        STATE_DIR.mkdir(exist_ok=True)
        seeds = STATE_DIR / "demo-seeds.txt"
        seeds.write_text("".join(f"{url}\n" for url in world.seeds), "ascii")
        code = uvloop.run(self._serve_and_crawl(world, seeds))
        return code if code >= 0 else 128 - code  # as a shell gives a death by signal

    async def _serve_and_crawl(self, world: World, seeds: Path) -> int:
        async with serving(world, log=STATE_DIR / "demo-access.tsv") as port:
            relay = _Relay(asyncio.get_running_loop())
            # A session of its own: a Ctrl-C that the terminal gives to a whole group, and that we pass on, would reach
            # Scrapy twice, which it takes for an order to stop uncleanly.
            child = await asyncio.create_subprocess_exec(*self.command(seeds, port), start_new_session=True)
            relay.to(child)
            return await child.wait()

    def command(self, seeds: Path, port: int) -> list[str]:
        """The crawl's command line."""
        settings = {
            **SETTINGS,
            "CRAWL_ID": self.crawl_id,
            "OUTPUT": str(self.output),
            "RESOLVE": json.dumps({"*.test": f"127.0.0.1:{port}"}),
        }
        pairs = [*(f"{name}={value}" for name, value in settings.items()), *self.extra]
        options = [word for pair in pairs for word in ("-s", pair)]
        return [sys.executable, "-m", "scrapy", "crawl", "broad", "-a", f"seeds={seeds}", *options]


class _Relay:
    """Passes each signal that should stop us on to the child, once; one that comes before the child waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._child: Process | None = None
        self._early: list[signal.Signals] = []
        loop.add_signal_handler(signal.SIGINT, self._pass_on, signal.SIGINT)
        loop.add_signal_handler(signal.SIGTERM, self._pass_on, signal.SIGTERM)
        loop.add_signal_handler(signal.SIGHUP, self._pass_on, signal.SIGTERM)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)

    def to(self, child: Process) -> None:
        """The child is there."""
        self._child = child
        for number in self._early:
            self._pass_on(number)

    def _pass_on(self, number: signal.Signals) -> None:
        if self._child is None:
            self._early.append(number)
        elif self._child.returncode is None:
            self._child.send_signal(number)

    def _suspend(self) -> None:
        self._pass_on(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._pass_on(signal.SIGCONT)  # the shell has continued us
