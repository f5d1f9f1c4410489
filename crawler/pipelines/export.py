"""The last pipeline: a page's row is laid beside its visit, which hands it to the corpus writer once its links are
answered for.
"""

from __future__ import annotations

import hashlib
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from crawler.items import PageItem
from crawler.storage.schema import document, timestamp
from crawler.worker import Fetch, worker_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawler.worker import Visit, Worker


class ExportPipeline:
    """Makes corpus documents of PageItems; other items pass untouched, for Scrapy's own feeds."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ExportPipeline:
        """Scrapy's constructor."""
        return cls(worker_of(crawler))

    def process_item(self, item: Any) -> Any:
        """Build the row. Memory only; returns at once. Raises BadInput for values that the schema does not know."""
        if isinstance(item, PageItem):
            visit = self._worker.visit_of(item.token)
            if visit is not None and item.index:
                visit.rows.append(self._row(item, visit))
        return item

    def _row(self, item: PageItem, visit: Visit) -> dict[str, Any]:
        lease = visit.lease
        fetch = visit.fetch or Fetch()
        return document(
            url=item.url,
            key=lease.key,
            visit=lease.visit,
            crawl_id=self._worker.options.crawl_id,
            worker=self._worker.name,
            text=item.text,
            fetched_at=fetch.at,
            added=time.time(),
            ordinal=len(visit.rows),
            **{
                "status": fetch.status,
                "truncated": bool(fetch.truncated),
                "depth": lease.depth,
                "parent": lease.parent,
                "host": urlsplit(item.url).hostname or "",
                "domain": lease.group,
                "content_sha256": hashlib.sha256(" ".join(item.text.split()).encode("utf-8", "replace")).hexdigest(),
                "last_modified": http_time(fetch.last_modified),
                **item.metadata,
            },
        )


def http_time(value: str) -> str:
    """An HTTP date as the corpus writes times; '' when it cannot be read."""
    try:
        return timestamp(parsedate_to_datetime(value).timestamp()) if value else ""
    except (TypeError, ValueError, OverflowError):
        return ""
