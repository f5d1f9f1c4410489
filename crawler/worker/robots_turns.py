"""What follows when a turn was used to ask for robots.txt: the answer is stored for all workers, the page goes back."""

from __future__ import annotations

import time
from dataclasses import replace

from crawler.frontier import policy
from crawler.worker.hoststate import HostState, Robots
from crawler.worker.visit import Fetch, Visit
from crawler.worker.worker import Worker


def robots_ended(worker: Worker, visit: Visit, fetch: Fetch, body: bytes = b"", location: str | None = None) -> None:
    """The request for ``visit.robots_for`` is over, with an answer or by ``fetch.kind``. ``location`` is the absolute
    target of a redirect, None without one. Where the address guard refuses the host, the page has its outcome too.
    """
    if _is_refused(fetch) and worker.hosts.state(visit.robots_for).robots is not Robots.REDIRECT:
        worker.complete(visit, fetch.kind, fetch)
        return
    state = state_after(worker, visit.robots_for, fetch, body, location)
    worker.later(lambda: _store(worker, visit, fetch, state))


def state_after(worker: Worker, name: str, fetch: Fetch, body: bytes, location: str | None) -> HostState:
    """What is known of an authority after its robots.txt was asked for. Rules that were cut off end with a line; what
    broke off on the way is no answer; a hop to where we do not go counts as one too many.
    """
    state, now_ms, options = worker.hosts.state(name), worker.now_ms(), worker.options
    if _is_refused(fetch):
        state = HostState(Robots.ALLOW, now_ms)
    elif fetch.kind or fetch.truncated == "disconnect":
        worker.count(f"robots/kind/{fetch.kind or 'truncated'}", 1)
        state = state.unreachable(fetch.status, now_ms, options.retry_delays)
    else:
        worker.count(f"robots/status/{fetch.status}", 1)
        if fetch.truncated:
            body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
        state = state.answered(fetch.status, body, location, now_ms, options.retry_delays)
    if state.robots is Robots.UNREACHABLE and fetch.retry_after:
        asked_for = now_ms + int(min(fetch.retry_after, options.retry_after_max) * 1000)
        state = replace(state, next_ms=max(state.next_ms, asked_for))
    return state


def _is_refused(fetch: Fetch) -> bool:
    return bool(fetch.kind) and policy.cost_of(fetch.kind, 0) is policy.Cost.ANSWER


async def _store(worker: Worker, visit: Visit, fetch: Fetch, state: HostState) -> None:
    """Repeated as a whole while the frontier is away, so the reserved turn is forgotten last.

    A process that was frozen past its lease has nothing to say: others may have asked since, and a time-out that it
    alone met would close the host to all of them.
    """
    if time.monotonic() < visit.lease.asked + worker.options.lease_ttl:
        await worker.hosts.store(visit.lease.group, visit.robots_for, state)
    own: Fetch | None = fetch
    if visit.turn is not None:
        await worker.end_turn(visit.turn, fetch)
        visit.turn, own = None, None
    if state.robots is Robots.UNREACHABLE:
        worker.retry(visit, "robots-unreachable", replace(own, kind="robots-unreachable") if own else None)
    else:
        worker.release(visit, own)
