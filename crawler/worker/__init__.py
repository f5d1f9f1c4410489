"""One process's share of the crawl: the leases it has, from grant to outcome. Imports no Scrapy.

visit.py       one lease in this process, and the one outcome it may have
worker.py      Worker: opens frontier and writer, keeps the visits, settles them
intake.py      grants in: leases ahead of need, robots.txt verdicts before a page is handed over
hoststate.py   an authority's robots.txt as stored in the frontier
hosts.py       the worker's cache of authorities, and its verdicts
duties.py      heartbeat, reclaim, what others left pending, the end of the crawl
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from crawler.worker.visit import Fetch, Visit
from crawler.worker.worker import Worker

__all__ = ["Fetch", "Visit", "Worker", "worker_of"]

_workers: WeakKeyDictionary[object, Worker] = WeakKeyDictionary()


def worker_of(crawler: object) -> Worker:
    """The worker that all components of one Scrapy crawler share; made from its settings at the first call.

    Raises BadSetting.
    """
    worker = _workers.get(crawler)
    if worker is None:
        worker = _workers[crawler] = Worker.from_settings(crawler.settings)  # type: ignore[attr-defined]
    return worker
