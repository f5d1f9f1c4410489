"""Random histories on the model and on a real server together: the same answers, the same counters, the invariants
after every step.

Replies are lost (the call is made twice), calls come late and from the wrong worker, time jumps, tokens are used
again.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from crawler.errors import ProtocolError
from crawler.frontier import (
    Added,
    Answer,
    Burial,
    Candidate,
    Completion,
    Decision,
    Failure,
    Frontier,
    Handback,
    Handle,
    Lease,
    Model,
    Redirect,
    State,
    Wire,
)
from crawler.frontier.policy import KINDS, Pace
from crawler.hosts import politeness_group
from crawler.options import Options
from crawler.urls import fingerprint
from tests.stateful.scan import Scan, scan
from tests.support.servers import RedisServer

SHORT, LONG = 100, 2000  # histories
STEPS = 50
OFTEN = [
    *(f"add: {answer}" for answer in (Added.ADDED, Added.SEEN, Added.AGAIN)),
    *(f"fetched: {answer}" for answer in (Answer.APPLIED, Answer.ALREADY, Answer.STALE)),
    *(f"seal: {answer}" for answer in Answer),
    *(f"retry: {state}" for state in (State.DELAYED, State.QUEUED, State.DEAD, None)),
    *(
        f"{call}: {answer}"
        for call in ("complete", "release", "bury", "replay")
        for answer in (Answer.APPLIED, Answer.STALE)
    ),
    *("granted", "reserved", "expired", "poison", "doomed", "abort", "settle", "finished", "offline", "drop", "leave"),
]

OPTIONS = Options(
    crawl_id="histories",
    frontier_partitions=2,
    frontier_bands=3,
    lease_ttl=12.0,
    session_ttl=8.0,
    spool_grace=14.0,
    retry_delays=(2.0, 5.0),
    max_attempts=3,
    max_expiries=4,
    offline_after=60.0,
)
HOSTS = ["a.test", "www.a.test", "b.test", "c.test:8080", "d.test", "e.test", "f.test"]
WORKERS = ["w1", "w2", "w3"]
SEGMENTS = ["w1-1", "w2-1", "w3-1", "w1-2"]
fired: Counter[str] = Counter()

urls = st.builds(lambda host, path: f"http://{host}/{path}", st.sampled_from(HOSTS), st.integers(0, 5))
wires = st.none() | st.builds(
    lambda age, delay, failures: Wire(
        age, delay, Pace(failures=failures, failing_since_ms=1 if failures else 0).pack()
    ),
    st.integers(0, 1500),
    st.sampled_from([0, 1000, 3000]),
    st.sampled_from([0, 0, 0, 2]),
)


def token(number: int) -> bytes:
    return number.to_bytes(16, "big")


def candidate(url: str, band: int, chain: tuple[int, ...] = ()) -> Candidate:
    return Candidate(url, fingerprint(url), politeness_group(url), band=band, chain=chain)


class Histories(RuleBasedStateMachine):
    """Both frontiers side by side. Every call is made on both; their answers must be equal."""

    server: RedisServer
    runner: asyncio.Runner
    turns = 1

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.leases: list[Lease] = []
        self.reserved: list[tuple[bytes, str]] = []
        self.tokens = 0
        self.moves: tuple[int, ...] = ()
        self.requests: dict[str, int] = {}  # group -> before this no request may begin

    @initialize(turns=st.sampled_from([1, 1, 1, 2]))
    def open(self, turns: int) -> None:
        self.turns = turns
        options = replace(OPTIONS, frontier_group_concurrency=turns)
        self.client, self.plain = self.server.client(), self.server.sync_client()
        self.plain.flushall()
        self.real = self.run(Frontier.open(self.client, options, rand=lambda: 0.0))
        self.model = Model(options, rand=lambda: 0.0)
        seeds = [f"http://{host}/{path}" for host in HOSTS for path in range(3)]
        self.both("add", [candidate(url, number % 3) for number, url in enumerate(seeds)])

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.run(self.client.aclose())
            self.plain.close()

    def run(self, awaitable: Awaitable[Any]) -> Any:
        return self.runner.run(_awaited(awaitable))

    def both(self, name: str, *args: Any, twice: bool = False, **named: Any) -> Any:
        """Call a method of both; ``twice``: the reply was lost and the call is made again."""
        for _ in range(2 if twice else 1):
            answers = [self._call(frontier, name, args, named) for frontier in (self.model, self.real)]
            assert _comparable(answers[0]) == _comparable(answers[1]), name
            fired[name] += 1
            self._count(name, answers[1])
        return answers[1]

    def _call(self, frontier: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        try:
            return self.run(getattr(frontier, name)(*args, now=self.now, **named))
        except ProtocolError:
            return ProtocolError

    def _count(self, name: str, answer: Any) -> None:
        for one in answer if isinstance(answer, list) else getattr(answer, "answers", ()):
            if name != "heartbeat":
                fired[f"{name}: {one}"] += 1

    def pick(self, number: int) -> Lease:
        """Mostly a URL that is owned by somebody, sometimes any that ever was."""
        live = [lease for lease in self.leases if lease.token in self.model.part_of(lease.group).owned]
        chosen = live if live and number % 5 else self.leases
        return chosen[number // 5 % len(chosen)]

    # What workers do

    @rule(found=st.lists(st.tuples(urls, st.integers(0, 2)), min_size=1, max_size=6), twice=st.booleans())
    def add(self, found: list[tuple[str, int]], twice: bool) -> None:
        self.both("add", [candidate(url, band) for url, band in found], twice=twice)

    @rule(
        worker=st.sampled_from(WORKERS),
        count=st.integers(1, 4),
        old=st.integers(0, 30),
        twice=st.booleans(),
        partition=st.none() | st.integers(0, 1),
    )
    def lease(self, worker: str, count: int, old: int, twice: bool, partition: int | None) -> None:
        fresh = [token(self.tokens + i) for i in range(count)]
        if old < self.tokens and old % 3 == 0:
            fresh.append(token(old))  # a late copy of an earlier call
        self.tokens += count
        reply = self.both("lease", fresh, worker, partition, twice=twice)
        known = {lease.token for lease in self.leases}
        for lease in reply.leases:
            if lease.token not in known and lease.granted_ms == self.now:
                assert self.now >= self.requests.get(lease.group, 0), "invariant 5: a grant inside the delay"
        self.leases += [lease for lease in reply.leases if lease not in self.leases]
        fired["granted"] += len(reply.leases)

    @precondition(lambda self: self.leases)
    @rule(number=st.integers(0, 99), wire=wires, twice=st.booleans())
    def fetched(self, number: int, wire: Wire | None, twice: bool) -> None:
        lease = self.pick(number)
        wire = wire or Wire(0, 1000)
        open_turn = self._open(lease)
        self.both("fetched", [(lease, wire)], twice=twice)
        if open_turn:
            self._request_ended(lease.group, wire)

    def _open(self, lease: Lease) -> bool:
        part = self.model.part_of(lease.group)
        held = part.owned.get(lease.token)
        ours = held is None or (held.group, held.record) == (lease.group, lease.record)
        return (lease.token, lease.group) in part.turns and ours

    def _request_ended(self, group: str, wire: Wire) -> None:
        end = self.now - wire.age_ms + wire.delay_ms
        self.requests[group] = max(self.requests.get(group, 0), end)

    @rule(worker=st.sampled_from(WORKERS), how=st.sampled_from(["fail", "expire", "wall"]), rounds=st.integers(2, 5))
    def hardship(self, worker: str, how: str, rounds: int) -> None:
        """The same URLs over and over: histories get to the ends of the ladders by it."""
        for _ in range(rounds):
            before = len(self.leases)
            self.lease(worker, 8, 1, False, None)
            leases = self.leases[before:]
            if how == "fail":
                self.both("retry", [Failure(lease, "timeout") for lease in leases])
                self.now += 6000
            elif how == "expire":
                self.reclaim(12_001, False)
            else:
                for lease in leases:
                    target = candidate(lease.url, lease.band, (*lease.chain, lease.key))
                    self.both("complete", [Completion(lease, "redirect", None, Redirect(target))])
                self.carry_outbox(False, True, 0)

    @rule(
        worker=st.sampled_from(WORKERS),
        count=st.integers(1, 5),
        wire=wires,
        segment=st.sampled_from(SEGMENTS),
        outcome=st.sampled_from(["seal", "seal", "retry", "release", "vanish"]),
        twice=st.booleans(),
    )
    def visit(self, worker: str, count: int, wire: Wire | None, segment: str, outcome: str, twice: bool) -> None:
        """What a worker does when nothing goes wrong: histories get deep by it."""
        before = len(self.leases)
        self.lease(worker, count, 1, twice, None)
        for number, lease in enumerate(self.leases[before:]):
            self.now += 100
            ended = wire or Wire(0, 1000)
            if self._open(lease):
                self._request_ended(lease.group, ended)
            self.both("fetched", [(lease, ended)], twice=twice)
            if outcome == "seal":
                self.both("seal", worker, [lease], segment, twice=twice)
            elif outcome == "retry":
                self.both("retry", [Failure(lease, ("timeout", "dns", "callback-error")[number % 3])], twice=twice)
            elif outcome == "release":
                self.both("release", [Handback(lease)], twice=twice)

    @precondition(lambda self: self.leases)
    @rule(
        numbers=st.lists(st.integers(0, 99), min_size=1, max_size=3),
        worker=st.sampled_from(WORKERS),
        segment=st.sampled_from(SEGMENTS),
        strict=st.booleans(),
        twice=st.booleans(),
    )
    def seal(self, numbers: list[int], worker: str, segment: str, strict: bool, twice: bool) -> None:
        rows = [self.pick(number) for number in numbers]
        self.both("seal", worker, rows, segment, strict=strict, twice=twice)

    @rule(worker=st.sampled_from(WORKERS), segment=st.sampled_from(SEGMENTS))
    def count_sealed(self, worker: str, segment: str) -> None:
        self.both("seal", worker, [], segment)

    @precondition(lambda self: self.leases)
    @rule(number=st.integers(0, 99), wire=wires, hop=st.booleans(), leads_to=st.none() | urls, twice=st.booleans())
    def complete(self, number: int, wire: Wire | None, hop: bool, leads_to: str | None, twice: bool) -> None:
        lease = self.pick(number)
        open_turn = self._open(lease)
        target = candidate(leads_to or lease.url, 1, (*lease.chain, lease.key))
        redirect = Redirect(target) if hop and len(lease.chain) < 5 else None
        reason = "redirect" if redirect else "not-found"
        self.both("complete", [Completion(lease, reason, wire, redirect)], twice=twice)
        if wire and open_turn:
            self._request_ended(lease.group, wire)

    @precondition(lambda self: self.leases)
    @rule(
        number=st.integers(0, 99),
        kind=st.sampled_from(sorted(KINDS)),
        wire=wires,
        later=st.sampled_from([0, 0, 9000]),
        twice=st.booleans(),
    )
    def retry(self, number: int, kind: str, wire: Wire | None, later: int, twice: bool) -> None:
        lease = self.pick(number)
        open_turn = self._open(lease)
        self.both("retry", [Failure(lease, kind, wire, later and self.now + later)], twice=twice)
        if wire and open_turn:
            self._request_ended(lease.group, wire)

    @precondition(lambda self: self.leases)
    @rule(
        numbers=st.lists(st.integers(0, 99), min_size=1, max_size=4),
        later=st.sampled_from([0, 0, 4000]),
        twice=st.booleans(),
    )
    def release(self, numbers: list[int], later: int, twice: bool) -> None:
        backs = [Handback(self.pick(number), None, later and self.now + later) for number in numbers]
        self.both("release", backs, twice=twice)

    @precondition(lambda self: self.leases)
    @rule(number=st.integers(0, 99), twice=st.booleans())
    def bury(self, number: int, twice: bool) -> None:
        self.both("bury", [Burial(self.pick(number), "pipeline-error")], twice=twice)

    @rule(host=st.sampled_from(["a.test", "b.test", "d.test"]), again=st.booleans(), twice=st.booleans())
    def reserve(self, host: str, again: bool, twice: bool) -> None:
        group = politeness_group(f"http://{host}/")
        if not again or not self.reserved:
            self.tokens += 1
            self.reserved.append((token(self.tokens), group))
        reply = self.both("reserve", *self.reserved[-1], twice=twice)
        fired["reserved"] += reply.granted

    @precondition(lambda self: self.reserved)
    @rule(number=st.integers(0, 9), wire=wires, twice=st.booleans())
    def end_reserved(self, number: int, wire: Wire | None, twice: bool) -> None:
        self.both("fetched_turn", *self.reserved[number % len(self.reserved)], wire, twice=twice)

    # What anyone does

    @rule(worker=st.sampled_from(WORKERS), everywhere=st.booleans())
    def heartbeat(self, worker: str, everywhere: bool) -> None:
        for holding in self.both("heartbeat", worker, everywhere=everywhere):
            for held in holding.held:
                assert isinstance(held, Handle)

    @rule(worker=st.sampled_from(WORKERS), twice=st.booleans())
    def leave(self, worker: str, twice: bool) -> None:
        self.both("leave", worker, twice=twice)
        assert self.both("workers") == self.both("workers")

    @rule(after=st.sampled_from([0, 8001, 12_000, 23_000]), twice=st.booleans())
    def reclaim(self, after: int, twice: bool) -> None:
        self.now += after
        reply = self.both("reclaim", twice=twice)
        fired["expired"] += reply.expired
        fired["poison"] += reply.dead
        for segment in reply.segments:
            fired["doomed"] += 1
            self.both("abort", segment)

    @rule(segment=st.sampled_from(SEGMENTS), decision=st.sampled_from(Decision), twice=st.booleans())
    def decide(self, segment: str, decision: Decision, twice: bool) -> None:
        decided = self.both("decide", segment, decision, f"manifest of {segment}", twice=twice)
        assert self.run(self.real.decision(segment)) == decided, "invariant 7: decided once"

    @rule(segment=st.sampled_from(SEGMENTS), twice=st.booleans(), finish=st.booleans())
    def carry_decision(self, segment: str, twice: bool, finish: bool) -> None:
        decided = self.run(self.real.decision(segment))
        if decided is not None:
            self.both("settle", segment, decided.decision, twice=twice)
            if finish:
                self.both("finished", segment, twice=twice)

    @rule(twice=st.booleans(), strike=st.booleans(), settled=st.sampled_from([0, 2000]))
    def carry_outbox(self, twice: bool, strike: bool, settled: int) -> None:
        for at, tok, target in self.both("pending", settled_ms=settled).outbox:
            self.both("add", [target], twice=twice)
            if strike:
                for frontier in (self.model, self.real):
                    self.run(frontier.ack([(at, tok)]))

    @rule(step=st.sampled_from([1, 200, 1000, 1000, 3000, 3000, 8001, 12_000, 23_000, -500]))
    def time(self, step: int) -> None:
        self.now += step

    # What operators do

    @rule(
        url=urls, what=st.sampled_from(["offline", "drop", "block", "unblock", "set_delay"]), chance=st.integers(0, 3)
    )
    def operate(self, url: str, what: str, chance: int) -> None:
        group = politeness_group(url)
        if chance == 0:
            more = {"block": [self.now + 4000], "set_delay": [2.0]}.get(what, [])
            self.both(what, group, *more)
            assert self.run(self.model.group(group)) == self.run(self.real.group(group))

    @rule(number=st.integers(0, 9), twice=st.booleans())
    def replay(self, number: int, twice: bool) -> None:
        letters = [self.run(frontier.dead())[0] for frontier in (self.model, self.real)]
        by_content = [Counter(replace(letter, id="") for letter in found) for found in letters]
        assert by_content[0] == by_content[1]
        if letters[0]:
            chosen = letters[0][number % len(letters[0])]
            twin = next(letter for letter in letters[1] if replace(letter, id="") == replace(chosen, id=""))
            for _ in range(2 if twice else 1):
                answers = [
                    self.run(frontier.replay([letter.id], now=self.now))
                    for frontier, letter in ((self.model, chosen), (self.real, twin))
                ]
                assert answers[0] == answers[1]
                self._count("replay", answers[1])

    # What always holds

    @invariant()
    def counters_agree(self) -> None:
        if not hasattr(self, "real"):
            return
        snapshots = [self.run(frontier.snapshot(now=self.now)) for frontier in (self.model, self.real)]
        assert snapshots[0] == snapshots[1]
        assert all(new >= old for new, old in zip(snapshots[1].moves, self.moves or snapshots[1].moves, strict=True))
        self.moves = snapshots[1].moves
        for partition in range(OPTIONS.frontier_partitions):
            found = scan(self.plain, OPTIONS.crawl_id, partition, OPTIONS.frontier_bands)
            _check_one_state(found)
            _check_turns(found, self.turns)
            _check_index(found, self.turns)
            _check_owners(found)


def _check_one_state(found: Scan) -> None:
    """Invariant 1."""
    placed = [url for urls in found.urls.values() for url in urls]
    assert len(placed) == len(set(placed)), "invariant 1: a URL in two places"
    for state, urls in found.urls.items():
        assert found.counters.get(state, 0) == len(urls), f"invariant 1: the counter of {state}"
    settled = found.counters.get("done", 0)
    assert settled >= 0
    assert found.seen == len(placed) + settled, "invariant 1: seen, and in one state"
    assert found.counters.get("added", 0) == found.seen


def _check_turns(found: Scan, at_once: int) -> None:
    """Invariant 2: each open turn is counted in its group's row, and each leased URL has one."""
    per_group = Counter(group for _, group in found.turns)
    for group, row in found.groups.items():
        assert row.turns == per_group.get(group, 0) <= at_once, f"invariant 2: turns of {group}"
    for tok, group in found.leased:
        assert (tok, group) in found.turns, "a leased URL without a turn would never expire"


