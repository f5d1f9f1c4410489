"""Every setting of Longline, declared once: name, type, default, unit, one sentence.

To add one, add one field to `Options`, in the section where an operator would look for it:

    lease_ttl: float = setting(120.0, seconds(above=0), "One sentence for the operator.")

The setting's name is the field's in capitals, and the field's default is the setting's. The reader (`seconds`,
`integer`, `text`, ...) says which values are right and how the command line's strings are understood; its `label` is
the type and unit on the settings page. Then run `python -m crawler.options > docs/settings.md`; a test compares the
two. Settings that must agree with each other are checked in `Options._disagreements`.

Scrapy's settings that we honour stand here too, marked `owner="Scrapy"` or `owner="scrapy-redis"`: they keep their
names and meanings, and are read from the same object, so that no other module asks Scrapy for one.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from crawler.errors import BadSetting
from crawler.setting_types import (
    Reader,
    addresses,
    choice,
    fraction,
    integer,
    mapping,
    names,
    networks,
    number,
    seconds,
    seconds_list,
    size,
    switch,
    text,
)

GIB = 1024**3


class SettingsLike(Protocol):
    """What `Options.from_settings` needs: a mapping, Scrapy's Settings, or anything else with `get`."""

    def get(self, name: str, default: Any = None, /) -> Any: ...


