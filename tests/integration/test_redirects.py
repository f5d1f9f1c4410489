"""Redirects through the frontier: an outcome of the one URL, a candidate for the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crawler.demo.witness import violations
from crawler.urls import redirect_target
from tests.support.runs import assert_settled, crawl_of
from tests.support.servers import RedisServer
from tests.support.site import Say, moved, page, serve_site

CASES = Path(__file__).parents[3] / "shared/cases/own/redirects.json"
GUARDED = ("private", "loopback-hex")  # the address guard's to refuse, see test_guard.py and below
DELAY = 0.1
LATER = {"circle2", "raw?p[]=1&c=%2c", *(f"long{hop}" for hop in range(1, 9))}


@pytest.mark.parametrize(
    "case", json.loads(CASES.read_text("utf-8")) if CASES.exists() else [{"id": "none"}], ids=lambda case: case["id"]
)
def test_locations_are_read_as_browsers_read_them(case: dict[str, Any]) -> None:
    if not CASES.exists():
        pytest.skip("../shared/cases is not here")
    target = redirect_target(case["source"], case["location"].encode())
    assert target == case["expect"] or (case["id"] in GUARDED and target is not None)


def test_every_way_to_be_led_on(valkey: RedisServer, tmp_path: Path) -> None:
    answers: dict[str, Say | list[Say]] = {
        f"a.test/{status}": moved(f"http://b{status}.test/", status) for status in (301, 302, 303, 307, 308)
    }
    answers |= {f"b{status}.test/": page() for status in (301, 302, 303, 307, 308)}
    answers |= {
        "a.test/self": [moved("/self"), page()],
        "a.test/fragment": [moved("/fragment#part"), page()],
        "a.test/circle": moved("/circle2"),
        "a.test/circle2": moved("/circle"),
        "a.test/long": moved("/long1"),
        "a.test/raw": moved("/raw?p[]=1&c=%2c"),
        "a.test/raw?p[]=1&c=%2c": page(),
        "a.test/seen": moved("http://b301.test/"),
        "a.test/file": moved("file:///etc/passwd"),
        "a.test/js": moved("javascript:alert(1)"),
        "a.test/empty": moved(""),
        "a.test/closed": moved("http://closed.test/"),
        "closed.test/robots.txt": Say("User-agent: *\nDisallow: /", headers={"Content-Type": "text/plain"}),
        "closed.test/": page(),
        "a.test/inside": moved("http://127.0.0.1:1/"),
        "a.test/metadata": moved("http://169.254.169.254/latest/meta-data/"),
        "a.test/hex": moved("http://0x7f.1:2/"),
        "a.test/too-long": moved("/" + "x" * 3000),
    }
    answers |= {f"a.test/long{hop}": moved(f"/long{hop + 1}") for hop in range(1, 9)}
    first = ",".join(f"http://{place}" for place in answers if place.startswith("a.test/") and place[7:] not in LATER)
    settings = {"DOWNLOAD_DELAY": DELAY, "FRONTIER_PARTITIONS": 2}
    with serve_site(answers) as site, crawl_of(site, valkey, tmp_path, "redirects", **settings) as crawl:
        run = crawl.run("follower", {"first": first})
        snapshot, dead = crawl.snapshot(), crawl.dead()
    assert_settled(snapshot)
    assert dead == {}
    reached = {f"http://b{status}.test/" for status in (301, 302, 303, 307, 308)}
    reached |= {"http://a.test/self", "http://a.test/fragment", "http://a.test/raw?p[]=1&c=%2c"}
    assert {item["url"] for item in run.items} == reached
    assert {item["depth"] for item in run.items} == {0}, "a redirect is no link"
    assert site.count("b301.test/") == 1, "what is known is not fetched again"
    assert site.count("a.test/self") == 2
    assert site.count("a.test/circle") + site.count("a.test/circle2") <= 7
    assert site.count("a.test/long5") == 1
    assert site.count("a.test/long6") == 0
    assert site.paths("closed.test") == ["/robots.txt"]
    reasons = snapshot.reasons
    assert reasons["unsupported-url"] == 2
    assert reasons["guard"] == 3
    assert reasons["robots"] == 1
    assert reasons["redirect-loop"] == 2
    assert violations(site.hits, DELAY) == []
