"""What is known of an authority's robots.txt, answer by answer, on a clock of the test's."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from crawler.errors import FrontierMismatch
from crawler.hosts import authority
from crawler.options import Options
from crawler.worker.hosts import Hosts, Verdict
from crawler.worker.hoststate import MAX_HOPS, MAX_STORED, HostState, Robots

NOW = 1_800_000_000_000
DAY = 86_400_000
DELAYS = (30.0, 120.0, 300.0)
RULES = b"User-agent: *\nDisallow: /private/\nCrawl-delay: 7\n"


def after(status: int, body: bytes = b"", location: str | None = None, state: HostState | None = None) -> HostState:
    return (state or HostState()).answered(status, body, location, NOW, DELAYS)


@pytest.mark.parametrize("status", [200, 203, 299])
def test_a_good_answer_gives_rules(status: int) -> None:
    state = after(status, RULES)
    assert (state.robots, state.body, state.fetched_ms) == (Robots.RULES, RULES, NOW)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 300, 304])
def test_no_rules_allow_everything(status: int) -> None:
    assert after(status).robots is Robots.ALLOW


@pytest.mark.parametrize("status", [429, 500, 503, 599, 999])
def test_a_server_in_trouble_forbids_everything_for_now(status: int) -> None:
    state = after(status, b"<h1>busy</h1>")
    assert (state.robots, state.next_ms) == (Robots.UNREACHABLE, NOW + 30_000)


def test_it_is_asked_again_with_back_off() -> None:
    state, waits = HostState(), []
    for _ in range(5):
        state = state.unreachable(503, NOW, DELAYS)
        waits.append((state.next_ms - NOW) // 1000)
    assert waits == [30, 120, 300, 300, 300]
    assert state.failing_since_ms == NOW
    assert after(200, RULES, state=state).failing_since_ms == 0


def test_five_hops_are_followed_and_then_it_is_as_if_there_were_no_rules() -> None:
    state = HostState()
    for hop in range(MAX_HOPS):
        state = after(301, location=f"http://b.test/{hop}", state=state)
        assert (state.robots, state.location, state.hops) == (Robots.REDIRECT, f"http://b.test/{hop}", hop + 1)
    assert after(301, location="http://b.test/6", state=state).robots is Robots.ALLOW
    assert after(302).robots is Robots.ALLOW, "a redirect to nowhere"


def test_a_record_survives_its_stored_form() -> None:
    for state in (after(200, RULES), after(503), after(301, location="http://b.test/é"), HostState()):
        assert HostState.unpack(state.pack()) == state
    assert HostState.unpack(None) == HostState.unpack(b"") == HostState()
    with pytest.raises(FrontierMismatch, match="version 9"):
        HostState.unpack(b"\x09{}\n")


def test_rules_that_are_long_are_cut_at_a_line() -> None:
    chance = random.Random(1)
    body = RULES + b"".join(b"Disallow: /%016x\n" % chance.getrandbits(64) for _ in range(20_000))
    stored = after(200, body)
    assert len(stored.pack()) < MAX_STORED + 500
    assert body.startswith(stored.body)
    assert stored.body.endswith(b"\n")
    assert stored.body.startswith(RULES)


def verdict(state: HostState | None, url: str = "http://a.test/", later_ms: int = 0, **options: object) -> Verdict:
    hosts = Hosts(None, Options(**options))  # type: ignore[arg-type]
    if state is not None:
        hosts._keep(authority("http://a.test/"), state)
    return hosts.verdict(url, NOW + later_ms)[0]


def test_verdicts() -> None:
    rules = after(200, RULES)
    assert verdict(None) is Verdict.ASK
    assert verdict(rules) is Verdict.FETCH
    assert verdict(rules, "http://a.test/private/x") is Verdict.FORBIDDEN
    assert verdict(rules, "http://a.test/private/x", robotstxt_obey=False) is Verdict.FETCH
    assert verdict(rules, later_ms=DAY + 1) is Verdict.ASK, "rules are good for a day"
    assert verdict(rules, crawl_delay_max=5.0) is Verdict.TOO_SLOW
    assert verdict(after(404), "http://a.test/private/x") is Verdict.FETCH
    assert verdict(after(301, location="http://b.test/r")) is Verdict.ASK


def test_a_host_in_trouble_is_left_alone_asked_again_and_at_last_given_up() -> None:
    state = after(503)
    assert verdict(state) is Verdict.UNREACHABLE
    assert verdict(state, later_ms=30_001) is Verdict.ASK
    assert verdict(replace(state, next_ms=NOW + 2 * DAY), later_ms=DAY) is Verdict.OFFLINE


@pytest.mark.parametrize("url", ["https://a.test/", "http://a.test:8080/", "http://www.a.test/"])
def test_rules_hold_for_scheme_host_and_port(url: str) -> None:
    assert verdict(after(200, RULES), url) is Verdict.ASK


def test_a_crawl_delay_that_we_keep_to_is_known_in_milliseconds() -> None:
    hosts = Hosts(None, Options(crawl_delay_max=10.0))  # type: ignore[arg-type]
    hosts._keep(authority("http://a.test/"), after(200, RULES))
    hosts._keep(authority("http://b.test/"), after(200, b"User-agent: *\nCrawl-delay: 11\n"))
    assert [hosts.crawl_delay_ms(authority(f"http://{name}.test/")) for name in "abc"] == [7000, 0, 0]
