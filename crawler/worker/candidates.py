"""Links and requests become candidates: scope, key, politeness group, band. Memory only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import xxhash

from crawler.errors import BadSetting, LonglineError
from crawler.extract import Link
from crawler.frontier import Candidate, Lease, policy
from crawler.frontier.records import candidate_key
from crawler.hosts import politeness_group
from crawler.links import Scope
from crawler.options import Options
from crawler.urls import DROPPED_PARAMETERS, canonicalize, fingerprint
from crawler.worker.visit import Visit


class Refused(LonglineError):
    """A URL that is out of scope; ``reason`` is its short name in the stats."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Candidates:
    """Makes candidates by the crawl's options. Raises BadSetting when FRONTIER_PRIORITY cannot be imported."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._dropped = frozenset(options.url_parameters_ignored) or DROPPED_PARAMETERS
        self._scope = Scope(url_length=options.urllength_limit, depth=options.depth_limit)
        self._priority = _load(options.frontier_priority)

    def from_url(
        self, url: str, *, depth: int, origin: str, band: int | None = None, key: int | None = None
    ) -> Candidate:
        """A candidate for a plain GET of ``url``, in wire form. Raises InvalidURL, Refused."""
        reason = self._scope.reason(url, depth)
        if reason:
            raise Refused(reason)
        return Candidate(
            url=url,
            key=fingerprint(url, self._dropped) if key is None else key,
            group=politeness_group(url, self._options.politeness_key),
            band=self._band(url, depth, origin) if band is None else min(band, self._options.frontier_bands - 1),
            depth=depth,
        )

    def _band(self, url: str, depth: int, origin: str) -> int:
        found = policy.Found(url, depth, origin)
        return self._priority(found, policy.Pace(), self._options.frontier_bands)  # type: ignore[no-any-return]

    def from_links(
        self, links: Iterable[Link], lease: Lease, known: Callable[[int], bool]
    ) -> tuple[list[Candidate], dict[str, int]]:
        """Candidates of a page's links, and how many were left out by reason. ``known``: the frontier has that key.

        What is known is left out before anything else is asked of it: on most pages that is nearly every link.
        """
        depth = lease.depth + 1
        found: list[Candidate] = []
        left_out: Counter[str] = Counter()
        for link in links:
            key = fingerprint(link.url, self._dropped)
            if known(key):
                left_out["seen"] += 1
                continue
            try:
                found.append(self.from_url(link.url, depth=depth, origin="link", key=key))
            except Refused as error:
                left_out[error.reason] += 1
            if len(found) >= self._options.links_per_page_max > 0:
                break
        return found, left_out

    def key(self, url: str) -> int:
        """The key of a plain GET of ``url``. Raises InvalidURL."""
        return fingerprint(url, self._dropped)

    def redirected(self, url: str, lease: Lease, stored: Mapping[str, Any] | None) -> Candidate:
        """Where ``lease``'s URL led, asked for as ``stored`` says; its chain ends with the source. Raises InvalidURL,
        Refused.
        """
        wire = canonicalize(url)
        plain = self.from_url(wire, depth=lease.depth, origin="redirect")
        return replace(
            plain,
            key=candidate_key(plain.key, stored, lease.visit),
            visit=lease.visit,
            chain=(*lease.chain, lease.key),
            request=stored,
            parent=lease.url,
        )

    def from_stored(
        self, url: str, stored: Mapping[str, Any] | None, *, depth: int, seed: bool, visit: int
    ) -> Candidate:
        """A candidate for a stored request. Raises InvalidURL, Refused."""
        wire = canonicalize(url)
        plain = self.from_url(wire, depth=depth, origin="seed" if seed else "link")
        key = candidate_key(plain.key, stored, visit)
        return replace(plain, key=key, visit=visit, request=stored)


_NEVER_CARRIED = ("authorization", "proxy-authorization", "cookie", "host", "if-")


def carried(stored: Mapping[str, Any] | None, status: int) -> dict[str, Any] | None:
    """What of a stored request the target of a redirect by ``status`` gets: no credentials, cookies or conditions;
    method and body only by 307 and 308, as browsers do (Fetch, HTTP-redirect fetch).
    """
    if not stored:
        return None
    kept = {name: value for name, value in stored.items() if name != "cookies"}
    dropped = _NEVER_CARRIED if status in (307, 308) else (*_NEVER_CARRIED, "content-")
    if status not in (307, 308):
        kept.pop("body", None)
        if kept.get("method") != "HEAD":
            kept.pop("method", None)
    headers = {k: v for k, v in kept.pop("headers", {}).items() if not k.lower().startswith(dropped)}
    return {**kept, "headers": headers} if headers else kept or None


def visit_number(parent: Visit | None) -> int:
    """The number of a deliberate re-fetch, from its place among its parent's children: the same when the parent is
    fetched again.

    0, no new visit, for requests without a parent: start requests of every worker and of every start mean the same
    fetch."""
    if parent is None:
        return 0
    parent.children += 1
    text = f"{parent.lease.key}:{parent.lease.visit}:{parent.children}"
    return xxhash.xxh32_intdigest(text.encode()) | 1


def _load(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise BadSetting(f"FRONTIER_PRIORITY: {path!r} cannot be imported: {error}") from error
