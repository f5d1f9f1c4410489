"""seal, decide, settle: a document stands exactly once (invariants 4, 6, 7)."""

from __future__ import annotations

import pytest

from crawler.errors import ProtocolError
from crawler.frontier import Answer, Decided, Decision, Handle, Lease, Wire
from tests.contract.conftest import Open
from tests.support.frontier import START, AnyFrontier, candidate, granted

SEGMENT = "c-w-1"


async def held(frontier: AnyFrontier, count: int, *, worker: str = "w", now: int = START) -> list[Lease]:
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(count)], now=now)
    leases = await granted(frontier, count, now, worker)
    await frontier.fetched([(lease, Wire(0, 0)) for lease in leases], now=now)
    return leases


async def test_sealing_counts_the_segments_tokens(frontier: AnyFrontier) -> None:
    leases = await held(frontier, 10)
    sealed = await frontier.seal("w", leases[:6], SEGMENT, now=START)
    assert (sealed.answers, sealed.total) == ([Answer.APPLIED] * 6, 6)
    assert (await frontier.seal("w", leases[6:], SEGMENT, now=START)).total <= 10
    assert await frontier.seal("w", [], SEGMENT, now=START) == type(sealed)([], 10)
    snapshot = await frontier.snapshot(now=START)
    assert (snapshot.held, snapshot.sealed) == (0, 10)


@pytest.mark.invariant(7)
async def test_sealing_again_and_elsewhere(frontier: AnyFrontier) -> None:
    leases = await held(frontier, 3)
    await frontier.seal("w", leases, SEGMENT, now=START)
    assert (await frontier.seal("w", leases, SEGMENT, now=START)).answers == [Answer.ALREADY] * 3
    assert (await frontier.seal("w", leases, "other", now=START)).answers == [Answer.STALE] * 3
    assert (await frontier.seal("w", [], "other", now=START)).total == 0


