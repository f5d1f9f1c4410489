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

if TYPE_CHECKING:
    from scrapy import Spider

LEASE_KEY = "lease"
"""request.meta: the token, in hex, of the lease under which a request is made."""

PARENT_KEY = "lease_parent"
"""request.meta: the token of the lease whose callback yielded a request; stamped by the spider middleware."""

SETTLED_KEY = "lease_settled"
"""request.meta: marks the Request that a middleware gives back to the engine once the lease has its outcome."""

_TRANSIENT = frozenset(
    {
        LEASE_KEY,
        PARENT_KEY,
        SETTLED_KEY,
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


def stored_form(request: Request, spider: Spider) -> dict[str, Any] | None:
    """What must be stored of ``request`` besides its URL, as JSON-able values; None for a plain GET.

    Raises NotSerialisable.
    """
    stored: dict[str, Any] = {}
    if request.method != "GET":
        stored["method"] = request.method
    if request.headers:
        stored["headers"] = {
            name.decode("latin-1"): [value.decode("latin-1") for value in values]
            for name, values in request.headers.items()
        }
    if request.body:
        stored["body"] = base64.b64encode(request.body).decode("ascii")
    for name, function in (("callback", request.callback), ("errback", request.errback)):
        if function is not None:
            stored[name] = _method_name(spider, name, function, request)
    for name, value in (
        ("meta", {key: item for key, item in request.meta.items() if key not in _TRANSIENT}),
        ("cb_kwargs", request.cb_kwargs),
        ("cookies", request.cookies),
        ("flags", request.flags),
    ):
        if value:
            stored[name] = _as_json(name, value, request)
    if request.encoding != "utf-8":
        stored["encoding"] = request.encoding
    if request.priority:
        stored["priority"] = request.priority
    return stored or None


def _method_name(spider: Spider, part: str, function: Callable[..., Any], request: Request) -> str:
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


def to_request(lease: Lease, spider: Spider, timeout: float) -> Request:
    """The Request of a lease. ``timeout`` is its download_timeout in seconds. The URL is sent as stored, not
    rewritten.
    """
    stored = lease.request or {}
    meta = dict(stored.get("meta", {}))
    meta.update(
        {
            LEASE_KEY: lease.token.hex(),
            "depth": lease.depth,
            "verbatim_url": True,
            "download_slot": "frontier",
            "download_timeout": timeout,
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
