"""Downloads in the middle of a callback: as polite as any other request, and no harm to the page's lease."""

from __future__ import annotations

from pathlib import Path

from crawler.demo.witness import violations
from tests.support.runs import assert_settled, crawl_of
from tests.support.servers import RedisServer
from tests.support.site import Say, page, serve_site

DELAY = 0.3


def test_inline_downloads_take_turns_and_obey_robots_txt(valkey: RedisServer, tmp_path: Path) -> None:
    rules = Say("User-agent: *\nDisallow: /private/\nCrawl-delay: 0.5\n", headers={"Content-Type": "text/plain"})
    answers = {"new.test/robots.txt": rules, "quotes.test/1": page(), "quotes.test/2": page()}
    for number in "12":
        answers |= {f"{host}.test/inline?of={number}": page() for host in ("quotes", "new")}
        answers |= {f"new.test/private/x?of={number}": page(), f"quotes.test/0?of={number}": Say(status=0)}
    with serve_site(answers) as site, crawl_of(site, valkey, tmp_path, "inline", DOWNLOAD_DELAY=DELAY) as crawl:
        run = crawl.run("inline")
        assert_settled(crawl.snapshot())
    assert len(run.items) == 2
    for item in run.items:
        assert item["http://quotes.test/inline"] == 200
        assert item["http://new.test/inline"] == 200
        assert item["http://new.test/private/x"] == "IgnoreRequest"
        assert item["http://quotes.test/0"] == "FetchError"
    assert not any(path.startswith("/private/") for path in site.paths("new.test"))
    assert site.paths("new.test").count("/robots.txt") <= 2, "two callbacks may ask at the same time"
    assert violations(site.hits, {"quotes.test": DELAY, "new.test": 0.5}) == []