@pytest.mark.invariant(6)
async def test_a_leased_url_cannot_be_sealed(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    leases = await granted(frontier, 1, START)
    with pytest.raises(ProtocolError, match=leases[0].token.hex()):
        await frontier.seal("w", leases, SEGMENT, now=START)
    assert (await frontier.seal("w", leases, SEGMENT, strict=False, now=START)).answers == [Answer.LEASED]
    assert (await frontier.snapshot(now=START)).leased == 1


@pytest.mark.invariant(4)
@pytest.mark.case("Q13")
async def test_a_row_of_a_lost_lease_is_struck(frontier: AnyFrontier) -> None:
    """The first worker slept past its session; the second one's page is the one that stands."""
    [late] = await held(frontier, 1)
    now = START + 9000
    await frontier.reclaim(now=now)
    [lease] = await granted(frontier, 1, now, "w2", first=50)
    await frontier.fetched([(lease, Wire(0, 0))], now=now)
    assert (await frontier.seal("w", [late], "late", now=now)).answers == [Answer.STALE]
    assert (await frontier.seal("w2", [lease], SEGMENT, now=now)).answers == [Answer.APPLIED]


@pytest.mark.invariant(6, 7)
async def test_publishing(frontier: AnyFrontier) -> None:
    leases = await held(frontier, 12)
    await frontier.seal("w", leases, SEGMENT, now=START)
    assert await frontier.publish(SEGMENT, "text", now=START) == Decided(Decision.PUBLISHED, "text")
    assert (await frontier.pending(now=START)).segments == [SEGMENT]
    await frontier.finished(SEGMENT)
    assert await frontier.decision(SEGMENT) == Decided(Decision.PUBLISHED, "")
    snapshot = await frontier.snapshot(now=START)
    assert (snapshot.sealed, snapshot.done, snapshot.pending, snapshot.open) == (0, 12, 0, 0)
    assert (await frontier.seal("w", leases, SEGMENT, now=START)).answers == [Answer.STALE] * 12


async def test_aborting(frontier: AnyFrontier) -> None:
    leases = await held(frontier, 12)
    await frontier.seal("w", leases[:8], SEGMENT, now=START)
    assert await frontier.abort(SEGMENT, now=START) == Decided(Decision.ABORTED, "")
    snapshot = await frontier.snapshot(now=START)
    assert (snapshot.sealed, snapshot.queued, snapshot.held) == (0, 8, 4)
    again = await frontier.seal("w", leases, SEGMENT, now=START)
    assert again.answers == [Answer.STALE] * 8 + [Answer.ABORTED] * 4
    assert again.total == 0
    assert await frontier.release(leases[8:], now=START) == [Answer.APPLIED] * 4
    assert len(await granted(frontier, 20, START, "w2", first=50)) == 12


@pytest.mark.invariant(7)
@pytest.mark.parametrize("first", list(Decision))
async def test_a_segment_is_decided_once(frontier: AnyFrontier, first: Decision) -> None:
    assert await frontier.decision(SEGMENT) is None
    stands = Decided(first, "one")
    assert await frontier.decide(SEGMENT, first, "one", now=START) == stands
    for later in Decision:
        assert await frontier.decide(SEGMENT, later, "two", now=START) == stands
    assert await frontier.decision(SEGMENT) == stands
    await frontier.finished(SEGMENT)
    await frontier.finished(SEGMENT)
    assert await frontier.decide(SEGMENT, Decision.ABORTED, "three", now=START) == Decided(first, "")


@pytest.mark.invariant(10)
async def test_a_decision_is_carried_out_by_anyone(open_frontier: Open) -> None:
    """The publisher died between deciding and settling: the effects are owed, listed, and may come twice."""
    frontier = await open_frontier(frontier_partitions=4)
    leases = await held(frontier, 20)
    await frontier.seal("w", leases, SEGMENT, now=START)
    await frontier.decide(SEGMENT, Decision.PUBLISHED, "text", now=START)
    assert (await frontier.snapshot(now=START)).sealed == 20
    for _ in range(2):
        for segment in (await frontier.pending(now=START)).segments:
            decided = await frontier.decision(segment)
            assert decided == Decided(Decision.PUBLISHED, "text")
            await frontier.settle(segment, decided.decision, now=START)
    assert (await frontier.snapshot(now=START)).done == 20


async def test_more_urls_than_one_script_settles(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_partitions=1)
    for decision in (Decision.ABORTED, Decision.PUBLISHED):
        leases = []
        await frontier.add([candidate(f"http://h{n}.test/") for n in range(1300)], now=START)
        while batch := await granted(frontier, 500, START, first=1000 * len(decision) + len(leases)):
            leases += batch
        await frontier.fetched([(lease, Wire(0, 0)) for lease in leases], now=START)
        assert (await frontier.seal("w", leases, decision, now=START)).total == 1300
        await frontier.settle(decision, decision, now=START)
    assert (await frontier.snapshot(now=START)).done == 1300


async def test_an_adopter_takes_the_segments_session_over(frontier: AnyFrontier) -> None:
    leases = await held(frontier, 4)
    await frontier.seal("w", leases[:2], SEGMENT, now=START)
    assert (await frontier.seal("heir", [], SEGMENT, now=START + 30_000)).total == 2
    assert [s for h in await frontier.heartbeat("heir", now=START + 30_000) for s in h.segments] == [SEGMENT] * (
        len({frontier.partition_of(lease.group) for lease in leases[:2]})
    )
    assert (await frontier.reclaim(now=START + 30_000)).segments == []
    assert (await frontier.reclaim(now=START + 30_000 + 8_000 + 20_001)).segments == [SEGMENT]


async def test_what_is_held_for_a_worker(frontier: AnyFrontier) -> None:
    leases = await held(frontier, 6)
    await granted(frontier, 3, START, "other", first=50)
    await frontier.seal("w", leases[:2], SEGMENT, now=START)
    holdings = await frontier.heartbeat("w", now=START)
    expected = sorted(Handle(le.token, le.group, le.record) for le in leases[2:])
    assert sorted(handle for holding in holdings for handle in holding.held) == expected
    assert {name for holding in holdings for name in holding.segments} == {SEGMENT}
    assert await frontier.release(expected, now=START) == [Answer.APPLIED] * 4
    assert [h for holding in await frontier.heartbeat("w", now=START) for h in holding.held] == []


async def test_whose_partitions_are_asked(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_partitions=8)
    assert await frontier.heartbeat("w", now=START) == []
    assert len(await frontier.heartbeat("w", everywhere=True, now=START)) == 8
