"""Links, requests and redirects as candidates: scope, key, group, band."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crawler.errors import BadSetting, InvalidURL
from crawler.extract import Link
from crawler.frontier import Lease
from crawler.options import Options
from crawler.urls import fingerprint
from crawler.worker.candidates import Candidates, Refused, carried, visit_number
from crawler.worker.visit import Visit

LEASE = Lease(bytes(16), "a.test", 0, b"", "http://a.test/", 7, 2, 0, (), (), 0, 0)


def made(**options: Any) -> Candidates:
    return Candidates(Options(**options))


def test_links_are_one_deeper_than_their_page() -> None:
    links = [Link("http://a.test/x", nofollow=False, rel=""), Link("http://b.example/", nofollow=False, rel="")]
    found, left_out = made().from_links(links, LEASE, lambda key: False)
    assert [(one.url, one.depth, one.group) for one in found] == [
        ("http://a.test/x", 3, "a.test"),
        ("http://b.example/", 3, "b.example"),
    ]
    assert left_out == {}


def test_known_deep_and_long_links_are_left_out_by_reason() -> None:
    known = fingerprint("http://a.test/known")
    long = "http://a.test/" + "x" * 2100
    links = [Link(url, nofollow=False, rel="") for url in ("http://a.test/known", long, "http://a.test/new")]
    found, left_out = made().from_links(links, LEASE, lambda key: key == known)
    assert [one.url for one in found] == ["http://a.test/new"]
    assert left_out["seen"] == 1
    assert sum(left_out.values()) == 2
    _, left_out = made(depth_limit=2).from_links(links[2:], LEASE, lambda key: False)
    assert left_out == {"depth": 1}


def test_a_page_gives_so_many_links_at_most() -> None:
    links = [Link(f"http://a.test/{number}", nofollow=False, rel="") for number in range(9)]
    assert len(made(links_per_page_max=4).from_links(links, LEASE, lambda key: False)[0]) == 4


def test_method_body_and_visit_belong_to_the_key() -> None:
    candidates = made()

    def key(stored: dict[str, Any] | None, visit: int = 0) -> int:
        return candidates.from_stored("http://a.test/", stored, depth=0, seed=True, visit=visit).key

    same = {key(None), key({"method": "GET"}), key({"headers": {"X": ["1"]}}), key({"callback": "one", "meta": {}})}
    assert same == {fingerprint("http://a.test/")}
    others = [key({"method": "POST"}), key({"method": "POST", "body": "YQ=="}), key({"method": "HEAD"}), key(None, 5)]
    assert len({*same, *others}) == 5


def test_a_visit_number_is_the_same_when_the_parent_is_fetched_again() -> None:
    numbers = [[visit_number(visit) for _ in range(3)] for visit in (Visit(LEASE, 0.0), Visit(LEASE, 0.0))]
    assert numbers[0] == numbers[1]
    assert len(set(numbers[0])) == 3
    assert 0 not in numbers[0]
    other = Visit(replace(LEASE, key=8), 0.0)
    assert visit_number(other) not in numbers[0]
    assert visit_number(None) == 0


def test_a_redirect_carries_its_chain_and_its_depth() -> None:
    lease = replace(LEASE, chain=(1, 2), visit=3)
    target = made().redirected("http://b.test/x#y", lease, None)
    assert (target.url, target.chain, target.depth, target.visit) == ("http://b.test/x", (1, 2, 7), 2, 3)
    assert target.parent == "http://a.test/"
    assert made(frontier_bands=4).redirected("http://b.test/", lease, None).band == 1


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:x"])
def test_a_redirect_leads_to_http_only(url: str) -> None:
    with pytest.raises(InvalidURL):
        made().redirected(url, LEASE, None)


def test_a_redirect_out_of_scope_is_refused() -> None:
    with pytest.raises(Refused):
        made(urllength_limit=100).redirected("http://b.test/" + "x" * 100, LEASE, None)


POST = {
    "method": "POST",
    "body": "YQ==",
    "cookies": {"c": "1"},
    "callback": "one",
    "meta": {"m": 1},
    "headers": {"Authorization": ["a"], "Cookie": ["b"], "If-None-Match": ["c"], "Host": ["d"], "Content-Type": ["e"]},
}


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirected_post_becomes_a_get(status: int) -> None:
    assert carried(POST, status) == {"callback": "one", "meta": {"m": 1}}


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_that_says_so_keeps_method_and_body(status: int) -> None:
    kept = {"method": "POST", "body": "YQ==", "callback": "one", "meta": {"m": 1}, "headers": {"Content-Type": ["e"]}}
    assert carried(POST, status) == kept


def test_other_headers_and_a_head_are_kept() -> None:
    assert carried({"method": "HEAD", "headers": {"X-A": ["1"]}}, 302) == {"method": "HEAD", "headers": {"X-A": ["1"]}}
    assert carried(None, 302) is None
    assert carried({"cookies": {"a": "b"}}, 302) is None


def test_the_priority_is_any_function_by_its_path() -> None:
    assert (
        made(frontier_priority="crawler.frontier.policy.priority")
        .from_url("http://a.test/", depth=0, origin="seed")
        .band
        == 0
    )
    with pytest.raises(BadSetting, match=r"FRONTIER_PRIORITY: 'os\.path\.nothing' cannot be imported"):
        made(frontier_priority="os.path.nothing")


def test_keys_follow_the_crawls_own_list_of_parameters() -> None:
    own = made(url_parameters_ignored=("mine",))
    assert own.key("http://a.test/?mine=1") == own.key("http://a.test/")
    assert own.key("http://a.test/?utm_source=1") != own.key("http://a.test/")
    assert made().key("http://a.test/?utm_source=1") == made().key("http://a.test/")
