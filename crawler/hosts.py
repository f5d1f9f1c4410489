"""Whose patience a request costs: the politeness group of a URL, and the authority that its robots.txt speaks for.

A group is by default the registrable domain by the public suffix list (https://publicsuffix.org/list/), private section
and default rule `*` included; names that are public suffixes themselves, single labels and IP addresses are their own
group. The list is the one in the tldextract wheel: no network, no cache on disk, the same answer on every worker of one
release.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tldextract import TLDExtract

from crawler.urls import canonicalize

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

# What the cache holds at most: 65,536 hosts at some 250 B.
_CACHED_HOSTS = 1 << 16

_suffixes = TLDExtract(cache_dir=None, suffix_list_urls=(), fallback_to_snapshot=True, include_psl_private_domains=True)

# A host that WHATWG leaves as it is but for a trailing dot, after a scheme and before a port, path or end. A percent
# sign, a backslash, user info, capitals, brackets and non-ASCII all take the long way.
_plain_host = re.compile(r"https?://([a-z0-9._-]+)(?::\d*)?(?![^/?#])").match


def politeness_group(url: str, key: str = "domain") -> str:
    """Return the group that paces requests for `url`: its registrable domain, or with `key="host"` its host name.

    Names are in wire spelling (lower case, `xn--`), without port and trailing dot; IPv6 addresses in brackets.
    Raises `InvalidURL` for what `canonicalize` refuses, and `ValueError` for another `key`.
    """
    plain = _plain_host(url)
    if plain:
        return _group(plain[1], key)
    return _group(hostname(url), key)


def hostname(url: str) -> str:
    """Return the host of `url` in wire spelling, without a trailing dot. Raises `InvalidURL`."""
    return _split(canonicalize(url))[1]


def authority(url: str) -> str:
    """Return `scheme://host:port` of `url`, the port always written: the scope of a robots.txt (RFC 9309 2.3).

    Raises `InvalidURL`.
    """
    scheme, host, port = _split(canonicalize(url))
    return f"{scheme}://{host}:{port}"


def _split(wire: str) -> tuple[str, str, int]:
    scheme, _, rest = wire.partition("://")
    host, colon, port = rest.partition("/")[0].rpartition(":")
    if not colon or port.endswith("]"):
        host, port = rest.partition("/")[0], ""
    return scheme, host.removesuffix("."), int(port) if port else DEFAULT_PORTS[scheme]


@lru_cache(maxsize=_CACHED_HOSTS)
def _group(host: str, key: str) -> str:
    name = hostname(f"http://{host}/")
    if key == "host":
        return name
    if key != "domain":
        raise ValueError(f"a politeness key is 'domain' or 'host', not {key!r}")
    labels = name.split(".")
    if name.startswith("[") or labels[-1].isdigit() or len(labels) == 1:
        return name
    parts = _suffixes.extract_str(name)
    if not parts.suffix:
        return ".".join(labels[-2:])
    return f"{parts.domain}.{parts.suffix}" if parts.domain else name
