"""Scrapy's and scrapy-redis's settings keep their meaning, and a crawl that is stopped goes on where it was."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.demo.witness import violations
from tests.support.crawl import documents
from tests.support.poll import until
from tests.support.runs import Crawl, assert_settled, crawl_of
from tests.support.servers import RedisServer
from tests.support.site import Say, Site, page, serve_site

DELAY = 0.15


def tree(groups: int = 8, pages: int = 6) -> dict[str, Say]:
    """Sites whose first pages link to all others of their own and to the next site."""
    answers = {}
    for group in range(groups):
        links = [f"/{number}" for number in range(1, pages)]
        answers[f"g{group}.test/"] = page(*links, f"http://g{(group + 1) % groups}.test/")
        answers |= {f"g{group}.test{link}": page("/") for link in links}
    return answers


FIRST = {"first": "http://g0.test/"}


def test_a_flushed_server_is_said_and_the_crawl_ends(start_server: Callable[..., RedisServer], tmp_path: Path) -> None:
    server = start_server()
    with serve_site(tree()) as site, crawl_of(site, server, tmp_path, "flushed", DOWNLOAD_DELAY=DELAY) as crawl:
        worker = crawl.start("follower", FIRST)
        until(lambda: len(site.hits) > 15, 30, "the crawl being in its middle")
        with server.sync_client() as client:
            client.flushall()
        assert worker.wait(60) == 0, worker.log[-3000:]
    assert worker.reason == "finished"
    assert worker.log.count("the server holds nothing of crawl 'flushed' any more") == 1


def test_a_worker_that_waits_asks_seldom(start_server: Callable[..., RedisServer], tmp_path: Path) -> None:
    """One page that is due in ten minutes; looking for the end twice a second were 40 calls a second."""
    server, calls = start_server(), 100
    with (
        serve_site({"g0.test/": Say("busy", status=500)}) as site,
        crawl_of(site, server, tmp_path, "waits", RETRY_DELAYS="600") as crawl,
        server.sync_client() as client,
    ):
        crawl.start("follower", FIRST)
        until(lambda: crawl.snapshot().delayed == 1, 30, "the page being put off")
        client.config_resetstat()
        begun = time.monotonic()
        until(lambda: client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0) > calls, 60, "some calls")
        assert calls / (time.monotonic() - begun) < 25


def test_a_stopped_crawl_goes_on_and_ends_with_every_page_once(valkey: RedisServer, tmp_path: Path) -> None:
    """Ctrl-C in the middle, with requests in flight and leases prefetched; then the same command."""
    with (
        serve_site({**tree(), "g0.test/1": Say("<p>slow</p>", after=0.5)}) as site,
        crawl_of(site, valkey, tmp_path, "stopped", DOWNLOAD_DELAY=DELAY) as crawl,
    ):
        seeds = tmp_path / "seeds.txt"
        seeds.write_text("http://g0.test/\n")
        first = crawl.start("broad", {"seeds": seeds})
        until(lambda: len(site.hits) > 25, 30, "the crawl being in its middle")
        first.interrupt()
        assert first.wait(30) == 0, first.log[-3000:]
        assert first.reason == "shutdown"
        snapshot = crawl.snapshot()
        assert (snapshot.leased, snapshot.held, snapshot.sealed) == (0, 0, 0)
        assert snapshot.queued > 0
        assert snapshot.done == len(list(documents(crawl.output))), "what was fetched is published"
        second = crawl.run("broad", {"seeds": seeds})
        assert second.reason == "finished"
        assert_settled(crawl.snapshot())
        third = crawl.run("broad", {"seeds": seeds})
        fetched = Counter(row["url"] for row in documents(crawl.output))
    assert fetched == Counter(f"http://{place}" for place in tree())
    assert violations(site.hits, DELAY) == []
    assert third.stat("frontier/added") == 0
    assert set(Counter(hit.url for hit in site.hits).values()) == {1}, "nothing was fetched again"


class TestScrapysSettings:
    """One crawl for each, on the same small web."""

    def crawl(self, valkey: RedisServer, root: Path, name: str, **settings: object) -> tuple[Site, Crawl]:
        with serve_site(tree()) as site, crawl_of(site, valkey, root, name, **settings) as crawl:
            crawl.run("follower", FIRST)
            return site, crawl

    def test_depth_limit(self, valkey: RedisServer, tmp_path: Path) -> None:
        _, crawl = self.crawl(valkey, tmp_path, "depth", DEPTH_LIMIT=2)
        items = crawl.runs[0].items
        assert max(item["depth"] for item in items) == 2
        assert {item["url"] for item in items if item["depth"] < 2} == {
            "http://g0.test/",
            "http://g1.test/",
            *(f"http://g0.test/{number}" for number in range(1, 6)),
        }

    def test_concurrent_requests(self, valkey: RedisServer, tmp_path: Path) -> None:
        answers = {f"c{number}.test/": Say("<p>x</p>", after=0.1) for number in range(10)}
        first = ",".join(f"http://{place}" for place in answers)
        settings = {"CONCURRENT_REQUESTS": 2, "ROBOTSTXT_OBEY": False}
        with serve_site(answers) as site, crawl_of(site, valkey, tmp_path, "two", **settings) as crawl:
            crawl.run("follower", {"first": first})
        starts = sorted(hit.start for hit in site.hits)
        assert len(starts) == 10
        assert all(later - early >= 0.1 for early, later in zip(starts, starts[2:], strict=False)), "three at once"

    @pytest.mark.parametrize(
        ("setting", "reason"),
        [
            ({"CLOSESPIDER_PAGECOUNT": 5}, "closespider_pagecount"),
            pytest.param({"CLOSESPIDER_ITEMCOUNT": 5}, "closespider_itemcount", marks=pytest.mark.long),
            ({"CLOSESPIDER_TIMEOUT": 1, "DOWNLOAD_DELAY": 0.4}, "closespider_timeout"),
        ],
    )
    def test_closespider(self, valkey: RedisServer, tmp_path: Path, setting: dict[str, float], reason: str) -> None:
        _, crawl = self.crawl(valkey, tmp_path, reason, **setting)
        assert crawl.runs[0].reason == reason
        snapshot = crawl.snapshot()
        assert (snapshot.leased, snapshot.held) == (0, 0)
        assert snapshot.queued + snapshot.done == snapshot.added
        assert snapshot.queued > 0

    def test_autothrottle(self, valkey: RedisServer, tmp_path: Path) -> None:
        """A host that takes 0.4 s is asked every 0.4 s at most, whatever DOWNLOAD_DELAY allows."""
        answers = {f"slow.test/{number}": Say("<p>x</p>", after=0.4) for number in range(3)}
        first = ",".join(f"http://{place}" for place in answers)
        settings = {"AUTOTHROTTLE_ENABLED": True, "ROBOTSTXT_OBEY": False}
        with serve_site(answers) as site, crawl_of(site, valkey, tmp_path, "throttle", **settings) as crawl:
            crawl.run("follower", {"first": first})
        assert len(site.hits) == 3
        assert violations(site.hits, 0.38) == []

    def test_allowed_domains(self, valkey: RedisServer, tmp_path: Path) -> None:
        with serve_site(tree()) as site, crawl_of(site, valkey, tmp_path, "domains") as crawl:
            crawl.run("follower", {**FIRST, "domains": "g0.test,g1.test"})
            assert_settled(crawl.snapshot())
        assert {hit.host for hit in site.hits} == {"g0.test", "g1.test"}


def test_the_frontier_is_kept_or_purged_as_scrapy_redis_says(valkey: RedisServer, tmp_path: Path) -> None:
    """Kept by default; flushed at a start that is alone; purged at the end without SCHEDULER_PERSIST."""
    with (
        valkey.sync_client() as redis,
        serve_site(tree(2, 2)) as site,
        crawl_of(site, valkey, tmp_path, "persist") as crawl,
    ):
        crawl.run("follower", FIRST)
        assert site.count("g0.test/1") == 1
        crawl.run("follower", FIRST)
        assert site.count("g0.test/1") == 1, "it is finished, and known to be"
        crawl.run("follower", FIRST, SCHEDULER_FLUSH_ON_START=True)
        assert site.count("g0.test/1") == 2
        crawl.run("follower", FIRST, SCHEDULER_FLUSH_ON_START=True, SCHEDULER_PERSIST=False)
        assert site.count("g0.test/1") == 3, "who left does not count as being at work"
        assert redis.keys("*persist*") == []


@pytest.mark.long
def test_a_worker_that_joins_does_not_flush(valkey: RedisServer, tmp_path: Path) -> None:
    with serve_site(tree()) as site, crawl_of(site, valkey, tmp_path, "join", DOWNLOAD_DELAY=0.3) as crawl:
        first = crawl.start("follower", FIRST)
        until(lambda: len(site.hits) > 3, 30, "the first being at work")
        second = crawl.start("follower", FIRST, SCHEDULER_FLUSH_ON_START=True)
        assert (first.wait(60), second.wait(60)) == (0, 0)
        assert_settled(crawl.snapshot())
    assert "SCHEDULER_FLUSH_ON_START: nothing is purged, others are at crawl 'join'" in second.log
    assert set(Counter(hit.url for hit in site.hits).values()) == {1}
