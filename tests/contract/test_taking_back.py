"""reclaim and reserve: what nobody works on any more is given to others, and no group is asked too early for it."""

from __future__ import annotations

import pytest

from crawler.frontier import Answer, Wire
from crawler.frontier.policy import Pace
from tests.contract.conftest import Open
from tests.support.frontier import START, AnyFrontier, candidate, granted

LEASE, SESSION, GRACE = 12_000, 8_000, 20_000


async def keep(frontier: AnyFrontier, worker: str, start: int, end: int) -> None:
    """Signs of life of a worker until ``end``."""
    for now in range(start, end + 1, SESSION // 2):
        await frontier.heartbeat(worker, now=now)


@pytest.mark.invariant(3, 5)
@pytest.mark.case("Q01")
async def test_a_lease_ends_at_its_deadline(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    [lease] = await granted(frontier, 1, START)
    await keep(frontier, "w", START, START + LEASE - 1)
    assert (await frontier.reclaim(now=START + LEASE - 1)).expired == 0
    reclaimed = await frontier.reclaim(now=START + LEASE)
    assert (reclaimed.expired, reclaimed.turns, reclaimed.dead) == (1, 1, 0)
    [again] = await granted(frontier, 1, START + LEASE, first=5)
    assert (again.url, again.trail) == (lease.url, ("expired",))
    assert (await frontier.snapshot(now=START + LEASE)).expiries == 1


@pytest.mark.invariant(5)
async def test_after_an_expiry_the_group_waits_for_the_deadline_and_its_delay(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://a.test/{n}") for n in range(2)], now=START)
    [first] = await granted(frontier, 1, START)
    await frontier.fetched([(first, Wire(0, 3000))], now=START)
    [second] = await granted(frontier, 1, START + 3000, first=5)
    gone = START + 3000 + SESSION + 1
    assert (await frontier.reclaim(now=gone)).expired == 2, "the worker is gone: what it held is queued at once"
    assert await granted(frontier, 1, gone, "w2", first=9) == [], "but its request may still be under way"
    await frontier.reclaim(now=second.deadline_ms)
    assert await granted(frontier, 1, second.deadline_ms + 2999, "w2", first=9) == []
    assert len(await granted(frontier, 1, second.deadline_ms + 3000, "w2", first=9)) == 1


@pytest.mark.case("Q14")
@pytest.mark.invariant(7)
async def test_reclaiming_twice_takes_back_once(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(5)], now=START)
    await granted(frontier, 5, START)
    assert (await frontier.reclaim(now=START + LEASE)).expired == 5
    assert (await frontier.reclaim(now=START + LEASE)).expired == 0
    assert (await frontier.snapshot(now=START + LEASE)).queued == 5


async def test_a_living_worker_keeps_what_it_holds(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    [lease] = await granted(frontier, 1, START)
    await frontier.fetched([(lease, Wire(0, 0))], now=START)
    await keep(frontier, "w", START, START + 10 * SESSION)
    assert (await frontier.reclaim(now=START + 10 * SESSION)).expired == 0


async def test_a_worker_that_leaves(frontier: AnyFrontier) -> None:
    """What it holds is anybody's at once; its segments wait for its spool as long as any."""
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(2)], now=START)
    leases = await granted(frontier, 2, START)
    await granted(frontier, 1, START, "other", first=9)
    await frontier.fetched([(lease, Wire(0, 0)) for lease in leases], now=START)
    await frontier.seal("w", leases[:1], "s", now=START)
    assert await frontier.workers(now=START) == {"w", "other"}
    await frontier.leave("w", now=START)
    await frontier.leave("nobody", now=START)
    assert await frontier.workers(now=START + 1) == {"other"}
    assert (await frontier.reclaim(now=START + 1)).expired == 1
    assert (await frontier.reclaim(now=START + GRACE)).segments == []
    assert (await frontier.reclaim(now=START + GRACE + 1)).segments == ["s"]


async def test_the_ladder_of_expiries_ends_as_poison(frontier: AnyFrontier) -> None:
    """Once more at once, then after 30 s, then after 120 s, then dead."""
    await frontier.add([candidate("http://a.test/")], now=START)
    now = START
    for number, wait in enumerate((0, 30_000, 120_000)):
        assert len(await granted(frontier, 1, now, first=number)) == 1
        now += LEASE
        assert (await frontier.reclaim(now=now)).dead == 0
        if wait:
            assert await granted(frontier, 1, now + wait - 1, first=10 + number) == []
        now += wait
    assert len(await granted(frontier, 1, now, first=20)) == 1
    assert (await frontier.reclaim(now=now + LEASE)).dead == 1
    [letter] = (await frontier.dead())[0]
    assert letter.reasons == ("expired", "expired", "expired", "expired", "poison")
    snapshot = await frontier.snapshot(now=now)
    assert (snapshot.dead, snapshot.expiries, snapshot.reasons) == (1, 4, {"poison": 1})


async def test_an_expiry_is_no_attempt(frontier: AnyFrontier) -> None:
    from crawler.frontier.policy import attempts

    await frontier.add([candidate("http://a.test/")], now=START)
    await granted(frontier, 1, START)
    await frontier.reclaim(now=START + LEASE)
    [lease] = await granted(frontier, 1, START + LEASE, first=5)
    assert attempts(lease.trail) == 0


async def test_a_vanished_workers_segments_are_to_be_aborted_after_the_grace(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    [lease] = await granted(frontier, 1, START)
    await frontier.fetched([(lease, Wire(0, 0))], now=START)
    await frontier.seal("w", [lease], "s", now=START)
    assert (await frontier.reclaim(now=START + SESSION + GRACE)).segments == []
    assert (await frontier.reclaim(now=START + SESSION + GRACE + 1)).segments == ["s"]
    await frontier.abort("s", now=START + SESSION + GRACE + 1)
    assert (await frontier.reclaim(now=START + SESSION + GRACE + 2)).segments == []


async def test_more_than_one_call_takes_back(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_partitions=1)
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(450)], now=START)
    await granted(frontier, 450, START)
    taken = []
    while (reclaimed := await frontier.reclaim(now=START + LEASE)).expired:
        taken.append(reclaimed.expired)
    assert sum(taken) == 450
    assert max(taken) < 450, "a call's work is bounded"


