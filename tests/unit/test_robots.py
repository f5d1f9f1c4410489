"""robots.txt against Google's specification tests, real files, and our own cases."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from crawler import robots
from tests.unit.cases import CASES, own, parameters
from tests.unit.robots_cases import SpecCase, read

SITE = "https://example.com"
DISALLOW_ALL = b"User-agent: *\nDisallow: /\n"

# Where Google's tests and RFC 9309 (or our reading of it) part, by name.
DEVIATIONS = {
    # RFC 9309 2.2.2 compares after percent-decoding, Google before.
    "non-ascii-paths-3",
    "non-ascii-paths-5",
    "non-ascii-paths-6",
    # Given as a crawler's own name; a User-agent header `Foo Bar` begins with the product Foo.
    "user-agent-name-2",
    # Google ends a product token at its first digit, so that its `AB` is bound by AB42bot; for us tokens are whole.
    "369883-7",
    "369883-8",
    "369883-9",
}


def _own_body(case: dict[str, Any]) -> bytes:
    if case["body_b64"] is not None:
        return base64.b64decode(case["body_b64"])
    filler = b"Disallow: /%07d\n"
    body = b"User-agent: *\n" + b"".join(filler % number for number in range(540_000 // len(filler % 0)))
    return body + b"Disallow: /late\n"


@pytest.mark.parametrize("case", own("robots.json"))
def test_own_case(case: dict[str, Any]) -> None:
    rules = robots.parse(_own_body(case))
    started = time.process_time()
    allowed = rules.allowed(SITE + case["path"], case["agent"])
    assert time.process_time() - started < 0.05
    # What stands beyond 500 KiB need not be read (RFC 9309 2.5); we do not.
    assert allowed is (True if case["allowed"] is None else case["allowed"]), case["why"]


def _spec_cases() -> list[Any]:
    paths = sorted((CASES / "google-robotstxt-spec-test/CTC").rglob("*.textproto"))
    return parameters(pytest.param(case, id=case.name) for path in paths for case in read(path))


@pytest.mark.parametrize("case", _spec_cases())
def test_google_specification(case: SpecCase) -> None:
    expected = case.allowed
    if urlsplit(case.url).path == "/robots.txt":
        expected = True  # RFC 9309 2.2.2: always allowed
    elif case.name in DEVIATIONS:
        expected = not expected
    assert robots.parse(case.body).allowed(case.url, case.agent) is expected


PATHS = ("/", "/a", "/search?q=1", "/admin/", "/wp-admin/x.php", "/index.html", "/a/b/c.php?x=1&y=%20", "/cgi-bin/x")
AGENTS = ("mybot", "googlebot", "gptbot", "bingbot", "ahrefsbot", "ia_archiver")

# Its `User-agent: bing` binds by prefix in Protego alone, and only `bing` itself by RFC 9309.
BINDS_BY_PREFIX = {("www.mapmyrun.com", "bingbot")}


def _samples() -> list[Any]:
    folder = CASES / "protego-robots-samples/files"
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return parameters(pytest.param(path, id=path.name) for path in paths)


@pytest.mark.parametrize("path", _samples())
def test_real_file_means_what_protego_says(path: Path) -> None:
    body = path.read_bytes()
    rules = robots.parse(body)
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        reference = Protego.parse(body.decode("utf-16"))
    else:
        reference = Protego.parse(body.decode("utf-8-sig", "replace"))
    for agent in AGENTS:
        if any(path.name.startswith(name) and agent == bound for name, bound in BINDS_BY_PREFIX):
            continue
        for url in (SITE + end for end in PATHS):
            allowed = rules.allowed(url, agent)
            assert allowed is reference.can_fetch(url, agent), (url, agent)
            if not allowed:
                assert rules.matched(url, agent).startswith("disallow: ")


@pytest.mark.parametrize(
    ("line", "agent", "bound"),
    [
        ("mybot/2.0", "mybot", True),
        ("mybot", "mybot/2.0 (+https://example.com/bot)", True),
        ("MyBot", "Mozilla/5.0 (compatible; mybot/1.0; +https://example.com)", True),
        ("mybot some words", "mybot", True),
        ("mybot*", "mybot", True),
        ("* # everyone", "mybot", True),
        ("my", "mybot", False),
        ("bot", "mybot", False),
        ("bot", "my-bot", False),
        ("mybot", "my", False),
        ("", "mybot", False),
        ("example", "mybot/1.0 (+https://example.com)", False),
    ],
)
def test_whom_an_agent_line_binds(line: str, agent: str, bound: bool) -> None:
    rules = robots.parse(f"User-agent: {line}\nDisallow: /\n".encode())
    assert rules.allowed(f"{SITE}/a", agent) is not bound


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        (b"\xef\xbb\xbf" + DISALLOW_ALL, False),
        (b"\xef\xbb" + DISALLOW_ALL, False),
        (DISALLOW_ALL.decode().encode("utf-16"), False),
        (DISALLOW_ALL.decode().encode("utf-16-le"), False),
        (DISALLOW_ALL.decode().encode("utf-16-be"), False),
        (b"<!doctype html><pre>\n" + DISALLOW_ALL, True),
        (b"\xef\xbb\xbf \n<html>\n" + DISALLOW_ALL, True),
        (("<html>\n" + DISALLOW_ALL.decode()).encode("utf-16"), True),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03\n" + DISALLOW_ALL[:20] + b"\0" * 9, True),
        (b"\x89PNG\r\n\x1a\n" + bytes(64) + b"\n" + DISALLOW_ALL, True),
        (b"# caf\xe9\0\n" + DISALLOW_ALL, False),
        (DISALLOW_ALL.replace(b"\n", b"\r"), False),
        (DISALLOW_ALL.replace(b"\n", b"\r\n"), False),
        (b"User-agent: *\n# a\x0bDisallow: /\n", True),
        (b"User-agent: *\n# a\x0cDisallow: /\n", True),
        ("User-agent: *\n# a\u2028Disallow: /\n".encode(), True),
        ("User-agent: *\n# a\x85Disallow: /\n".encode(), True),
        (b"", True),
    ],
)
def test_what_bytes_are(body: bytes, allowed: bool) -> None:
    assert robots.parse(body).allowed(f"{SITE}/a", "mybot") is allowed


def test_only_whole_lines_of_the_first_500_kib_count() -> None:
    head = b"User-agent: *\n" + b"# padding\n" * 60_000
    cut = head[: robots.MAX_BYTES - 11] + b"\nDisallow: /long/path\n"
    rules = robots.parse(cut)
    assert rules.allowed(f"{SITE}/long/path", "mybot")
    assert rules.allowed(f"{SITE}/x", "mybot"), "half a rule is a broader rule"
    assert robots.parse(b"x" * 600_000).allowed(f"{SITE}/", "mybot")


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        ("5", 5.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("1e9", robots.MAX_CRAWL_DELAY),
        ("nan", None),
        ("inf", None),
        ("-5", None),
        ("ten", None),
        ("", None),
    ],
)
def test_crawl_delay(value: str, delay: float | None) -> None:
    rules = robots.parse(f"User-agent: mybot/1\nCrawl-delay: {value}\nUser-agent: *\nCrawl-delay: 60\n".encode())
    assert rules.crawl_delay("MyBot/3") == delay
    assert rules.crawl_delay("otherbot") == 60.0


def test_delay_of_another_group_is_not_ours() -> None:
    rules = robots.parse(b"User-agent: *\nDisallow: /info/*\nUser-agent: otherbot\nCrawl-delay: 10\n")
    assert rules.crawl_delay("mybot") is None


def test_sitemaps_stand_outside_groups() -> None:
    rules = robots.parse(
        b"User-agent: a\nSitemap: https://example.com/1.xml\nUser-agent: mybot\nDisallow: /x\nSitemap: /2.xml\n"
    )
    assert rules.sitemaps == ("https://example.com/1.xml", "/2.xml")
    assert not rules.allowed(f"{SITE}/x", "a")


def test_the_rule_that_decided() -> None:
    rules = robots.parse(b"User-agent: *\nDisallow: /p\nAllow: /p/*/ok$\n")
    assert rules.matched(f"{SITE}/p/x", "mybot") == "disallow: /p"
    assert rules.matched(f"{SITE}/p/x/ok", "mybot") == "allow: /p/*/ok$"
    assert rules.matched(f"{SITE}/q", "mybot") == ""
    assert rules.matched(f"{SITE}/robots.txt", "mybot") == ""


def test_google_code_rules() -> None:
    rules = robots.parse(
        b"User-agent: *\nDisallow: /\nAllow: /$\nAllow: /p/*/issues/detail?id=*\nDisallow: /p/*/issues/detail?id=*&*\n"
    )
    verdicts = {"/": True, "/x": False, "/p/z/issues/detail?id=1": True, "/p/z/issues/detail?id=1&x=2": False}
    assert {path: rules.allowed(SITE + path, "mybot") for path in verdicts} == verdicts


def test_many_rules_and_many_stars_take_no_time() -> None:
    started = time.process_time()
    rules = robots.parse(b"User-agent: *\n" + b"".join(b"Disallow: /%d/*a*b*c\n" % n for n in range(20_000)))
    for _ in range(5):
        assert rules.allowed(f"{SITE}/{'a' * 300}", "mybot")
    assert time.process_time() - started < 5


@given(st.binary(max_size=300))
def test_no_bytes_crash(body: bytes) -> None:
    for prefix in (b"", b"User-agent: *\nDisallow: ", b"\xff\xfe"):
        rules = robots.parse(prefix + body)
        rules.allowed(f"{SITE}/a?b", "mybot/2.0")
        delay = rules.crawl_delay("mybot")
        assert delay is None or 0 <= delay <= robots.MAX_CRAWL_DELAY