def setting(default: Any, reader: Reader, sentence: str, *, owner: str = "Longline", secret: bool = False) -> Any:
    """Declare one setting: its default as code sees it, how it is read, one sentence, whose name it is, and whether its
    value may hold a password, so that no message shows it."""
    metadata = {"reader": reader, "sentence": sentence, "owner": owner, "secret": secret}
    if isinstance(default, Mapping):
        return field(default_factory=lambda: MappingProxyType(dict(default)), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """All settings of one crawl, checked: `LEASE_TTL` is `options.lease_ttl`. Times are seconds, sizes bytes."""

    # The crawl
    crawl_id: str = setting(
        "default",
        text(pattern=r"[A-Za-z0-9._-]{1,64}", says="1 to 64 of A-Z a-z 0-9 . _ -"),
        "Names the crawl: workers with the same name and server share one frontier.",
    )
    seeds: str = setting("", text(), "Where seeds come from when `-a seeds=` is not given: a file, `-` or a URL.")
    worker_name: str = setting("", text(), "This worker's name in leases and logs; empty: host name and process id.")
    progress: str = setting(
        "auto", choice("auto", "live", "plain", "off"), "How progress is shown; auto: live on a terminal."
    )

    # Redis
    redis_url: str = setting(
        "",
        text(pattern=r"|(redis|rediss|unix)://.+", says="a redis://, rediss:// or unix:// URL"),
        "The frontier's server; empty: an embedded server that all workers in this directory share.",
        owner="scrapy-redis",
        secret=True,
    )
    redis_params: Mapping[str, Any] = setting(
        {},
        mapping(),
        "Further arguments of the Redis client, such as socket_timeout.",
        owner="scrapy-redis",
        secret=True,
    )
    embedded_dir: str = setting(
        ".longline", text(empty=False), "Directory of the embedded server: its data, socket and log."
    )
    embedded_appendfsync: str = setting(
        "everysec",
        choice("always", "everysec", "no"),
        "When the embedded server writes to disk; with everysec a power cut may undo the last second.",
    )
    scheduler_persist: bool = setting(
        True, switch(), "Keep the frontier when the crawl closes; False purges it at the end.", owner="scrapy-redis"
    )
    scheduler_flush_on_start: bool = setting(
        False,
        switch(),
        "Purge the crawl's frontier before starting; a worker that finds others at work joins them instead.",
        owner="scrapy-redis",
    )
    redis_start_urls_key: str = setting(
        "%(name)s:start_urls",
        text(empty=False),
        "List or set that seeds are pushed to while it runs.",
        owner="scrapy-redis",
    )

    # Leases and failures
    lease_ttl: float = setting(
        120.0, seconds(at_least=1), "How long a worker may hold a URL before it is queued again."
    )
    session_ttl: float = setting(
        30.0, seconds(at_least=1), "A worker silent for so long is gone; it shows a sign of life at a third of it."
    )
    spool_grace: float = setting(
        3600.0,
        seconds(),
        "How long the spool of a vanished worker may take to come back before its pages are fetched again.",
    )
    retry_delays: tuple[float, ...] = setting(
        (30.0, 120.0, 300.0, 900.0), seconds_list(), "Waits before each further attempt at a URL; the last one repeats."
    )
    max_attempts: int = setting(5, integer(at_least=1), "Failed attempts after which a URL goes to the dead letters.")
    max_expiries: int = setting(
        10, integer(at_least=1), "Ended leases after which a URL goes to the dead letters as poison."
    )
    offline_after: float = setting(
        86400.0, seconds(above=0), "A politeness group that fails for so long is declared offline."
    )

    # The frontier
    frontier_partitions: int = setting(
        16, integer(at_least=1, at_most=16384), "Parts of the frontier; fixed when the crawl is created."
    )
    frontier_group_concurrency: int = setting(
        1, integer(at_least=1), "Fetches at once in one politeness group, over all workers."
    )
    frontier_bands: int = setting(
        4, integer(at_least=1, at_most=16), "Bands of priority; fixed when the crawl is created."
    )
    frontier_priority: str = setting(
        "crawler.frontier.policy.priority",
        text(pattern=r"([A-Za-z_]\w*\.)+[A-Za-z_]\w*", says="a dotted path"),
        "The function that chooses a candidate's band.",
    )
    frontier_lease_batch: int = setting(100, integer(at_least=1, at_most=1000), "Leases asked for in one call at most.")
    seen_mode: str = setting("exact", choice("exact"), "How seen URLs are remembered.")
    url_parameters_ignored: tuple[str, ...] = setting(
        (),
        names(),
        "Query parameters that a URL's key leaves out; empty: the built-in list of tracking and session names.",
    )
    depth_limit: int = setting(
        0, integer(at_least=0), "Links followed from a seed at most; 0: no limit.", owner="Scrapy"
    )
    urllength_limit: int = setting(
        2083, integer(at_least=0), "Longest URL that is queued; 0: no limit.", owner="Scrapy"
    )
    links_per_page_max: int = setting(5000, integer(at_least=0), "Links taken from one page at most.")

    # Politeness
    politeness_key: str = setting(
        "domain", choice("domain", "host"), "What a politeness group is: a registrable domain or a host."
    )
    download_delay: float = setting(
        1.0,
        seconds(),
        "Least time between the end of one request to a group and the start of the next.",
        owner="Scrapy",
    )
    delay_jitter: float = setting(
        0.03, fraction(), "Share of a delay that chance may add to it; it is never shortened."
    )
    crawl_delay_max: float = setting(
        300.0, seconds(), "Longest Crawl-delay that is kept to; a group that asks for more is skipped."
    )
    retry_after_max: float = setting(3600.0, seconds(), "Longest Retry-After that is kept to.")
    robotstxt_obey: bool = setting(True, switch(), "Obey robots.txt.", owner="Scrapy")
    robots_ttl: float = setting(86400.0, seconds(above=0), "How long robots.txt rules are good for.")
    robots_maxsize: int = setting(512_000, size(), "How much of a robots.txt is read.")
    obey_nofollow: bool = setting(True, switch(), "Leave out links that a page marks nofollow.")
    obey_noindex: bool = setting(True, switch(), "Leave out documents that are marked noindex.")
    autothrottle_enabled: bool = setting(False, switch(), "Adapt a group's delay to its latency.", owner="Scrapy")
    autothrottle_target_concurrency: float = setting(
        1.0, number(above=0), "Requests that AutoThrottle keeps in flight in a group, on average.", owner="Scrapy"
    )
    autothrottle_max_delay: float = setting(60.0, seconds(), "Longest delay that AutoThrottle sets.", owner="Scrapy")

    # Fetching
    concurrent_requests: int = setting(200, integer(at_least=1), "Requests in flight in one worker.", owner="Scrapy")
    user_agent: str = setting(
        "Longline/0.1",
        text(empty=False),
        "Who we say we are; must hold a contact (a URL or address) before a crawl leaves loopback.",
        owner="Scrapy",
    )
    download_timeout: float = setting(
        60.0,
        seconds(above=0),
        "Total time of one request; cut to half of LEASE_TTL where that is less.",
        owner="Scrapy",
    )
    download_maxsize: int = setting(10 * 1024**2, size(at_least=0), "Largest body; 0: no limit.", owner="Scrapy")
    body_overflow: str = setting(
        "truncate",
        choice("truncate", "drop"),
        "What becomes of a body over DOWNLOAD_MAXSIZE whose length was not declared.",
    )
    resolve: Mapping[str, str] = setting(
        {}, addresses(), 'Host pattern to `address` or `address:port`: `{"*.test": "127.0.0.1"}`.'
    )
    allowed_private_networks: tuple[str, ...] = setting(
        (), networks(), "Private addresses that may be connected to, as CIDR networks or single addresses."
    )

    # Output
    output: str = setting("./output", text(empty=False), "Where the corpus is written.")
    spool_dir: str = setting(
        ".longline/spool", text(empty=False), "Where unpublished segments lie; on a disk that lasts."
    )
    spool_max_bytes: int = setting(8 * GIB, size(), "Size of all unpublished segments at which fetching pauses.")
    group_commit: float = setting(1.0, seconds(above=0), "How often buffered rows are written to disk and sealed.")
    storage_patience: float = setting(
        30.0, seconds(above=0), "How long rows may fail to be written or published before the worker stops."
    )
    segment_max_bytes: int = setting(256 * 1024**2, size(), "Size at which a segment is published.")
    segment_max_age: float = setting(600.0, seconds(above=0), "Age at which a segment is published.")
    text_extractor: str = setting(
        "resiliparse",
        text(
            pattern=r"resiliparse|trafilatura|[A-Za-z_][\w.]*[.:]\w+", says="resiliparse, trafilatura or a dotted path"
        ),
        "What makes a page's main text: resiliparse is fast, trafilatura thorough, a dotted path yours.",
    )

    @property
    def fetch_timeout(self) -> float:
        """Seconds one request may take in all: DOWNLOAD_TIMEOUT, but at most half a lease, so that the other half is
        there for waiting prefetched and for the answer's way back."""
        return min(self.download_timeout, self.lease_ttl / 2)

    @property
    def worker(self) -> str:
        """WORKER_NAME, or the host name and process id."""
        return self.worker_name or f"{socket.gethostname()}-{os.getpid()}"

    @classmethod
    def from_settings(cls, settings: SettingsLike) -> Options:
        """Read and check all settings at once; what is absent or None has its default.

        Raises BadSetting with one line for each setting that is wrong.
        """
        values: dict[str, Any] = {}
        problems: list[str] = []
        for declared in fields(cls):
            name = declared.name.upper()
            raw = settings.get(name)
            if raw is None:
                continue
            reader: Reader = declared.metadata["reader"]
            try:
                values[declared.name] = reader(raw)
            except ValueError as bad:
                shown = "(not shown)" if declared.metadata["secret"] else repr(raw)
                problems.append(f"{name}: {shown} {bad}")
        if problems:
            raise BadSetting("\n".join(problems))
        options = cls(**values)
        if problems := list(options._disagreements()):
            raise BadSetting("\n".join(problems))
        return options

    def _disagreements(self) -> Iterator[str]:
        if Path(self.spool_dir).resolve() == Path(self.output).resolve():
            yield f"SPOOL_DIR: {self.spool_dir!r} is OUTPUT too; readers of the corpus would meet unpublished segments"


def settings_page() -> str:
    """The settings page of the docs, in Markdown."""
    lines = [PAGE_HEAD]
    for owner, title in OWNERS.items():
        lines += [f"## {title}", "", "| setting | type | default | |", "|---|---|---|---|"]
        for declared in fields(Options):
            about = declared.metadata
            if about["owner"] == owner:
                cells = (f"`{declared.name.upper()}`", about["reader"].label, _shown(declared), about["sentence"])
                lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _shown(declared: Field[Any]) -> str:
    value = declared.default if declared.default is not MISSING else {}
    if isinstance(value, tuple):
        return f"`{json.dumps(value)}`"
    return f"`{value}`" if value != "" else "empty"


OWNERS = {
    "Longline": "Longline's",
    "Scrapy": "Scrapy's, with Scrapy's meaning",
    "scrapy-redis": "scrapy-redis's, with its meaning",
}

PAGE_HEAD = """\
# Settings

Made by `python -m crawler.options > docs/settings.md` from `crawler/options.py`; do not edit it here.

Set them in a settings module, in a spider's `custom_settings`, or with `-s NAME=VALUE`. On the command line lists are
comma-separated or JSON, mappings are JSON. Every value is checked before the crawl starts. Scrapy's other settings work
as Scrapy documents them.
"""

if __name__ == "__main__":
    sys.stdout.write(settings_page())
