"""What befalls the fleet of the crash test, and what of it excuses what the web's log shows."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crawler.demo.witness import Violation
from tests.support.checks import counter_faults
from tests.support.fleet import CRAWL, PARTITIONS, Fleet, Member, Stake
from tests.support.poll import until
from tests.support.power import cut_power

logger = logging.getLogger(__name__)

CATCH_DEADLINE = 60.0  # seconds
RECONNECT = 3.0  # seconds after an outage in which workers may still pause between two tries


@dataclass
class Loss:
    """A worker's end, or its being frozen: when, in seconds since the epoch, and what hung on it. `over`: when the
    frozen one went on."""

    at: float
    member: Member
    stake: Stake
    over: float = 0.0


@dataclass
class Events:
    """Does one thing after the other to a fleet, and remembers what and when. Times are seconds since the epoch."""

    fleet: Fleet
    rng: random.Random
    lease_ttl: float
    deaths: list[Loss] = field(default_factory=list)
    freezes: list[Loss] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)
    cuts: list[tuple[float, float]] = field(default_factory=list)
    ended: float = 0.0

    def run(
        self, plan: Sequence[Callable[[Events], None]], *, first: float, last: float, total: int, deadline_s: float
    ) -> None:
        """The plan's steps, spread over the crawl from the share `first` of `total` pages fetched to `last`."""
        for number, step in enumerate(plan):
            due = total * (first + (last - first) * number / len(plan))
            what = f"{due:.0f} pages before step {number}, {step.__name__}"
            until(lambda due=due: self.fleet.fetched() >= due, deadline_s, what)
            step(self)
        self.ended = time.time()

    # Workers

    def kill(self) -> None:
        """kill -9 of a worker chosen by chance; another takes its place on the same spool directory, and adopts."""
        self.fleet.start(self._kill(self._targets()).spool.name)

    def kill_with_disk(self) -> None:
        """kill -9 of a worker with its machine: another comes with an empty disk; the spool is waited for in vain."""
        targets = self._targets()
        spools = [member.spool for member in self.fleet.alive]
        alone = [member for member in targets if spools.count(member.spool) == 1]  # nobody else adopts what it leaves
        self.fleet.start(f"{self._kill(alone).spool.name}-new")

    def return_disk(self) -> None:
        """Machines come back, with workers that find what is left on their disks aborted or stale."""
        gone = {member.spool.name for member in self.fleet.members} - {m.spool.name for m in self.fleet.alive}
        for name in sorted(gone):
            self.fleet.start(name)

    def freeze(self) -> None:
        """SIGSTOP of a worker with live leases and held URLs."""
        member, stake = self.fleet.catch(self._targets(), CATCH_DEADLINE)
        self.freezes.append(Loss(time.time(), member, stake))
        logger.info("%s frozen: %s", member.name, stake)

    def wake(self) -> None:
        """SIGCONT, once its leases have ended and its URLs were taken back."""
        frozen = self.freezes[-1]
        until(
            lambda: time.time() > frozen.at + self.lease_ttl and not self.fleet.stake(frozen.member).groups,
            6 * self.lease_ttl,
            f"the leases of the frozen {frozen.member.name} ending",
        )
        frozen.over = time.time()
        self.fleet.wake(frozen.member)
        logger.info("%s woken after %.1f s", frozen.member.name, frozen.over - frozen.at)

    def scan(self) -> None:
        """All workers stand still for a moment: the counters agree with a scan in the middle of the crawl."""
        stopped = [member for member in self.fleet.alive if not member.frozen]
        for member in stopped:
            self.fleet.freeze(member)
        try:
            until(self._quiet, 10.0, "the server having done what it was asked before")
            assert counter_faults(self.fleet.server, CRAWL, PARTITIONS) == []
        finally:
            for member in stopped:
                self.fleet.wake(member)

    def _quiet(self) -> bool:
        """Whether nothing moved between two looks, with rounds of the server's loop between them."""
        before = self.fleet.counters()
        return self.fleet.counters() == before

    def _kill(self, targets: Sequence[Member]) -> Member:
        member, stake = self.fleet.catch(targets, CATCH_DEADLINE)
        self.fleet.kill(member)
        self.deaths.append(Loss(time.time(), member, stake))
        logger.info("%s killed: %s", member.name, stake)
        return member

    def _targets(self) -> list[Member]:
        """Workers that may be hit, in an order of chance. The last frozen one lives on, to tell of its rows."""
        spared = self.freezes[-1].member if self.freezes else None
        alive = [member for member in self.fleet.alive if member is not spared]
        self.rng.shuffle(alive)
        return alive

    # The server

    def kill_redis(self) -> None:
        """kill -9 of the server, which is started again at once: with appendfsync always nothing is lost."""
        begin, before = time.time(), self.fleet.counters()["moves"]
        self.fleet.server.kill9()
        self._start_redis(begin)
        after = self.fleet.counters()["moves"]
        logger.info("Redis killed: %d transitions before, %d after", before, after)
        assert after >= before, "an acknowledged transition was lost with appendfsync always"

    def cut_power(self) -> None:
        """The server is started on files cut back to what had been fsynced."""
        begin = time.time()
        lost = cut_power(self.fleet.server)
        self._start_redis(begin)
        self.cuts.append(self.outages[-1])
        logger.info("Redis started from what had been fsynced: %d acknowledged bytes are gone", lost)

    def _start_redis(self, begin: float) -> None:
        self.fleet.server.start()
        self.outages.append((begin, time.time()))

    # What it excuses

    def excuses(self, early: Violation) -> list[str]:
        """The promised exceptions that cover an early request; each excuses one request of a group."""
        at, group = early.second.start, early.group
        return [
            f"{loss.member.name} was frozen with a request to {group} under way"
            for loss in self.freezes
            if loss.over <= at <= loss.over + self.lease_ttl and group in loss.stake.leased
        ] + [
            f"power cut {number}: a request to {group} was forgotten"
            for number, (begin, end) in enumerate(self.cuts)
            if begin <= at <= end + self.lease_ttl + early.delay
        ]

    def disturbed(self, group: str, start: float, end: float) -> bool:
        """Whether a group could not be fetched at its rate in some of this time, because of what was done here.

        A victim's URLs are back when its session has ended, its turns when its leases have, and both later when the
        server was away meanwhile: two leases' length and the delay cover it.
        """
        hurt = [(loss.at, max(loss.at, loss.over) + 2.5 * self.lease_ttl) for loss in self._losses_of(group)]
        hurt += [(begin, end + RECONNECT) for begin, end in self.outages]
        return any(begin < end and start < until_ for begin, until_ in hurt)

    def _losses_of(self, group: str) -> list[Loss]:
        return [loss for loss in (*self.deaths, *self.freezes) if group in loss.stake.groups]
