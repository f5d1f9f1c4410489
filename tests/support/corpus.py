"""Workers for tests of the corpus: each step is called by the test, and any step may be its last."""

from __future__ import annotations

import gzip
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from crawler.frontier import Answer, Candidate, Frontier, Lease, Wire
from crawler.frontier.model import Model
from crawler.hosts import politeness_group
from crawler.storage import CorpusWriter, DirectorySink, document, fetch_entry
from crawler.storage.manifests import Manifest
from crawler.storage.verify import verify
from crawler.urls import fingerprint

CRAWL = "test"
NOW = 1_785_150_000.0
"""The time of day of every fetch, in seconds."""


class VirtualClock:
    """Seconds that pass only by sleeping: a fence of a server without append-only file takes no time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class Crash(BaseException):
    """The process ends here. Nothing may catch it."""


class CrashPoint:
    """Raises Crash in the place of one call to the objects it watches: number ``at``, or the first one to ``name``."""

    def __init__(self, at: int = -1, name: str = "") -> None:
        self.left = at
        self.name = name
        self.calls: list[str] = []

    def watch(self, target: Any) -> Any:
        """The same object, whose public methods count."""
        return _Watched(target, self)

    def step(self, name: str) -> None:
        """One more call."""
        self.calls.append(name)
        if self.left == 0 or name == self.name:
            raise Crash(name)
        self.left -= 1


class _Watched:
    def __init__(self, target: Any, point: CrashPoint) -> None:
        self._target = target
        self._point = point

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)

        def counted(*args: Any, **arguments: Any) -> Any:
            self._point.step(name)
            return method(*args, **arguments)

        return counted


class Corpus:
    """A directory with an output and spools, and workers that write there through one frontier."""

    def __init__(self, root: Path, frontier: Frontier | Model) -> None:
        self.root = root
        self.output = root / "out"
        self.spools = root / "spool"
        self.frontier = frontier
        self.sink = DirectorySink(self.output)
        self.workers: list[CorpusWriter] = []
        self.now_ms = 0

    async def worker(self, name: str, *, frontier: Any = None, sink: Any = None, **arguments: Any) -> CorpusWriter:
        """A writer that does nothing in the background."""
        arguments = {"segment_max_age": 3600.0, "wall": lambda: NOW, **arguments}
        writer = CorpusWriter(
            frontier or self.frontier, sink or self.sink, spool_dir=self.spools, crawl=CRAWL, worker=name, **arguments
        )
        await writer.open(background=False)
        self.workers.append(writer)
        return writer

    async def add(self, urls: list[str]) -> None:
        """Offer URLs to the frontier."""
        await self.frontier.add([Candidate(url, fingerprint(url), politeness_group(url)) for url in urls])

    async def fetch(self, worker: str, count: int = 100, now: int | None = None) -> list[Lease]:
        """Lease what is due and end the requests: the URLs are held by the worker."""
        reply = await self.frontier.lease([os.urandom(16) for _ in range(count)], worker, now=now)
        self.now_ms = reply.now_ms
        await self.frontier.fetched([(lease, Wire(0, 0)) for lease in reply.leases], now=now)
        return list(reply.leases)

    def write(self, writer: CorpusWriter, worker: str, leases: list[Lease]) -> None:
        """Append a document and a fetch-log entry for each lease; the text tells which worker fetched it."""
        for lease in leases:
            writer.append(lease, [page(lease, worker)])
            writer.log(fetch_entry(url=lease.url, key=lease.key, logged_at=NOW, status=200, kind="ok"))

    def texts(self) -> dict[str, str]:
        """URL to text of every document that a manifest names; AssertionError when the corpus is not right."""
        report = verify(self.sink)
        assert report.ok, report.faults
        found = {}
        for segment in self.sink.manifests():
            for entry in Manifest.parse(self.sink.read_manifest(segment)).objects:
                if entry.key.startswith("documents/"):
                    for line in gzip.decompress((self.output / entry.key).read_bytes()).splitlines():
                        found[orjson.loads(line)["url"]] = orjson.loads(line)["text"]
        assert len(found) == report.documents
        return found

    def kill(self, writer: CorpusWriter) -> None:
        """What the kernel does to a killed process: its files are closed and its lock is free."""
        writer._open.close()
        for spool in (writer._spool, *writer._backlog._adopted):
            if spool._lock >= 0:
                os.close(spool._lock)
                spool._lock = -1
        writer._running = False
        self.workers.remove(writer)

    def spool_files(self) -> list[str]:
        """Names of all files in all spools but those of the living."""
        return sorted(path.name for path in self.spools.rglob("*") if path.is_file() and path.suffix != ".lock")


def page(lease: Lease, worker: str, **metadata: Any) -> dict[str, Any]:
    """A document of a lease."""
    return document(
        url=lease.url,
        key=lease.key,
        visit=lease.visit,
        crawl_id=CRAWL,
        worker=worker,
        text=worker,
        fetched_at=NOW,
        added=NOW,
        status=200,
        **metadata,
    )


def urls(count: int) -> list[str]:
    """URLs that are all due at once: each has its own group."""
    return [f"http://site{number}.test/" for number in range(count)]


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """A real limit on file sizes: writes beyond it fail half done with EFBIG, as those on a full disk with ENOSPC."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


Settled = dict[bytes, Answer]


def recorder(into: Settled) -> Callable[[bytes, Answer], None]:
    """An ``on_settled`` that remembers."""
    return into.__setitem__
