"""The outcomes of visits. Every method is a plain call from the event loop: it decides at once and sends in the
background.

An outcome without a document first ends the group's turn, then waits until its line in the fetch log is on disk, and
only then is told to the frontier: so the log has every outcome at least once, whenever this process dies, and no
group waits for our disk."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from crawler.frontier import Added, Answer, Batcher, Candidate, Frontier, Redirect, Wire, policy
from crawler.frontier.states import State
from crawler.hosts import authority
from crawler.options import Options
from crawler.storage.schema import fetch_entry, timestamp
from crawler.storage.writer import CorpusWriter
from crawler.worker.background import Background
from crawler.worker.hosts import Hosts
from crawler.worker.visit import Fetch, Turn, Visit

T = TypeVar("T")

NO_DELAY = Wire(age_ms=0, delay_ms=0)
"""Ends a turn in which no request was made."""


class Outcomes(Background):
    """What may become of a visit. ``count`` adds to a statistic; ``wake`` and ``stir`` say that
    something may be due now: to the engine too, or only to the intake."""

    options: Options
    name: str
    frontier: Frontier
    batcher: Batcher
    writer: CorpusWriter
    hosts: Hosts
    visits: dict[bytes, Visit]
    wake: Callable[[], None]
    stir: Callable[[], None]
    count: Callable[[str, int], None]

    def now_ms(self) -> int:
        """The frontier's clock as known from its last reply, in ms."""
        return self.frontier.server_ms()

    # The end of a request

    def wire_of(self, url: str, stored_pace: bytes, fetch: Fetch) -> Wire:
        """What the frontier is told when a turn ends: age, delay, the group's new pace. ``url`` was asked for, and
        ``stored_pace`` is what its group's was when the turn began.
        """
        pace = policy.Pace.unpack(stored_pace)
        pace = replace(pace, crawl_delay_ms=max(pace.crawl_delay_ms, self.hosts.crawl_delay_ms(authority(url))))
        response = policy.Response(
            now_ms=self.now_ms(),
            latency=fetch.latency,
            status=fetch.status,
            kind=fetch.kind or None,
            retry_after=fetch.retry_after,
        )
        pace, delay_ms = policy.next_pace(pace, response, self.options, random.random())
        return Wire(age_ms=_age_ms(fetch), delay_ms=delay_ms, pace=pace.pack())

    async def end_turn(self, turn: Turn, fetch: Fetch | None) -> None:
        """End a reserved turn; without ``fetch`` no request was made in it."""
        wire = self.wire_of(turn.url, turn.pace, fetch) if fetch else None
        await self.frontier.fetched_turn(turn.token, turn.group, wire)

    def fetched(self, visit: Visit, fetch: Fetch) -> None:
        """The page is here: the group's turn is over, the URL stays ours."""
        visit.fetch = fetch
        visit.turn_over = True
        visit.waiting += 1
        wire = visit.wire = self.wire_of(visit.lease.url, visit.lease.pace, fetch)
        self.later(lambda: self.batcher.fetched(visit.lease, wire), lambda answer: self._fetched(visit, answer))

    def _fetched(self, visit: Visit, answer: Answer) -> None:
        visit.waiting -= 1
        visit.wire = None
        self.stir()
        if answer is Answer.STALE:
            visit.stale = True
            self.count("lease/stale", 1)
        self._finish_if_ready(visit)

    # Outcomes without a document

    def complete(self, visit: Visit, reason: str, fetch: Fetch | None = None, target: Candidate | None = None) -> None:
        """The URL is done; ``target`` is where it redirects to."""
        if not visit.settle(reason):
            return
        wire = self._wire_if_open(visit, fetch)
        redirect = Redirect(target) if target else None
        self._log(visit, reason, fetch, target.url if target else "")
        self.later(
            lambda: self._once_logged(visit, wire, lambda: self.batcher.complete(visit.lease, reason, wire, redirect)),
            lambda answer: self._completed(visit, answer, target),
        )

    def redirect(self, visit: Visit, fetch: Fetch | None, target: Candidate) -> None:
        """The URL is done, and led to ``target``; a chain that is too long ends here."""
        if len(visit.lease.chain) >= policy.MAX_HOPS:
            self.complete(visit, "redirect-loop", fetch)
        else:
            self.complete(visit, "redirect", fetch, target)

    def bury(self, visit: Visit, reason: str) -> None:
        """The URL is given up now."""
        if not visit.settle(reason):
            return
        wire = self._wire_if_open(visit, None)
        self._log(visit, reason, None)
        self.later(
            lambda: self._once_logged(visit, wire, lambda: self.batcher.bury(visit.lease, reason, wire)),
            lambda answer: self._answered(visit, answer is Answer.STALE),
        )

    def retry(self, visit: Visit, kind: str, fetch: Fetch | None = None) -> None:
        """The attempt failed; the policy's table says what it costs and whom."""
        if not visit.settle(kind):
            return
        wire = self._wire_if_open(visit, fetch)
        self._log(visit, kind, fetch)
        self.later(
            lambda: self._once_logged(visit, wire, lambda: self.batcher.retry(visit.lease, kind, wire)),
            lambda state: self._answered(visit, state is None),
        )

    def release(self, visit: Visit, fetch: Fetch | None = None, *, not_before_ms: int = 0) -> None:
        """The URL goes back unattempted. With ``fetch``: a request was made to its group, though not for it."""
        if not visit.settle("release"):
            return
        wire = self._wire_if_open(visit, fetch)
        self.later(
            lambda: self.batcher.release(visit.lease, wire, not_before_ms),
            lambda answer: self._answered(visit, answer is Answer.STALE),
        )
        self.count("lease/released", 1)

    def will_die(self, visit: Visit, kind: str) -> bool:
        """Whether a failure of ``kind`` would be the URL's last."""
        pace = policy.Pace.unpack(visit.lease.pace)
        fate = policy.after_failure(visit.lease.trail, kind, pace.failures, self.options, 0.0)
        return fate.state is State.DEAD

    async def _once_logged(self, visit: Visit, wire: Wire | None, call: Callable[[], Awaitable[T]]) -> T:
        if wire is not None or not visit.turn_over:
            visit.turn_over = True
            await self.batcher.fetched(visit.lease, wire or NO_DELAY)
            self.stir()
        await self.writer.committed()
        return await call()

    def _wire_if_open(self, visit: Visit, fetch: Fetch | None) -> Wire | None:
        """What an outcome says of the request. It says so again where `fetched` has: the two may cross on their way,
        and whichever comes first must start the group's delay.
        """
        if visit.turn is not None:
            turn, visit.turn = visit.turn, None
            self.later(lambda: self.end_turn(turn, None))
        if not visit.turn_over and fetch is not None:
            visit.turn_over = True
            visit.fetch = fetch
            visit.wire = self.wire_of(visit.lease.url, visit.lease.pace, fetch)
        return visit.wire

    def _answered(self, visit: Visit, stale: bool) -> None:
        self.visits.pop(visit.lease.token, None)
        self.stir()
        if stale:
            self.count("lease/stale", 1)

    def _completed(self, visit: Visit, answer: Answer, target: Candidate | None) -> None:
        self._answered(visit, answer is Answer.STALE)
        if target is not None and answer is not Answer.STALE:
            self.later(lambda: self.carry_redirect(visit.lease.group, visit.lease.token, target))

    async def carry_redirect(self, group: str, token: bytes, target: Candidate) -> None:
        """Carry an entry of the outbox out and strike it; whoever finds it there again may do the same."""
        self._offered(None, await self.frontier.add([target]))
        await self.frontier.ack([(self.frontier.partition_of(group), token)])

    def _log(self, visit: Visit, kind: str, fetch: Fetch | None, redirect_to: str = "") -> None:
        """One line of the fetch log."""
        if kind:
            self.count(f"fetch/kind/{kind}", 1)
        lease, seen = visit.lease, fetch or visit.fetch
        entry = fetch_entry(
            url=lease.url,
            key=lease.key,
            logged_at=time.time(),
            status=(seen.status if seen else 0) or -1,
            kind=kind,
            started_at=timestamp(seen.at) if seen else "",
            ended_at=timestamp(time.time() - (time.monotonic() - seen.ended)) if seen else "",
            latency_ms=round(seen.latency * 1000) if seen else -1,
            bytes=seen.bytes if seen else -1,
            robots_rule=visit.robots_rule,
            ip=seen.ip if seen else "",
            redirect_to=redirect_to,
            redirect_from=lease.parent if lease.chain else "",
            depth=lease.depth,
            visit=lease.visit,
            attempts=policy.attempts(lease.trail),
            crawl_id=self.options.crawl_id,
            worker=self.name,
        )
        self.writer.log(entry)

    # The parse

    def offer(self, visit: Visit | None, candidates: Sequence[Candidate]) -> None:
        """Send links to the frontier; the visit that found them is not sealed before they are answered."""
        if not candidates:
            return
        if visit is not None:
            visit.waiting += 1
        self.later(lambda: self.batcher.add(candidates), lambda answers: self._offered(visit, answers))

    def _offered(self, visit: Visit | None, answers: Iterable[Added]) -> None:
        met = list(answers)
        added = sum(answer is Added.ADDED or answer is Added.AGAIN for answer in met)
        if added:
            self.count("frontier/added", added)
            self.wake()
        if len(met) > added:
            self.count("frontier/seen", len(met) - added)
        if visit is not None:
            visit.waiting -= 1
            self._finish_if_ready(visit)

    def item_begun(self, visit: Visit) -> None:
        """An item of this visit entered the pipelines."""
        visit.waiting += 1

    def item_ended(self, visit: Visit, failure: str = "") -> None:
        """An item left the pipelines: scraped, dropped, or with ``failure``'s kind."""
        visit.waiting -= 1
        visit.failure = visit.failure or failure
        self._finish_if_ready(visit)

    def exhausted(self, visit: Visit, failure: str = "") -> None:
        """The callback has given all it had, or raised."""
        visit.exhausted = True
        visit.failure = visit.failure or failure
        self._finish_if_ready(visit)

    def _finish_if_ready(self, visit: Visit) -> None:
        """Settle a visit whose callback, items and links are all answered for (invariant 6: links, then the row)."""
        if visit.settled or not visit.exhausted or visit.waiting or not visit.turn_over:
            return
        if visit.stale:
            visit.settle("stale")
            self.visits.pop(visit.lease.token, None)
        elif visit.failure:
            self.retry(visit, visit.failure)
        elif visit.rows:
            visit.settle("document")
            self._log(visit, "", None)
            self.writer.append(visit.lease, visit.rows)
        else:
            self.complete(visit, reason_of(visit))

    def row_settled(self, token: bytes, answer: Answer) -> None:
        """The writer's word on a row: it will be published, or it was struck."""
        visit = self.visits.pop(token, None)
        if answer is Answer.APPLIED or answer is Answer.ALREADY:
            self.count("corpus/documents", 1)
        elif visit is not None:
            self.count("lease/struck", 1)


def _age_ms(fetch: Fetch) -> int:
    return max(0, int((time.monotonic() - fetch.ended) * 1000))


def status_kind(status: int) -> str:
    """The kind of an answer that is final and no page."""
    if status == 404:
        return "not-found"
    if status == 410:
        return "gone"
    if status == 304:
        return "not-modified"
    return "http-4xx" if 400 <= status < 500 else "http-error"


def reason_of(visit: Visit) -> str:
    """Why a visit that ended well has no document."""
    status = visit.fetch.status if visit.fetch else 0
    return visit.reason or (status_kind(status) if status >= 300 else "no-document")
