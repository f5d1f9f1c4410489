"""The broad spider: every page it may fetch becomes a document, every link a candidate.

To make it yours, subclass it and override `parse_page`; whatever that returns is what the crawl goes on with:

    class News(BroadSpider):
        name = "news"

        def parse_page(self, response, item):
            return item if "/news/" in response.url else None
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider
from scrapy.http import Response

from crawler import seeds as seed_lines
from crawler.download.resolve import ResolveTable, leaves_loopback
from crawler.errors import BadSeeds
from crawler.extract import is_html, page, robots_directives
from crawler.extract.document import media_type
from crawler.frontier import Added, Candidate
from crawler.identity import contact
from crawler.items import PageItem
from crawler.requests import LEASE_KEY
from crawler.worker import Visit, Worker, worker_of
from crawler.worker.candidates import Refused

logger = logging.getLogger(__name__)

SEED_BATCH = 500  # candidates in one call


class BroadSpider(Spider):
    """Crawls from seeds: `-a seeds=FILE`, `-a seeds=-` or `-a seeds=URL`; without, it works on what the frontier
    holds.
    """

    name = "broad"
    seeds: str = ""

    @property
    def worker(self) -> Worker:
        """This process's share of the crawl."""
        return worker_of(self.crawler)

    async def start(self) -> AsyncIterator[Any]:
        """Offer the seeds to the frontier; they come back as leases, here or at another worker."""
        source = self.seeds or self.worker.options.seeds
        if source:
            await self._offer_seeds(source)
        for request in self.start_urls:
            yield Request(request)

    async def _offer_seeds(self, source: str) -> None:
        batch: list[Candidate] = []
        good = added = 0
        try:
            for seed in seed_lines.read(source):
                candidate = self._seed(seed)
                if candidate is None:
                    continue
                good += 1
                batch.append(candidate)
                if len(batch) >= SEED_BATCH:
                    added += await self._add(batch)
                    batch = []
        except BadSeeds as error:
            logger.error("%s", error)
            raise CloseSpider("bad_seeds") from error
        added += await self._add(batch)
        logger.info("seeds from %s: %d URLs, %d of them new to the crawl", source, good, added)
        if not good:
            logger.error("seeds from %s hold no URL", source)
            raise CloseSpider("bad_seeds")

    def _seed(self, seed: seed_lines.Seed) -> Candidate | None:
        try:
            if seed.fault:
                raise Refused(seed.fault)
            options = self.worker.options
            if not contact(options.user_agent) and leaves_loopback(seed.url, ResolveTable(options.resolve)):
                raise Refused("USER_AGENT names no contact")  # queued, it would be refused at the socket, and be done
            return self.worker.candidates.from_url(seed.url, depth=0, origin="seed", band=seed.band)
        except Refused as refused:
            logger.error("seeds from %s, line %d is left out: %s", seed.source, seed.line, refused.reason)
            self.worker.count("seeds/refused", 1)
            return None

    async def _add(self, batch: list[Candidate]) -> int:
        answers = await self.worker.answer(lambda: self.worker.batcher.add(batch)) if batch else []
        self.worker.wake()
        return sum(answer is Added.ADDED for answer in answers)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[PageItem]:  # noqa: ARG002 - Scrapy's signature
        """One response: its text and links, or nothing when it is not text."""
        visit = self.worker.visit_of(response.meta.get(LEASE_KEY))
        content_type = (response.headers.get(b"Content-Type") or b"").decode("latin-1")
        if not _is_text(content_type, response.body):
            if visit is not None:
                visit.reason = "unsupported-content"
            return
        item = self.parse_page(response, self._item(response, content_type, visit))
        if item is None:
            if visit is not None:
                visit.reason = "filtered"
            return
        yield item

    def parse_page(self, response: Response, item: PageItem) -> PageItem | None:  # noqa: ARG002 - for those who override it
        """Override to change a page's item, or to leave the page out of the corpus with its links (None)."""
        return item

    def _item(self, response: Response, content_type: str, visit: Visit | None) -> PageItem:
        options = self.worker.options
        found = page(response.body, response.url, content_type, text_extractor=options.text_extractor)
        tags = [value.decode("latin-1") for value in response.headers.getlist(b"X-Robots-Tag")]
        directives = robots_directives([found.meta_robots, *tags], options.user_agent.partition("/")[0])
        links = found.links
        if options.obey_nofollow:
            links = [] if "nofollow" in directives else [link for link in links if not link.nofollow]
        candidates: list[Candidate] = []
        if visit is not None:
            candidates, left_out = self.worker.candidates.from_links(links, visit.lease, self.worker.known)
            for reason, count in left_out.items():
                self.worker.count("frontier/seen" if reason == "seen" else f"links/refused/{reason}", count)
        index = not (options.obey_noindex and "noindex" in directives)
        if visit is not None and not index:
            visit.reason = "filtered"
        return PageItem(
            url=response.url,
            text=found.text,
            links=found.links,
            candidates=candidates,
            index=index,
            token=response.meta.get(LEASE_KEY, ""),
            metadata={
                "title": found.title,
                "lang": found.lang,
                "lang_score": found.lang_score,
                "content_type": content_type,
                "charset": found.encoding,
                "html_bytes": len(response.body),
                "x_robots_tag": ", ".join(tags),
                "meta_robots": found.meta_robots,
                "canonical_url": found.canonical_url,
                "extractor": found.extractor,
            },
        )


def _is_text(content_type: str, body: bytes) -> bool:
    return is_html(content_type, body) or media_type(content_type) == "text/plain"
