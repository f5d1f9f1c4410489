"""Scrapy's Request in the frontier and back: what of it travels, as plain JSON, and what its key is made of.

A plain GET for the spider's default callback is only its URL. Anything else is stored beside it: method, headers,
body, the names of callback and errback, meta, cb_kwargs. What cannot be written as JSON is refused with
NotSerialisable, which names the part."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from scrapy import Request

from crawler.errors import NotSerialisable
from crawler.frontier import Lease
from crawler.options import Options

if TYPE_CHECKING:
    from scrapy import Spider

LEASE_KEY = "lease"
"""request.meta: the token, in hex, of the lease under which a request is made."""

PARENT_KEY = "lease_parent"
"""request.meta: the token of the lease whose callback yielded a request; stamped by the spider middleware."""

SETTLED_KEY = "lease_settled"
"""request.meta: marks the Request that a middleware gives back to the engine once the lease has its outcome."""

TURN_KEY = "lease_turn"
"""request.meta: the turn that an inline download has taken, while it is under way."""

TIMEOUT_KEY = "lease_timeout"
"""request.meta: seconds that the lease leaves for the request; a `download_timeout` beside it is the spider's own."""

CUT_KEY = "cut_body"
"""request.meta: a body over its limit is cut off even when its length was declared."""

SLOT = "frontier"
"""Scrapy's downloader slot for every request: one for all, without delay or limit, since the frontier paces."""

_TRANSIENT = frozenset(
    {
        LEASE_KEY,
        PARENT_KEY,
        SETTLED_KEY,
        TURN_KEY,
        TIMEOUT_KEY,
        "wire",
        "depth",
        "download_slot",
        "download_latency",
        "verbatim_url",
        "retry_times",
        "redirect_times",
        "redirect_ttl",
        "redirect_urls",
        "redirect_reasons",
        "is_start_request",
    }
)


def stored_form(request: Request, spider: Spider, defaults: Mapping[bytes, list[bytes]]) -> dict[str, Any] | None:
    """What must be stored of ``request`` besides its URL, as JSON-able values; None for a plain GET.

    ``defaults`` are headers that every request gets again when it is sent. Raises NotSerialisable.
    """
    headers = {name: values for name, values in request.headers.items() if defaults.get(name) != values}
    errback = getattr(request.errback, "spider_errback", request.errback)  # of a request that was leased before
    parts = {
        "method": request.method if request.method != "GET" else "",
        "headers": {_text(name): [_text(value) for value in values] for name, values in headers.items()},
        "body": base64.b64encode(request.body).decode("ascii"),
        "callback": _method_name(spider, "callback", request.callback, request),
        "errback": _method_name(spider, "errback", errback, request),
        "meta": {key: item for key, item in request.meta.items() if key not in _TRANSIENT},
        "cb_kwargs": request.cb_kwargs,
        "cookies": request.cookies,
        "flags": request.flags,
        "encoding": request.encoding if request.encoding != "utf-8" else "",
        "priority": request.priority,
        # what may leave the allowed domains, where there are any
        "dont_filter": request.dont_filter and bool(getattr(spider, "allowed_domains", None)),
    }
    return {name: _as_json(name, value, request) for name, value in parts.items() if value} or None


def _text(header: bytes) -> str:
    return header.decode("latin-1")


def _method_name(spider: Spider, part: str, function: Callable[..., Any] | None, request: Request) -> str:
    if function is None:
        return ""
    name: str = getattr(function, "__name__", "")
    if getattr(function, "__self__", None) is spider and getattr(spider, name, None) == function:
        return name
    raise NotSerialisable(f"{part} of {request!r} is not a method of spider {spider.name!r}: {function!r}")


def _as_json(part: str, value: Any, request: Request) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        bad = value
        if isinstance(value, Mapping):
            bad = {key: item for key, item in value.items() if not _is_json(item)} or value
        raise NotSerialisable(f"{part} of {request!r} is not JSON: {bad!r} ({error})") from error


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def robots_meta(options: Options) -> dict[str, Any]:
    """request.meta of a request for a robots.txt: what is too long is cut, whatever is said of its length."""
    return {
        "download_slot": SLOT,
        "download_maxsize": options.robots_maxsize,
        CUT_KEY: True,
        "verbatim_url": True,
        "dont_obey_robotstxt": True,
        "allow_offsite": True,
    }


def to_request(lease: Lease, spider: Spider, timeout: float) -> Request:
    """The Request of a lease, which leaves it ``timeout`` seconds. The URL is sent as stored, not rewritten.

    Raises NotSerialisable when the spider has lost a method that the request names.
    """
    stored = lease.request or {}
    meta = dict(stored.get("meta", {}))
    meta.update(
        {
            LEASE_KEY: lease.token.hex(),
            "depth": lease.depth,
            "verbatim_url": True,
            "download_slot": SLOT,
            TIMEOUT_KEY: timeout,
        }
    )
    if not stored:
        return Request(lease.url, meta=meta)
    return Request(
        lease.url,
        method=stored.get("method", "GET"),
        headers=stored.get("headers"),
        body=base64.b64decode(stored["body"]) if "body" in stored else None,
        callback=_method(spider, stored, "callback"),
        errback=_method(spider, stored, "errback"),
        cookies=stored.get("cookies"),
        meta=meta,
        cb_kwargs=stored.get("cb_kwargs"),
        flags=stored.get("flags"),
        encoding=stored.get("encoding", "utf-8"),
        priority=stored.get("priority", 0),
        dont_filter=stored.get("dont_filter", False),
    )


def _method(spider: Spider, stored: Mapping[str, Any], part: str) -> Callable[..., Any] | None:
    name = stored.get(part)
    if name is None:
        return None
    function = getattr(spider, name, None)
    if not callable(function):
        raise NotSerialisable(
            f"spider {spider.name!r} has no method {name!r}, which a stored request names as its {part}"
        )
    return function  # type: ignore[no-any-return]
