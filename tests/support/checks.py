"""What must be true of a crawl that is over, or stands still: each check gives its faults, none when all is well."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from crawler.frontier.keys import tag
from crawler.storage.manifests import Manifest
from crawler.storage.sinks import DirectorySink
from crawler.storage.verify import verify
from tests.stateful.scan import scan
from tests.support.servers import RedisServer

OPEN = ("queued", "delayed", "leased", "held", "sealed")
SHOWN = 5  # URLs named of each fault


def published(output: Path) -> Counter[str]:
    """How often each URL stands in the documents that manifests name."""
    sink = DirectorySink(output)
    found: Counter[str] = Counter()
    for segment in sink.manifests():
        for entry in Manifest.parse(sink.read_manifest(segment)).objects:
            if entry.key.startswith("documents/"):
                with sink.open(entry.key) as file, gzip.open(file) as lines:
                    found.update(json.loads(line)["url"] for line in lines)
    return found


def corpus_faults(output: Path, expected: Collection[str]) -> list[str]:
    """Each of `expected` stands exactly once by manifest, nothing else does, and `verify` finds the corpus right."""
    found = published(output)
    wrong = {
        "missing": [url for url in expected if url not in found],
        "more than once": [url for url, count in found.items() if count > 1],
        "not of this web": [url for url in found if url not in expected],
    }
    faults = [f"{len(urls)} pages {what}: {sorted(urls)[:SHOWN]}" for what, urls in wrong.items() if urls]
    return faults + verify(DirectorySink(output)).faults[:SHOWN]


def counter_faults(server: RedisServer, crawl: str, partitions: int, bands: int = 4) -> list[str]:
    """In each partition the counters agree with a full scan (invariant 1). Nobody may write meanwhile."""
    faults = []
    with server.sync_client() as client:
        for partition in range(partitions):
            found = scan(client, crawl, partition, bands)
            counted = found.counters
            for state, urls in found.urls.items():
                if counted.get(state, 0) != len(urls):
                    faults.append(f"partition {partition}: {counted.get(state, 0)} {state} counted, {len(urls)} found")
            known = counted.get("done", 0) + sum(map(len, found.urls.values()))
            if counted.get("added", 0) != known:
                faults.append(f"partition {partition}: {counted.get('added', 0)} added, {known} in some state")
    return faults


def decisions(server: RedisServer, crawl: str, partitions: int) -> dict[str, str]:
    """P or A for every segment that was decided about."""
    with server.sync_client() as client:
        return {
            segment.decode(): stored[1:2].decode()
            for partition in range(partitions)
            for segment, stored in client.hgetall(tag(crawl, partition) + "decisions").items()
        }
