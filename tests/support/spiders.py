"""Spiders of the kind that Scrapy's tutorial teaches: Requests, callbacks by name, dict items."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

from scrapy import FormRequest, Request, Spider
from scrapy.exceptions import CloseSpider, DropItem, IgnoreRequest
from scrapy.http import JsonRequest, Response

BASE = "http://quotes.test"


class Tutorial(Spider):
    """Every way to ask for a page and to hear of it."""

    name = "tutorial"

    async def start(self) -> AsyncIterator[Any]:
        """Start requests, one of them twice, and an item."""
        yield {"at": "start"}
        first = {"headers": {"X-Mine": "1"}, "cookies": {"taste": "sweet"}, "meta": {"tag": {"of": [1, "two"]}}}
        yield Request(f"{BASE}/", self.parse_list, cb_kwargs={"number": 1}, **first)
        yield Request(f"{BASE}/", self.parse_list, cb_kwargs={"number": 1}, **first)
        for body in ("a", "a", "b"):
            yield FormRequest(f"{BASE}/form", self.echo, formdata={"body": body})
        yield JsonRequest(f"{BASE}/json", self.echo, data={"x": [1]})
        yield Request(f"{BASE}/missing", self.parse, errback=self.failed)
        yield Request(f"{BASE}/wanted-404", self.echo, meta={"handle_httpstatus_list": [404]})
        yield Request(f"{BASE}/always-500", self.parse, errback=self.failed)
        yield Request(f"{BASE}/hangs-up", self.parse, errback=self.failed)
        yield Request(f"{BASE}/comes-back", self.echo, errback=self.failed)
        yield Request(f"{BASE}/head", self.echo, method="HEAD")
        yield Request(f"{BASE}/moved", self.echo, cb_kwargs={"kept": "by redirects"}, headers={"Authorization": "x"})
        yield Request(f"{BASE}/lambda", lambda response: None)
        yield Request(f"{BASE}/object", self.parse, meta={"thing": object()})
        yield Request("file:///etc/passwd", self.parse)

    def parse(self, response: Response, **kwargs: Any) -> Any:
        """The default callback."""
        return {"at": "parse", "url": response.url, "status": response.status}

    def parse_list(self, response: Response, number: int) -> Iterator[Any]:
        """Items and links, as in the tutorial."""
        yield {"at": "list", "number": number, "tag": response.meta["tag"], "depth": response.meta["depth"]}
        yield from response.follow_all(css="a", callback=self.echo)
        for _ in range(2):
            yield Request(f"{BASE}/again", self.echo, dont_filter=True)

    def echo(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        """What came, and how."""
        method = response.request.method if response.request else ""
        yield {"at": "echo", "url": response.url, "status": response.status, "method": method, **kwargs}

    def failed(self, failure: Any) -> Iterator[Any]:
        """An errback that goes on."""
        url = failure.request.url
        yield {"at": "errback", "url": url, "error": failure.type.__name__, "said": str(failure.value)}
        yield Request(f"{url}-instead", self.echo)


class Meddler:
    """A user's downloader middleware: ignores, swaps and raises."""

    def process_request(self, request: Request) -> Request | None:
        """Before a request is sent."""
        if "/ignored-early" in request.url:
            raise IgnoreRequest("not today")
        if request.url.endswith("/swapped-early"):
            return request.replace(url=request.url + "-for-this", cb_kwargs={"swapped": True})
        return None

    def process_response(self, request: Request, response: Response) -> Response | Request:
        """When a page has come."""
        if "/ignored-late" in request.url:
            raise IgnoreRequest("on second thoughts")
        if "/middleware-raises" in request.url:
            raise ValueError("middleware bug")
        if request.url.endswith("/captcha") and b"X-Solved" not in request.headers:
            headers = {**request.headers.to_unicode_dict(), "X-Solved": "1"}
            return request.replace(headers=headers, dont_filter=True)
        if request.url.endswith("/retry-me") and response.body == b"busy":
            return request.copy()
        return response


class Picky:
    """A user's pipeline: drops and raises."""

    def process_item(self, item: Any) -> Any:
        """Judge an item by its word."""
        word = item.get("item") if isinstance(item, dict) else None
        if word == "drop":
            raise DropItem("unwanted")
        if word == "boom":
            raise RuntimeError("pipeline bug")
        return item