@pytest.mark.invariant(2, 5)
async def test_a_reserved_turn(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    turn = b"r" * 16
    reserved = await frontier.reserve(turn, "a.test", now=START)
    assert (reserved.granted, reserved.deadline_ms) == (True, START + LEASE)
    assert await frontier.reserve(turn, "a.test", now=START + 5) == type(reserved)(
        True, START + LEASE, 0, b"", START + 5
    ), "invariant 7"
    assert not (await frontier.reserve(b"s" * 16, "a.test", now=START)).granted
    assert await granted(frontier, 1, START) == []
    for _ in range(2):
        await frontier.fetched_turn(turn, "a.test", Wire(0, 1000, Pace(fetched=1).pack()), now=START + 100)
    refused = await frontier.reserve(b"t" * 16, "a.test", now=START + 100)
    assert (refused.granted, refused.next_ms) == (False, START + 1100)
    assert len(await granted(frontier, 1, START + 1100)) == 1


async def test_a_reserved_turn_ends_by_itself(frontier: AnyFrontier) -> None:
    await frontier.reserve(b"r" * 16, "a.test", now=START)
    assert (await frontier.reclaim(now=START + LEASE)).turns == 1
    assert (await frontier.reserve(b"s" * 16, "a.test", now=START + LEASE)).granted
    assert (await frontier.snapshot(now=START)).expiries == 0


async def test_a_leases_turn_refuses_a_reservation(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    [lease] = await granted(frontier, 1, START)
    refused = await frontier.reserve(b"r" * 16, "a.test", now=START)
    assert not refused.granted
    assert refused.next_ms > START
    assert await frontier.fetched([(lease, Wire(0, 0))], now=START) == [Answer.APPLIED]
    assert (await frontier.reserve(b"r" * 16, "a.test", now=START)).granted


async def test_time_never_runs_backwards(open_frontier: Open) -> None:
    """Whatever the clocks do: the server's may be set back, a replica's may lag."""
    frontier = await open_frontier(frontier_partitions=1)
    await frontier.add([candidate("http://a.test/1"), candidate("http://b.test/1")], now=START)
    [lease] = await granted(frontier, 1, START)
    await frontier.fetched([(lease, Wire(0, 1000))], now=START + 5000)
    [other] = await granted(frontier, 5, START - 90_000, first=5)
    assert other.granted_ms == START + 5000
    await frontier.add([candidate(f"{lease.url}/more")], now=START)
    [again] = await granted(frontier, 1, START + 6000, first=20)
    assert (again.group, again.granted_ms) == (lease.group, START + 6000)


@pytest.mark.invariant(5)
async def test_a_shorter_delay_does_not_undo_a_longer_one(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_group_concurrency=2)
    await frontier.add([candidate(f"http://a.test/{n}") for n in range(3)], now=START)
    first, second = await granted(frontier, 2, START)
    await frontier.fetched([(first, Wire(0, 5000))], now=START)
    await frontier.fetched([(second, Wire(0, 0))], now=START + 10)
    assert await granted(frontier, 1, START + 4999, first=9) == []
    assert len(await granted(frontier, 1, START + 5000, first=9)) == 1
