"""URLs pushed to `<spider>:start_urls` while the crawl runs, as users of scrapy-redis do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.poll import until
from tests.support.runs import assert_settled, crawl_of
from tests.support.servers import RedisServer
from tests.support.site import Say, page, serve_site


@pytest.mark.parametrize("kind", ["list", pytest.param("set", marks=pytest.mark.long)])
def test_pushed_urls_are_crawled_and_taken_off(valkey: RedisServer, tmp_path: Path, kind: str) -> None:
    answers = {f"pushed{number}.test/": page() for number in range(5)}
    key = f"follower-{kind}:seeds"
    settings = {"REDIS_START_URLS_KEY": f"%(name)s-{kind}:seeds", "DOWNLOAD_DELAY": 0.5}
    answers |= {f"quotes.test/{number}": page() for number in range(12)}
    first = ",".join(f"http://quotes.test/{number}" for number in range(12))
    with (
        valkey.sync_client() as redis,
        serve_site(answers) as site,
        crawl_of(site, valkey, tmp_path, f"pushed-{kind}", **settings) as crawl,
    ):
        run = crawl.start("follower", {"first": first})
        until(lambda: site.count("quotes.test/0") + site.count("quotes.test/1"), 30, "the crawl being at work")
        entries: list[str] = [f"http://pushed{number}.test/" for number in range(4)]
        entries += [json.dumps({"url": "http://pushed4.test/", "meta": {}}), "no url", "http://pushed0.test/"]
        push = redis.rpush if kind == "list" else redis.sadd
        push(key, *entries)
        assert run.wait(60) == 0
        assert not redis.exists(key)
        assert_settled(crawl.snapshot())
    pushed = sorted(item["url"] for item in run.items if "pushed" in item["url"])
    assert pushed == [f"http://pushed{number}.test/" for number in range(5)]
    assert f"{key}: entry b'no url' is left out" in run.log


def test_urls_pushed_before_the_start_are_the_crawl(valkey: RedisServer, tmp_path: Path) -> None:
    """As scrapy-redis's spiders begin: nothing to start with but what is pushed."""
    with (
        valkey.sync_client() as redis,
        serve_site({"early.test/": Say("<p>early</p>")}) as site,
        crawl_of(site, valkey, tmp_path, "early") as crawl,
    ):
        redis.lpush("broad:start_urls", "http://early.test/")
        crawl.run("broad")
        assert_settled(crawl.snapshot())
        assert site.count("early.test/") == 1
