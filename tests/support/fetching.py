"""Fetches through our download handler, as Scrapy would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from scrapy import Request
from scrapy.http import Response

from crawler.download.handler import DownloadHandler
from crawler.download.wire import META_KEY, WireResponse
from crawler.options import Options
from tests.support.crawl import CONTACT

ON_LOOPBACK = ("127.0.0.0/8",)


@asynccontextmanager
async def handler(**options: Any) -> AsyncIterator[DownloadHandler]:
    """A handler that may connect to 127.0.0.0/8 and has a contact, unless `options` say otherwise."""
    settings = {"user_agent": CONTACT, "allowed_private_networks": ON_LOOPBACK, **options}
    made = DownloadHandler(Options(**settings))
    try:
        yield made
    finally:
        await made.close()


async def fetch(url: str, *, meta: dict[str, Any] | None = None, **options: Any) -> tuple[Response, WireResponse]:
    """One request by a handler of its own: the response, and what went over the wire. Raises FetchError."""
    async with handler(**options) as made:
        request = Request(url, meta={"verbatim_url": True, "download_timeout": 5.0, **(meta or {})})
        response = await made.download_request(request)
        return response, request.meta[META_KEY]
