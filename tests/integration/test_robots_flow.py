"""robots.txt in a crawl: asked once in the whole fleet, before anything else, and kept to in the server's own log."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.demo.witness import violations
from tests.support.runs import Run, assert_settled, crawl_of
from tests.support.servers import RedisServer
from tests.support.site import Say, Site, moved, page, serve_site

DELAY = 0.1
TEXT = {"Content-Type": "text/plain"}
HOSTS = ("unwell", "silent", "dead", "none", "closed", "agent", "moved", "five", "six", "paced", "lazy", "huge")

Many = tuple[Site, Run, dict[str, tuple[str, ...]]]


def rules(*lines: str) -> Say:
    return Say("User-agent: *\n" + "\n".join(lines) + "\n", headers=TEXT)


def fetched(runs: list[Run]) -> set[str]:
    return {item["url"] for run in runs for item in run.items}


def test_one_worker_asks_for_the_whole_fleet(valkey: RedisServer, tmp_path: Path) -> None:
    """50 URLs of a new host, three workers, a slow robots.txt: pages of another group do not wait for it."""
    paths = [f"/{number}" for number in range(50)]
    answers: dict[str, Say] = {f"slow.test{path}": page() for path in paths}
    answers["slow.test/robots.txt"] = Say("", 404, after=1.5)
    answers["other.test/"] = page()
    first = ",".join([f"http://slow.test{path}" for path in paths] + ["http://other.test/"])
    with serve_site(answers) as site, crawl_of(site, valkey, tmp_path, "fifty", DOWNLOAD_DELAY=DELAY / 4) as crawl:
        settings = {"CONCURRENT_REQUESTS": 2}
        runs = [crawl.start("follower", {"first": first}, **settings) for _ in range(3)]
        assert [run.wait(60) for run in runs] == [0, 0, 0]
        assert_settled(crawl.snapshot())
    slow = site.paths("slow.test")
    assert (slow[0], slow.count("/robots.txt"), len(slow)) == ("/robots.txt", 1, 51)
    answered = next(hit for hit in site.hits if hit.host == "slow.test")
    other = next(hit for hit in site.hits if hit.url == "http://other.test/")
    assert other.end < answered.end, "a page held a slot while robots.txt was fetched"
    assert violations(site.hits, DELAY / 4) == []


@pytest.fixture(scope="module")
def many(valkey: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Many:
    """One crawl over sites with a robots.txt of each kind."""
    answers: dict[str, Say | list[Say]] = {f"{host}.test/": page() for host in HOSTS}
    answers |= {
        "unwell.test/robots.txt": [Say("<h1>busy</h1>", 503), Say("", 500), rules("Disallow: /private")],
        "silent.test/robots.txt": [Say(status=0), rules("Disallow: /private")],
        "dead.test/robots.txt": Say("", 503),
        "closed.test/robots.txt": rules("Disallow: /"),
        "agent.test/robots.txt": Say("User-agent: longline-test/2\nAllow: /\n\nUser-agent: *\nDisallow: /", 200, TEXT),
        "moved.test/robots.txt": moved("http://library.test/rules"),
        "library.test/rules": rules("Disallow: /private"),
        "library.test/": page(),
        "moved.test/": page("/private/x", "/open", "http://library.test/private/y"),
        "moved.test/private/x": page(),
        "moved.test/open": page(),
        "library.test/private/y": page(),
        "paced.test/robots.txt": rules("Crawl-delay: 0.7"),
        "paced.test/": page("/2"),
        "paced.test/2": page("/3"),
        "paced.test/3": page(),
        "lazy.test/robots.txt": rules("Crawl-delay: 5000"),
        "huge.test/robots.txt": Say("User-agent: *\nDisallow: /private\n" + "# filler\n" * 80_000, headers=TEXT),
        "huge.test/": page("/private/z"),
        "huge.test/private/z": page(),
        "five.test/robots.txt": moved("/r1"),
        "five.test/r5": rules("Disallow: /"),
        "six.test/robots.txt": moved("/r1"),
        "six.test/r6": rules("Disallow: /"),
    }
    answers |= {f"five.test/r{hop}": moved(f"/r{hop + 1}") for hop in range(1, 5)}
    answers |= {f"six.test/r{hop}": moved(f"/r{hop + 1}") for hop in range(1, 6)}
    first = ",".join(f"http://{host}.test/" for host in HOSTS)
    settings = {"DOWNLOAD_DELAY": DELAY, "RETRY_DELAYS": "0.3", "OFFLINE_AFTER": 2, "LOG_LEVEL": "INFO"}
    root = tmp_path_factory.mktemp("robots")
    with serve_site(answers) as site, crawl_of(site, valkey, root, "robots", **settings) as crawl:
        run = crawl.run("follower", {"first": first})
        assert_settled(crawl.snapshot())
        return site, run, crawl.dead()


def test_what_may_be_fetched_is(many: Many) -> None:
    """5xx and silence pass; 404 allows; five hops are followed, a sixth counts as 404; 600 KB are cut, not refused."""
    _, run, _ = many
    hosts = ("unwell", "silent", "none", "agent", "moved", "six", "paced", "huge")
    expected = {f"http://{host}.test/" for host in hosts}
    expected |= {
        "http://moved.test/open",
        "http://paced.test/2",
        "http://paced.test/3",
        "http://library.test/private/y",
    }
    assert fetched([run]) == expected


def test_nothing_is_asked_before_the_rules_are_known(many: Many) -> None:
    site, _, _ = many
    for host in HOSTS:
        assert site.paths(f"{host}.test")[0] == "/robots.txt"
    assert site.paths("unwell.test") == ["/robots.txt", "/robots.txt", "/robots.txt", "/"]
    assert site.paths("silent.test") == ["/robots.txt", "/robots.txt", "/"]


def test_a_crawl_delay_beyond_reason_is_said_and_the_group_skipped(
    many: Many,
) -> None:
    site, run, _ = many
    assert site.paths("lazy.test") == ["/robots.txt"]
    assert "group lazy.test is skipped: crawl-delay: 5000" in run.log


def test_rules_that_cannot_be_had_forbid_everything_until_the_host_is_given_up(
    many: Many,
) -> None:
    site, _, dead = many
    assert set(site.paths("dead.test")) == {"/robots.txt"}
    assert list(dead) == ["http://dead.test/"]
    assert dead["http://dead.test/"][-1] == "offline"


def test_moved_rules_hold_where_they_were_asked_for_only(many: Many) -> None:
    site, _, _ = many
    assert "/private/x" not in site.paths("moved.test")
    assert "/private/y" in site.paths("library.test")
    assert site.paths("library.test").count("/rules") == 1


def test_delays_lie_between_any_two_requests(many: Many) -> None:
    """robots.txt, its hops and retries included; Crawl-delay in place of DOWNLOAD_DELAY where it is longer."""
    site, _, _ = many
    groups = {hit.host for hit in site.hits}
    assert violations(site.hits, {group: 0.7 if group == "paced.test" else DELAY for group in groups}) == []


def test_robots_txt_may_be_ignored_by_setting_and_by_request(valkey: RedisServer, tmp_path: Path) -> None:
    answers = {"closed.test/robots.txt": rules("Disallow: /"), "closed.test/": page()}
    with serve_site(answers) as site, crawl_of(site, valkey, tmp_path, "disobey", ROBOTSTXT_OBEY=False) as crawl:
        run = crawl.run("follower", {"first": "http://closed.test/"})
    assert fetched([run]) == {"http://closed.test/"}
    assert site.paths("closed.test") == ["/"]
