"""Scope and trap filters."""

from __future__ import annotations

import re

import pytest

from crawler.links import Scope
from tests.unit.cases import CASES

KEPT = [
    "http://example.com/",
    "https://www.example.com/2024/2024/05/05/title-of-an-article.html?page=2&sort=asc",
    "http://example.com/a/b/a/b/a/b",
    "http://example.com/?tag=a&tag=b&tag=c&tag=d",
    "http://example.com/my%20file%20with%20some%20blanks.html",
    "http://example.com/?a=1&amp;b=2",
    "http://example.com/?q=%7Bx%7D",
]


@pytest.mark.parametrize("url", KEPT)
def test_kept(url: str) -> None:
    assert Scope().reason(url, 1) is None


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://example.com/", "scheme"),
        ("http://example.com/" + "x" * 2083, "url-length"),
        ("http://example.com/a/b/a/b/a/b/a/b", "repeated-segment"),
        ("http://example.com/" + "/".join(map(str, range(33))), "path-segments"),
        ("http://example.com/?" + "&".join(f"a{i}=1" for i in range(33)), "query-parameters"),
        ("http://example.com/?q=&q=&q=&q=&q=", "repeated-parameter"),
        ("http://example.com/?x=v%3Etext%3C/a%3E", "template"),
        ("http://example.com/%7B%7Burl%7D%7D", "template"),
        ("http://example.com/?u={{url}}", "template"),
        ("http://example.com/" + "a%20" * 16, "template"),
        ("http://example.com/?amp;p=2&amp%253Bp=3&amp%25253Bp=4", "template"),
    ],
)
def test_left_out(url: str, reason: str) -> None:
    assert Scope().reason(url, 1) == reason


def test_depth() -> None:
    assert Scope(depth=2).reason("http://example.com/", 2) is None
    assert Scope(depth=2).reason("http://example.com/", 3) == "depth"


def test_domains_hold_for_subdomains_and_nothing_else() -> None:
    scope = Scope(allowed_domains=frozenset({"example.com"}))
    assert scope.reason("http://example.com/", 1) is None
    assert scope.reason("http://WWW.example.com.:80/", 1) is None
    assert scope.reason("http://notexample.com/", 1) == "offsite"
    assert scope.reason("http://example.com.evil.example/", 1) == "offsite"


def test_deny() -> None:
    scope = Scope(deny=(re.compile(r"/logout\b"),))
    assert scope.reason("http://example.com/logout", 1) == "denied"
    assert scope.reason("http://example.com/logouts", 1) is None


def test_no_limits() -> None:
    scope = Scope(url_length=0, segments=0, repeated_segments=0, parameters=0, repeated_parameters=0)
    assert scope.reason("http://example.com/" + "a/" * 2000 + "?" + "q=&" * 2000, 9) is None


def test_an_endless_site_ends() -> None:
    """A page that links to itself with one more empty argument, and one whose relative links grow its path."""
    url, steps = "http://example.com/?q=", 0
    while Scope().reason(url, steps) is None:
        url, steps = url + "&q=", steps + 1
    assert steps < 10
    url, steps = "http://example.com/products/x/", 0
    while Scope().reason(url, steps) is None:
        url, steps = url + "products/x/", steps + 1
    assert steps < 10


def test_nutch_default_filter_agrees_on_loops() -> None:
    path = CASES / "nutch/urlfilter-regex/WholeWebCrawling.urls"
    if not path.is_file():
        pytest.skip("../shared/cases is not here")
    for line in path.read_text("utf-8").splitlines():
        url = line[1:].strip()
        if line.startswith("+") and url.startswith("http"):
            assert Scope().reason(url, 1) is None, url
