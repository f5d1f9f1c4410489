"""A disk that is full stops the worker with a message after a while; what it could not store is not lost."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from tests.support.crawl import documents
from tests.support.runs import assert_settled, crawl_of
from tests.support.servers import RedisServer
from tests.support.site import Say, serve_site

PAGES = 40
LIMIT = 150_000  # bytes of the largest file, less than the segment of all pages


def prose(number: int) -> str:
    """A page whose text hardly compresses."""
    words = random.Random(number)
    return " ".join(f"{words.getrandbits(48):x}" for _ in range(900))


def test_a_full_disk_stops_the_worker_and_loses_nothing(valkey: RedisServer, tmp_path: Path) -> None:
    """A limit on file sizes stands for the full disk: it needs no root, and root is bound by it."""
    answers = {f"d{number}.test/": Say(f"<html><body><p>{prose(number)}</p></body></html>") for number in range(PAGES)}
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("".join(f"http://{place}\n" for place in answers))
    settings = {"STORAGE_PATIENCE": 1.0, "SESSION_TTL": 3}
    with serve_site(answers) as site, crawl_of(site, valkey, tmp_path / "crawl", "full", **settings) as crawl:
        full = crawl.start("broad", {"seeds": seeds}, file_size=LIMIT)
        assert full.wait(60) == 1
        assert full.reason == "storage_failed"
        assert "this worker stops, since nothing can be stored: " in full.log
        assert "Traceback" not in full.log
        freed = crawl.run("broad", {"seeds": seeds})
        assert freed.reason == "finished"
        assert_settled(crawl.snapshot())
        rows = Counter(row["url"] for row in documents(crawl.output))
    assert rows == Counter(f"http://{place}" for place in answers)