class Trouble(Spider):
    """Every way in which a page can go wrong after it was fetched, or before."""

    name = "trouble"
    custom_settings: ClassVar[dict[str, Any]] = {
        "DOWNLOADER_MIDDLEWARES": {"tests.support.spiders.Meddler": 600},
        "ITEM_PIPELINES": {"tests.support.spiders.Picky": 300},
    }

    async def start(self) -> AsyncIterator[Any]:
        """One page for each."""
        for name in ("raises_first", "raises_late", "raises_async", "raises_in_async_generator", "drop", "boom"):
            yield Request(f"{BASE}/{name}", getattr(self, name))
        for name in ("coroutine", "async_generator", "nothing", "one_item", "one_request", "ignores"):
            yield Request(f"{BASE}/{name}", getattr(self, name))
        for name in ("ignored-early", "ignored-late", "middleware-raises"):
            yield Request(f"{BASE}/{name}", self.echo)
            yield Request(f"{BASE}/{name}-with-errback", self.echo, errback=self.failed)
        for name in ("swapped-early", "captcha", "retry-me"):
            yield Request(f"{BASE}/{name}", self.echo)
        yield Request(f"{BASE}/errback-raises", self.echo, errback=self.raises_again)

    def echo(self, response: Response, **kwargs: Any) -> Any:
        """What came."""
        return {"at": "echo", "url": response.url, **kwargs}

    def raises_first(self, response: Response) -> Any:
        """Before anything."""
        raise ValueError("callback bug")

    def raises_late(self, response: Response) -> Iterator[Any]:
        """After an item and a request."""
        yield {"item": "before the bug"}
        yield Request(f"{BASE}/child-of-raises-late", self.echo)
        raise ValueError("callback bug")

    async def raises_async(self, response: Response) -> Any:
        """In a coroutine."""
        raise ValueError("callback bug")

    async def raises_in_async_generator(self, response: Response) -> AsyncIterator[Any]:
        """In an asynchronous generator."""
        yield {"item": "before the async bug"}
        raise ValueError("callback bug")

    def drop(self, response: Response) -> Any:
        """An item that a pipeline drops."""
        return {"item": "drop"}

    def boom(self, response: Response) -> Iterator[Any]:
        """Items, one of which breaks a pipeline."""
        yield {"item": "good"}
        yield {"item": "boom"}

    async def coroutine(self, response: Response) -> Any:
        """A coroutine's list."""
        return [{"item": "from a coroutine"}, Request(f"{BASE}/child-of-coroutine", self.echo)]

    async def async_generator(self, response: Response) -> AsyncIterator[Any]:
        """An asynchronous generator."""
        yield {"item": "from an async generator"}
        yield Request(f"{BASE}/child-of-generator", self.echo)

    def nothing(self, response: Response) -> None:
        """No item, no request."""

    def one_item(self, response: Response) -> Any:
        """An item that is no list."""
        return {"item": "alone"}

    def one_request(self, response: Response) -> Any:
        """A request that is no list."""
        return Request(f"{BASE}/alone", self.echo)

    def ignores(self, response: Response) -> Any:
        """The callback itself does not want the page."""
        raise IgnoreRequest("no thanks")

    def failed(self, failure: Any) -> Any:
        """An errback that returns one request to the same URL, once more, and an item."""
        yield {"at": "errback", "url": failure.request.url, "error": failure.type.__name__}
        if failure.type is IgnoreRequest:
            yield failure.request.replace(url=failure.request.url.replace("ignored", "pardoned"))

    def raises_again(self, failure: Any) -> Any:
        """An errback with a bug."""
        raise KeyError("errback bug")


class Inline(Spider):
    """Downloads in a callback what it needs to finish an item."""

    name = "inline"

    async def start(self) -> AsyncIterator[Any]:
        """Two pages of one group."""
        for number in (1, 2):
            yield Request(f"{BASE}/{number}")

    async def parse(self, response: Response) -> Any:
        """Ask four times: the same group, another host, a page that robots.txt forbids, and what fails."""
        item: dict[str, Any] = {"url": response.url}
        asked = (
            "http://quotes.test/inline",
            "http://new.test/inline",
            "http://new.test/private/x",
            "http://quotes.test/0",
        )
        for url in asked:
            request = Request(url + "?of=" + response.url[-1], meta=dict(response.meta))
            try:
                answer = await self.crawler.engine.download_async(request)
                item[url] = answer.status
            except Exception as error:  # noqa: BLE001 - the test looks at what it was
                item[url] = type(error).__name__
        return item


class Closer(Spider):
    """Closes itself at the third page."""

    name = "closer"
    start_urls: ClassVar[list[str]] = [f"http://site{number}.test/" for number in range(20)]

    def parse(self, response: Response) -> Any:
        """An item for each page but the third."""
        if response.url == "http://site3.test/":
            raise CloseSpider("seen_enough")
        return {"url": response.url}


class Follower(Spider):
    """Follows every link and gives an item for each page."""

    name = "follower"

    def __init__(self, first: str = f"{BASE}/", domains: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = first.split(",")
        if domains:
            self.allowed_domains = domains.split(",")

    def parse(self, response: Response) -> Iterator[Any]:
        """All links."""
        yield {"url": response.url, "depth": response.meta["depth"]}
        yield from response.follow_all(css="a")