def _check_index(found: Scan, at_once: int) -> None:
    """A group stands in the due index exactly where it has work and a free turn."""
    for group, row in found.groups.items():
        for band in range(OPTIONS.frontier_bands):
            has_work = bool(found.queues.get((band, group)))
            assert (band in row.bands) == has_work
            assert (group in found.due[band]) == (has_work and row.turns < at_once)
            if group in found.due[band]:
                assert found.due[band][group] >= row.next_allowed_ms, "invariant 5: due before it is allowed"


def _check_owners(found: Scan) -> None:
    assert found.owned_by_worker == found.worker_sets
    assert found.sealed == {tok for toks in found.segments.values() for tok in toks}
    for segment in found.segments:
        assert segment in found.segment_owners
    for worker in [*found.worker_sets, *found.segment_owners.values()]:
        assert worker in found.sessions, "an owner without a session would never be missed"


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _comparable(value: Any) -> Any:
    """Answers without what may differ: our own clock, and the order of sets."""
    if hasattr(value, "leases"):
        return replace(value, leases=[replace(lease, asked=0.0) for lease in value.leases])
    if hasattr(value, "outbox"):
        return sorted(value.outbox, key=lambda entry: entry[:2]), sorted(value.segments)
    if isinstance(value, list) and value and hasattr(value[0], "held"):
        return [(sorted(holding.held), sorted(holding.segments)) for holding in value]
    return value


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def _run(server: RedisServer, runner: asyncio.Runner, histories: int, *, derandomize: bool) -> None:
    fired.clear()
    machine = type("OnThisServer", (Histories,), {"server": server, "runner": runner})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=derandomize,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.invariant(1, 2, 3, 4, 5, 7)
def test_random_histories(redis_server: RedisServer, runner: asyncio.Runner) -> None:
    """The same ones in every run."""
    _run(redis_server, runner, SHORT, derandomize=True)


@pytest.mark.long
@pytest.mark.invariant(1, 2, 3, 4, 5, 7)
def test_more_random_histories(
    redis_server: RedisServer, runner: asyncio.Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    """Others in every run, and enough of them that every transition is met often."""
    _run(redis_server, runner, LONG, derandomize=False)
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(f"{count:8} {name}" for name, count in sorted(fired.items())) + "\n")
    rare = {name: fired[name] for name in OFTEN if fired[name] < 100}
    assert not rare, f"met less than 100 times: {rare}"
