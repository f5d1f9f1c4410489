"""Requests as they travel through the frontier, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import FormRequest, JsonRequest

from crawler.errors import NotSerialisable
from crawler.frontier import Lease
from crawler.requests import LEASE_KEY, SLOT, TIMEOUT_KEY, stored_form, to_request


class Named(Spider):
    name = "named"

    def one(self, response: Any) -> None: ...

    def failed(self, failure: Any) -> None: ...


SPIDER = Named()
DEFAULTS = {b"Accept": [b"text/html"], b"User-Agent": [b"bot/1"]}


def stored(request: Request) -> dict[str, Any] | None:
    form = stored_form(request, SPIDER, DEFAULTS)
    return form if form is None else json.loads(json.dumps(form))


def made(request: Request, timeout: float = 30.0) -> Request:
    lease = Lease(
        token=bytes(16),
        group="a.test",
        band=0,
        record=b"",
        url=request.url,
        key=1,
        depth=3,
        visit=0,
        chain=(),
        trail=(),
        deadline_ms=0,
        granted_ms=0,
        request=stored(request),
    )
    return to_request(lease, SPIDER, timeout)


def test_a_plain_get_is_its_url_alone() -> None:
    request = Request("http://a.test/", meta={"depth": 2, "download_slot": "x", LEASE_KEY: "00"}, dont_filter=True)
    assert stored(request) is None


def test_what_scrapy_puts_into_every_request_is_not_kept() -> None:
    headers = {"Accept": "text/html", "User-Agent": "bot/1"}
    assert stored(Request("http://a.test/", headers=headers)) is None
    assert stored(Request("http://a.test/", headers={**headers, "Accept": "x"})) == {"headers": {"Accept": ["x"]}}


@pytest.mark.parametrize(
    "request_",
    [
        Request("http://a.test/", SPIDER.one, errback=SPIDER.failed, cb_kwargs={"x": [1, None, {"y": "é"}]}),
        FormRequest("http://a.test/", formdata={"q": "ü"}, headers={"X-A": ["1", "2"]}, encoding="latin-1"),
        JsonRequest("http://a.test/", data={"a": 1}, cookies={"c": "1"}, flags=["f"], priority=-3),
        Request("http://a.test/?p[]=1", method="HEAD", meta={"mine": {"deep": [True]}}, body=bytes(range(256))),
    ],
    ids=lambda request: request.method,
)
def test_everything_comes_back(request_: Request) -> None:
    back = made(request_)
    for name in ("url", "method", "body", "headers", "cookies", "cb_kwargs", "flags", "priority", "encoding"):
        assert getattr(back, name) == getattr(request_, name), name
    assert (back.callback, back.errback) == (request_.callback, request_.errback)
    assert request_.meta.items() <= back.meta.items()
    assert (back.meta["depth"], back.meta["download_slot"], back.meta[TIMEOUT_KEY]) == (3, SLOT, 30.0)


def test_a_spiders_own_timeout_stands_beside_the_leases() -> None:
    back = made(Request("http://a.test/", meta={"download_timeout": 5}))
    assert (back.meta["download_timeout"], back.meta[TIMEOUT_KEY]) == (5, 30.0)
    assert "download_timeout" not in made(Request("http://a.test/")).meta


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (Request("http://a.test/", lambda response: None), "callback of <GET http://a.test/>"),
        (Request("http://a.test/", Named().one), "callback of"),
        (Request("http://a.test/", errback=print), "errback of .* is not a method of spider 'named': <built-in"),
        (Request("http://a.test/", meta={"good": 1, "bad": object()}), "meta of .* is not JSON: {'bad': <object"),
        (Request("http://a.test/", meta={"x": float("nan")}), "meta of .* is not JSON: {'x': nan}"),
        (Request("http://a.test/", cb_kwargs={"x": {1, 2}}), r"cb_kwargs of .*: {'x': \{1, 2\}}"),
        (Request("http://a.test/", cookies={"x": b"1"}), "cookies of"),
    ],
)
def test_what_is_no_json_is_refused_and_named(request_: Request, named: str) -> None:
    with pytest.raises(NotSerialisable, match=named):
        stored(request_)


def test_a_method_that_the_spider_has_lost_is_named() -> None:
    lease_request = Request("http://a.test/", SPIDER.one)
    form = stored(lease_request)
    assert form == {"callback": "one"}
    lease = Lease(bytes(16), "a.test", 0, b"", "http://a.test/", 1, 0, 0, (), (), 0, 0, request={"callback": "gone"})
    with pytest.raises(NotSerialisable, match=r"spider 'named' has no method 'gone', .* as its callback"):
        to_request(lease, SPIDER, 1.0)


def test_leaving_the_allowed_domains_is_remembered_where_there_are_any() -> None:
    class Bound(Named):
        allowed_domains = ("a.test",)

    request = Request("http://b.test/", dont_filter=True)
    assert stored_form(request, Bound(), {}) == {"dont_filter": True}
    assert stored_form(request, SPIDER, {}) is None
