"""What is stored comes back; what is of another version, or no URL, is refused by name."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.errors import BadInput, FrontierMismatch
from crawler.frontier import records
from crawler.frontier.policy import BY_CODE, KINDS
from crawler.frontier.records import candidate_key
from crawler.frontier.types import Candidate, Wire
from crawler.urls import fingerprint

KEYS = st.integers(-(2**63), 2**63 - 1)
HOSTS = st.sampled_from(
    ["a.test", "www.a.test", "deep.www.a.test", "a.test:8443", "www.a.test:80", "[::1]:81", "xn--p1ai"]
)
PATHS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=60)
REQUESTS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "method": st.sampled_from(["POST", "HEAD"]),
        "body": st.text(max_size=9),
        "meta": st.just({"a": [1, None]}),
    },
)
PLAIN = Candidate("http://a.test/p", fingerprint("http://a.test/p"), "a.test")


def stable_hash(url: str) -> int:
    return hash(url) >> 1


@given(
    scheme=st.sampled_from(["http", "https"]),
    host=HOSTS,
    path=PATHS,
    band=st.integers(0, 15),
    depth=st.integers(0, 255),
    visit=st.integers(0, 2**40),
    chain=st.lists(KEYS, max_size=6),
    request=REQUESTS,
    parent=st.sampled_from(
        ["", "http://a.test/from", "https://a.test/from", "http://b.test/x?y", "https://www.a.test/ü"]
    ),
)
def test_a_candidate_comes_back_as_it_went(
    scheme: str, host: str, path: str, band: int, depth: int, visit: int, chain: list[int], request: Any, parent: str
) -> None:
    url = f"{scheme}://{host}/{path}"
    key = candidate_key(stable_hash(url), request, visit)
    candidate = Candidate(url, key, "a.test", band, depth, visit, tuple(chain), request or None, parent)
    record = records.pack_record(candidate)
    assert record[0] == records.VERSION
    assert records.unpack_record(record, "a.test", band, stable_hash) == candidate
    for code in (1, 20, 0, 21):
        record = records.with_failure(record, code)
    assert records.trail_of(record) == ("expired", "timeout", "replayed", "reset")
    assert records.unpack_record(record, "a.test", band, stable_hash) == candidate, "the trail touches nothing else"


def test_a_plain_url_costs_little() -> None:
    """Four bytes, and the path; the host is the group's."""
    assert records.pack_record(PLAIN) == bytes((records.VERSION, 0, 0, 0)) + b"p"
    www = Candidate("https://www.a.test/p?q", 0, "a.test", depth=3)
    assert records.pack_record(www) == bytes((records.VERSION, 3, 3, 0)) + b"p?q"


def test_a_depth_over_what_a_byte_holds_is_cut() -> None:
    deep = records.pack_record(Candidate("http://a.test/", 0, "a.test", depth=1000))
    assert records.unpack_record(deep, "a.test", 1).depth == 255


@pytest.mark.parametrize(
    "url", ["", "a.test/", "http://a.test", "http:///p", "ftp://a.test/", "HTTP://a.test/", "//a.test/"]
)
def test_what_is_no_url_in_wire_form(url: str) -> None:
    with pytest.raises(BadInput, match="wire form"):
        records.pack_record(Candidate(url, 0, "a.test"))


def test_a_host_that_is_too_long() -> None:
    with pytest.raises(BadInput, match="longer than 255"):
        records.pack_record(Candidate(f"http://{'x' * 256}/", 0, "a.test"))


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, object()])
def test_a_request_that_is_not_json(value: Any) -> None:
    with pytest.raises(BadInput, match="not JSON"):
        records.pack_record(Candidate("http://a.test/", 0, "a.test", request={"meta": value}))


def test_a_record_of_another_version() -> None:
    record = bytes((9,)) + records.pack_record(PLAIN)[1:]
    with pytest.raises(FrontierMismatch, match="version 9"):
        records.unpack_record(record, "a.test", 1)


@pytest.mark.parametrize("name", ["", "x" * 256, "ü" * 128])
def test_a_group_whose_name_cannot_be_stored(name: str) -> None:
    with pytest.raises(BadInput, match="politeness group"):
        records.tail_of(name, b"")


@given(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=60), st.binary(max_size=80))
def test_a_tail_comes_apart_again(group: str, record: bytes) -> None:
    assert records.split_tail(records.tail_of(group, record)) == (group, record)


def test_a_trail_keeps_the_latest() -> None:
    record = records.pack_record(PLAIN)
    for number in range(300):
        record = records.with_failure(record, 1 if number < 299 else 22)
    assert len(records.trail_of(record)) == records.MAX_TRAIL
    assert records.trail_of(record)[-1] == "server-error"
    assert records.with_failure(record, None) == record


def test_a_code_of_a_later_version_has_a_name() -> None:
    assert records.trail_of(records.with_failure(records.pack_record(PLAIN), 250)) == ("kind-250",)


def test_codes_are_never_used_twice() -> None:
    assert len(BY_CODE) == len(KINDS)
    assert all(0 < kind.code < 256 for kind in KINDS.values())


# Frozen: changing one of these makes every stored key another one. Raise records.VERSION with it.
@pytest.mark.parametrize(
    ("request_", "visit", "key"),
    [
        (None, 0, 12345),
        ({}, 0, 12345),
        ({"method": "GET", "headers": {"A": ["b"]}, "callback": "parse", "meta": {"x": 1}}, 0, 12345),
        ({"method": "POST"}, 0, -225542607176291574),
        ({"method": "POST", "body": "eA=="}, 0, -2500126685665843530),
        (None, 1, 4246976852290725526),
    ],
)
def test_what_a_key_is_made_of(request_: Any, visit: int, key: int) -> None:
    assert candidate_key(12345, request_, visit) == key


def test_other_bodies_methods_and_visits_are_other_keys() -> None:
    forms: list[tuple[Any, int]] = [
        (None, 0),
        (None, 1),
        (None, 2),
        ({"method": "POST"}, 0),
        ({"method": "PUT"}, 0),
        ({"method": "POST", "body": "a"}, 0),
        ({"method": "POST", "body": "b"}, 0),
        ({"method": "POST", "body": "b"}, 1),
        ({"body": "a"}, 0),
    ]
    assert len({candidate_key(7, request, visit) for request, visit in forms}) == len(forms)
    assert candidate_key(7, {"method": "POST", "meta": {"a": 1}}, 0) == candidate_key(7, {"method": "POST"}, 0)


@given(st.integers(-5, 2**40), st.integers(-5, 2**40), st.none() | st.binary(max_size=30))
def test_a_wire_fits_whatever_it_says(age: int, delay: int, pace: bytes | None) -> None:
    packed = records.pack_wire(Wire(age, delay, pace))
    assert len(packed) == 8 + len(pace or b"")
    assert records.pack_wire(None) == b""


@pytest.mark.parametrize("bad", ["", "1:2", "x:1-1", "1:1-1\n", "١:1-1"])
def test_a_letters_id_is_checked(bad: str) -> None:
    with pytest.raises(BadInput, match="dead letter"):
        records.letter_place(bad)
