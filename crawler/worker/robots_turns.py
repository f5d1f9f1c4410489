"""What follows when a lease's turn was used to ask for robots.txt: the answer is stored for all workers, the page
goes back.
"""

from __future__ import annotations

from dataclasses import replace

from crawler.worker.hoststate import HostState, Robots
from crawler.worker.visit import Fetch, Visit
from crawler.worker.worker import Worker


async def robots_answered(worker: Worker, visit: Visit, fetch: Fetch, body: bytes, location: str | None) -> None:
    """Store what ``visit.robots_for`` answered. ``location`` is the absolute target of a redirect, None without one."""
    state = worker.hosts.state(visit.robots_for)
    delays = worker.options.retry_delays
    worker.count(f"robots/status/{fetch.status}", 1)
    await _store(worker, visit, fetch, state.answered(fetch.status, body, location, worker.now_ms(), delays))


async def robots_failed(worker: Worker, visit: Visit, fetch: Fetch) -> None:
    """Store that ``visit.robots_for`` could not be reached; everything there is disallowed until it can."""
    state = worker.hosts.state(visit.robots_for)
    worker.count(f"robots/kind/{fetch.kind}", 1)
    await _store(worker, visit, fetch, state.unreachable(0, worker.now_ms(), worker.options.retry_delays))


async def _store(worker: Worker, visit: Visit, fetch: Fetch, state: HostState) -> None:
    name = visit.robots_for
    await worker.hosts.store(visit.lease.group, name, state)
    own: Fetch | None = fetch
    if visit.turn is not None:
        wire = worker.wire_of(visit, fetch)
        await worker.frontier.fetched_turn(visit.turn.token, visit.turn.group, wire)
        own = None
    if state.robots is Robots.UNREACHABLE:
        worker.retry(visit, "robots-unreachable", replace(own, kind="robots-unreachable") if own else None)
    else:
        worker.release(visit, own, crawl_delay_ms=worker.hosts.crawl_delay_ms(name))
