"""URLs pushed to `<spider>:start_urls` while the crawl runs, as users of scrapy-redis do: a list or a set.

They are read, offered to the frontier, and only then removed, so that a worker that dies in between loses none; a URL
that two workers read is one URL to the frontier."""

from __future__ import annotations

import logging

import orjson
from redis.exceptions import RedisError

from crawler.errors import InvalidURL
from crawler.frontier import Candidate
from crawler.urls import canonicalize
from crawler.worker.candidates import Refused
from crawler.worker.worker import Worker

logger = logging.getLogger(__name__)

BATCH = 100


class StartUrls:
    """Takes pushed URLs from ``key``."""

    def __init__(self, worker: Worker, key: str) -> None:
        self._worker = worker
        self._key = key

    async def take(self) -> None:
        """Offer up to BATCH pushed URLs. An entry that is no URL is named in the log and removed.

        Raises FrontierUnavailable.
        """
        try:
            await self._take()
        except (RedisError, OSError) as error:
            raise self._worker.connection.unavailable(error) from error

    async def _take(self) -> None:
        command = self._worker.frontier.link.command
        kind = await command("TYPE", self._key)
        if kind == b"list":
            entries: list[bytes] = await command("LRANGE", self._key, 0, BATCH - 1)
        elif kind == b"set":
            entries = await command("SRANDMEMBER", self._key, BATCH)
        else:
            return
        await self._worker.frontier.add([made for entry in entries if (made := self._candidate(entry)) is not None])
        for entry in entries:
            await command(*(("LREM", self._key, 1, entry) if kind == b"list" else ("SREM", self._key, entry)))
        self._worker.count("frontier/pushed", len(entries))
        self._worker.wake()

    def _candidate(self, entry: bytes) -> Candidate | None:
        try:
            return self._worker.candidates.from_url(canonicalize(_url(entry)), depth=0, origin="seed")
        except (InvalidURL, Refused) as error:
            logger.error("%s: entry %r is left out: %s", self._key, entry[:200], error)
            return None


def _url(entry: bytes) -> str:
    """A plain URL, or scrapy-redis's JSON object with a `url`."""
    text = entry.decode("utf-8", "replace").strip()
    if not text.startswith("{"):
        return text
    try:
        return str(orjson.loads(text)["url"])
    except (orjson.JSONDecodeError, KeyError) as error:
        raise InvalidURL(f"no JSON object with a url: {text[:200]!r}") from error
